//! Taking over another program's state: what comes in, what stays out, and that it happens once.

use super::rig::*;
use crate::event::agent::Origin;
use crate::types::limit::{MAX_PAIR_INBOUND, MAX_UNREAD_MESSAGES};

use super::super::*;
use crate::domain::query::agent as query;
use crate::event::agent::{MailKind, MailStatus};
use crate::types::id::PublicKey;
use crate::types::time::UnixMillis;

fn import(rig: &mut Rig, command: ImportCommand) -> Vec<Fate> {
    match rig.submit(AgentCommand::Import(command)).unwrap() {
        AgentReply::TakenOver(fates) => fates,
        other => panic!("{other:?}"),
    }
}

fn peers(rig: &mut Rig, peers: &[(&str, u16)]) -> Vec<Fate> {
    let peers = peers
        .iter()
        .map(|(name, n)| ((*name).to_owned(), key(*n)))
        .collect();
    import(rig, ImportCommand::Peers { peers })
}

fn mails(rig: &mut Rig, mails: Vec<ImportedMail>) -> Vec<Fate> {
    let command = ImportCommand::Mail {
        session: session("s"),
        own: key(OWN),
        mails,
    };
    import(rig, command)
}

fn mail(rig: &Rig, n: u16, id: &str, read: bool) -> ImportedMail {
    imported_mail(key(n), id, None, read, rig.now.minus(30 * DAY))
}

fn unread_ids(rig: &Rig) -> Vec<String> {
    let unread = query::unread(&rig.tables, &session("s"), 100).unwrap();
    unread
        .iter()
        .map(|mail| mail.row.msg_id.to_string())
        .collect()
}

fn imported_mail(
    from: PublicKey,
    msg_id: &str,
    task: Option<(&str, Option<MailStatus>)>,
    read: bool,
    ts: UnixMillis,
) -> ImportedMail {
    let body = format!("{{\"msg_id\":\"{msg_id}\"}}").into_bytes();
    ImportedMail {
        from,
        msg_id: msg(msg_id),
        ts,
        task_id: task.map(|(id, _)| id.to_owned()),
        status: task.and_then(|(_, status)| status),
        in_reply_to: None,
        reply_to: None,
        label: "as it was".to_owned(),
        read,
        sha256: crate::crypto::hash::sha256(&body),
        body: body.into(),
    }
}

fn imported_pairing(key: PublicKey, name: &str, request_id: &str) -> ImportedPairing {
    ImportedPairing {
        key,
        name: name.to_owned(),
        request_id: msg(request_id),
        their_session: session("theirs"),
    }
}

/// Rows and bodies follow from the log, and each record of an import stands behind a mark that counts
/// it: whatever is in the log but a lease, an admission or a removal of these tests.
fn check(rig: &Rig) {
    rig.check();
    let mut counted = 0;
    for record in &rig.log {
        match &record.event {
            AgentEvent::Imported(mark) => {
                assert_eq!(counted, 0, "the last mark counts more than follows");
                assert!(mark.records > 0, "a mark stands never alone");
                counted = mark.records;
            }
            event if counted == 0 => assert!(matches!(
                event,
                AgentEvent::LeaseTaken(_) | AgentEvent::PeerAdded(_) | AgentEvent::PeerRemoved(_)
            )),
            _ => counted -= 1,
        }
    }
    assert_eq!(counted, 0);
}

/// How many records the log has, and how many of them tell where the others are from.
fn records(rig: &Rig) -> (usize, usize) {
    let marks = rig
        .log
        .iter()
        .filter(|record| matches!(record.event, AgentEvent::Imported(_)));
    (rig.log.len(), marks.count())
}

const LEFT: fn(Left) -> Fate = Fate::Left;

#[test]
fn peers_come_in_under_origin_import_and_nobody_is_renamed_or_brought_back() {
    let mut rig = Rig::new();
    rig.add("ann", 1).unwrap();
    rig.add("gone", 2).unwrap();
    rig.remove("gone");
    let list = [
        ("new", 3),
        ("annie", 1),
        ("gone", 2),
        ("ann", 4),
        ("self", 5),
        ("new", 6),
        ("twice", 3),
    ];
    let fates = peers(&mut rig, &list);
    assert_eq!(
        fates,
        [
            Fate::Taken,
            Fate::Known,
            LEFT(Left::Revoked),
            LEFT(Left::NameTaken),
            LEFT(Left::BadName),
            LEFT(Left::NameTaken),
            Fate::Known,
        ]
    );
    let now: Vec<_> = query::peers(&rig.tables)
        .unwrap()
        .into_iter()
        .map(|peer| (peer.petname, peer.key, peer.origin))
        .collect();
    assert_eq!(
        now,
        [
            ("ann".to_owned(), key(1), Origin::Tool),
            ("new".to_owned(), key(3), Origin::Import),
        ]
    );
    let before = rig.log.len();
    assert_eq!(peers(&mut rig, &list)[0], Fate::Known);
    assert_eq!(rig.log.len(), before, "the second time writes nothing");
    check(&rig);
}

