mod bond;
mod care;
mod directory;
mod host;
mod import;
mod model;
mod pairing;
mod rig;

use rig::{DAY, HOUR, Rig, key, msg, session};

use super::*;
use crate::domain::machine::notice::NoticeStep;
use crate::domain::projection::agent::{RelayState, Sent};
use crate::domain::query::agent as query;
use crate::domain::query::agent::{DueAction, FileVersion};
use crate::event::agent::{MailStatus, NoticePath};
use crate::types::limit::{
    MAX_EXPIRED_ROWS, MAX_MESSAGE_BYTES, MAX_OUTBOX_PER_RECIPIENT, MAX_PEERS,
};
use crate::types::time::UnixMillis;

#[test]
fn a_stale_lease_writes_nothing_and_learns_who_holds_the_session() {
    let mut rig = Rig::new();
    let old = rig.take("a", 1);
    let new = rig.take("a", 2);
    assert_eq!((old.epoch, new.epoch), (1, 2));
    let rows = rig.tables.clone();
    let lost = AgentRefusal::LeaseLost {
        session: session("a"),
        holder_epoch: 2,
        holder_pid: Some(2),
    };
    assert_eq!(rig.receive(&old, 1, "m", 0).unwrap_err(), lost);
    assert_eq!(rig.queue(&old, "m", 1).unwrap_err(), lost);
    let ack = AgentCommand::Acknowledge {
        lease: old.clone(),
        items: vec![],
        now: rig.now,
    };
    assert_eq!(rig.submit(ack).unwrap_err(), lost);
    assert_eq!(rig.tables, rows);
    rig.submit(AgentCommand::ReleaseLease { lease: new.clone() })
        .unwrap();
    let refusal = rig.receive(&new, 1, "m", 0).unwrap_err();
    assert!(
        matches!(
            refusal,
            AgentRefusal::LeaseLost {
                holder_pid: None,
                holder_epoch: 2,
                ..
            }
        ),
        "{refusal:?}"
    );
    assert_eq!(rig.take("a", 3).epoch, 3, "epochs outlive their holders");
}

#[test]
fn peers_conflict_by_name_and_by_key() {
    let mut rig = Rig::new();
    assert_eq!(
        rig.add("bob", 1),
        Ok(AgentReply::PeerAdded { changed: true })
    );
    assert_eq!(
        rig.add("bob", 1),
        Ok(AgentReply::PeerAdded { changed: false })
    );
    let taken = AgentRefusal::PetnameTaken {
        petname: "bob".into(),
        key: key(1),
    };
    assert_eq!(rig.add("bob", 2), Err(taken));
    let known = AgentRefusal::KeyKnown {
        petname: "bob".into(),
        key: key(1),
    };
    assert_eq!(rig.add("rob", 1), Err(known));
    for bad in [
        "",
        "Self",
        "INTERLINK",
        "a\nb",
        "a\u{202e}b",
        &"x".repeat(129),
    ] {
        let refusal = rig.add(bad, 3).unwrap_err();
        assert!(
            matches!(refusal, AgentRefusal::Petname { .. }),
            "{bad:?}: {refusal:?}"
        );
    }
    let removed = AgentReply::PeerRemoved { key: Some(key(1)) };
    assert_eq!(rig.remove("bob"), removed);
    assert_eq!(rig.remove("bob"), AgentReply::PeerRemoved { key: None });
    assert_eq!(
        rig.add("rob", 1),
        Ok(AgentReply::PeerAdded { changed: true })
    );
}

#[test]
fn a_key_is_revoked_under_the_name_that_was_shown_or_not_at_all() {
    let mut rig = Rig::new();
    rig.add("bob", 1).unwrap();
    rig.add("ann", 2).unwrap();
    let taken = AgentRefusal::PetnameTaken {
        petname: "bob".into(),
        key: key(1),
    };
    let renamed = AgentRefusal::KeyKnown {
        petname: "ann".into(),
        key: key(2),
    };
    assert_eq!(rig.remove_key("bob", key(3)), Err(taken));
    assert_eq!(rig.remove_key("bob", key(2)), Err(renamed.clone()));
    assert_eq!(rig.remove_key("eve", key(2)), Err(renamed));
    let nobody = AgentReply::PeerRemoved { key: None };
    assert_eq!(rig.remove_key("eve", key(3)), Ok(nobody));
    assert_eq!(query::peers(&rig.tables).unwrap().len(), 2);
    let removed = AgentReply::PeerRemoved { key: Some(key(2)) };
    assert_eq!(rig.remove_key("ann", key(2)), Ok(removed));
}

