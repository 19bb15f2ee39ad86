//! One pass over a store: what happened to which message.
//!
//! Records name a message by its id once, where it begins in this store, and by that record's
//! position ever after. A walk resolves the positions and gives every moment with the message's
//! id. Where the record with the id was compacted away, the rows still know it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::super::error::AdminError;
use super::super::links::{number, numbers, text};
use super::super::pages::Pages;
use super::super::reader::StoreReader;
use super::What;
use crate::domain::tables::TableId;
use crate::event::kind::StoreKind;
use crate::types::limit::MAX_ADMIN_ROWS;
use crate::types::seq::Seq;
use crate::wire::admin::{RecordRow, TableRow};

/// How often rows are asked for of a log that is compacted all the while.
const TRIES: u32 = 5;

/// Which messages a walk is about.
pub(in super::super) trait Wanted {
    /// Whether the message with this id, which is about this task, is one of them.
    fn wants(&self, id: &str, task: Option<&str>) -> bool;

    /// The id of the message whose payload has this digest, where the bus was told none.
    fn by_digest(&self, sha256: &str) -> Option<Arc<str>>;
}

/// Something that happened to a message.
pub(in super::super) struct Moment<'a> {
    /// The message.
    pub(in super::super) id: &'a Arc<str>,
    pub(in super::super) what: What,
    /// The record that says so; absent when a row says it.
    pub(in super::super) seq: Option<u64>,
    /// Position that this has among the moments of this store.
    pub(in super::super) order: u64,
    /// When, by the clock of the store's writer.
    pub(in super::super) at: u64,
    /// The event or the row.
    pub(in super::super) event: &'a Value,
}

/// What a store is, after a walk.
pub(in super::super) struct Walked {
    /// The compaction point.
    pub(in super::super) base: u64,
    /// Position of the newest record.
    pub(in super::super) head: u64,
    /// Records that were compacted away while it was read.
    pub(in super::super) missed: u64,
}

/// Where moments go.
pub(in super::super) type Sink<'a> = &'a mut dyn FnMut(&Moment<'_>);

/// Walks over a store. Never changes it, and takes no lock that a writer waits for.
pub(in super::super) fn walk(
    reader: &dyn StoreReader,
    wanted: &dyn Wanted,
    sink: Sink<'_>,
) -> Result<Walked, AdminError> {
    let mut walk = Walk {
        wanted,
        sink,
        sent: BTreeMap::new(),
        mail: BTreeMap::new(),
        queued: BTreeMap::new(),
        unnoticed: BTreeMap::new(),
        offers: BTreeMap::new(),
    };
    let (base, rows) = base_rows(reader)?;
    for (table, rows) in &rows {
        rows.iter().for_each(|row| walk.row(*table, row));
    }
    let mut pages = Pages::behind(base);
    loop {
        let page = reader.records(pages.next(), MAX_ADMIN_ROWS)?;
        page.records.iter().for_each(|record| walk.record(record));
        if !pages.take(&page) {
            return Ok(Walked {
                base,
                head: page.head,
                missed: pages.missed(),
            });
        }
    }
}

/// The compaction point, and the rows that know of messages whose first record is gone, as of that
/// point: what happened since is told by the records.
fn base_rows(reader: &dyn StoreReader) -> Result<(u64, Rows), AdminError> {
    let tables: &[TableId] = match reader.origin().kind {
        StoreKind::Bus => &[TableId::Pending],
        StoreKind::Agent => &[TableId::Outbox, TableId::Mailbox, TableId::Expired],
    };
    let mut tries = 0;
    loop {
        let base = reader.records(u64::MAX, 1)?.base;
        if base == 0 {
            return Ok((0, vec![]));
        }
        match reader.rows(tables, Some(Seq(base))) {
            Ok(all) => {
                let rows = all.into_iter().map(|table| table.rows);
                return Ok((base, tables.iter().copied().zip(rows).collect()));
            }
            // The log may have been compacted further meanwhile.
            Err(e) if tries >= TRIES || reader.records(u64::MAX, 1)?.base == base => return Err(e),
            Err(_) => tries += 1,
        }
    }
}

/// Tables with their rows.
type Rows = Vec<(TableId, Vec<TableRow>)>;

/// Messages by the position of the record that names them.
type Named = BTreeMap<u64, Arc<str>>;

struct Walk<'a> {
    wanted: &'a dyn Wanted,
    sink: Sink<'a>,
    /// Of `outbox_queued`.
    sent: Named,
    /// Of `received`.
    mail: Named,
    /// Of `enqueued`.
    queued: Named,
    /// Received messages that no notice spoke for yet, by session.
    unnoticed: BTreeMap<String, Named>,
    /// The hand-off that was begun, by session: up to which position it speaks for.
    offers: BTreeMap<String, u64>,
}