#[test]
fn unread_mail_stays_unread_whatever_its_age_and_is_not_received_again() {
    let mut rig = Rig::new();
    rig.add("ann", 1).unwrap();
    let lease = rig.take("s", 1);
    let all = vec![
        mail(&rig, 1, "read", true),
        mail(&rig, 1, "open", false),
        mail(&rig, 9, "stranger now", false),
        mail(&rig, 1, "open", false),
    ];
    let fates = mails(&mut rig, all.clone());
    assert_eq!(fates, [Fate::Taken, Fate::Taken, Fate::Taken, Fate::Known]);
    assert_eq!(unread_ids(&rig), ["open", "stranger now"]);
    let label = |id: &str, n| {
        let mail = query::mail_of(&rig.tables, &key(n), &msg(id)).unwrap();
        mail.unwrap().row.label
    };
    assert_eq!(label("open", 1), "ann");
    assert_eq!(label("stranger now", 9), "as it was");
    let before = records(&rig);
    assert!(mails(&mut rig, all).iter().all(|fate| *fate == Fate::Known));
    assert_eq!(records(&rig), before);
    // A relay that still has a copy of what was read there.
    assert_eq!(rig.receive(&lease, 1, "read", 0), Ok(Reception::Replay));
    check(&rig);
}

#[test]
fn progress_gives_way_to_newer_progress_as_it_did_there() {
    let mut rig = Rig::new();
    rig.add("ann", 1).unwrap();
    let at = rig.now.minus(DAY);
    let update = Some(("t", Some(MailStatus::Update)));
    let fates = mails(
        &mut rig,
        vec![
            imported_mail(key(1), "u1", update, false, at),
            imported_mail(key(1), "u2", update, false, at.plus(1)),
            imported_mail(key(1), "q", Some(("t", None)), false, at.plus(2)),
        ],
    );
    assert_eq!(fates, [Fate::Taken; 3]);
    let mut unread = unread_ids(&rig);
    unread.sort();
    assert_eq!(unread, ["q", "u2"]);
    check(&rig);
}

#[test]
fn a_full_mailbox_takes_what_was_read_and_leaves_what_was_not() {
    let mut rig = Rig::new();
    rig.add("ann", 1).unwrap();
    let mut n = 0;
    while n < MAX_UNREAD_MESSAGES {
        let some = (0..64).map(|i| mail(&rig, 1, &format!("m{}", n + i), false));
        let some = some.collect();
        mails(&mut rig, some);
        n += 64;
    }
    let more = vec![mail(&rig, 1, "a", false), mail(&rig, 1, "b", true)];
    let fates = mails(&mut rig, more);
    assert_eq!(fates, [LEFT(Left::Full), Fate::Taken]);
    assert!(!query::is_seen(&rig.tables, &key(1), &msg("a")).unwrap());
}

#[test]
fn sessions_keep_their_owners_and_contested_ones_stay_contested() {
    use crate::domain::machine::destination::Owner;
    let mut rig = Rig::new();
    rig.add("ann", 1).unwrap();
    rig.add("bob", 2).unwrap();
    let command = ImportCommand::Sessions {
        own: key(OWN),
        sessions: vec![
            (session("a"), vec![key(1)]),
            (session("mine"), vec![key(OWN)]),
            (session("both"), vec![key(1), key(2)]),
            (session("stranger"), vec![key(7)]),
        ],
    };
    let fates = import(&mut rig, command.clone());
    let stranger = LEFT(Left::NotAPeer);
    assert_eq!(fates, [Fate::Taken, Fate::Taken, Fate::Taken, stranger]);
    let owner = |id: &str| {
        let row = query::directory_entry(&rig.tables, &session(id)).unwrap();
        row.map(|row| row.owner())
    };
    assert_eq!(owner("a"), Some(Owner::One(key(1))));
    assert_eq!(owner("mine"), Some(Owner::One(key(OWN))));
    assert_eq!(owner("both"), Some(Owner::Contested));
    assert_eq!(owner("stranger"), None);
    let before = rig.log.len();
    let again = import(&mut rig, command);
    assert_eq!(again, [Fate::Known, Fate::Known, Fate::Known, stranger]);
    assert_eq!(rig.log.len(), before);
    check(&rig);
}

fn knocks(rig: &mut Rig, knocks: Vec<ImportedPairing>) -> Vec<Fate> {
    let command = ImportCommand::Knocks {
        session: session("s"),
        own: key(OWN),
        knocks,
    };
    import(rig, command)
}