#[test]
fn an_identity_has_one_peers_file() {
    let mut rig = Rig::new();
    let mut adopt = |path: &str, switch| {
        let command = AgentCommand::AdoptPeersFile {
            path: path.to_owned(),
            switch,
            now: UnixMillis(1),
        };
        rig.submit(command)
    };
    assert_eq!(adopt("/a", false), Ok(AgentReply::Done { changed: true }));
    assert_eq!(adopt("/a", true), Ok(AgentReply::Done { changed: false }));
    let path = "/a".to_owned();
    assert_eq!(
        adopt("/b", false),
        Err(AgentRefusal::PeersElsewhere { path })
    );
    assert_eq!(adopt("/b", true), Ok(AgentReply::Done { changed: true }));
    for path in [String::new(), "x".repeat(4097)] {
        let refused = adopt(&path, true).unwrap_err();
        assert!(
            matches!(refused, AgentRefusal::FieldLength { .. }),
            "{refused:?}"
        );
    }
    let row = query::peers_file(&rig.tables).unwrap().unwrap();
    assert_eq!(row.path, "/b");
}

#[test]
fn a_hand_edit_is_taken_over_once_and_then_counts_as_behind() {
    let mut rig = Rig::new();
    rig.add("bob", 1).unwrap();
    rig.add("eve", 2).unwrap();
    let outcome = rig.import(&[("bob", 1), ("carol", 3)], 9).unwrap();
    assert_eq!(outcome.added, [("carol".to_owned(), key(3))]);
    assert_eq!(outcome.removed, [("eve".to_owned(), key(2))]);
    assert_eq!(
        query::file_version(&rig.tables, &[9; 32]).unwrap(),
        FileVersion::Behind
    );
    let again = rig.import(&[("bob", 1), ("eve", 2)], 9).unwrap();
    assert_eq!(
        again,
        ImportOutcome::default(),
        "a known version is not an edit"
    );
    rig.publish(10);
    assert_eq!(
        query::file_version(&rig.tables, &[10; 32]).unwrap(),
        FileVersion::Current
    );
    rig.publish(11);
    assert_eq!(
        query::file_version(&rig.tables, &[10; 32]).unwrap(),
        FileVersion::Behind
    );
    assert_eq!(
        query::file_version(&rig.tables, &[12; 32]).unwrap(),
        FileVersion::Unknown
    );
    let twice = rig.import(&[("x", 4), ("y", 4)], 13).unwrap_err();
    assert!(matches!(twice, AgentRefusal::PeerTwice { .. }), "{twice:?}");
    // A new name for a known key is a revocation and an admission.
    let outcome = rig.import(&[("robert", 1), ("carol", 3)], 14).unwrap();
    assert_eq!(outcome.removed, [("bob".to_owned(), key(1))]);
    assert_eq!(outcome.added, [("robert".to_owned(), key(1))]);
    assert_eq!(
        query::peer_by_key(&rig.tables, &key(1))
            .unwrap()
            .unwrap()
            .petname,
        "robert"
    );
}

#[test]
fn a_key_revoked_by_a_tool_does_not_come_back_through_the_file() {
    let mut rig = Rig::new();
    rig.add("eve", 2).unwrap();
    rig.remove("eve");
    let outcome = rig.import(&[("eve", 2), ("bob", 1)], 9).unwrap();
    assert_eq!(outcome.held, [("eve".to_owned(), key(2))]);
    assert!(query::peer_by_key(&rig.tables, &key(2)).unwrap().is_none());
    rig.add("eve", 2).unwrap();
    // Revoked through the file, it may come back through the file.
    rig.import(&[], 10).unwrap();
    let outcome = rig.import(&[("eve", 2)], 11).unwrap();
    assert_eq!(outcome.added, [("eve".to_owned(), key(2))]);
}

