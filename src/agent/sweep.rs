//! What time alone ends: without it the tables of an identity that is used for years only grow.

use std::time::Duration;

use super::config::AgentConfig;
use super::ledger::{Ledger, LedgerError};
use crate::domain::decide::agent::{
    AgentCommand, AgentReply, CareCommand, DirectoryCommand, PairingCommand,
};
use crate::domain::gate::Windows;
use crate::system::SystemClock;
use crate::types::limit::DIRECTORY_RETENTION_MS;
use crate::types::time::{Clock as _, UnixMillis};

/// How often.
const EVERY: Duration = Duration::from_secs(3600);
/// The first time: many sessions live for less than an hour.
const FIRST: Duration = Duration::from_secs(60);
/// How often old conversations are let go of, in milliseconds.
const HISTORY_EVERY_MS: u64 = 86_400_000;
/// How much longer than it must an id of a message is remembered, in milliseconds.
const SPARE_MS: u64 = 86_400_000;

/// Sweeps soon after the start and every hour, for as long as it is polled.
pub(super) async fn run(ledger: &Ledger, config: &AgentConfig) {
    let mut broom = Broom::new(config.windows, config.keep_history_ms);
    let mut wait = FIRST;
    loop {
        tokio::time::sleep(wait).await;
        wait = EVERY;
        broom.sweep(ledger, SystemClock.now()).await;
    }
}

/// What is kept how long, and when the history was looked at.
struct Broom {
    windows: Windows,
    keep_history_ms: u64,
    history: Option<UnixMillis>,
}

impl Broom {
    fn new(windows: Windows, keep_history_ms: u64) -> Self {
        Broom {
            windows,
            keep_history_ms,
            history: None,
        }
    }

    /// Forgets ids of messages that are too old to be accepted anyway, and sessions that nobody saw
    /// or wrote to for long; ends pairing requests that nobody decided; once a day lets
    /// conversations go that ended long ago. What fails is tried again the next time.
    async fn sweep(&mut self, ledger: &Ledger, now: UnixMillis) {
        let windows = self.windows;
        let keep = windows
            .past_peer_ms
            .saturating_add(windows.future_ms)
            .saturating_add(SPARE_MS);
        let replay = AgentCommand::ForgetReplay {
            before: now.minus(keep),
            now,
        };
        let unused = DirectoryCommand::ExpireSessions {
            before: now.minus(DIRECTORY_RETENTION_MS),
        };
        let expire = PairingCommand::Expire { now }.into();
        for command in [replay, AgentCommand::Directory(unused), expire] {
            if let Err(e) = ledger.submit(command).await {
                tracing::debug!("sweep: {e}");
            }
        }
        if self.history_is_due(now) {
            match forget_history(ledger, now.minus(self.keep_history_ms)).await {
                Ok(()) => self.history = Some(now),
                Err(e) => tracing::debug!("sweep of the history: {e}"),
            }
        }
    }

    /// A clock that was set back must not put it off.
    fn history_is_due(&self, now: UnixMillis) -> bool {
        self.history
            .is_none_or(|at| now < at || now.minus(HISTORY_EVERY_MS) >= at)
    }
}

/// Lets go of what ended before a time, a bounded record at a time; other writes come in between.
async fn forget_history(ledger: &Ledger, before: UnixMillis) -> Result<(), LedgerError> {
    let mut sum = 0;
    loop {
        let command = AgentCommand::Care(CareCommand::ForgetHistory { before });
        match ledger.submit(command).await? {
            AgentReply::Forgotten { rows, more } if rows > 0 => {
                sum += rows;
                if more {
                    continue;
                }
            }
            _ => {}
        }
        if sum > 0 {
            tracing::info!("{sum} old messages and tasks are forgotten");
        }
        return Ok(());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::query::agent as query;
    use crate::store::{Location, OpenOptions, Store};
    use crate::testkit::FakeClock;
    use crate::testkit::sample_agent::agent_history;
    use crate::types::id::{MsgId, PublicKey, SessionId};

    const START: UnixMillis = UnixMillis(1_800_000_000_000);
    const HOUR: u64 = 3_600_000;
    const KEEP: u64 = 30 * HISTORY_EVERY_MS;

    /// An identity that read `in-1` at the start and never `in-2`.
    fn ledger() -> Ledger {
        let options = OpenOptions::exclusive(Location::Memory);
        let clock = Arc::new(FakeClock::new(START));
        let ledger = Ledger::over(Store::open(options, clock, None).unwrap());
        agent_history(START, &mut |command| {
            ledger.submit_blocking(command).unwrap()
        });
        ledger
    }

    async fn has(ledger: &Ledger, id: &'static str) -> bool {
        let session = SessionId::parse("s1").unwrap();
        let peer = PublicKey::from_bytes([2; 32]);
        let id = MsgId::parse(id).unwrap();
        let read = ledger.read(move |s| Ok(query::mailbox_entry(s, &session, &peer, &id)?));
        read.await.unwrap().is_some()
    }

    fn broom() -> Broom {
        Broom::new(Windows::default(), KEEP)
    }

    #[tokio::test]
    async fn what_was_read_long_ago_goes_once_a_day_and_what_is_unread_stays() {
        let (ledger, mut broom) = (ledger(), broom());
        let mut now = START.plus(KEEP);
        broom.sweep(&ledger, now).await;
        assert!(has(&ledger, "in-1").await, "it is not older yet");
        for _ in 0..23 {
            now = now.plus(HOUR);
            broom.sweep(&ledger, now).await;
            assert!(has(&ledger, "in-1").await, "once a day");
        }
        broom.sweep(&ledger, now.plus(HOUR)).await;
        assert!(!has(&ledger, "in-1").await);
        assert!(has(&ledger, "in-2").await, "unread");
    }

    #[tokio::test]
    async fn a_clock_that_was_set_back_does_not_put_it_off() {
        let (ledger, mut broom) = (ledger(), broom());
        broom.history = Some(START.plus(400 * HISTORY_EVERY_MS));
        broom.sweep(&ledger, START.plus(KEEP + 1)).await;
        assert!(!has(&ledger, "in-1").await);
    }
}
