//! Sessions, tasks and forgetting, on rows in memory.

use super::rig::{DAY, OWN, Rig, key, msg, session};
use crate::domain::decide::agent::{AgentCommand, AgentRefusal, AgentReply, DirectoryCommand};
use crate::domain::machine::destination::Owner;
use crate::domain::projection::agent::{TaskSide, TaskState};
use crate::domain::query::agent as query;
use crate::domain::tables::{TableId, TableReader as _};
use crate::event::agent::{AgentEvent, MailStatus, Sighting};
use crate::types::limit::{
    LIVE_MS, MAX_CLAIMANTS, MAX_DIRECTORY_PER_KEY, MAX_SIGHTINGS_PER_RECORD, MAX_TASKS_PER_SESSION,
};
use crate::types::time::UnixMillis;

impl Rig {
    fn run(&mut self, command: DirectoryCommand) -> AgentReply {
        self.submit(AgentCommand::Directory(command)).unwrap()
    }

    /// Sightings of now.
    fn sight(&mut self, seen: &[(u16, &str)]) -> bool {
        let sightings = seen
            .iter()
            .map(|(n, name)| Sighting {
                key: key(*n),
                session: session(name),
                ts: self.now,
                heard: self.now,
            })
            .collect();
        self.sight_all(sightings)
    }

    fn sight_all(&mut self, sightings: Vec<Sighting>) -> bool {
        let command = DirectoryCommand::Sighted {
            own: key(OWN),
            sightings,
            now: self.now,
        };
        self.run(command) == AgentReply::Done { changed: true }
    }

    fn owner(&self, name: &str) -> Owner {
        query::directory_entry(&self.tables, &session(name))
            .unwrap()
            .map_or(Owner::Nobody, |row| row.owner())
    }
}

#[test]
fn the_first_key_that_was_seen_owns_the_session_whoever_claims_it_later() {
    let mut rig = Rig::new();
    for n in 1..=12 {
        rig.add(&format!("p{n}"), n).unwrap();
    }
    assert!(rig.sight(&[(1, "s"), (OWN, "mine")]));
    assert_eq!(rig.owner("s"), Owner::One(key(1)));
    for n in 2..=12 {
        rig.sight(&[(n, "s")]);
        assert_eq!(rig.owner("s"), Owner::One(key(1)), "claimant {n}");
    }
    let row = query::directory_entry(&rig.tables, &session("s"))
        .unwrap()
        .unwrap();
    assert_eq!(row.claims.len(), MAX_CLAIMANTS);
    // The owner's word counts still.
    rig.now = rig.now.plus(DAY);
    assert!(rig.sight(&[(1, "s")]));
    assert_eq!(rig.owner("mine"), Owner::One(key(OWN)));
    rig.check();
}

#[test]
fn two_that_are_seen_at_once_are_both_not_first_until_the_operator_clears_it() {
    let mut rig = Rig::new();
    rig.add("a", 1).unwrap();
    rig.add("b", 2).unwrap();
    rig.sight(&[(1, "s"), (2, "s")]);
    assert_eq!(rig.owner("s"), Owner::Contested);
    rig.now = rig.now.plus(DAY);
    rig.sight(&[(1, "s")]);
    assert_eq!(
        rig.owner("s"),
        Owner::Contested,
        "a conflict is not forgotten"
    );
    let cleared = rig.run(DirectoryCommand::ForgetSessions {
        sessions: vec![session("s"), session("unknown")],
    });
    let want = AgentReply::Forgotten {
        rows: 1,
        more: false,
    };
    assert_eq!(cleared, want);
    assert_eq!(rig.owner("s"), Owner::Nobody);
    rig.now = rig.now.plus(1);
    rig.sight(&[(2, "s")]);
    assert_eq!(rig.owner("s"), Owner::One(key(2)));
    rig.check();
}