#[test]
fn the_policy_is_bounded() {
    let mut rig = Rig::new();
    let names: Vec<(String, u16)> = (0..=MAX_PEERS as u16)
        .map(|n| (format!("p{n}"), n))
        .collect();
    let entries: Vec<(&str, u16)> = names.iter().map(|(n, k)| (n.as_str(), *k)).collect();
    assert_eq!(
        rig.import(&entries, 1).unwrap_err(),
        AgentRefusal::TooManyPeers
    );
    rig.import(&entries[1..], 2).unwrap();
    assert_eq!(rig.add("more", 0), Err(AgentRefusal::TooManyPeers));
}

#[test]
fn a_message_is_sent_to_every_relay_and_done_when_all_have_answered() {
    let mut rig = Rig::new();
    let lease = rig.take("a", 1);
    let seq = rig.queue(&lease, "m", 7).unwrap();
    let row = |rig: &Rig| query::outbox_at(&rig.tables, seq).unwrap().unwrap().row;
    assert_eq!(row(&rig).sent(), Sent::Pending);
    assert_eq!(
        rig.attempt(seq, "r1", 1, 5_000),
        AgentReply::Done { changed: true }
    );
    assert_eq!(
        rig.attempt(seq, "r1", 1, 9_000),
        AgentReply::Done { changed: false }
    );
    assert_eq!(rig.accepted(seq, "r2"), AgentReply::Done { changed: true });
    assert_eq!(rig.accepted(seq, "r2"), AgentReply::Done { changed: false });
    assert_eq!(row(&rig).sent(), Sent::Accepted);
    assert!(row(&rig).is_open(), "the other relay still wants it");
    assert_eq!(rig.refused(seq, "r1"), AgentReply::Done { changed: true });
    assert_eq!(
        rig.attempt(seq, "r1", 2, 0),
        AgentReply::Done { changed: false }
    );
    assert!(!row(&rig).is_open());
    // A relay that said no and then yes has it.
    rig.accepted(seq, "r1");
    assert!(matches!(
        row(&rig).relay("r1"),
        Some(RelayState::Accepted { .. })
    ));
    assert_eq!(rig.due(&["r1", "r2"]).due, []);
}

#[test]
fn a_message_that_every_relay_refuses_is_refused() {
    let mut rig = Rig::new();
    let lease = rig.take("a", 1);
    let seq = rig.queue(&lease, "m", 7).unwrap();
    rig.refused(seq, "r1");
    rig.refused(seq, "r2");
    let mail = query::outbox_entry(&rig.tables, &msg("m"))
        .unwrap()
        .unwrap();
    assert_eq!(mail.row.sent(), Sent::Refused);
    let twice = rig.queue(&lease, "m", 7).unwrap_err();
    assert!(
        matches!(twice, AgentRefusal::DuplicateMessage { .. }),
        "{twice:?}"
    );
    let unknown = rig.try_accepted(Seq(99), "r1").unwrap_err();
    assert_eq!(unknown, AgentRefusal::NoSuchMessage { seq: Seq(99) });
}

#[test]
fn bounds_of_the_outbox_hold() {
    let mut rig = Rig::new();
    let lease = rig.take("a", 1);
    let mut wish = rig.wish(&lease, "big", 1);
    wish.body = vec![b'x'; MAX_MESSAGE_BYTES + 1].into();
    let refusal = rig.submit(AgentCommand::QueueMessage(wish)).unwrap_err();
    assert!(
        refusal.to_string().contains(&MAX_MESSAGE_BYTES.to_string()),
        "{refusal}"
    );
    for relays in [vec![], vec![String::new()], vec!["x".repeat(513)]] {
        let mut wish = rig.wish(&lease, "m", 1);
        wish.relays = relays;
        let refusal = rig.submit(AgentCommand::QueueMessage(wish)).unwrap_err();
        assert_eq!(refusal, AgentRefusal::Relays);
    }
    let mut wish = rig.wish(&lease, "m", 1);
    wish.task_id = Some("t".repeat(1025));
    let refusal = rig.submit(AgentCommand::QueueMessage(wish)).unwrap_err();
    assert!(
        matches!(
            refusal,
            AgentRefusal::FieldLength {
                field: "task_id",
                ..
            }
        ),
        "{refusal:?}"
    );
    for n in 0..MAX_OUTBOX_PER_RECIPIENT {
        rig.queue(&lease, &format!("m{n}"), 1).unwrap();
    }
    let refusal = rig.queue(&lease, "more", 1).unwrap_err();
    assert!(
        matches!(refusal, AgentRefusal::RecipientFull { .. }),
        "{refusal:?}"
    );
    rig.queue(&lease, "other", 2).unwrap();
    // What a relay has taken does not count any more.
    let first = query::outbox_entry(&rig.tables, &msg("m0"))
        .unwrap()
        .unwrap();
    rig.accepted(first.seq, "r1");
    rig.queue(&lease, "more", 1).unwrap();
}

