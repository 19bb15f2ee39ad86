//! What is recorded of sealed sessions: an event in the log, and from it a line in `audit.log`.
//!
//! The event is what counts. A file that cannot be written is told in the program's own log and made up
//! for with the next line.

use std::sync::Arc;

use super::audit::AuditFile;
use crate::agent::ledger::{Ledger, LedgerError};
use crate::agent::lifecycle::process_start;
use crate::domain::decide::agent::{AgentCommand, AgentReply, BondCommand, BondNews};
use crate::event::agent::{BondMode, BondRole, DecidedBy, Routing, Verdict};
use crate::types::id::SessionId;
use crate::types::seq::Seq;
use crate::types::time::Clock;

/// The books of one process about its sealed sessions.
#[derive(Clone)]
pub struct BondBooks {
    ledger: Arc<Ledger>,
    clock: Arc<dyn Clock>,
    session: SessionId,
    audit: Option<Arc<AuditFile>>,
    pid: u32,
    process_start: u64,
}

impl BondBooks {
    /// Books of this process for a conversation. No file is written where `audit` is `None`, as for a
    /// store in memory.
    #[must_use]
    pub fn new(
        ledger: Arc<Ledger>,
        clock: Arc<dyn Clock>,
        session: SessionId,
        audit: Option<AuditFile>,
    ) -> BondBooks {
        let pid = std::process::id();
        BondBooks {
            ledger,
            clock,
            session,
            audit: audit.map(Arc::new),
            pid,
            process_start: process_start(pid),
        }
    }

    /// The same books for another conversation of the process.
    #[must_use]
    pub fn of_conversation(&self, session: SessionId) -> BondBooks {
        BondBooks {
            session,
            ..self.clone()
        }
    }

    /// The clock of the process.
    #[must_use]
    pub fn clock(&self) -> &dyn Clock {
        self.clock.as_ref()
    }

    /// Records that a session was made or joined; gives its position, by which everything else names it.
    /// Durable when this returns, as with the calls below.
    ///
    /// # Errors
    ///
    /// [`LedgerError`]; nothing is recorded then.
    pub async fn open(
        &self,
        role: BondRole,
        mode: BondMode,
        routing: Routing,
    ) -> Result<Seq, LedgerError> {
        let command = BondCommand::Open {
            session: self.session.clone(),
            pid: self.pid,
            process_start: self.process_start,
            role,
            mode,
            routing,
        };
        Ok(self.record(command).await?.unwrap_or(Seq::ZERO))
    }

    /// Records what happened in a session; gives the position of the record, which names an offered
    /// file from then on. `None`: there was nothing to record.
    ///
    /// # Errors
    ///
    /// [`LedgerError`].
    pub async fn tell(&self, bond: Seq, news: BondNews) -> Result<Option<Seq>, LedgerError> {
        let pid = self.pid;
        self.record(BondCommand::Tell { bond, pid, news }).await
    }

    /// Records a decision about an offered file, before anything follows from it. `None`: it was
    /// decided so before. To be called with the hash that whoever decided was shown.
    ///
    /// # Errors
    ///
    /// [`LedgerError`]; a refusal when the hash is another one, or when it was decided otherwise.
    pub async fn decide(
        &self,
        offer: Seq,
        sha256: [u8; 32],
        verdict: Verdict,
        by: DecidedBy,
    ) -> Result<Option<Seq>, LedgerError> {
        let command = BondCommand::Decide {
            offer,
            pid: self.pid,
            sha256,
            verdict,
            by,
        };
        self.record(command).await
    }

    /// Records where an accepted file was written.
    ///
    /// # Errors
    ///
    /// [`LedgerError`].
    pub async fn placed(
        &self,
        offer: Seq,
        path: String,
        size: u64,
    ) -> Result<Option<Seq>, LedgerError> {
        let command = BondCommand::Placed {
            offer,
            pid: self.pid,
            path,
            size,
        };
        self.record(command).await
    }

    /// Records that a call failed. `reason` MUST NOT hold a code, a key, or what somebody wrote.
    ///
    /// # Errors
    ///
    /// [`LedgerError`].
    pub async fn failed(
        &self,
        bond: Option<Seq>,
        call: &str,
        reason: &str,
    ) -> Result<(), LedgerError> {
        let command = BondCommand::Failed {
            session: self.session.clone(),
            pid: self.pid,
            bond,
            call: call.to_owned(),
            reason: reason.to_owned(),
        };
        self.record(command).await.map(|_| ())
    }

    async fn record(&self, command: BondCommand) -> Result<Option<Seq>, LedgerError> {
        let AgentReply::Bond { seq } = self.ledger.submit(AgentCommand::Bond(command)).await?
        else {
            return Err(LedgerError::Unavailable {
                reason: "the store gave another answer than was asked for".to_owned(),
            });
        };
        if let Some(seq) = seq {
            self.write(seq).await;
        }
        Ok(seq)
    }

    /// Brings the file up to a record.
    async fn write(&self, seq: Seq) {
        let Some(audit) = self.audit.clone() else {
            return;
        };
        let now = self.clock.now();
        let written = self
            .ledger
            .read(move |log| Ok(audit.catch_up(log, seq, now)))
            .await;
        match written {
            Ok(Ok(_)) => {}
            Ok(Err(e)) => tracing::warn!("audit.log: {e}"),
            Err(e) => tracing::warn!("audit.log: {e}"),
        }
    }
}