#[test]
fn only_admitted_keys_are_remembered() {
    let mut rig = Rig::new();
    rig.add("a", 1).unwrap();
    assert!(!rig.sight(&[(2, "s")]));
    assert_eq!(rig.owner("s"), Owner::Nobody);
    rig.sight(&[(1, "s")]);
    rig.remove("a");
    rig.now = rig.now.plus(DAY);
    assert!(!rig.sight(&[(1, "s")]));
}

#[test]
fn heartbeats_are_not_recorded_but_the_last_one_is() {
    let mut rig = Rig::new();
    rig.add("a", 1).unwrap();
    let before = rig.log.len();
    let mut last = rig.now;
    for _ in 0..240 {
        rig.sight(&[(1, "s")]);
        last = rig.now;
        rig.now = rig.now.plus(30_000);
    }
    let records = rig.log.len() - before;
    assert!((10..=13).contains(&records), "{records} in two hours");
    rig.now = last.plus(LIVE_MS);
    let sighting = Sighting {
        key: key(1),
        session: session("s"),
        ts: last,
        heard: last,
    };
    rig.sight_all(vec![sighting.clone()]);
    let row = query::directory_entry(&rig.tables, &session("s"))
        .unwrap()
        .unwrap();
    assert_eq!(row.claims[0].heard.ts, last);
    assert!(!rig.sight_all(vec![sighting]));
    // From the future nothing is taken.
    assert!(!rig.sight_all(vec![Sighting {
        key: key(1),
        session: session("s"),
        ts: rig.now.plus(DAY),
        heard: rig.now,
    }]));
    rig.check();
}

#[test]
fn a_peer_that_announces_without_end_pushes_out_its_own_sessions_only() {
    let mut rig = Rig::new();
    rig.add("a", 1).unwrap();
    rig.add("flood", 2).unwrap();
    rig.sight(&[(1, "precious")]);
    for batch in 0..4 {
        rig.now = rig.now.plus(1000);
        let sightings = (0..MAX_SIGHTINGS_PER_RECORD)
            .map(|n| Sighting {
                key: key(2),
                session: session(&format!("f{batch}-{n:03}")),
                ts: rig.now,
                heard: rig.now,
            })
            .collect();
        assert!(rig.sight_all(sightings));
    }
    let all = query::directory(&rig.tables).unwrap();
    assert_eq!(all.len(), 1 + MAX_DIRECTORY_PER_KEY);
    assert_eq!(rig.owner("precious"), Owner::One(key(1)));
    assert_eq!(rig.owner("f0-000"), Owner::Nobody);
    assert_eq!(rig.owner("f3-000"), Owner::One(key(2)));
    rig.check();
}

#[test]
fn what_is_neither_seen_nor_written_to_leaves_the_directory() {
    let mut rig = Rig::new();
    let lease = rig.take("own", 1);
    rig.add("a", 1).unwrap();
    rig.sight(&[(1, "there"), (1, "idle")]);
    rig.now = rig.now.plus(60 * DAY);
    rig.queue(&lease, "m", 1).unwrap();
    rig.now = rig.now.plus(40 * DAY);
    let before = rig.now.minus(90 * DAY);
    let reply = rig.run(DirectoryCommand::ExpireSessions { before });
    assert_eq!(
        reply,
        AgentReply::Forgotten {
            rows: 1,
            more: false
        }
    );
    assert_eq!(rig.owner("idle"), Owner::Nobody);
    assert_eq!(rig.owner("there"), Owner::One(key(1)));
    rig.check();
}