#[test]
fn each_relay_gets_a_recipients_messages_in_order_and_trouble_stays_with_its_recipient() {
    let mut rig = Rig::new();
    let lease = rig.take("a", 1);
    let first = rig.queue(&lease, "m1", 1).unwrap();
    let second = rig.queue(&lease, "m2", 1).unwrap();
    let other = rig.queue(&lease, "m3", 2).unwrap();
    let send = DueAction::Send { attempts: 0 };
    let due = rig.due(&["r1", "r2"]).due;
    let seen: Vec<_> = due
        .iter()
        .map(|d| (d.seq, d.relay.as_str(), d.action))
        .collect();
    let want = [
        (first, "r1", send),
        (first, "r2", send),
        (other, "r1", send),
        (other, "r2", send),
    ];
    assert_eq!(seen, want);
    rig.accepted(first, "r1");
    let until = rig.now.0 + 8_000;
    rig.attempt(first, "r2", 1, until);
    let list = rig.due(&["r1", "r2"]);
    let seen: Vec<_> = list.due.iter().map(|d| (d.seq, d.relay.as_str())).collect();
    assert_eq!(seen, [(second, "r1"), (other, "r1"), (other, "r2")]);
    assert_eq!(list.next, Some(UnixMillis(until)));
    // A relay that comes back is not kept waiting.
    let woken = rig.due_woken(&["r2"]).due;
    assert_eq!(woken[0].seq, first);
    assert_eq!(woken[0].action, DueAction::Send { attempts: 1 });
    // Nor does a clock that jumped back by a day.
    rig.now = rig.now.minus(DAY);
    assert_eq!(rig.due(&["r2"]).due[0].seq, first);
}

#[test]
fn what_waited_too_long_is_signed_anew_and_its_old_body_goes() {
    let mut rig = Rig::new();
    let lease = rig.take("a", 1);
    let seq = rig.queue(&lease, "m", 1).unwrap();
    rig.now = rig.now.plus(13 * HOUR);
    let due = rig.due(&["r1", "r2"]).due;
    assert_eq!(due.len(), 1, "one signature serves all relays: {due:?}");
    assert_eq!(due[0].action, DueAction::Resign);
    assert_eq!(
        rig.resign(seq, due[0].body),
        Ok(AgentReply::Done { changed: true })
    );
    assert_eq!(
        rig.resign(seq, due[0].body),
        Ok(AgentReply::Done { changed: false }),
        "a sibling was faster"
    );
    let row = query::outbox_at(&rig.tables, seq).unwrap().unwrap().row;
    assert_eq!((row.ts, row.msg_id.as_str()), (rig.now, "m"));
    assert_ne!(row.body, seq);
    assert_eq!(
        rig.due(&["r1"]).due[0].action,
        DueAction::Send { attempts: 0 }
    );
    // Signed under a clock that ran ahead.
    rig.now = rig.now.minus(DAY);
    assert_eq!(rig.due(&["r1"]).due[0].action, DueAction::Resign);
    rig.accepted(seq, "r1");
    assert_eq!(
        rig.resign(seq, row.body),
        Err(AgentRefusal::AlreadyAccepted)
    );
    // One relay has it; the other one was down for too long.
    rig.now = rig.now.plus(20 * DAY);
    let due = rig.due(&["r1", "r2"]).due;
    assert_eq!(
        (due[0].relay.as_str(), due[0].action),
        ("r2", DueAction::GiveUp)
    );
    rig.refused(seq, "r2");
    assert_eq!(rig.due(&["r1", "r2"]).due, []);
}