#[test]
fn strangers_wait_for_the_operator_and_push_nobody_out() {
    let mut rig = Rig::new();
    rig.add("ann", 1).unwrap();
    let mut many: Vec<_> = (10..10 + MAX_PAIR_INBOUND as u16 + 1)
        .map(|n| imported_pairing(key(n), "x\ny", "k"))
        .collect();
    many.insert(0, imported_pairing(key(1), "ann", "k"));
    many.insert(0, imported_pairing(key(OWN), "me", "k"));
    let fates = knocks(&mut rig, many);
    assert_eq!(fates[..3], [Fate::Known, Fate::Known, Fate::Taken]);
    assert_eq!(fates.last(), Some(&LEFT(Left::Full)));
    let waiting = query::inbound(&rig.tables).unwrap();
    assert_eq!(waiting.len(), MAX_PAIR_INBOUND);
    assert_eq!(waiting[0].row.name, "x\\u{a}y");
    assert!(query::peer_by_key(&rig.tables, &key(10)).unwrap().is_none());
    check(&rig);
}

#[test]
fn a_request_of_ours_waits_on_under_its_id_and_what_was_not_sent_is_sent() {
    let mut rig = Rig::new();
    let requests = |rig: &mut Rig, list: Vec<ImportedPairing>| {
        let command = ImportCommand::Requests {
            session: session("s"),
            own: key(OWN),
            requests: list,
        };
        import(rig, command)
    };
    let named_by_key = key(3).to_string();
    let list = vec![
        imported_pairing(key(2), "bob", "r2"),
        imported_pairing(key(3), &named_by_key, "r3"),
        imported_pairing(key(4), "bob", "r4"),
    ];
    assert_eq!(requests(&mut rig, list.clone()), [Fate::Taken; 3]);
    let name = |n: u16| {
        let row = query::outbound_of(&rig.tables, &key(n)).unwrap().unwrap();
        (row.row.name, row.row.request_id, row.row.origin)
    };
    assert_eq!(name(2), ("bob".into(), msg("r2"), Origin::Import));
    assert_eq!(name(3).0, key(3).fingerprint().as_str());
    assert_eq!(name(4).0, key(4).fingerprint().as_str());
    assert_eq!(requests(&mut rig, list), [Fate::Known; 3]);

    let control = |kind, n, id: &str| {
        ImportCommand::Control(Box::new(ImportedControl {
            session: session("s"),
            to: key(n),
            to_session: session("theirs"),
            kind,
            msg_id: msg(id),
            in_reply_to: None,
            ts: UnixMillis(5),
            body: b"{}".to_vec().into(),
            sha256: crate::crypto::hash::sha256(b"{}"),
            relays: vec!["http://127.0.0.1:9440".into()],
        }))
    };
    use MailKind::{PairAccept, PairRequest};
    let mut one = |kind, n, id| import(&mut rig, control(kind, n, id))[0];
    assert_eq!(one(PairRequest, 2, "r2"), Fate::Taken);
    assert_eq!(one(PairRequest, 2, "r2"), Fate::Known);
    assert_eq!(one(PairRequest, 2, "other"), LEFT(Left::NoRequest));
    assert_eq!(one(PairAccept, 8, "a8"), LEFT(Left::NotAPeer));
    let open = query::outbox_open(&rig.tables, None, 10).unwrap();
    assert_eq!(open.len(), 1);
    check(&rig);
}

#[test]
fn an_import_that_was_cut_short_is_completed_by_the_next_one() {
    let at = Rig::new().now.minus(DAY);
    let control = ImportCommand::Control(Box::new(ImportedControl {
        session: session("s"),
        to: key(3),
        to_session: session("theirs"),
        kind: MailKind::PairRequest,
        msg_id: msg("r3"),
        in_reply_to: None,
        ts: at,
        body: b"{}".to_vec().into(),
        sha256: crate::crypto::hash::sha256(b"{}"),
        relays: vec!["http://127.0.0.1:9440".into()],
    }));
    let (own, s) = (key(OWN), session("s"));
    let mail = |n: u64| {
        let id = |k: u64| format!("m{}", 2 * n + k);
        ImportCommand::Mail {
            session: session("s"),
            own,
            mails: vec![
                imported_mail(key(1), &id(0), None, n == 0, at.plus(n)),
                imported_mail(key(1), &id(1), None, false, at.plus(n)),
            ],
        }
    };
    let commands = [
        ImportCommand::Peers {
            peers: vec![("ann".to_owned(), key(1))],
        },
        ImportCommand::Sessions {
            own,
            sessions: vec![(session("a"), vec![key(1)])],
        },
        mail(0),
        mail(1),
        ImportCommand::Knocks {
            session: s.clone(),
            own,
            knocks: vec![imported_pairing(key(2), "cid", "k2")],
        },
        ImportCommand::Requests {
            session: s,
            own,
            requests: vec![imported_pairing(key(3), "dan", "r3")],
        },
        control,
    ];
    let mut whole = None;
    for cut in 0..=commands.len() {
        let mut rig = Rig::new();
        for command in commands[..cut].iter().chain(&commands) {
            import(&mut rig, command.clone());
        }
        check(&rig);
        let records = records(&rig);
        assert_eq!(*whole.get_or_insert(records), records, "cut behind {cut}");
        assert_eq!(unread_ids(&rig), ["m1", "m2", "m3"], "cut behind {cut}");
    }
}
