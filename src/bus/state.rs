//! What every request shares.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;

use super::board::Board;
use super::failure::Failure;
use super::longpoll::Waiters;
use crate::domain::decide::bus::{Bus, BusCommand, BusReply, QueueLimits};
use crate::store::Store;
use crate::types::time::Clock;

/// The bus behind the handlers.
pub(super) struct App {
    pub(super) store: Store<Bus>,
    pub(super) board: Arc<Board>,
    pub(super) waiters: Arc<Waiters>,
    pub(super) limits: QueueLimits,
    pub(super) message_ttl_ms: u64,
    pub(super) retain_ms: u64,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) started: Instant,
    /// Path of the store file; `None` in memory.
    pub(super) store_path: Option<String>,
    /// SHA-256 of the admin token.
    pub(super) admin: Option<[u8; 32]>,
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
        Ok(self.store.submit(command)?.await?.reply)
    }
}

/// Waits until the bus shuts down.
pub(super) async fn closed(closing: &mut watch::Receiver<bool>) {
    // An error means that the handle is gone, which ends the bus as well.
    let _ = closing.wait_for(|closing| *closing).await;
}
