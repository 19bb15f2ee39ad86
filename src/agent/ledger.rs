//! The identity's log as the async edge uses it.
//!
//! The store may be held by a sibling process that is frozen inside a write. That must not stop
//! this one: opening is tried in the background, again and again, and until it succeeds every
//! question is answered with who is in the way.

use std::future::IntoFuture as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use crate::domain::decide::agent::{Agent, AgentCommand, AgentRefusal, AgentReply};
use crate::store::{
    CommandError, Health, OpenError, OpenOptions, ReadError, Receipt, Snapshot, Store, SubmitError,
};
use crate::types::seq::Seq;
use crate::types::time::Clock;

/// How often it is looked whether the last reader of a closing store is done.
const READER: Duration = Duration::from_millis(1);

/// How often commits of other processes are looked for.
const FOLLOW: Duration = Duration::from_millis(250);
/// How long to wait before a failed open is tried again.
const REOPEN: Duration = Duration::from_secs(2);
/// Longest time that a call waits for the first attempt to open the store.
const SETTLE: Duration = Duration::from_secs(8);
/// Longest time that a read may take before its caller is told that the store is held.
const READ: Duration = Duration::from_secs(5);
/// Longest wait for a command's answer: the store's own deadline for its siblings, and some.
const ANSWER: Duration = Duration::from_secs(8);

/// The log of an identity, open or not yet.
pub struct Ledger {
    slot: RwLock<Option<Arc<Store<Agent>>>>,
    trouble: Mutex<Option<String>>,
    head: watch::Sender<Seq>,
    /// Turns true once, when the process ends.
    closed: AtomicBool,
}

impl Ledger {
    /// Opens a store in the background; gives up only on what no waiting can mend, and says so in
    /// every answer.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started.
    pub fn start(options: OpenOptions, clock: Arc<dyn Clock>) -> std::io::Result<Arc<Ledger>> {
        let ledger = Arc::new(Ledger {
            slot: RwLock::new(None),
            trouble: Mutex::new(None),
            head: watch::Sender::new(Seq::ZERO),
            closed: AtomicBool::new(false),
        });
        let weak = Arc::downgrade(&ledger);
        thread::Builder::new()
            .name("store-follow".into())
            .spawn(move || {
                while let Some(ledger) = weak.upgrade() {
                    if ledger.closed.load(Ordering::Acquire) {
                        return;
                    }
                    ledger.turn(&options, &clock);
                }
            })?;
        Ok(ledger)
    }

    /// A log over a store that is open. Nothing follows other processes' commits.
    #[must_use]
    pub fn over(store: Store<Agent>) -> Ledger {
        Ledger {
            head: watch::Sender::new(store.head()),
            slot: RwLock::new(Some(Arc::new(store))),
            trouble: Mutex::new(None),
            closed: AtomicBool::new(false),
        }
    }

    /// One turn of the background thread: open, or follow the head.
    fn turn(&self, options: &OpenOptions, clock: &Arc<dyn Clock>) {
        let Some(store) = self.store() else {
            match Store::open(options.clone(), Arc::clone(clock), None) {
                Ok(store) => {
                    let head = store.head();
                    self.set(Some(Arc::new(store)));
                    self.head.send_modify(|seq| *seq = head);
                }
                Err(e) => {
                    tracing::warn!("{e}");
                    self.say(&e);
                    // Who waits for the store gets the reason instead.
                    self.head.send_modify(|_| {});
                    thread::sleep(REOPEN);
                }
            }
            return;
        };
        if let Health::ReadOnly { reason } = store.health() {
            // A store that failed is closed and opened again; what cannot be mended fails there.
            tracing::error!("the store is read-only: {reason}; it is opened again");
            self.set(None);
            self.head.send_modify(|_| {});
            thread::sleep(REOPEN);
            return;
        }
        let known = store.head();
        let _ = store.wait_head(known, FOLLOW);
        let _ = store.refresh_head();
        let head = store.head();
        self.head.send_if_modified(|seq| {
            let moved = *seq != head;
            *seq = head;
            moved
        });
    }

