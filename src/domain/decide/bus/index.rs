//! The per-recipient order of pending messages, in memory.
//!
//! A table keyed by recipient would dirty one page a recipient in every batch; this index follows
//! the same records and is rebuilt from `pending` at open.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::presence::PresenceIndex;
use super::rendezvous::RelayIndex;
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// One pending message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// When it arrived, wall clock of the bus.
    pub at: UnixMillis,
    /// Length of its payload in bytes.
    pub len: u32,
    /// SHA-256 of its payload.
    pub sha256: [u8; 32],
}

/// The pending messages of one recipient, oldest first.
#[derive(Debug, Default)]
pub struct Queue {
    items: BTreeMap<Seq, Item>,
    digests: HashMap<[u8; 32], Seq>,
    bytes: u64,
}

impl Queue {
    /// Messages waiting.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether nothing waits. Such a queue is not kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Bytes of payload waiting.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The messages, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (Seq, &Item)> {
        self.items.iter().map(|(seq, item)| (*seq, item))
    }

    /// The waiting message with this payload, if there is one.
    #[must_use]
    pub fn find(&self, sha256: &[u8; 32]) -> Option<Seq> {
        self.digests.get(sha256).copied()
    }
}

/// Every queue of a bus.
#[derive(Debug, Default)]
pub struct QueueIndex {
    queues: HashMap<Arc<str>, Queue>,
    recipients: BTreeMap<Seq, Arc<str>>,
    pub(super) presence: PresenceIndex,
    pub(super) relay: RelayIndex,
    bytes: u64,
}

impl QueueIndex {
    /// The queue of a recipient, if anything waits in it.
    #[must_use]
    pub fn queue(&self, to: &str) -> Option<&Queue> {
        self.queues.get(to)
    }

    /// Every queue in which something waits, in no particular order.
    pub fn queues(&self) -> impl Iterator<Item = (&str, &Queue)> {
        self.queues.iter().map(|(to, queue)| (&**to, queue))
    }

    /// Recipients with waiting messages.
    #[must_use]
    pub fn queue_count(&self) -> usize {
        self.queues.len()
    }

    /// Messages waiting in all queues.
    #[must_use]
    pub fn message_count(&self) -> usize {
        self.recipients.len()
    }

    /// Bytes of payload waiting in all queues.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The sessions that are relayed.
    #[must_use]
    pub fn relay(&self) -> &RelayIndex {
        &self.relay
    }

    /// Sessions on the presence board.
    #[must_use]
    pub fn roster_len(&self) -> usize {
        self.presence.len()
    }

    /// Whether the presence board has this entry.
    #[must_use]
    pub fn on_roster(&self, entry: &str) -> bool {
        self.presence.has(entry)
    }

    /// Pending messages of all queues, oldest first.
    pub fn by_age(&self) -> impl Iterator<Item = (Seq, &Item)> {
        self.recipients
            .iter()
            .filter_map(|(seq, to)| Some((*seq, self.queues.get(to)?.items.get(seq)?)))
    }

    /// The recipient of a pending message.
    #[must_use]
    pub fn recipient(&self, seq: Seq) -> Option<&str> {
        self.recipients.get(&seq).map(|to| &**to)
    }

    pub(super) fn insert(&mut self, seq: Seq, to: &str, item: Item) {
        let name = match self.queues.get_key_value(to) {
            Some((name, _)) => Arc::clone(name),
            None => Arc::from(to),
        };
        let queue = self.queues.entry(Arc::clone(&name)).or_default();
        queue.items.insert(seq, item);
        queue.digests.insert(item.sha256, seq);
        queue.bytes += u64::from(item.len);
        self.bytes += u64::from(item.len);
        self.recipients.insert(seq, name);
    }

    pub(super) fn remove(&mut self, seq: Seq) {
        let Some(to) = self.recipients.remove(&seq) else {
            return;
        };
        let Some(queue) = self.queues.get_mut(&to) else {
            return;
        };
        if let Some(item) = queue.items.remove(&seq) {
            queue.bytes = queue.bytes.saturating_sub(u64::from(item.len));
            self.bytes = self.bytes.saturating_sub(u64::from(item.len));
            if queue.digests.get(&item.sha256) == Some(&seq) {
                queue.digests.remove(&item.sha256);
            }
        }
        if queue.is_empty() {
            self.queues.remove(&to);
        }
    }
}
