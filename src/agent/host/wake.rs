//! Gives a session's notices, each the way whose turn it is.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::{Handoff, HostConfig, claude_channel, claude_hook, claude_socket, codex};
use crate::agent::config::StorePlace;
use crate::agent::core::{ActError, Core};
use crate::agent::mcp::server::HostConnection;
use crate::agent::random::random_hex;
use crate::domain::decide::agent::{AgentCommand, AgentReply, HostCommand, Lease};
use crate::domain::machine::notice::{NextNotice, Notice, NoticeStep, NoticeView, next, turn};
use crate::domain::projection::agent::{HostRow, NoticeRow};
use crate::domain::query::agent as query;
use crate::event::agent::NoticePath;
use crate::types::time::{Clock as _, UnixMillis};

/// Longest time between two looks at the schedule: wall clocks jump.
const LOOK: Duration = Duration::from_secs(30);
/// Between two looks while the listener has the turn.
const LISTENING: Duration = Duration::from_millis(500);
/// How long the listener may leave its turn unused before another way is taken. It looks four
/// times a second; one that does not is stopped.
const LISTENER_SLEEPS: Duration = Duration::from_secs(15);
/// Attempts of one hand-off, and the pause between them.
const ATTEMPTS: u32 = 3;
const ATTEMPT_PAUSE: Duration = Duration::from_secs(2);

/// Gives notices for as long as the session is ours.
pub async fn run(core: Arc<Core>, host: HostConnection) {
    let waker = Waker { core: &core, host };
    loop {
        let lease = core.lease.held().await;
        tokio::select! {
            () = core.lease.lost(&lease) => {}
            () = waker.attend(&lease) => {}
        }
    }
}

/// What the schedule says.
enum Plan {
    Idle,
    Wait {
        until: UnixMillis,
    },
    Go {
        path: NoticePath,
        patience: Option<u64>,
    },
    Listener,
    Nobody,
}

struct Waker<'a> {
    core: &'a Core,
    host: HostConnection,
}