#[test]
fn a_good_bye_ends_stickiness_and_closes_the_session_up_to_then() {
    let mut rig = Rig::new();
    let lease = rig.take("own", 1);
    rig.add("a", 1).unwrap();
    rig.add("b", 2).unwrap();
    rig.sight(&[(1, "s")]);
    rig.receive_from(&lease, 1, "m1", Some((1, "s")));
    rig.receive_from(&lease, 2, "m2", Some((2, "s")));
    let closed = |n: u16, ts: UnixMillis| DirectoryCommand::Closed {
        own: key(OWN),
        key: key(n),
        session: session("s"),
        ts,
    };
    rig.run(closed(1, rig.now));
    let own = session("own");
    let route = |rig: &Rig, n: u16| query::route(&rig.tables, &own, &key(n)).unwrap();
    assert_eq!(route(&rig, 1), None);
    assert!(route(&rig, 2).is_some(), "another key's session of that id");
    let row = query::directory_entry(&rig.tables, &session("s"))
        .unwrap()
        .unwrap();
    assert_eq!(row.claims[0].closed, Some(rig.now));
    // A stranger closes nothing.
    let nothing = rig.run(closed(7, rig.now));
    assert_eq!(nothing, AgentReply::Done { changed: false });
    rig.receive_from(&lease, 1, "m3", Some((1, "s")));
    assert!(route(&rig, 1).is_some(), "it came back");
    rig.check();
}

/// (state, side) of a task.
fn task(rig: &Rig, peer: u16, id: &str) -> Option<(TaskState, TaskSide)> {
    query::task(&rig.tables, &session("own"), &key(peer), id)
        .unwrap()
        .map(|row| (row.state, row.side))
}

#[test]
fn a_task_ends_once_and_a_late_answer_does_not_reopen_it() {
    use MailStatus::{Canceled, Failed, NeedsInput, Result as Done, Update};
    use TaskState as S;
    let mut rig = Rig::new();
    let lease = rig.take("own", 1);
    rig.add("a", 1).unwrap();
    let mut n = 0;
    let mut say = |rig: &mut Rig, age: i64, id: &str, status: Option<MailStatus>| {
        n += 1;
        rig.receive_task(&lease, 1, &format!("m{n}"), age, id, status)
            .unwrap();
    };
    say(&mut rig, 0, "t", None);
    assert_eq!(task(&rig, 1, "t"), Some((S::Open, TaskSide::Ours)));
    for (age, status, state) in [
        (0, Some(Update), S::Open),
        (0, Some(NeedsInput), S::NeedsInput),
        // Older than what is known.
        (500, Some(Update), S::NeedsInput),
        // The answer.
        (0, None, S::Open),
        (0, Some(Done), S::Result),
        // Whatever comes after the end, however it is dated.
        (0, None, S::Result),
        (-1000, Some(Update), S::Result),
        (-1000, Some(Failed), S::Result),
        (0, Some(Canceled), S::Result),
    ] {
        say(&mut rig, age, "t", status);
        assert_eq!(task(&rig, 1, "t").unwrap().0, state, "{status:?}");
    }
    // The end first, its beginning later: never open.
    say(&mut rig, 1000, "u", Some(Failed));
    say(&mut rig, 0, "u", None);
    assert_eq!(task(&rig, 1, "u"), Some((S::Failed, TaskSide::Theirs)));
    assert_eq!(task(&rig, 2, "t"), None, "another peer's task of that id");
    rig.check();
}

#[test]
fn a_task_is_theirs_when_we_ask_and_remembers_where_it_is() {
    let mut rig = Rig::new();
    let lease = rig.take("own", 1);
    rig.add("a", 1).unwrap();
    let mut wish = rig.wish(&lease, "m1", 1);
    wish.task_id = Some("t".to_owned());
    rig.submit(AgentCommand::QueueMessage(wish)).unwrap();
    assert_eq!(
        task(&rig, 1, "t"),
        Some((TaskState::Open, TaskSide::Theirs))
    );
    let mut answer = rig.arrival(&lease, 1, "m2", 0);
    answer.task_id = Some("t".to_owned());
    answer.status = Some(MailStatus::NeedsInput);
    answer.reply_to = Some(crate::types::route::Route::new(key(1), session("moved")));
    rig.deliver(answer).unwrap();
    let row = query::task(&rig.tables, &session("own"), &key(1), "t")
        .unwrap()
        .unwrap();
    assert_eq!(row.state, TaskState::NeedsInput);
    assert_eq!(row.peer_session, Some(session("moved")));
    // Withdrawn: over for us, and no result reopens it.
    let mut wish = rig.wish(&lease, "m3", 1);
    wish.task_id = Some("t".to_owned());
    wish.status = Some(MailStatus::Canceled);
    rig.submit(AgentCommand::QueueMessage(wish)).unwrap();
    rig.receive_task(&lease, 1, "m4", 0, "t", Some(MailStatus::Result))
        .unwrap();
    assert_eq!(
        task(&rig, 1, "t"),
        Some((TaskState::Canceled, TaskSide::Theirs))
    );
    rig.check();
}