    fn say(&self, e: &OpenError) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(e.to_string());
    }

    fn set(&self, store: Option<Arc<Store<Agent>>>) {
        let old = {
            let mut slot = self.slot.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *slot, store)
        };
        drop(old);
    }

    fn take(&self) -> Option<Arc<Store<Agent>>> {
        self.slot
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    fn store(&self) -> Option<Arc<Store<Agent>>> {
        self.slot
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn open_store(&self) -> Result<Arc<Store<Agent>>, LedgerError> {
        self.store().ok_or_else(|| LedgerError::Unavailable {
            reason: self
                .trouble()
                .unwrap_or_else(|| "the store is still being opened".to_owned()),
        })
    }

    /// Why the last attempt to open the store failed, if one did.
    fn trouble(&self) -> Option<String> {
        self.trouble
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Waits for the first attempt to open the store: calls come right after the start.
    pub async fn settled(&self) {
        let mut head = self.head.subscribe();
        let settled = async {
            while !self.is_open() && self.trouble().is_none() {
                if head.changed().await.is_err() {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(SETTLE, settled).await;
    }

    /// Whether the store is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.store().is_some()
    }

    /// Follows the log's head: local commits at once, foreign ones within a quarter second.
    #[must_use]
    pub fn follow(&self) -> watch::Receiver<Seq> {
        self.head.subscribe()
    }

    /// Carries out a command; it is durable when this returns.
    ///
    /// # Errors
    ///
    /// [`LedgerError`]; nothing of the command is visible then.
    pub async fn submit(&self, command: AgentCommand) -> Result<AgentReply, LedgerError> {
        self.settled().await;
        let store = self.open_store()?;
        let receipt = store.submit(command)?;
        answered(&store, receipt).await
    }

    /// Carries out several commands, handed over together so that one commit can hold them all. The
    /// answers are in their order.
    ///
    /// # Errors
    ///
    /// Each as [`Ledger::submit`].
    pub async fn submit_all(
        &self,
        commands: Vec<AgentCommand>,
    ) -> Vec<Result<AgentReply, LedgerError>> {
        self.settled().await;
        let receipts: Vec<_> = commands
            .into_iter()
            .map(|command| {
                let store = self.open_store()?;
                let receipt = store.submit(command)?;
                Ok::<_, LedgerError>((store, receipt))
            })
            .collect();
        let mut answers = Vec::with_capacity(receipts.len());
        for receipt in receipts {
            answers.push(match receipt {
                Ok((store, receipt)) => answered(&store, receipt).await,
                Err(e) => Err(e),
            });
        }
        answers
    }

    /// Hands a command to the writer and does not wait for it. For the last moments of a process.
    pub fn submit_and_forget(&self, command: AgentCommand) {
        if let Some(store) = self.store() {
            let _ = store.submit(command);
        }
    }

    /// Finishes what was handed over and closes the store, so that whoever reads it next finds
    /// nothing to repair. Returns once that is done; it is done on a thread of its own, so a
    /// caller that stops waiting (a sibling may hold the store) loses nothing but the tidiness.
    pub async fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let Some(store) = self.take() else { return };
        let (done, finished) = oneshot::channel();
        let closing = thread::Builder::new()
            .name("store-close".into())
            .spawn(move || {
                store.finish();
                // Whoever still reads holds it too, and it is closed with the last of them.
                let readers = Arc::downgrade(&store);
                drop(store);
                while readers.strong_count() > 0 {
                    thread::sleep(READER);
                }
                let _ = done.send(());
            });
        if closing.is_ok() {
            let _ = finished.await;
        }
    }

    /// Reads from a consistent view, on a thread that may block.
    ///
    /// # Errors
    ///
    /// [`LedgerError`].
    pub async fn read<T, F>(&self, f: F) -> Result<T, LedgerError>
    where
        T: Send + 'static,
        F: FnOnce(&Snapshot) -> Result<T, ReadError> + Send + 'static,
    {
        self.settled().await;
        let store = self.open_store()?;
        let reading = Arc::clone(&store);
        let task = tokio::task::spawn_blocking(move || f(&reading.snapshot()?));
        match tokio::time::timeout(READ, task).await {
            Ok(Ok(result)) => Ok(result?),
            Ok(Err(_)) => Err(LedgerError::Unavailable {
                reason: "a read of the store failed".to_owned(),
            }),
            // A process that is frozen in the last step of its commit keeps readers out too.
            Err(_) => Err(held(&store)),
        }
    }

    /// Reads on the calling thread, for code that may block.
    ///
    /// # Errors
    ///
    /// [`LedgerError`].
    pub fn read_blocking<T>(
        &self,
        f: impl FnOnce(&Snapshot) -> Result<T, ReadError>,
    ) -> Result<T, LedgerError> {
        Ok(f(&self.open_store()?.snapshot()?)?)
    }

    /// Carries out a command on the calling thread, for code that may block.
    ///
    /// # Errors
    ///
    /// As [`Ledger::submit`].
    pub fn submit_blocking(&self, command: AgentCommand) -> Result<AgentReply, LedgerError> {
        Ok(self.open_store()?.submit(command)?.wait()?.reply)
    }
}

/// Waits for a command's answer, but not for a sibling that is frozen while it holds the engine's own
/// locks. A command that was given up is not carried out later.
async fn answered(
    store: &Store<Agent>,
    receipt: Receipt<Agent>,
) -> Result<AgentReply, LedgerError> {
    match tokio::time::timeout(ANSWER, receipt.into_future()).await {
        Ok(answer) => Ok(answer?.reply),
        Err(_) => Err(held(store)),
    }
}

fn held(store: &Store<Agent>) -> LedgerError {
    LedgerError::Unavailable {
        reason: store.last_writer().map_or_else(
            || "another process holds the store".to_owned(),
            |pid| format!("another process (pid {pid}) holds the store"),
        ),
    }
}

/// The log did not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// The log refused a command.
    #[error(transparent)]
    Refused(AgentRefusal),
    /// The store is not open, or is held by another process. It may come.
    #[error("{reason}")]
    Unavailable {
        /// Who or what is in the way.
        reason: String,
    },
    /// The command was taken and failed.
    #[error(transparent)]
    Command(CommandError<AgentRefusal>),
    /// A read failed.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl From<SubmitError> for LedgerError {
    fn from(e: SubmitError) -> Self {
        LedgerError::Unavailable {
            reason: e.to_string(),
        }
    }
}

impl From<CommandError<AgentRefusal>> for LedgerError {
    fn from(e: CommandError<AgentRefusal>) -> Self {
        match e {
            CommandError::Refused(refusal) => LedgerError::Refused(refusal),
            e @ (CommandError::StoreBusy { .. } | CommandError::Closed) => {
                LedgerError::Unavailable {
                    reason: e.to_string(),
                }
            }
            e => LedgerError::Command(e),
        }
    }
}

impl LedgerError {
    /// The refusal, if it is one.
    #[must_use]
    pub const fn refusal(&self) -> Option<&AgentRefusal> {
        match self {
            LedgerError::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }
}