#[test]
fn a_sibling_with_fewer_relays_cancels_no_catch_up() {
    let mut rig = Rig::new();
    let lease = rig.take("a", 1);
    let seq = rig.queue(&lease, "m", 1).unwrap();
    rig.accepted(seq, "r1");
    // The session that knows r2 ended; the sibling that looks now knows r1 alone.
    assert_eq!(rig.due(&["r1"]).due, []);
    rig.now = rig.now.plus(20 * HOUR);
    assert_eq!(rig.due(&["r1"]).due, []);
    // Whoever knows r2 still brings it there.
    let due = rig.due(&["r1", "r2"]).due;
    let (relay, action) = (due[0].relay.as_str(), due[0].action);
    assert_eq!((relay, action), ("r2", DueAction::Send { attempts: 0 }));
    // Nobody did in all the time that it is good for.
    rig.now = rig.now.plus(20 * DAY);
    let due = rig.due(&["r1"]).due;
    let (relay, action) = (due[0].relay.as_str(), due[0].action);
    assert_eq!((relay, action), ("r2", DueAction::GiveUp));
}

#[test]
fn the_gate_runs_in_order_and_failures_use_up_nothing() {
    let mut rig = Rig::new();
    let lease = rig.take("a", 1);
    let reception = |rig: &mut Rig, from, id, age: i64| rig.receive(&lease, from, id, age).unwrap();
    assert_eq!(reception(&mut rig, 1, "m", 0), Reception::NotAllowlisted);
    rig.add("bob", 1).unwrap();
    let ahead = reception(&mut rig, 1, "m", -60_001);
    assert_eq!(ahead, Reception::Future { ahead_ms: 60_001 });
    let old = 14 * DAY as i64 + 1;
    assert_eq!(
        reception(&mut rig, 1, "m", old),
        Reception::TooOld { recorded: true }
    );
    assert_eq!(
        reception(&mut rig, 1, "m", old),
        Reception::TooOld { recorded: false }
    );
    assert_eq!(
        query::expired(&rig.tables, Some(&session("a")))
            .unwrap()
            .len(),
        1
    );
    let stored = reception(&mut rig, 1, "m", old - 1);
    assert!(
        matches!(&stored, Reception::Stored { label, .. } if label == "bob"),
        "{stored:?}"
    );
    assert_eq!(reception(&mut rig, 1, "m", 0), Reception::Replay);
    let own = reception(&mut rig, rig::OWN, "m", -60_000);
    assert!(
        matches!(&own, Reception::Stored { label, .. } if label == "self"),
        "{own:?}"
    );
    // Another session of ours does not read it a second time.
    let other = rig.take("b", 1);
    assert_eq!(rig.receive(&other, 1, "m", 0).unwrap(), Reception::Replay);
    rig.remove("bob");
    assert_eq!(reception(&mut rig, 1, "m2", 0), Reception::NotAllowlisted);
}

#[test]
fn a_seen_id_is_used_up_without_being_stored() {
    let mut rig = Rig::new();
    let lease = rig.take("a", 1);
    rig.add("bob", 1).unwrap();
    assert_eq!(rig.mark_seen(&lease, 1, "p"), Reception::Seen);
    assert_eq!(rig.mark_seen(&lease, 1, "p"), Reception::Replay);
    assert_eq!(rig.receive(&lease, 1, "p", 0).unwrap(), Reception::Replay);
    assert_eq!(rig.mark_seen(&lease, 2, "p"), Reception::NotAllowlisted);
    assert_eq!(rig.unread("a"), Vec::<String>::new());
}

