//! Decide, append, apply, on rows in memory; every record passes through its frame.

use std::collections::BTreeMap;

use super::super::*;
use crate::domain::machine::notice::NoticeStep;
use crate::domain::projection::apply_all;
use crate::domain::query::agent as query;
use crate::domain::query::agent::{DueList, DueQuery, RelayView};
use crate::domain::tables::MemTables;
use crate::event::agent::{AttemptError, MailKind, MailStatus, NoticePath, Origin};
use crate::types::id::{MsgId, PublicKey, SessionId};
use crate::types::route::Route;
use crate::types::time::UnixMillis;

pub(super) const HOUR: u64 = 3_600_000;
pub(super) const DAY: u64 = 24 * HOUR;
pub(super) const OWN: u16 = 999;
pub(super) const WINDOW: Window = Window {
    past_ms: 14 * DAY,
    future_ms: 60_000,
};

pub(super) fn key(n: u16) -> PublicKey {
    let mut bytes = [7; 32];
    bytes[..2].copy_from_slice(&n.to_be_bytes());
    PublicKey::from_bytes(bytes)
}

pub(super) fn session(text: &str) -> SessionId {
    SessionId::parse(text).unwrap()
}

pub(super) fn msg(text: &str) -> MsgId {
    MsgId::parse(text).unwrap()
}

pub(super) struct Rig {
    pub(super) tables: MemTables,
    pub(super) log: Vec<Recorded<AgentEvent>>,
    pub(super) bodies: BTreeMap<Seq, Vec<u8>>,
    pub(super) now: UnixMillis,
    pub(super) body: Vec<u8>,
}

impl Rig {
    pub(super) fn new() -> Rig {
        Rig {
            tables: MemTables::new(),
            log: vec![],
            bodies: BTreeMap::new(),
            now: UnixMillis(1_800_000_000_000),
            body: b"{}".to_vec(),
        }
    }

    pub(super) fn submit(&mut self, command: AgentCommand) -> Result<AgentReply, AgentRefusal> {
        let mut seq = Seq(self.log.len() as u64 + 1);
        let view = View {
            tables: &self.tables,
            index: &(),
            next: seq,
        };
        let decision = Agent::decide(&view, &command).unwrap()?;
        for new in decision.events {
            for gone in Agent::releases(&new.event) {
                assert!(self.bodies.remove(gone).is_some(), "body {gone} was there");
            }
            if let Some(body) = new.body {
                self.bodies.insert(seq, body.to_vec());
            }
            let record = Recorded {
                seq,
                at: self.now,
                event: new.event,
            };
            let record = Recorded::from_frame(seq, &record.to_frame().unwrap()).unwrap();
            apply_all(Agent::projections(), &mut self.tables, &record).unwrap();
            self.log.push(record);
            seq = seq.next();
        }
        Ok(decision.reply)
    }

    /// Rows and bodies follow from the log alone, each projection by itself included.
    pub(super) fn check(&self) {
        let mut fresh = MemTables::new();
        for record in &self.log {
            apply_all(Agent::projections(), &mut fresh, record).unwrap();
        }
        assert!(fresh == self.tables, "a replay gives other rows");
        for projection in Agent::projections() {
            let mut alone = MemTables::new();
            for record in &self.log {
                projection.apply(&mut alone, record).unwrap();
            }
            for table in TableId::ALL {
                let mine = projection.tables().contains(table);
                assert!(
                    alone
                        .rows(*table)
                        .eq(self.tables.rows(*table).filter(|_| mine))
                );
            }
        }
        let mut live = vec![];
        Agent::live_bodies(&self.tables, &mut |body| live.push((body.seq, body.len))).unwrap();
        live.sort();
        let kept = self
            .bodies
            .iter()
            .map(|(seq, body)| (*seq, body.len() as u32));
        assert!(kept.eq(live), "bodies are exactly those that rows need");
    }

