//! Events and a history of a session's host.

use super::Rng;
use super::sample_agent::{take_lease, with_mail};
use crate::domain::decide::agent::{AgentCommand, AgentReply, HostCommand};
use crate::domain::machine::notice::NoticeStep;
use crate::event::agent::{HostChange, HostChanged, HostKind, NoticePath};
use crate::types::id::SessionId;
use crate::types::time::UnixMillis;

fn path(rng: &mut Rng) -> NoticePath {
    [
        NoticePath::Listener,
        NoticePath::Channel,
        NoticePath::Socket,
        NoticePath::HostQueue,
    ][rng.index(4)]
}

/// An event about a host.
pub fn host_changed(rng: &mut Rng, session: SessionId) -> HostChanged {
    let id = format!("{:08x}", rng.below(1000));
    let change = match rng.index(6) {
        0 => HostChange::Attached {
            host: [HostKind::Claude, HostKind::Codex, HostKind::Other][rng.index(3)],
            paths: (0..rng.index(5)).map(|_| path(rng)).collect(),
        },
        1 => HostChange::Confirmed { path: path(rng) },
        2 => HostChange::Started { id },
        3 => HostChange::Failed {
            id,
            path: path(rng),
            reason: ["no such file", "\u{e9}"][rng.index(2)].to_owned(),
        },
        4 => HostChange::Cleared,
        _ => HostChange::Detached,
    };
    HostChanged { session, change }
}

/// A history of hosts in which every change occurs.
pub fn host_history(now: UnixMillis, run: &mut dyn FnMut(AgentCommand) -> AgentReply) {
    let AgentReply::Lease(lease) = run(take_lease("s1", now)) else {
        unreachable!("a free session's lease is given");
    };
    with_mail(&lease, now, run);
    let tell = |run: &mut dyn FnMut(AgentCommand) -> AgentReply, wish| {
        run(AgentCommand::Host {
            lease: lease.clone(),
            wish,
        })
    };
    let paths = vec![
        NoticePath::Channel,
        NoticePath::Socket,
        NoticePath::Listener,
    ];
    let host = HostKind::Claude;
    tell(run, HostCommand::Attach { host, paths });
    let mut now = now;
    for (path, works) in [(NoticePath::Channel, false), (NoticePath::Socket, true)] {
        let reply = run(AgentCommand::ReserveNotice {
            lease: lease.clone(),
            id: "0123abcd".to_owned(),
            path,
            patience_ms: Some(60_000),
            now,
        });
        let AgentReply::Notice(NoticeStep::Offer(view)) = reply else {
            unreachable!("mail waits and the notice is due");
        };
        run(AgentCommand::NoticeResult {
            lease: lease.clone(),
            id: view.id.clone(),
            accepted: works.then_some(path),
            patience_ms: Some(60_000),
            now,
        });
        let id = view.id;
        if works {
            tell(run, HostCommand::Started { id, now });
        } else {
            let reason = "no such file".to_owned();
            tell(run, HostCommand::Failed { id, path, reason });
            let retry = false;
            tell(run, HostCommand::Clear { retry });
        }
        now = now.plus(600_000);
    }
    tell(run, HostCommand::Detach);
}
