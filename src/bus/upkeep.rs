//! What happens once a minute: heartbeats reach the log together, sessions and messages leave for
//! their age. Nothing is written when there is nothing to say.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use super::board::Heartbeats;
use super::failure::Failure;
use super::rendezvous;
use super::state::App;
use crate::domain::decide::bus::{BusCommand, BusReply};
use crate::types::limit::{MAX_EXPIRE_BATCH, MAX_PAST_PRESENCE_MS, PRESENCE_RETENTION_MS};

/// How much longer signed times are remembered than they must be: a clock that is set back a
/// little must not make old announcements fresh again.
const SPARE_MS: u64 = 3_600_000;

/// Runs until the task is aborted.
pub(super) async fn run(app: Arc<App>, period: Duration) {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick is now.
    ticks.tick().await;
    loop {
        ticks.tick().await;
        tick(&app).await;
    }
}

/// How often a relay looks for sessions that are over; looking costs next to nothing.
const RELAY_ROUND: Duration = Duration::from_secs(1);

/// Ends relay sessions for their age, not a minute late. Runs until the task is aborted.
pub(super) async fn run_relay(app: Arc<App>) {
    let mut ticks = tokio::time::interval(RELAY_ROUND);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Err(e) = rendezvous::expire(&app).await {
            tracing::debug!(?e, "relay sessions are over and stay for now");
        }
    }
}

/// One round. Failures are left to the next one; a read-only store stays as it is.
pub(super) async fn tick(app: &App) {
    let outcome = async {
        flush(app).await?;
        expire_presence(app).await?;
        forget_times(app).await?;
        expire_messages(app).await?;
        rendezvous::expire(app).await
    };
    if let Err(e) = outcome.await {
        tracing::debug!(?e, "upkeep is put off");
    }
}

/// Makes the heartbeats since the last flush durable, in one record.
pub(super) async fn flush(app: &App) -> Result<(), Failure> {
    let heard = app.board.take_heard();
    if heard.seen.is_empty() {
        return Ok(());
    }
    let outcome = write_down(app, &heard).await;
    if outcome.is_err() {
        app.board.give_back(&heard);
    }
    outcome
}

async fn write_down(app: &App, heard: &Heartbeats) -> Result<(), Failure> {
    let entries = heard.seen.clone();
    app.commit(BusCommand::Seen { entries }).await?;
    if !heard.signed.is_empty() {
        let entries = heard.signed.clone();
        app.commit(BusCommand::Signed { entries }).await?;
    }
    Ok(())
}

/// Announcements that old are refused for their age, whoever signed something newer.
async fn forget_times(app: &App) -> Result<(), Failure> {
    let before = app.clock.now().minus(MAX_PAST_PRESENCE_MS + SPARE_MS);
    if app.board.any_signed_before(before) {
        app.commit(BusCommand::ForgetSigned { before }).await?;
    }
    Ok(())
}

/// After a flush, so that the stored ages are the true ones.
async fn expire_presence(app: &App) -> Result<(), Failure> {
    let before = app.clock.now().minus(PRESENCE_RETENTION_MS);
    if app.board.any_older(before) {
        app.commit(BusCommand::ExpirePresence { before }).await?;
    }
    Ok(())
}

async fn expire_messages(app: &App) -> Result<(), Failure> {
    let before = app.clock.now().minus(app.message_ttl_ms);
    loop {
        let due = app.store.with_index(|index, _| {
            index
                .by_age()
                .next()
                .is_some_and(|(_, item)| item.at <= before)
        });
        if !due {
            return Ok(());
        }
        let max = MAX_EXPIRE_BATCH;
        match app
            .commit(BusCommand::ExpireMessages { before, max })
            .await?
        {
            BusReply::Expired { count } if count > 0 => {
                tracing::warn!(count, "messages expired unread");
            }
            _ => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use serde_json::json;
    use tokio::sync::watch;

    use super::*;
    use crate::bus::board::{Heard, Posted};
    use crate::bus::serve::{Config, open};
    use crate::domain::decide::bus::{Overflow, QueueLimits};
    use crate::store::{Location, OpenOptions};
    use crate::types::limit::MAX_ROSTER_ENTRIES;
    use crate::types::time::{Clock, UnixMillis};

    struct Hand(AtomicU64);

    impl Clock for Hand {
        fn now(&self) -> UnixMillis {
            UnixMillis(self.0.load(Ordering::SeqCst))
        }
    }

    fn app(clock: &Arc<Hand>) -> App {
        let config = Config {
            addr: String::new(),
            store: OpenOptions::exclusive(Location::Memory),
            limits: QueueLimits {
                messages: 8,
                bytes: 1 << 20,
                store_bytes: 1 << 20,
                queues: 8,
                overflow: Overflow::DropOldest,
            },
            max_waiters: 1,
            message_ttl_ms: u64::MAX,
            allow_origins: vec![],
            admin: None,
            verify_presence: false,
            relay: None,
            clock: clock.clone(),
            upkeep: Duration::from_secs(60),
        };
        open(&config, watch::channel(false).1).unwrap()
    }

    async fn announce(app: &App, session: u64, ts: u64) {
        let value =
            json!({"pubkey": "k", "session": {"session_id": session.to_string()}, "ts": ts});
        let posted = Posted::read(value).unwrap();
        if app.board.heartbeat(&posted, None, app.clock.now()) == Heard::News {
            let command = BusCommand::Announce {
                entry: posted.entry,
                announcement: posted.text.into(),
                max_entries: MAX_ROSTER_ENTRIES,
            };
            app.commit(command).await.unwrap();
        }
    }

    #[tokio::test]
    async fn an_idle_bus_with_ten_sessions_commits_once_a_minute() {
        let clock = Arc::new(Hand(AtomicU64::new(1_000_000)));
        let app = app(&clock);
        for session in 0..10 {
            announce(&app, session, 0).await;
        }
        let before = app.store.commits();
        assert_eq!(before, 10);
        for minute in 0..60 {
            // Each session announces itself twice a minute.
            for half in 0..2 {
                clock.0.fetch_add(30_000, Ordering::SeqCst);
                for session in 0..10 {
                    announce(&app, session, minute * 2 + half + 1).await;
                }
            }
            tick(&app).await;
        }
        assert_eq!(app.store.commits() - before, 60);
        // Nobody there: nothing to say.
        clock.0.fetch_add(60_000, Ordering::SeqCst);
        tick(&app).await;
        assert_eq!(app.store.commits() - before, 60);
    }
}