impl Walk<'_> {
    fn row(&mut self, table: TableId, row: &TableRow) {
        let value = &row.value;
        let seq = match table {
            TableId::Expired => number(value, "seq"),
            _ => row.key.parse().ok(),
        };
        let (Some(seq), Some(at)) = (seq, number(value, "at")) else {
            return;
        };
        let Some(id) = self.root(value) else { return };
        let mut say = |what, at| {
            (self.sink)(&Moment {
                id: &id,
                what,
                seq: None,
                order: seq,
                at,
                event: value,
            });
        };
        match table {
            TableId::Pending => {
                say(What::Enqueued, at);
                self.queued.insert(seq, id);
            }
            TableId::Outbox => {
                say(What::Queued, at);
                self.relays(&id, seq, value);
                self.sent.insert(seq, id);
            }
            TableId::Mailbox => {
                say(What::Received, at);
                if let Some(at) = number(value, "acknowledged_at") {
                    say(What::Read, at);
                }
                self.mail.insert(seq, id);
            }
            _ => say(What::Late, at),
        }
    }

    /// What became of a message on each relay, by its row.
    fn relays(&mut self, id: &Arc<str>, order: u64, row: &Value) {
        let relays = row.get("relays").and_then(Value::as_array);
        for relay in relays.into_iter().flatten() {
            let Some(state) = relay.get("state").and_then(Value::as_object) else {
                continue;
            };
            for (name, state) in state {
                let (what, told) = match name.as_str() {
                    "accepted" => (What::Accepted, Some(state)),
                    "refused" => (What::Refused, Some(state)),
                    // The last failure of several.
                    _ => (What::Attempted, state.get("failure")),
                };
                let Some(at) = told.and_then(|told| number(told, "at")) else {
                    continue;
                };
                let mut event = serde_json::json!({
                    "relay": relay.get("url"), "attempt": state.get("attempts"),
                });
                if let (Some(into), Some(from)) =
                    (event.as_object_mut(), told.and_then(Value::as_object))
                {
                    into.extend(from.clone());
                }
                (self.sink)(&Moment {
                    id,
                    what,
                    seq: None,
                    order,
                    at,
                    event: &event,
                });
            }
        }
    }

    /// The message that a record or a row begins, when it is wanted.
    fn root(&self, value: &Value) -> Option<Arc<str>> {
        let id = text(value, "msg_id").or_else(|| text(value, "request_id"));
        match id.filter(|id| !id.is_empty()) {
            Some(id) => self
                .wanted
                .wants(id, text(value, "task_id"))
                .then(|| Arc::from(id)),
            None => self.wanted.by_digest(text(value, "sha256")?),
        }
    }

    fn say(&mut self, record: &RecordRow, id: &Arc<str>, what: What) {
        (self.sink)(&Moment {
            id,
            what,
            seq: Some(record.seq),
            order: record.seq,
            at: record.at,
            event: &record.event,
        });
    }

    /// A record in which a message begins.
    fn begin(&mut self, record: &RecordRow, what: What) -> Option<Arc<str>> {
        let id = self.root(&record.event)?;
        self.say(record, &id, what);
        Some(id)
    }

    /// A record about one message that was sent.
    fn of_sent(&mut self, record: &RecordRow, what: What) {
        let message = number(&record.event, "message");
        if let Some(id) = message.and_then(|seq| self.sent.get(&seq)).cloned() {
            self.say(record, &id, what);
        }
    }

    fn record(&mut self, record: &RecordRow) {
        let event = &record.event;
        match record.kind.as_str() {
            "outbox_queued" => {
                let id = self.begin(record, What::Queued);
                self.sent.extend(id.map(|id| (record.seq, id)));
            }
            "outbox_attempted" => self.of_sent(record, What::Attempted),
            "outbox_accepted" => self.of_sent(record, What::Accepted),
            "outbox_refused" => self.of_sent(record, What::Refused),
            "outbox_retried" => self.of_sent(record, What::Retried),
            "outbox_dropped" => self.of_sent(record, What::GivenUp),
            "outbox_resigned" => self.of_sent(record, What::Resigned),
            "outbox_requeued" => self.of_sent(record, What::Requeued),
            "enqueued" => {
                let id = self.begin(record, What::Enqueued);
                self.queued.extend(id.map(|id| (record.seq, id)));
            }
            "acked" => {
                for id in take(&mut self.queued, &numbers(event, "seqs")) {
                    self.say(record, &id, What::Acked);
                }
            }
            "dropped" => {
                let what = match text(event, "reason") {
                    Some("expired") => What::Expired,
                    _ => What::Dropped,
                };
                for id in take(&mut self.queued, &numbers(event, "seqs")) {
                    self.say(record, &id, what);
                }
            }
            "discarded" => {
                for id in take(&mut self.queued, &numbers(event, "seqs")) {
                    self.say(record, &id, What::Discarded);
                }
            }
            "body_lost" => {
                let message: Vec<u64> = number(event, "message").into_iter().collect();
                for id in take(&mut self.queued, &message) {
                    self.say(record, &id, What::BodyLost);
                }
            }
            "received" => self.received(record),
            "received_expired" => {
                self.begin(record, What::Late);
            }
            "replay_seen" => {
                self.begin(record, What::UsedUp);
            }
            "acknowledged" => {
                for seq in numbers(event, "seqs") {
                    self.forget_unnoticed(seq);
                    if let Some(id) = self.mail.get(&seq).cloned() {
                        self.say(record, &id, What::Read);
                    }
                }
            }
            "notice_changed" => self.notice(record),
            "expired_dismissed" => {
                let items = event.get("items").and_then(Value::as_array);
                for item in items.into_iter().flatten() {
                    if let Some(id) = self.root(item) {
                        self.say(record, &id, What::Dismissed);
                    }
                }
            }
            "peer_forgotten" | "history_forgotten" => {
                let what = match record.kind.as_str() {
                    "peer_forgotten" => What::Erased,
                    _ => What::Forgotten,
                };
                let sent = take(&mut self.sent, &numbers(event, "sent"));
                let mail = take(&mut self.mail, &numbers(event, "received"));
                for id in sent.into_iter().chain(mail) {
                    self.say(record, &id, what);
                }
            }
            _ => {
                self.begin(record, What::Pairing);
            }
        }
    }

    fn received(&mut self, record: &RecordRow) {
        let Some(id) = self.begin(record, What::Received) else {
            return;
        };
        if let Some(session) = text(&record.event, "session") {
            let mail = self.unnoticed.entry(session.to_owned()).or_default();
            mail.insert(record.seq, Arc::clone(&id));
        }
        self.mail.insert(record.seq, id);
    }

    fn forget_unnoticed(&mut self, seq: u64) {
        self.unnoticed.values_mut().for_each(|mail| {
            mail.remove(&seq);
        });
        self.unnoticed.retain(|_, mail| !mail.is_empty());
    }

    /// A notice speaks for every message of its session up to a position.
    fn notice(&mut self, record: &RecordRow) {
        let Some(session) = text(&record.event, "session") else {
            return;
        };
        let change = text(&record.event, "change");
        if change == Some("reserved") {
            let covered = number(&record.event, "covered").unwrap_or_default();
            self.offers.insert(session.to_owned(), covered);
            return;
        }
        let what = match change {
            Some("accepted") => What::Notified,
            Some("failed") => What::NotifyFailed,
            _ => return,
        };
        let Some(covered) = self.offers.remove(session) else {
            return;
        };
        let Some(mail) = self.unnoticed.get_mut(session) else {
            return;
        };
        let rest = mail.split_off(&covered.saturating_add(1));
        let spoken = std::mem::replace(mail, rest);
        for id in spoken.values() {
            self.say(record, id, what);
        }
        // After a failure it is tried again.
        if let (What::NotifyFailed, Some(mail)) = (what, self.unnoticed.get_mut(session)) {
            mail.extend(spoken);
        }
    }
}

/// Takes what stands at these positions.
fn take(named: &mut Named, seqs: &[u64]) -> Vec<Arc<str>> {
    seqs.iter().filter_map(|seq| named.remove(seq)).collect()
}
