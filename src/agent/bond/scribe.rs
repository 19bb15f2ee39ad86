//! Puts on record what happens in the sealed sessions of a process, in order, beside it.
//!
//! A session's machine speaks inside a lock and must not wait for a disk. So its rows go into a queue, and
//! one task writes them. A decision about a file goes through the same queue, behind the offer that it
//! is about, and whoever decided waits until it is on record: only then is it carried out.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::books::BondBooks;
use super::page::{Beside, Page};
use crate::agent::ledger::LedgerError;
use crate::domain::decide::agent::BondNews;
use crate::domain::machine::bond::{Dropped, OfferId, Row};
use crate::event::agent::{BondMode, DecidedBy, DropKind, Verdict};
use crate::types::seq::Seq;

/// Rows that wait for the disk. A relay that floods a session with rubbish gets no more of them on
/// record at a time; how many were left out is.
const MAX_WAITING: usize = 1024;
/// Offers whose records are remembered: those of the session that runs, and some of those before.
const MAX_OFFERS: usize = 64;
/// Longest time that the end of a process waits for its record.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// What is to be put on record.
enum Task {
    Row(BondMode, Box<Row>, Beside),
    Failed(String, String),
    Decide {
        id: OfferId,
        sha256: [u8; 32],
        verdict: Verdict,
        by: DecidedBy,
        answer: oneshot::Sender<Result<(), LedgerError>>,
    },
    Placed(OfferId, String, u64),
    News(Box<BondNews>),
    Quit(oneshot::Sender<()>),
}

/// The handle. Everything but a decision returns at once.
#[derive(Debug)]
pub struct Scribe {
    queue: mpsc::Sender<Task>,
    left_out: std::sync::Arc<AtomicU32>,
}

impl Scribe {
    /// Starts the task that writes. It ends with the handle.
    #[must_use]
    pub fn start(books: BondBooks) -> Scribe {
        let (queue, tasks) = mpsc::channel(MAX_WAITING);
        let left_out = std::sync::Arc::new(AtomicU32::new(0));
        let writer = Writer {
            books,
            page: None,
            offers: BTreeMap::new(),
            left_out: std::sync::Arc::clone(&left_out),
        };
        tokio::spawn(writer.run(tasks));
        Scribe { queue, left_out }
    }

    /// A row of the session that runs. The first row of a new one is `SessionCreated` or
    /// `SessionJoined`.
    pub fn row(&self, mode: BondMode, row: Row, beside: Beside) {
        self.put(Task::Row(mode, Box::new(row), beside));
    }

    /// A call of a tool that failed, in words of this program.
    pub fn failed(&self, call: &str, reason: &str) {
        self.put(Task::Failed(call.to_owned(), reason.to_owned()));
    }

    /// An accepted file was written.
    pub fn placed(&self, id: OfferId, path: String, size: u64) {
        self.put(Task::Placed(id, path, size));
    }

    /// Something that the edge knows of the session that runs, and its machine does not.
    pub fn news(&self, news: BondNews) {
        self.put(Task::News(Box::new(news)));
    }

    /// A decision about an offered file. Durable when this returns; to be carried out then and not
    /// before. The same decision again is no error.
    ///
    /// # Errors
    ///
    /// [`LedgerError`]: a refusal when the bytes that were shown have another hash, or somebody decided
    /// otherwise before; nothing may be carried out then.
    pub async fn decide(
        &self,
        id: &OfferId,
        sha256: [u8; 32],
        verdict: Verdict,
        by: DecidedBy,
    ) -> Result<(), LedgerError> {
        let (answer, decided) = oneshot::channel();
        let task = Task::Decide {
            id: id.clone(),
            sha256,
            verdict,
            by,
            answer,
        };
        let gone = || LedgerError::Unavailable {
            reason: "the record of sealed sessions is closed".to_owned(),
        };
        self.queue.send(task).await.map_err(|_| gone())?;
        decided.await.map_err(|_| gone())?
    }

    /// The process ends: a session that runs is recorded as over, and everything before it. Takes at
    /// most three seconds.
    pub async fn close(&self) {
        let (answer, done) = oneshot::channel();
        let last = async {
            if self.queue.send(Task::Quit(answer)).await.is_ok() {
                let _ = done.await;
            }
        };
        let _ = tokio::time::timeout(LAST_WORDS, last).await;
    }

