//! Who waits for mail.
//!
//! A waiter registers first and looks into its queue afterwards, so a message that is committed in
//! between wakes it: no wake-up is lost. Every commit wakes all waiters of its queues, and each
//! looks again before it says that nothing came.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The waiters of one queue.
#[derive(Debug, Default)]
struct Bell {
    notify: Arc<Notify>,
    waiters: usize,
}

/// Every waiting request. The lock is never held across an await.
#[derive(Debug)]
pub(super) struct Waiters {
    bells: Mutex<HashMap<String, Bell>>,
    count: AtomicUsize,
    max: usize,
}

/// A place in the waiting room, given up on drop.
pub(super) struct Waiter<'a> {
    room: &'a Waiters,
    queue: &'a str,
    notify: Arc<Notify>,
}

impl Waiters {
    pub(super) fn new(max: usize) -> Self {
        Waiters {
            bells: Mutex::new(HashMap::new()),
            count: AtomicUsize::new(0),
            max,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Bell>> {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub(super) const fn max(&self) -> usize {
        self.max
    }

    /// Takes a place; `None` when all are taken.
    pub(super) fn register<'a>(&'a self, queue: &'a str) -> Option<Waiter<'a>> {
        if self.count.fetch_add(1, Ordering::AcqRel) >= self.max {
            self.count.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        let mut bells = self.lock();
        let bell = match bells.get_mut(queue) {
            Some(bell) => bell,
            None => bells.entry(queue.to_owned()).or_default(),
        };
        bell.waiters += 1;
        Some(Waiter {
            room: self,
            queue,
            notify: Arc::clone(&bell.notify),
        })
    }

    /// Wakes everyone who waits for one of these queues.
    pub(super) fn wake<'a>(&self, queues: impl Iterator<Item = &'a str>) {
        // Always through the lock: it orders this look against a registration.
        let bells = self.lock();
        for queue in queues {
            if let Some(bell) = bells.get(queue) {
                bell.notify.notify_waiters();
            }
        }
    }
}

impl Waiter<'_> {
    pub(super) fn bell(&self) -> &Notify {
        &self.notify
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut bells = self.room.lock();
        if let Some(bell) = bells.get_mut(self.queue) {
            bell.waiters -= 1;
            if bell.waiters == 0 {
                bells.remove(self.queue);
            }
        }
        drop(bells);
        self.room.count.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_and_given_back() {
        let room = Waiters::new(2);
        let a = room.register("q").unwrap();
        let b = room.register("q").unwrap();
        assert!(room.register("r").is_none());
        drop(a);
        let c = room.register("r").unwrap();
        assert_eq!(room.count(), 2);
        drop((b, c));
        assert_eq!(room.count(), 0);
        assert!(room.lock().is_empty());
    }

    #[tokio::test]
    async fn a_wake_up_between_registering_and_waiting_is_kept() {
        let room = Waiters::new(1);
        let waiter = room.register("q").unwrap();
        let mut bell = std::pin::pin!(waiter.bell().notified());
        bell.as_mut().enable();
        room.wake(["other", "q"].into_iter());
        bell.await;
    }
}
