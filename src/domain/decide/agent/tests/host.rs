//! What is known about hosts.

use super::rig::{Rig, session};
use crate::domain::decide::agent::{AgentCommand, AgentReply, HostCommand, Lease};
use crate::domain::machine::notice::NoticeStep;
use crate::domain::projection::agent::HostRow;
use crate::domain::query::agent as query;
use crate::event::agent::{HostKind, NoticePath};

fn tell(rig: &mut Rig, lease: &Lease, wish: HostCommand) -> bool {
    let lease = lease.clone();
    rig.submit(AgentCommand::Host { lease, wish }).unwrap() == AgentReply::Done { changed: true }
}

fn attach(rig: &mut Rig, lease: &Lease, paths: &[NoticePath]) -> bool {
    let (host, paths) = (HostKind::Claude, paths.to_vec());
    tell(rig, lease, HostCommand::Attach { host, paths })
}

fn row(rig: &Rig) -> HostRow {
    query::host(&rig.tables, &session("a")).unwrap().unwrap()
}

/// A session with mail and a notice that the host took by the channel.
fn noticed() -> (Rig, Lease) {
    let mut rig = Rig::new();
    let lease = rig.take("a", 1);
    rig.add("bob", 1).unwrap();
    assert!(attach(
        &mut rig,
        &lease,
        &[
            NoticePath::Channel,
            NoticePath::Listener,
            NoticePath::Channel
        ]
    ));
    rig.receive(&lease, 1, "m", 0).unwrap();
    rig.reserve(&lease, "00000001");
    rig.notice_result(&lease, "00000001", true);
    (rig, lease)
}

#[test]
fn an_id_that_comes_back_proves_the_way_and_another_one_proves_nothing() {
    let (mut rig, lease) = noticed();
    assert_eq!(row(&rig).paths, [NoticePath::Channel, NoticePath::Listener]);
    rig.observe(&lease, Some("ffffffff"), false);
    rig.observe(&lease, None, true);
    assert_eq!(row(&rig).confirmed, None, "a manual read proves nothing");
    assert!(rig.observe(&lease, Some("00000001"), false));
    assert_eq!(row(&rig).confirmed, Some(NoticePath::Channel));
    assert!(!rig.observe(&lease, Some("00000001"), false));
    // Another process has to be proved anew; the same again is no news.
    let paths = [NoticePath::Channel, NoticePath::Listener];
    assert!(attach(&mut rig, &lease, &paths));
    assert_eq!(row(&rig).confirmed, None);
    assert!(!attach(&mut rig, &lease, &paths));
}

#[test]
fn a_turn_that_began_with_a_notice_puts_the_next_offer_off() {
    let (mut rig, lease) = noticed();
    let started = |id: &str, now| HostCommand::Started {
        id: id.to_owned(),
        now,
    };
    let now = rig.now;
    assert!(!tell(&mut rig, &lease, started("ffffffff", now)));
    assert!(tell(&mut rig, &lease, started("00000001", now)));
    assert_eq!(row(&rig).started.as_deref(), Some("00000001"));
    assert_eq!(row(&rig).confirmed, Some(NoticePath::Channel));
    assert!(!tell(&mut rig, &lease, started("00000001", now)), "once");
    rig.now = rig.now.plus(5 * 60_000);
    assert!(matches!(
        rig.reserve(&lease, "00000002"),
        NoticeStep::Wait { .. }
    ));
    rig.now = rig.now.plus(25 * 60_000);
    assert!(matches!(
        rig.reserve(&lease, "00000002"),
        NoticeStep::Offer(_)
    ));
    rig.submit(AgentCommand::DropNotice {
        lease: lease.clone(),
    })
    .unwrap();
    assert_eq!(row(&rig).started, None);
    assert!(tell(&mut rig, &lease, HostCommand::Detach));
    assert!(!tell(&mut rig, &lease, HostCommand::Detach));
    assert_eq!(query::host(&rig.tables, &session("a")).unwrap(), None);
}

#[test]
fn a_failure_is_kept_once_until_a_hand_off_works_or_somebody_clears_it() {
    let (mut rig, lease) = noticed();
    let failed = |reason: &str| HostCommand::Failed {
        id: "00000001".into(),
        path: NoticePath::Socket,
        reason: reason.to_owned(),
    };
    assert!(tell(&mut rig, &lease, failed("no such file")));
    assert!(!tell(&mut rig, &lease, failed("no such file")));
    assert!(tell(&mut rig, &lease, failed(&"\u{e9}".repeat(200))));
    assert_eq!(row(&rig).failed.unwrap().reason.len(), 256);
    assert!(tell(&mut rig, &lease, HostCommand::Clear { retry: false }));
    assert!(!tell(&mut rig, &lease, HostCommand::Clear { retry: false }));
    assert!(query::notice(&rig.tables, &session("a")).unwrap().is_some());
    tell(&mut rig, &lease, failed("busy"));
    assert!(tell(&mut rig, &lease, HostCommand::Clear { retry: true }));
    let NoticeStep::Offer(view) = rig.reserve(&lease, "00000003") else {
        panic!("it is tried at once");
    };
    assert_eq!(view.id, "00000003");
    tell(&mut rig, &lease, failed("busy"));
    rig.notice_result(&lease, "00000003", true);
    assert_eq!(row(&rig).failed, None);
}

#[test]
fn books_about_a_host_are_kept_by_the_holder_of_the_session_only() {
    let (mut rig, old) = noticed();
    rig.take("a", 2);
    let wish = HostCommand::Detach;
    let command = AgentCommand::Host { lease: old, wish };
    assert!(rig.submit(command).is_err());
}