impl Waker<'_> {
    async fn attend(&self, lease: &Lease) {
        let core = self.core;
        let paths = core.config.host.paths();
        self.attach(lease, &paths).await;
        let mut head = core.ledger.follow();
        let mut listening = Duration::ZERO;
        loop {
            head.mark_unchanged();
            let pause = match self.look(&paths, listening).await {
                Ok(Plan::Go { path, patience }) => {
                    listening = Duration::ZERO;
                    match self.give(lease, path, patience).await {
                        Ok(true) => continue,
                        Ok(false) => LISTENING,
                        Err(e) => failed(&e),
                    }
                }
                Ok(Plan::Listener) => {
                    listening = listening.saturating_add(LISTENING);
                    sleep(LISTENING).await;
                    continue;
                }
                Ok(Plan::Wait { until }) => {
                    listening = Duration::ZERO;
                    Duration::from_millis(until.since(core.clock.now()))
                        .clamp(Duration::from_millis(50), LOOK)
                }
                // A listener may start at any time.
                Ok(Plan::Nobody) => Duration::from_secs(2),
                Ok(Plan::Idle) => {
                    listening = Duration::ZERO;
                    LOOK
                }
                Err(e) => failed(&e),
            };
            tokio::select! {
                changed = head.changed() => if changed.is_err() { return },
                () = sleep(pause) => {}
            }
        }
    }

    async fn attach(&self, lease: &Lease, paths: &[NoticePath]) {
        let wish = HostCommand::Attach {
            host: self.core.config.host.kind(),
            paths: paths.to_vec(),
        };
        self.tell(lease, wish).await;
    }

    async fn tell(&self, lease: &Lease, wish: HostCommand) {
        let lease = lease.clone();
        if let Err(e) = self.core.submit(AgentCommand::Host { lease, wish }).await {
            tracing::debug!("host: {e}");
        }
    }

    /// What to do now, without writing.
    async fn look(&self, paths: &[NoticePath], listening: Duration) -> Result<Plan, ActError> {
        let core = self.core;
        let session = core.session.clone();
        let (notice, host, waiting) = core
            .ledger
            .read(move |s| {
                Ok((
                    query::notice(s, &session)?,
                    query::host(s, &session)?,
                    query::unread_totals(s, &session)?.waiting(),
                ))
            })
            .await?;
        let notice = notice.as_ref().map(NoticeRow::schedule);
        Ok(match next(notice.as_ref(), waiting, core.clock.now()) {
            NextNotice::Idle => Plan::Idle,
            NextNotice::Wait { until } => Plan::Wait { until },
            NextNotice::New | NextNotice::Again { .. } => {
                self.plan(paths, notice.as_ref(), host.as_ref(), listening)
            }
        })
    }

    fn plan(
        &self,
        paths: &[NoticePath],
        notice: Option<&Notice>,
        host: Option<&HostRow>,
        listening: Duration,
    ) -> Plan {
        let awake = listening < LISTENER_SLEEPS && self.has_listener();
        let open: Vec<NoticePath> = paths
            .iter()
            .copied()
            .filter(|path| *path != NoticePath::Listener || awake)
            .collect();
        let confirmed = host.and_then(|row| row.confirmed);
        match turn(&open, confirmed, notice) {
            None => Plan::Nobody,
            Some(NoticePath::Listener) => Plan::Listener,
            Some(path) => Plan::Go {
                path,
                patience: (open.len() > 1 && confirmed != Some(path))
                    .then_some(self.core.config.notice_patience_ms),
            },
        }
    }

    fn has_listener(&self) -> bool {
        match &self.core.config.store {
            StorePlace::Shared(path) => claude_hook::is_listening(path, &self.core.session),
            StorePlace::Memory | StorePlace::Exclusive(_) => false,
        }
    }

    /// Hands a notice over; whether there was one.
    async fn give(
        &self,
        lease: &Lease,
        path: NoticePath,
        patience_ms: Option<u64>,
    ) -> Result<bool, ActError> {
        let core = self.core;
        let Ok(id) = random_hex::<4>(&core.entropy) else {
            return Ok(false);
        };
        let command = AgentCommand::ReserveNotice {
            lease: lease.clone(),
            id,
            path,
            patience_ms,
            now: core.clock.now(),
        };
        let AgentReply::Notice(NoticeStep::Offer(view)) = core.submit(command).await? else {
            return Ok(false);
        };
        // Where there is another way, trying again is its turn.
        let attempts = if patience_ms.is_some() { 1 } else { ATTEMPTS };
        let sent = self.hand_over(&view, attempts).await;
        let command = AgentCommand::NoticeResult {
            lease: lease.clone(),
            id: view.id.clone(),
            accepted: sent.is_ok().then_some(path),
            patience_ms,
            now: core.clock.now(),
        };
        core.submit(command).await?;
        if let Err(e) = sent {
            tracing::warn!("the notice was not taken: {e}");
            let (id, reason) = (view.id, e.reason);
            self.tell(lease, HostCommand::Failed { id, path, reason })
                .await;
        }
        Ok(true)
    }

    /// A few attempts the same way.
    async fn hand_over(&self, view: &NoticeView, attempts: u32) -> Result<(), Handoff> {
        let mut attempt = 1;
        loop {
            match self.push(view).await {
                Err(e) if e.again && attempt < attempts => {
                    tracing::debug!("attempt {attempt}: {e}");
                    attempt += 1;
                    sleep(ATTEMPT_PAUSE).await;
                }
                done => return done,
            }
        }
    }

    async fn push(&self, view: &NoticeView) -> Result<(), Handoff> {
        let core = self.core;
        match (view.path, &core.config.host) {
            (NoticePath::Channel, _) => claude_channel::push(&self.host, view).await,
            (
                NoticePath::Socket,
                HostConfig::Claude {
                    socket: Some(socket),
                    ..
                },
            ) => claude_socket::push(socket, &core.session, view).await,
            (NoticePath::HostQueue, HostConfig::Codex { bin }) => {
                codex::push(bin, &core.session, view).await
            }
            (path, _) => Err(Handoff::lasting(format!(
                "there is no way {}",
                path.state_name()
            ))),
        }
    }
}

fn failed(e: &ActError) -> Duration {
    tracing::debug!("notice: {e}");
    Duration::from_secs(2)
}