#[test]
fn what_was_forgotten_stays_stale_whatever_the_clock_says() {
    let mut rig = Rig::new();
    let lease = rig.take("a", 1);
    rig.add("bob", 1).unwrap();
    rig.receive(&lease, 1, "m", 0).unwrap();
    let ts = rig.now;
    // The clock runs ahead for a while; the floor does not follow it.
    rig.now = rig.now.plus(400 * DAY);
    assert_eq!(rig.forget(14 * DAY), AgentReply::Done { changed: true });
    assert_eq!(query::floor(&rig.tables).unwrap(), Some(ts));
    assert_eq!(rig.forget(14 * DAY), AgentReply::Done { changed: false });
    rig.now = ts.plus(1);
    assert_eq!(
        rig.receive(&lease, 1, "m", 1).unwrap(),
        Reception::TooOld { recorded: false },
        "it was read in time and is not shown as expired"
    );
    let fresh = rig.receive(&lease, 1, "n", 0).unwrap();
    assert!(matches!(fresh, Reception::Stored { .. }), "{fresh:?}");
}

#[test]
fn the_list_of_late_mail_is_bounded_and_keeps_the_newest() {
    let mut rig = Rig::new();
    let lease = rig.take("a", 1);
    rig.add("bob", 1).unwrap();
    for n in 0..MAX_EXPIRED_ROWS + 3 {
        rig.receive(&lease, 1, &format!("m{n}"), 15 * DAY as i64)
            .unwrap();
    }
    let rows = query::expired(&rig.tables, None).unwrap();
    assert_eq!(rows.len(), MAX_EXPIRED_ROWS);
    assert_eq!(rows[0].msg_id, msg("m3"));
}

#[test]
fn progress_comes_last_and_is_superseded_by_newer_progress_and_by_the_end() {
    let mut rig = Rig::new();
    let lease = rig.take("a", 1);
    rig.add("bob", 1).unwrap();
    let task = |rig: &mut Rig, id: &str, age: i64, status| {
        rig.receive_task(&lease, 1, id, age, "t", Some(status))
            .unwrap();
    };
    task(&mut rig, "u1", 50, MailStatus::Update);
    task(&mut rig, "q", 40, MailStatus::NeedsInput);
    assert_eq!(rig.unread("a"), ["q", "u1"]);
    task(&mut rig, "u2", 30, MailStatus::Update);
    assert_eq!(rig.unread("a"), ["q", "u2"]);
    task(&mut rig, "late", 45, MailStatus::Update);
    assert_eq!(rig.unread("a"), ["q", "u2"]);
    task(&mut rig, "end", 60, MailStatus::Result);
    assert_eq!(rig.unread("a"), ["q", "end"]);
    task(&mut rig, "u3", 0, MailStatus::Update);
    assert_eq!(rig.unread("a"), ["q", "end"]);
    assert_eq!(
        rig.ack(&lease, &[(1, "end"), (1, "u3"), (1, "end"), (1, "nothing")]),
        2
    );
    assert_eq!(rig.ack(&lease, &[(1, "end"), (1, "u3")]), 0);
    assert_eq!(rig.unread("a"), ["q"]);
    let found = query::find_mail(&rig.tables, &session("a"), &msg("u3")).unwrap();
    assert_eq!(found.len(), 1);
}

#[test]
fn answers_follow_the_session_that_wrote_last_but_never_leave_its_key() {
    let mut rig = Rig::new();
    let lease = rig.take("a", 1);
    rig.add("bob", 1).unwrap();
    rig.receive_from(&lease, 1, "m1", Some((1, "s1")));
    let of = |rig: &Rig| {
        let row = query::route(&rig.tables, &session("a"), &key(1)).unwrap();
        row.map(|row| row.session.as_str().to_owned())
    };
    assert_eq!(of(&rig), Some("s1".to_owned()));
    rig.receive_from(&lease, 1, "m2", Some((2, "s2")));
    assert_eq!(of(&rig), Some("s1".to_owned()));
    rig.receive_from(&lease, 1, "m3", Some((1, "s3")));
    assert_eq!(of(&rig), Some("s3".to_owned()));
}

