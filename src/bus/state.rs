//! What every request shares.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use tokio::sync::watch;

use super::board::Board;
use super::failure::Failure;
use super::longpoll::Waiters;
use super::rendezvous::Relay;
use crate::domain::decide::bus::{Bus, BusCommand, BusReply, QueueLimits};
use crate::store::{Health, Retention, Store};
use crate::types::time::Clock;

/// The bus behind the handlers.
pub(super) struct App {
    pub(super) store: Store<Bus>,
    pub(super) board: Arc<Board>,
    pub(super) waiters: Arc<Waiters>,
    pub(super) relay: Relay,
    pub(super) limits: QueueLimits,
    pub(super) message_ttl_ms: u64,
    pub(super) retention: Option<Retention>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) started: Instant,
    /// Path of the store file; `None` in memory.
    pub(super) store_path: Option<String>,
    /// SHA-256 of the admin token.
    pub(super) admin: Option<[u8; 32]>,
    /// Messages that were refused for want of room (507) since the start.
    pub(super) refused: AtomicU64,
    /// Whether the log says that the store takes no writes any more.
    pub(super) complained: AtomicBool,
    /// Turns true once, when the bus shuts down.
    pub(super) closing: watch::Receiver<bool>,
}

impl App {
    /// Hands a command to the writer and waits until it is durable.
    ///
    /// # Errors
    ///
    /// The refusal or failure, ready to be answered.
    pub(super) async fn commit(&self, command: BusCommand) -> Result<BusReply, Failure> {
        let done = match self.store.submit(command) {
            Ok(receipt) => receipt.await.map_err(Failure::from),
            Err(e) => Err(e.into()),
        };
        if done.as_ref().is_err_and(Failure::is_want_of_room) {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        if done.is_err()
            && let Health::ReadOnly { reason } = self.store.health()
            && !self.complained.swap(true, Ordering::Relaxed)
        {
            tracing::error!("no more writes: {reason}; restart the bus once the cause is mended");
        }
        Ok(done?.reply)
    }
}

/// Waits until the bus shuts down.
pub(super) async fn closed(closing: &mut watch::Receiver<bool>) {
    // An error means that the handle is gone, which ends the bus as well.
    let _ = closing.wait_for(|closing| *closing).await;
}