#[test]
fn ended_tasks_give_way_before_open_ones() {
    let mut rig = Rig::new();
    let lease = rig.take("own", 1);
    rig.add("a", 1).unwrap();
    rig.receive_task(&lease, 1, "first", 0, "first", None)
        .unwrap();
    rig.receive_task(
        &lease,
        1,
        "ended",
        0,
        "ended\u{0}x",
        Some(MailStatus::Result),
    )
    .unwrap();
    for n in 0..MAX_TASKS_PER_SESSION {
        let id = format!("t{n}");
        rig.receive_task(&lease, 1, &id, 0, &id, None).unwrap();
    }
    let tasks = query::tasks(&rig.tables, &session("own")).unwrap();
    assert_eq!(tasks.len(), MAX_TASKS_PER_SESSION);
    assert!(!tasks.iter().any(|t| t.task_id == "ended\u{0}x"));
    assert!(
        !tasks.iter().any(|t| t.task_id == "first"),
        "then the oldest"
    );
    assert_eq!(tasks[0].task_id, format!("t{}", MAX_TASKS_PER_SESSION - 1));
    rig.check();
}

#[test]
fn messages_that_came_too_late_are_put_away_by_their_receipt() {
    let mut rig = Rig::new();
    let lease = rig.take("own", 1);
    let other = rig.take("other", 1);
    rig.add("a", 1).unwrap();
    let old = i64::try_from(20 * DAY).unwrap();
    rig.receive(&lease, 1, "late", old).unwrap();
    let ack = |lease: &crate::domain::decide::agent::Lease| AgentCommand::Acknowledge {
        lease: lease.clone(),
        items: vec![(key(1), msg("late")), (key(1), msg("late"))],
        now: UnixMillis(0),
    };
    let nothing = rig.submit(ack(&other)).unwrap();
    assert_eq!(nothing, AgentReply::Acknowledged { newly: 0 });
    assert_eq!(query::expired(&rig.tables, None).unwrap().len(), 1);
    let done = rig.submit(ack(&lease)).unwrap();
    assert_eq!(done, AgentReply::Acknowledged { newly: 1 });
    assert_eq!(query::expired(&rig.tables, None).unwrap(), []);
    let again = rig.submit(ack(&lease)).unwrap();
    assert_eq!(again, AgentReply::Acknowledged { newly: 0 });
    rig.check();
}