#[test]
fn a_conversation_merges_both_directions_and_keeps_the_end() {
    let mut rig = Rig::new();
    let lease = rig.take("a", 1);
    rig.add("bob", 1).unwrap();
    for id in ["m1", "m2", "m3"] {
        rig.receive_from(&lease, 1, id, Some((1, "s1")));
        rig.now = rig.now.plus(1);
    }
    rig.queue(&lease, "m4", 1).unwrap();
    rig.queue(&lease, "to-somebody-else", 2).unwrap();
    let with = |session: Option<&str>| query::With {
        key: key(1),
        session: session.map(rig::session),
    };
    let ids = |with: &query::With, limit| -> Vec<String> {
        let lines = query::conversation(&rig.tables, &session("a"), with, limit).unwrap();
        let id = |line: &query::Line| match line {
            query::Line::In(mail) => format!("<{}", mail.row.msg_id),
            query::Line::Out(mail) => format!(">{}", mail.row.msg_id),
        };
        lines.iter().map(id).collect()
    };
    assert_eq!(ids(&with(None), 3), ["<m2", "<m3", ">m4"]);
    assert_eq!(ids(&with(Some("s1")), 9), ["<m1", "<m2", "<m3"]);
}

#[test]
fn an_unanswered_notice_is_offered_once_more_and_then_every_half_hour() {
    let mut rig = Rig::new();
    let lease = rig.take("a", 1);
    rig.add("bob", 1).unwrap();
    assert_eq!(rig.reserve(&lease, "00000001"), NoticeStep::Idle);
    rig.receive(&lease, 1, "m", 0).unwrap();
    let minute = 60_000;
    for (offers, wait) in [(0, 5 * minute), (1, 30 * minute), (2, 30 * minute)] {
        let NoticeStep::Offer(view) = rig.reserve(&lease, "00000001") else {
            panic!("offer {offers} is due");
        };
        assert_eq!(
            (view.id.as_str(), view.offers, view.attempt),
            ("00000001", offers, 1)
        );
        assert_eq!(view.unanswered.is_some(), offers > 0);
        let until = rig.now.plus(30_000);
        assert_eq!(rig.reserve(&lease, "00000002"), NoticeStep::Wait { until });
        assert!(rig.notice_result(&lease, "00000001", true));
        let until = rig.now.plus(wait);
        rig.receive(&lease, 1, &format!("joins{offers}"), 0)
            .unwrap();
        assert_eq!(rig.reserve(&lease, "00000002"), NoticeStep::Wait { until });
        rig.now = until;
    }
    assert!(
        !rig.observe(&lease, Some("ffffffff"), false),
        "a stale id changes nothing"
    );
    assert!(rig.observe(&lease, Some("00000001"), false));
    assert_eq!(rig.reserve(&lease, "00000002"), NoticeStep::Idle);
    rig.receive(&lease, 1, "new", 0).unwrap();
    let NoticeStep::Offer(view) = rig.reserve(&lease, "00000002") else {
        panic!("newer mail gets a notice of its own");
    };
    assert_eq!((view.id.as_str(), view.offers), ("00000002", 0));
}

#[test]
fn acknowledging_what_a_notice_speaks_for_follows_it_up() {
    let mut rig = Rig::new();
    let lease = rig.take("a", 1);
    rig.add("bob", 1).unwrap();
    rig.receive(&lease, 1, "m1", 0).unwrap();
    rig.receive(&lease, 1, "m2", 0).unwrap();
    rig.reserve(&lease, "00000001");
    rig.notice_result(&lease, "00000001", true);
    let state = |rig: &Rig, id| {
        let notice = query::notice(&rig.tables, &session("a")).unwrap();
        let mail = query::find_mail(&rig.tables, &session("a"), &msg(id)).unwrap();
        query::mail_state(&mail[0], notice.as_ref()).name()
    };
    assert_eq!(state(&rig, "m1"), "notification_sent");
    rig.ack(&lease, &[(1, "m1")]);
    assert_eq!(state(&rig, "m1"), "receiver_acknowledged");
    assert!(matches!(
        rig.reserve(&lease, "00000002"),
        NoticeStep::Wait { .. }
    ));
    rig.receive(&lease, 1, "m3", 0).unwrap();
    assert_eq!(state(&rig, "m3"), "receiver_stored");
    rig.ack(&lease, &[(1, "m2")]);
    let step = rig.reserve(&lease, "00000002");
    assert!(
        matches!(&step, NoticeStep::Offer(view) if view.id == "00000002"),
        "{step:?}"
    );
    assert!(rig.notice_result(&lease, "00000002", false));
    assert_eq!(state(&rig, "m3"), "delivery_failed");
    let bad = AgentCommand::ReserveNotice {
        patience_ms: None,
        lease: lease.clone(),
        id: "XYZ".into(),
        path: NoticePath::Channel,
        now: rig.now,
    };
    assert_eq!(rig.submit(bad).unwrap_err(), AgentRefusal::NoticeId);
    rig.submit(AgentCommand::DropNotice {
        lease: lease.clone(),
    })
    .unwrap();
    assert!(query::notice(&rig.tables, &session("a")).unwrap().is_none());
}

