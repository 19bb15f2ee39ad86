//! What the operator and time do to messages, on rows in memory.

use super::rig::{DAY, Rig, key, msg, session};
use crate::domain::decide::agent::{AgentCommand, AgentRefusal, AgentReply, CareCommand};
use crate::domain::projection::agent::{RelayState, Sent};
use crate::domain::query::agent as query;
use crate::event::agent::{AgentEvent, MailStatus, Origin};
use crate::types::seq::Seq;

const DONE: AgentReply = AgentReply::Done { changed: true };
const NOTHING: AgentReply = AgentReply::Done { changed: false };

impl Rig {
    fn care(&mut self, command: CareCommand) -> AgentReply {
        self.submit(AgentCommand::Care(command)).unwrap()
    }

    fn drop_message(&mut self, message: Seq) -> AgentReply {
        let origin = Origin::Admin;
        self.care(CareCommand::DropMessage { message, origin })
    }

    fn retry(&mut self, message: Seq) -> AgentReply {
        let (origin, now) = (Origin::Admin, self.now);
        self.care(CareCommand::RetryMessage {
            message,
            origin,
            now,
        })
    }

    /// Forgets what is older than `age`; how much that was.
    fn forget_older(&mut self, age: u64) -> usize {
        let before = self.now.minus(age);
        let mut rows = 0;
        loop {
            match self.care(CareCommand::ForgetHistory { before }) {
                AgentReply::Forgotten { rows: n, more } => {
                    rows += n;
                    if !more {
                        return rows;
                    }
                    assert!(n > 0, "it goes on and on");
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn how_far(&self, message: Seq) -> Option<Sent> {
        let mail = query::outbox_at(&self.tables, message).unwrap();
        mail.map(|mail| mail.row.sent())
    }
}

#[test]
fn a_message_that_is_given_up_is_refused_where_it_waits_and_stays_where_it_is() {
    let mut rig = Rig::new();
    rig.add("ann", 1).unwrap();
    let lease = rig.take("own", 1);
    let lone = rig.queue(&lease, "lone", 1).unwrap();
    let half = rig.queue(&lease, "half", 1).unwrap();
    rig.accepted(half, "r1");
    assert_eq!(rig.drop_message(lone), DONE);
    assert_eq!(rig.drop_message(half), DONE);
    assert_eq!(rig.how_far(lone), Some(Sent::Refused));
    assert_eq!(rig.how_far(half), Some(Sent::Accepted));
    assert!(rig.due(&["r1", "r2"]).due.is_empty());
    // Once more is once.
    assert_eq!(rig.drop_message(lone), NOTHING);
    // A relay that took it meanwhile has it.
    rig.accepted(lone, "r2");
    assert_eq!(rig.how_far(lone), Some(Sent::Accepted));
    let origin = Origin::Admin;
    let unknown = CareCommand::DropMessage {
        message: Seq(999),
        origin,
    };
    assert_eq!(
        rig.submit(AgentCommand::Care(unknown)),
        Err(AgentRefusal::NoSuchMessage { seq: Seq(999) })
    );
}

#[test]
fn a_message_that_is_hurried_is_due_at_once_and_keeps_its_count() {
    let mut rig = Rig::new();
    rig.add("ann", 1).unwrap();
    let lease = rig.take("own", 1);
    let seq = rig.queue(&lease, "out", 1).unwrap();
    for relay in ["r1", "r2"] {
        rig.attempt(seq, relay, 3, rig.now.0 + 30_000);
    }
    assert!(rig.due(&["r1", "r2"]).due.is_empty());
    assert_eq!(rig.retry(seq), DONE);
    assert_eq!(rig.due(&["r1", "r2"]).due.len(), 2, "one a relay");
    let mail = query::outbox_at(&rig.tables, seq).unwrap().unwrap();
    for relay in &mail.row.relays {
        assert!(matches!(
            relay.state,
            RelayState::Waiting { attempts: 3, .. }
        ));
    }
    // It is due already.
    assert_eq!(rig.retry(seq), NOTHING);
}

#[test]
fn old_conversations_go_and_young_unread_and_unsent_ones_stay() {
    let mut rig = Rig::new();
    rig.add("ann", 1).unwrap();
    let lease = rig.take("own", 1);
    for id in ["read", "unread", "late-read"] {
        rig.receive(&lease, 1, id, 0).unwrap();
    }
    let task = |rig: &mut Rig, id: &str, status| {
        let lease = rig.take("own", 1);
        rig.receive_task(&lease, 1, id, 0, "t", status).unwrap();
    };
    task(&mut rig, "update", Some(MailStatus::Update));
    task(&mut rig, "end", Some(MailStatus::Result));
    let lease = rig.take("own", 1);
    let sent = rig.queue(&lease, "sent", 1).unwrap();
    let half = rig.queue(&lease, "half", 1).unwrap();
    let waits = rig.queue(&lease, "waits", 1).unwrap();
    let refused = rig.queue(&lease, "refused", 1).unwrap();
    for relay in ["r1", "r2"] {
        rig.accepted(sent, relay);
        rig.refused(refused, relay);
    }
    rig.accepted(half, "r1");
    assert_eq!(rig.ack(&lease, &[(1, "read"), (1, "end")]), 2);
    rig.now = rig.now.plus(90 * DAY);
    assert_eq!(rig.ack(&lease, &[(1, "late-read")]), 1);
    // What ended exactly then is not older.
    assert_eq!(rig.forget_older(90 * DAY), 0);
    rig.now = rig.now.plus(1);
    // read, update (superseded), end, sent, refused, and the task.
    assert_eq!(rig.forget_older(90 * DAY), 6);
    assert_eq!(rig.unread("own"), ["unread"]);
    let there = |rig: &Rig, id: &str| {
        query::mailbox_entry(&rig.tables, &session("own"), &key(1), &msg(id))
            .unwrap()
            .is_some()
    };
    assert!(there(&rig, "late-read") && !there(&rig, "read") && !there(&rig, "end"));
    assert_eq!(rig.how_far(sent), None);
    assert_eq!(rig.how_far(refused), None);
    assert_eq!(rig.how_far(half), Some(Sent::Accepted));
    assert_eq!(rig.how_far(waits), Some(Sent::Pending));
    let tasks = query::tasks(&rig.tables, &session("own")).unwrap();
    assert!(tasks.is_empty());
    // An answer of a relay that comes now finds nothing, and harms nothing.
    assert!(rig.try_accepted(sent, "r1").is_err());
    // The next progress of the task stands on its own.
    task(&mut rig, "again", Some(MailStatus::Update));
    assert_eq!(rig.forget_older(90 * DAY), 0);
}

#[test]
fn a_long_history_goes_in_bounded_records() {
    let mut rig = Rig::new();
    rig.add("ann", 1).unwrap();
    let lease = rig.take("own", 1);
    for n in 0..2100 {
        let id = format!("m{n}");
        rig.receive(&lease, 1, &id, 0).unwrap();
        rig.ack(&lease, &[(1, &id)]);
    }
    rig.now = rig.now.plus(2 * DAY);
    assert_eq!(rig.forget_older(DAY), 2100);
    let records: Vec<usize> = rig
        .log
        .iter()
        .filter_map(|r| match &r.event {
            AgentEvent::HistoryForgotten(e) => Some(e.received.len()),
            _ => None,
        })
        .collect();
    assert_eq!(records, [2048, 52]);
}

mod law {
    //! Whatever happened: nothing that is unread, unsent or open ever goes.

    use std::collections::BTreeSet;
    use std::ops::ControlFlow;

    use proptest::prelude::*;

    use super::*;
    use crate::domain::projection::agent::{MailRow, OutboxRow, UnreadRow, seq_key};
    use crate::domain::tables::{TableId, scan_rows};

    /// What must stay, by table and key or name.
    fn unfinished(rig: &Rig) -> BTreeSet<(TableId, String)> {
        let mut all = BTreeSet::new();
        scan_rows::<UnreadRow>(&rig.tables, TableId::MailboxUnread, &[], |key, _| {
            all.insert((TableId::MailboxUnread, format!("{key:?}")));
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
        scan_rows::<MailRow>(&rig.tables, TableId::Mailbox, &[], |key, row| {
            if row.is_unread() {
                let seq = seq_key(TableId::Mailbox, key)?;
                assert!(rig.bodies.contains_key(&seq));
                all.insert((TableId::Mailbox, seq.to_string()));
            }
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
        scan_rows::<OutboxRow>(&rig.tables, TableId::Outbox, &[], |key, row| {
            if row.is_open() {
                assert!(rig.bodies.contains_key(&row.body));
                let seq = seq_key(TableId::Outbox, key)?;
                all.insert((TableId::Outbox, seq.to_string()));
            }
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
        query::each_task(&rig.tables, |_, task| {
            if !task.row.state.is_final() {
                all.insert((TableId::Tasks, task.task_id));
            }
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
        all
    }

    #[derive(Clone, Debug)]
    enum Step {
        Receive(u8, Option<MailStatus>),
        Ack(u8),
        Queue,
        Answer(u8, u8, bool),
        Wait(u64),
        Forget(u64),
    }

    fn status() -> impl Strategy<Value = Option<MailStatus>> {
        prop_oneof![
            Just(None),
            Just(Some(MailStatus::Update)),
            Just(Some(MailStatus::NeedsInput)),
            Just(Some(MailStatus::Result)),
        ]
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..3u8, status()).prop_map(|(task, status)| Step::Receive(task, status)),
            3 => any::<u8>().prop_map(Step::Ack),
            2 => Just(Step::Queue),
            3 => (any::<u8>(), 0..2u8, any::<bool>()).prop_map(|(n, r, ok)| Step::Answer(n, r, ok)),
            3 => (0..40 * DAY).prop_map(Step::Wait),
            3 => (0..100 * DAY).prop_map(Step::Forget),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn nothing_unread_unsent_or_open_is_ever_forgotten(
            steps in proptest::collection::vec(step(), 1..60),
        ) {
            let mut rig = Rig::new();
            rig.add("ann", 1).unwrap();
            let lease = rig.take("own", 1);
            let (mut received, mut queued) = (0u32, vec![]);
            for step in steps {
                match step {
                    Step::Receive(task, status) => {
                        let (id, task) = (format!("m{received}"), format!("t{task}"));
                        received += 1;
                        rig.receive_task(&lease, 1, &id, 0, &task, status).unwrap();
                    }
                    Step::Ack(n) => {
                        let id = format!("m{}", u32::from(n) % received.max(1));
                        rig.ack(&lease, &[(1, &id)]);
                    }
                    Step::Queue => {
                        let id = format!("o{}", queued.len());
                        queued.extend(rig.queue(&lease, &id, 1).ok());
                    }
                    Step::Answer(n, relay, ok) => {
                        let relay = ["r1", "r2"][usize::from(relay)];
                        let at = usize::from(n) % queued.len().max(1);
                        if let Some(seq) = queued.get(at).copied().filter(|s| rig.how_far(*s).is_some()) {
                            if ok { rig.accepted(seq, relay) } else { rig.refused(seq, relay) };
                        }
                    }
                    Step::Wait(ms) => rig.now = rig.now.plus(ms),
                    Step::Forget(age) => {
                        let before = unfinished(&rig);
                        rig.forget_older(age);
                        prop_assert_eq!(unfinished(&rig), before);
                        // What is left of what ended is not old.
                        prop_assert_eq!(rig.forget_older(age), 0);
                    }
                }
            }
            rig.check();
        }
    }
}
