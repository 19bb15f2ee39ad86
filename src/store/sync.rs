//! What the store's threads meet at. With `--cfg shuttle` the model checker's stand-ins, which try
//! one interleaving after the other (`tests/model.rs`); otherwise the standard library's.

#[cfg(not(shuttle))]
pub(super) use std::{
    sync::{Condvar, Mutex, MutexGuard, RwLock, atomic},
    thread,
};

#[cfg(shuttle)]
pub(super) use shuttle::{
    sync::{Condvar, Mutex, MutexGuard, RwLock, atomic},
    thread,
};

/// Whether time passes. The model checker knows none: a wait with a deadline is one without.
pub(super) const TIMED: bool = cfg!(not(shuttle));

/// Blocks until the value is there; `None` when nobody can send it any more.
#[cfg(not(shuttle))]
pub(super) fn recv<T>(receiver: oneshot::Receiver<T>) -> Option<T> {
    receiver.recv().ok()
}

/// As above. Parking the one thread of the model checker would stop them all.
#[cfg(shuttle)]
pub(super) fn recv<T>(receiver: oneshot::Receiver<T>) -> Option<T> {
    loop {
        match receiver.try_recv() {
            Ok(value) => return Some(value),
            Err(oneshot::TryRecvError::Empty) => thread::yield_now(),
            Err(oneshot::TryRecvError::Disconnected) => return None,
        }
    }
}