#[test]
fn forgetting_a_peer_leaves_nothing_of_it_but_used_up_ids_and_its_revocation() {
    let mut rig = Rig::new();
    let lease = rig.take("own", 1);
    rig.add("gone", 1).unwrap();
    rig.add("stays", 2).unwrap();
    rig.sight(&[(1, "g"), (2, "s")]);
    let old = i64::try_from(20 * DAY).unwrap();
    for n in [1, 2] {
        rig.receive_task(
            &lease,
            n,
            &format!("in{n}"),
            0,
            "t",
            Some(MailStatus::Update),
        )
        .unwrap();
        rig.receive_from(&lease, n, &format!("hint{n}"), Some((n, "g")));
        rig.receive(&lease, n, &format!("late{n}"), old).unwrap();
        rig.queue(&lease, &format!("out{n}"), n).unwrap();
    }
    let forget = AgentCommand::Directory(DirectoryCommand::ForgetPeer { key: key(1) });
    assert_eq!(
        rig.submit(forget.clone()).unwrap_err(),
        AgentRefusal::StillAdmitted {
            petname: "gone".to_owned()
        }
    );
    rig.remove("gone");
    let seen = rig.tables.rows(TableId::Replay).count();
    let bodies = rig.bodies.len();
    let reply = rig.submit(forget.clone()).unwrap();
    let want = AgentReply::Forgotten {
        rows: 3,
        more: false,
    };
    assert_eq!(reply, want);
    assert_eq!(rig.bodies.len(), bodies - 3);
    assert_eq!(rig.tables.rows(TableId::Replay).count(), seen);
    let needle = *key(1).as_bytes();
    for table in TableId::ALL {
        if matches!(table, TableId::Replay | TableId::Peers) {
            continue;
        }
        for (row_key, value) in rig.tables.rows(*table) {
            let holds = |bytes: &[u8]| bytes.windows(32).any(|w| w == needle);
            // A hint of another peer's message may name any route.
            assert!(!holds(row_key) && !holds(value), "{}", table.name());
        }
    }
    // The other one is whole.
    assert_eq!(rig.owner("s"), Owner::One(key(2)));
    assert_eq!(
        query::unread(&rig.tables, &session("own"), 9)
            .unwrap()
            .len(),
        2
    );
    assert!(
        rig.tables
            .get(TableId::OutboxByMsg, b"out2")
            .unwrap()
            .is_some()
    );
    // Once more is once.
    let again = rig.submit(forget).unwrap();
    let none = AgentReply::Forgotten {
        rows: 0,
        more: false,
    };
    assert_eq!(again, none);
    // What it sent once does not come in again when it is admitted again.
    rig.add("back", 1).unwrap();
    let replay = rig.receive(&lease, 1, "in1", 0).unwrap();
    assert_eq!(replay, crate::domain::decide::agent::Reception::Replay);
    let kinds = rig
        .log
        .iter()
        .filter(|r| matches!(r.event, AgentEvent::PeerForgotten(_)));
    assert_eq!(kinds.count(), 2);
    rig.check();
}

mod order {
    //! Whatever the order of arrival, a task that was ended is ended.

    use proptest::prelude::*;

    use super::*;

    fn status() -> impl Strategy<Value = Option<MailStatus>> {
        prop_oneof![
            Just(None),
            Just(Some(MailStatus::Update)),
            Just(Some(MailStatus::NeedsInput)),
        ]
    }

    fn end() -> impl Strategy<Value = MailStatus> {
        prop_oneof![
            Just(MailStatus::Result),
            Just(MailStatus::Failed),
            Just(MailStatus::Canceled),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn one_end_among_any_words_in_any_order_is_where_the_task_stands(
            words in prop::collection::vec((status(), 0i64..100_000), 0..8),
            end in end(),
            age in 0i64..100_000,
            seed in any::<u64>(),
        ) {
            let mut all: Vec<(Option<MailStatus>, i64)> = words;
            all.push((Some(end), age));
            // Any order: by a number that the seed gives each.
            all.sort_by_cached_key(|(_, age)| seed.wrapping_mul(age.unsigned_abs() | 1));
            let mut rig = Rig::new();
            let lease = rig.take("own", 1);
            rig.add("a", 1).unwrap();
            for (n, (status, age)) in all.into_iter().enumerate() {
                rig.receive_task(&lease, 1, &n.to_string(), age, "t", status).unwrap();
            }
            let want = match end {
                MailStatus::Result => TaskState::Result,
                MailStatus::Failed => TaskState::Failed,
                _ => TaskState::Canceled,
            };
            prop_assert_eq!(task(&rig, 1, "t").unwrap().0, want);
            rig.check();
        }
    }
}