    pub(super) fn take(&mut self, name: &str, pid: u32) -> Lease {
        let command = AgentCommand::TakeLease {
            session: session(name),
            pid,
            process_start: 1,
            now: self.now,
        };
        match self.submit(command).unwrap() {
            AgentReply::Lease(lease) => lease,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn add(&mut self, petname: &str, n: u16) -> Result<AgentReply, AgentRefusal> {
        self.submit(AgentCommand::AddPeer {
            petname: petname.into(),
            key: key(n),
            origin: Origin::Tool,
            lease: None,
            now: self.now,
        })
    }

    /// Revokes whoever has a name.
    pub(super) fn remove(&mut self, petname: &str) -> AgentReply {
        let known = query::peer_by_name(&self.tables, petname).unwrap();
        let key = known.map_or(PublicKey::from_bytes([0; 32]), |peer| peer.key);
        self.remove_key(petname, key).unwrap()
    }

    pub(super) fn remove_key(
        &mut self,
        petname: &str,
        key: PublicKey,
    ) -> Result<AgentReply, AgentRefusal> {
        self.submit(AgentCommand::RemovePeer {
            petname: petname.into(),
            key,
            origin: Origin::Tool,
            lease: None,
            now: self.now,
        })
    }

    pub(super) fn import(
        &mut self,
        entries: &[(&str, u16)],
        hash: u8,
    ) -> Result<ImportOutcome, AgentRefusal> {
        let entries = entries
            .iter()
            .map(|(name, n)| ((*name).to_owned(), key(*n)));
        let command = AgentCommand::ImportPeers {
            entries: entries.collect(),
            sha256: [hash; 32],
            newest: None,
            now: self.now,
        };
        match self.submit(command)? {
            AgentReply::Imported(outcome) => Ok(outcome),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn publish(&mut self, hash: u8) {
        let command = AgentCommand::PublishPeers {
            sha256: [hash; 32],
            now: self.now,
        };
        self.submit(command).unwrap();
    }

    pub(super) fn wish(&self, lease: &Lease, id: &str, to: u16) -> QueueMessage {
        QueueMessage {
            lease: lease.clone(),
            msg_id: msg(id),
            to: key(to),
            to_session: session("there"),
            kind: MailKind::Message,
            task_id: None,
            status: None,
            in_reply_to: Some(msg("")),
            ts: self.now,
            body: self.body.as_slice().into(),
            sha256: [1; 32],
            relays: vec!["r2".into(), "r1".into(), "r1".into()],
            now: self.now,
        }
    }

    pub(super) fn queue(&mut self, lease: &Lease, id: &str, to: u16) -> Result<Seq, AgentRefusal> {
        match self.submit(AgentCommand::QueueMessage(self.wish(lease, id, to)))? {
            AgentReply::Queued { seq } => Ok(seq),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn attempt(&mut self, seq: Seq, relay: &str, attempt: u32, next: u64) -> AgentReply {
        let command = AgentCommand::RecordAttempt {
            msg_seq: seq,
            relay: relay.into(),
            attempt,
            error: AttemptError::Status(503),
            detail: "\u{e9}".repeat(300),
            next_at: UnixMillis(next),
            now: self.now,
        };
        self.submit(command).unwrap()
    }

    pub(super) fn try_accepted(
        &mut self,
        seq: Seq,
        relay: &str,
    ) -> Result<AgentReply, AgentRefusal> {
        self.submit(AgentCommand::RecordAccepted {
            msg_seq: seq,
            relay: relay.into(),
            dropped: false,
            now: self.now,
        })
    }

    pub(super) fn accepted(&mut self, seq: Seq, relay: &str) -> AgentReply {
        self.try_accepted(seq, relay).unwrap()
    }

    pub(super) fn refused(&mut self, seq: Seq, relay: &str) -> AgentReply {
        let command = AgentCommand::RecordRefused {
            msg_seq: seq,
            relay: relay.into(),
            status: 413,
            reason: "too large".into(),
            now: self.now,
        };
        self.submit(command).unwrap()
    }

    pub(super) fn resign(&mut self, seq: Seq, replaces: Seq) -> Result<AgentReply, AgentRefusal> {
        self.submit(AgentCommand::Resign {
            msg_seq: seq,
            replaces,
            ts: self.now,
            body: b"{\"new\":1}".as_slice().into(),
            sha256: [2; 32],
            now: self.now,
        })
    }

    fn due_query(&self, relays: &[&str], woken: bool) -> DueList {
        let relays: Vec<_> = relays.iter().map(|url| RelayView { url, woken }).collect();
        let query = DueQuery {
            now: self.now,
            relays: &relays,
            resign_after_ms: 12 * HOUR,
            give_up_after_ms: WINDOW.past_ms,
            future_ms: WINDOW.future_ms,
            limit: 100,
        };
        query::outbox_pending(&self.tables, &query, &|_| true).unwrap()
    }

    pub(super) fn due(&self, relays: &[&str]) -> DueList {
        self.due_query(relays, false)
    }

    pub(super) fn due_woken(&self, relays: &[&str]) -> DueList {
        self.due_query(relays, true)
    }

    pub(super) fn arrival(&self, lease: &Lease, from: u16, id: &str, age: i64) -> Receive {
        Receive {
            lease: lease.clone(),
            own: key(OWN),
            from: key(from),
            msg_id: msg(id),
            ts: UnixMillis(self.now.0.saturating_add_signed(-age)),
            kind: MailKind::Message,
            task_id: Some(String::new()),
            status: None,
            in_reply_to: None,
            reply_to: None,
            body: self.body.as_slice().into(),
            sha256: [3; 32],
            window: WINDOW,
            now: self.now,
        }
    }

    pub(super) fn deliver(&mut self, arrival: Receive) -> Result<Reception, AgentRefusal> {
        match self.submit(AgentCommand::Receive(Box::new(arrival)))? {
            AgentReply::Received(reception) => Ok(reception),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn receive(
        &mut self,
        lease: &Lease,
        from: u16,
        id: &str,
        age: i64,
    ) -> Result<Reception, AgentRefusal> {
        self.deliver(self.arrival(lease, from, id, age))
    }

    pub(super) fn receive_from(
        &mut self,
        lease: &Lease,
        from: u16,
        id: &str,
        reply_to: Option<(u16, &str)>,
    ) {
        let mut arrival = self.arrival(lease, from, id, 0);
        arrival.reply_to = reply_to.map(|(n, name)| Route::new(key(n), session(name)));
        self.deliver(arrival).unwrap();
    }

    pub(super) fn receive_task(
        &mut self,
        lease: &Lease,
        from: u16,
        id: &str,
        age: i64,
        task: &str,
        status: Option<MailStatus>,
    ) -> Result<Reception, AgentRefusal> {
        let mut arrival = self.arrival(lease, from, id, age);
        arrival.task_id = Some(task.into());
        arrival.status = status;
        self.deliver(arrival)
    }

    pub(super) fn mark_seen(&mut self, lease: &Lease, from: u16, id: &str) -> Reception {
        let command = AgentCommand::MarkSeen {
            lease: lease.clone(),
            own: key(OWN),
            from: key(from),
            msg_id: msg(id),
            ts: self.now,
            window: WINDOW,
            now: self.now,
        };
        match self.submit(command).unwrap() {
            AgentReply::Received(reception) => reception,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn forget(&mut self, age: u64) -> AgentReply {
        let command = AgentCommand::ForgetReplay {
            before: self.now.minus(age),
            now: self.now,
        };
        self.submit(command).unwrap()
    }

    pub(super) fn unread(&self, name: &str) -> Vec<String> {
        let mails = query::unread(&self.tables, &session(name), usize::MAX).unwrap();
        mails
            .iter()
            .map(|mail| mail.row.msg_id.to_string())
            .collect()
    }

    pub(super) fn ack(&mut self, lease: &Lease, items: &[(u16, &str)]) -> usize {
        let command = AgentCommand::Acknowledge {
            lease: lease.clone(),
            items: items.iter().map(|(n, id)| (key(*n), msg(id))).collect(),
            now: self.now,
        };
        match self.submit(command).unwrap() {
            AgentReply::Acknowledged { newly } => newly,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn reserve(&mut self, lease: &Lease, id: &str) -> NoticeStep {
        let command = AgentCommand::ReserveNotice {
            patience_ms: None,
            lease: lease.clone(),
            id: id.into(),
            path: NoticePath::Channel,
            now: self.now,
        };
        match self.submit(command).unwrap() {
            AgentReply::Notice(step) => step,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn notice_result(&mut self, lease: &Lease, id: &str, ok: bool) -> bool {
        let command = AgentCommand::NoticeResult {
            patience_ms: None,
            lease: lease.clone(),
            id: id.into(),
            accepted: ok.then_some(NoticePath::Channel),
            now: self.now,
        };
        self.submit(command).unwrap() == AgentReply::Done { changed: true }
    }

    pub(super) fn observe(&mut self, lease: &Lease, id: Option<&str>, reset: bool) -> bool {
        let command = AgentCommand::ObserveNotice {
            lease: lease.clone(),
            id: id.map(str::to_owned),
            reset,
            now: self.now,
        };
        self.submit(command).unwrap() == AgentReply::Done { changed: true }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.check();
        }
    }
}