#[test]
fn a_message_waits_while_the_one_before_it_is_kept_out() {
    let mut rig = Rig::new();
    let lease = rig.take("a", 1);
    rig.add("bob", 1).unwrap();
    rig.add("carol", 2).unwrap();
    let after = |rig: &mut Rig, id: &str, before: &str| {
        let receive = Box::new(rig.arrival(&lease, 1, id, 0));
        let after = msg(before);
        rig.submit(AgentCommand::ReceiveAfter { after, receive })
            .map(drop)
    };
    // `one` was refused for now: what follows it is, too, whoever else has sent a `one`.
    assert_eq!(after(&mut rig, "two", "one"), Err(AgentRefusal::OutOfTurn));
    rig.receive(&lease, 2, "one", 0).unwrap();
    assert_eq!(after(&mut rig, "two", "one"), Err(AgentRefusal::OutOfTurn));
    rig.receive(&lease, 1, "one", 0).unwrap();
    assert_eq!(after(&mut rig, "two", "one"), Ok(()));
    // Late mail is listed, and holds nobody up.
    rig.receive(
        &lease,
        1,
        "late",
        i64::try_from(rig::WINDOW.past_ms).unwrap() + 1,
    )
    .unwrap();
    assert_eq!(after(&mut rig, "three", "late"), Ok(()));
    assert_eq!(rig.unread("a").len(), 4);
}

#[test]
fn a_full_mailbox_leaves_mail_on_the_bus() {
    let mut rig = Rig::new();
    let lease = rig.take("a", 1);
    rig.add("bob", 1).unwrap();
    rig.body = vec![b'x'; MAX_MESSAGE_BYTES];
    let mut stored = 0;
    let refusal = loop {
        match rig.receive(&lease, 1, &format!("m{stored}"), 0) {
            Ok(_) => stored += 1,
            Err(refusal) => break refusal,
        }
    };
    assert_eq!(stored, 16, "32 MiB");
    assert!(
        matches!(refusal, AgentRefusal::MailboxFull { messages: 16, .. }),
        "{refusal:?}"
    );
    rig.ack(&lease, &[(1, "m0")]);
    rig.receive(&lease, 1, "m16", 0).unwrap();
}

#[test]
fn a_hand_edit_does_not_revoke_whom_no_version_of_the_file_had() {
    let mut rig = Rig::new();
    rig.add("ann", 1).unwrap();
    rig.publish(1);
    // Admitted, and the file was not written yet when a hand saved its buffer.
    rig.add("bob", 2).unwrap();
    let outcome = rig.import(&[("ann", 1), ("carol", 3)], 2).unwrap();
    assert_eq!(outcome.removed, vec![]);
    let names = |rig: &Rig| -> Vec<String> {
        let peers = query::peers(&rig.tables).unwrap();
        peers.into_iter().map(|peer| peer.petname).collect()
    };
    assert_eq!(names(&rig), ["ann", "bob", "carol"]);
    // Once it stood in the file, its absence is somebody's wish.
    rig.publish(3);
    let outcome = rig.import(&[("ann", 1), ("carol", 3)], 4).unwrap();
    assert_eq!(outcome.removed, [("bob".to_owned(), key(2))]);
    // A name that the hand gave to another key is the hand's.
    rig.add("dave", 4).unwrap();
    let outcome = rig.import(&[("ann", 1), ("dave", 5)], 5).unwrap();
    assert!(outcome.removed.contains(&("dave".to_owned(), key(4))));
    assert_eq!(names(&rig), ["ann", "dave"]);
    rig.check();
}