    fn put(&self, task: Task) {
        if self.queue.try_send(task).is_err() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Why a packet was dropped, where a row says that one was.
const fn dropped(row: &Row) -> Option<Dropped> {
    match row {
        Row::PacketDropped { reason } => Some(*reason),
        _ => None,
    }
}

struct Writer {
    books: BondBooks,
    page: Option<Page>,
    offers: BTreeMap<OfferId, Seq>,
    left_out: std::sync::Arc<AtomicU32>,
}

impl Writer {
    async fn run(mut self, mut tasks: mpsc::Receiver<Task>) {
        let mut next = None;
        loop {
            let task = match next.take() {
                Some(task) => Some(task),
                None => tasks.recv().await,
            };
            let Some(task) = task else { return };
            let done = match task {
                Task::Row(mode, row, beside) => match dropped(&row) {
                    Some(reason) => self.drops(reason, &mut tasks, &mut next).await,
                    None => self.row(mode, &row, &beside).await,
                },
                Task::Failed(call, reason) => {
                    let bond = self.page.as_ref().and_then(Page::bond);
                    self.books.failed(bond, &call, &reason).await
                }
                Task::Decide {
                    id,
                    sha256,
                    verdict,
                    by,
                    answer,
                } => {
                    let offer = self.offers.get(&id).copied().unwrap_or(Seq::ZERO);
                    let decided = self.books.decide(offer, sha256, verdict, by).await;
                    // Who decided and did not wait has gone; what is on record stays there.
                    let _ = answer.send(decided.map(|_| ()));
                    Ok(())
                }
                Task::Placed(id, path, size) => {
                    let offer = self.offers.get(&id).copied().unwrap_or(Seq::ZERO);
                    self.books.placed(offer, path, size).await.map(|_| ())
                }
                Task::News(news) => match self.page.as_ref().and_then(Page::bond) {
                    Some(bond) => self.books.tell(bond, *news).await.map(|_| ()),
                    None => Ok(()),
                },
                Task::Quit(answer) => {
                    let done = match &self.page {
                        Some(page) => page.quit().await,
                        None => Ok(()),
                    };
                    let done = self.own_up().await.and(done);
                    let _ = answer.send(());
                    done
                }
            };
            let done = match done {
                Ok(()) => self.own_up().await,
                failed => failed,
            };
            if let Err(e) = done {
                tracing::warn!("a sealed session is not on record: {e}");
            }
        }
    }

    async fn row(&mut self, mode: BondMode, row: &Row, beside: &Beside) -> Result<(), LedgerError> {
        let begins = matches!(row, Row::SessionCreated { .. } | Row::SessionJoined { .. });
        if begins || self.page.is_none() {
            self.page = Some(Page::new(self.books.clone(), mode));
        }
        let Some(page) = &mut self.page else {
            return Ok(());
        };
        page.row(row, beside).await?;
        if let Row::OfferReceived { id, .. } = row
            && let Some(offer) = page.offer(id)
        {
            self.offers.insert(id.clone(), offer);
            while self.offers.len() > MAX_OFFERS {
                let oldest = self.offers.iter().min_by_key(|(_, seq)| **seq);
                let oldest = oldest.map(|(id, _)| id.clone());
                oldest.map(|id| self.offers.remove(&id));
            }
        }
        Ok(())
    }

    /// As many drops for one reason as wait one behind the other: what a relay sends by the hundred is
    /// one record.
    async fn drops(
        &self,
        reason: Dropped,
        tasks: &mut mpsc::Receiver<Task>,
        next: &mut Option<Task>,
    ) -> Result<(), LedgerError> {
        let mut count = 1u32;
        while let Ok(task) = tasks.try_recv() {
            match &task {
                Task::Row(_, row, _) if dropped(row) == Some(reason) => {
                    count = count.saturating_add(1);
                }
                _ => {
                    *next = Some(task);
                    break;
                }
            }
        }
        match &self.page {
            Some(page) => page.dropped(reason, count).await,
            None => Ok(()),
        }
    }

    /// Tells how many rows were left out, once there is a session to tell it of.
    async fn own_up(&self) -> Result<(), LedgerError> {
        let Some(bond) = self.page.as_ref().and_then(Page::bond) else {
            return Ok(());
        };
        let count = self.left_out.swap(0, Ordering::Relaxed);
        if count == 0 {
            return Ok(());
        }
        let news = BondNews::Dropped {
            what: DropKind::Other,
            reason: "not_recorded_one_by_one".to_owned(),
            count,
            peer: None,
        };
        self.books.tell(bond, news).await.map(|_| ())
    }
}
