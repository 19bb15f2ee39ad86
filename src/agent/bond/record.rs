//! The way of a session's record to the books: one task a session writes, in order, while the session
//! goes on. Only a decision about a file is waited for, because nothing may follow from it before it is
//! on record.

use std::sync::{Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::books::BondBooks;
use super::page::{Beside, Page};
use crate::agent::ledger::LedgerError;
use crate::domain::machine::bond::{OfferId, Row};
use crate::event::agent::{BondMode, Verdict};
use crate::types::id::SessionId;

pub use crate::event::agent::DecidedBy;

/// Dropped packets of one session that are recorded one by one; a relay can make any number of them.
const DROPS_IN_FULL: u64 = 32;

/// The books of the process.
pub struct Recorder {
    books: BondBooks,
    writers: Mutex<JoinSet<()>>,
}

/// The page of one session.
#[derive(Clone)]
pub(super) struct Pen(mpsc::UnboundedSender<Entry>);

enum Entry {
    Row(Row, Beside),
    Decide {
        id: OfferId,
        sha256: [u8; 32],
        verdict: Verdict,
        by: DecidedBy,
        done: oneshot::Sender<Result<(), LedgerError>>,
    },
    Placed {
        id: OfferId,
        path: String,
        size: u64,
    },
    Failed {
        call: &'static str,
        reason: &'static str,
    },
    Quit,
}

impl Recorder {
    /// Writes into these books.
    #[must_use]
    pub fn new(books: BondBooks) -> Recorder {
        Recorder {
            books,
            writers: Mutex::default(),
        }
    }

    /// A page for a session that is about to be opened, in a conversation.
    pub(super) fn page(&self, conversation: SessionId, mode: BondMode) -> Pen {
        let page = Page::new(self.books.of_conversation(conversation), mode);
        let (pen, entries) = mpsc::unbounded_channel();
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        while writers.try_join_next().is_some() {}
        writers.spawn(write(page, entries));
        Pen(pen)
    }

    /// Puts a call on record that failed without a session.
    pub async fn failed(&self, conversation: SessionId, call: &str, reason: &str) {
        let books = self.books.of_conversation(conversation);
        if let Err(e) = books.failed(None, call, reason).await {
            tracing::warn!("a failed call is not on record: {e}");
        }
    }

    /// Waits until everything of the sessions that are over is on the disk.
    pub async fn close(&self) {
        let mut writers = {
            let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *writers)
        };
        while writers.join_next().await.is_some() {}
    }
}

impl Pen {
    fn put(&self, entry: Entry) {
        // The writer lives as long as this.
        let _ = self.0.send(entry);
    }

    /// A row of the machine.
    pub(super) fn row(&self, row: Row, beside: Beside) {
        self.put(Entry::Row(row, beside));
    }

    /// A decision about a file; it is on record when this returns.
    ///
    /// # Errors
    ///
    /// [`LedgerError`]; nothing may follow from the decision then.
    pub(super) async fn decide(
        &self,
        id: &OfferId,
        sha256: [u8; 32],
        verdict: Verdict,
        by: DecidedBy,
    ) -> Result<(), LedgerError> {
        let (done, answer) = oneshot::channel();
        self.put(Entry::Decide {
            id: id.clone(),
            sha256,
            verdict,
            by,
            done,
        });
        answer.await.unwrap_or_else(|_| {
            Err(LedgerError::Unavailable {
                reason: "the record is closed".to_owned(),
            })
        })
    }

    /// Where an accepted file is.
    pub(super) fn placed(&self, id: &OfferId, path: String, size: u64) {
        let id = id.clone();
        self.put(Entry::Placed { id, path, size });
    }

    /// A call that failed.
    pub(super) fn failed(&self, call: &'static str, reason: &'static str) {
        self.put(Entry::Failed { call, reason });
    }

    /// The process ends, and the session with it.
    pub(super) fn quit(&self) {
        self.put(Entry::Quit);
    }
}

async fn write(mut page: Page, mut entries: mpsc::UnboundedReceiver<Entry>) {
    let mut drops = 0u64;
    while let Some(entry) = entries.recv().await {
        let outcome = match entry {
            Entry::Row(row, beside) => {
                if matches!(row, Row::PacketDropped { .. }) {
                    drops = drops.saturating_add(1);
                    if drops > DROPS_IN_FULL && !drops.is_power_of_two() {
                        continue;
                    }
                }
                page.row(&row, &beside).await
            }
            Entry::Decide {
                id,
                sha256,
                verdict,
                by,
                done,
            } => {
                let decided = page.decide(&id, sha256, verdict, by).await;
                // Whoever asked may have given up.
                let _ = done.send(decided.map(|_| ()));
                Ok(())
            }
            Entry::Placed { id, path, size } => page.placed(&id, path, size).await,
            Entry::Failed { call, reason } => page.books().failed(page.bond(), call, reason).await,
            Entry::Quit => page.quit().await,
        };
        if let Err(e) = outcome {
            tracing::warn!("the record of a sealed session: {e}");
        }
    }
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}
