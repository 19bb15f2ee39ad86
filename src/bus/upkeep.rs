//! What happens once a minute: heartbeats reach the log together, sessions and messages leave for
//! their age. Nothing is written when there is nothing to say.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use super::failure::Failure;
use super::state::App;
use crate::domain::decide::bus::{BusCommand, BusReply};
use crate::types::limit::{MAX_EXPIRE_BATCH, PRESENCE_RETENTION_MS};

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

/// One round. Failures are left to the next one; a read-only store stays as it is.
pub(super) async fn tick(app: &App) {
    let outcome = async {
        flush(app).await?;
        expire_presence(app).await?;
        expire_messages(app).await
    };
    if let Err(e) = outcome.await {
        tracing::debug!(?e, "upkeep is put off");
    }
}

/// Makes the heartbeats since the last flush durable, in one record.
pub(super) async fn flush(app: &App) -> Result<(), Failure> {
    let heard = app.board.take_heard();
    if heard.is_empty() {
        return Ok(());
    }
    let entries = heard.clone();
    let outcome = app.commit(BusCommand::Seen { entries }).await;
    if outcome.is_err() {
        app.board.give_back(&heard);
    }
    outcome.map(|_| ())
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
