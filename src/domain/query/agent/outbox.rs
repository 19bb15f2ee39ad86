//! What waits to be sent, and where.

use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};

use crate::domain::machine::outbox::is_due;
use crate::domain::projection::agent::{OpenRow, OutboxRow, RelayState, Sent, SeqRow, seq_key};
use crate::domain::tables::{TableError, TableId, TableReader, decode_row, get_row, scan_rows};
use crate::event::agent::MailKind;
use crate::types::id::{MsgId, PublicKey, SessionId};
use crate::types::limit::CONTROL_RESIGN_MS;
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// An outgoing message.
#[derive(Clone, Debug, PartialEq)]
pub struct OutMail {
    /// Its position; [`OutboxRow::body`] is that of its text.
    pub seq: Seq,
    /// Its row.
    pub row: OutboxRow,
}

/// The outgoing message at a position.
///
/// # Errors
///
/// [`TableError`].
pub fn outbox_at(tables: &dyn TableReader, seq: Seq) -> Result<Option<OutMail>, TableError> {
    let row = get_row(tables, TableId::Outbox, &seq.to_key())?;
    Ok(row.map(|row| OutMail { seq, row }))
}

/// The outgoing message with this id.
///
/// # Errors
///
/// [`TableError`].
pub fn outbox_entry(
    tables: &dyn TableReader,
    msg_id: &MsgId,
) -> Result<Option<OutMail>, TableError> {
    let index: Option<SeqRow> = get_row(tables, TableId::OutboxByMsg, msg_id.as_str().as_bytes())?;
    match index {
        Some(index) => outbox_at(tables, index.seq),
        None => Ok(None),
    }
}

fn scan_open(
    tables: &dyn TableReader,
    mut visit: impl FnMut(Seq, OpenRow) -> Result<ControlFlow<()>, TableError>,
) -> Result<(), TableError> {
    scan_rows::<OpenRow>(tables, TableId::OutboxOpen, &[], |key, row| {
        visit(seq_key(TableId::OutboxOpen, key)?, row)
    })
}

/// Messages that no relay has taken yet, oldest first: of one session, or of all.
///
/// # Errors
///
/// [`TableError`].
pub fn outbox_open(
    tables: &dyn TableReader,
    session: Option<&SessionId>,
    limit: usize,
) -> Result<Vec<OutMail>, TableError> {
    let mut seqs = vec![];
    scan_open(tables, |seq, open| {
        if !open.accepted && session.is_none_or(|s| *s == open.session) {
            seqs.push(seq);
        }
        Ok(if seqs.len() < limit {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        })
    })?;
    seqs.truncate(limit);
    let mut mails = vec![];
    for seq in seqs {
        mails.extend(outbox_at(tables, seq)?);
    }
    Ok(mails)
}

/// How much waits to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxTotals {
    /// Messages that no relay has taken yet.
    pub messages: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Of these, messages to the recipient that was asked about.
    pub to_recipient: usize,
}

/// How much waits to be sent, in all and to `to`.
///
/// # Errors
///
/// [`TableError`].
pub fn outbox_totals(tables: &dyn TableReader, to: &PublicKey) -> Result<OutboxTotals, TableError> {
    let mut totals = OutboxTotals::default();
    scan_open(tables, |_, open| {
        if !open.accepted {
            totals.messages += 1;
            totals.bytes += u64::from(open.len);
            totals.to_recipient += usize::from(open.to == *to);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(totals)
}

/// Outgoing messages that did not fare well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxTroubles {
    /// Every relay refused them.
    pub refused: usize,
    /// A relay dropped the recipient's oldest mail for them.
    pub pushed_out: usize,
}

/// How many messages that were queued at `from` or later did not fare well. Reads each of them.
///
/// # Errors
///
/// [`TableError`].
pub fn outbox_troubles(tables: &dyn TableReader, from: Seq) -> Result<OutboxTroubles, TableError> {
    let mut troubles = OutboxTroubles::default();
    let mut failed = None;
    let key = from.to_key();
    let range = (Bound::Included(key.as_slice()), Bound::Unbounded);
    tables.scan(
        TableId::Outbox,
        range.0,
        range.1,
        &mut |_, value| match decode_row::<OutboxRow>(TableId::Outbox, value) {
            Ok(row) => {
                troubles.refused += usize::from(row.sent() == Sent::Refused);
                troubles.pushed_out += usize::from(row.pushed_out());
                ControlFlow::Continue(())
            }
            Err(e) => {
                failed = Some(e);
                ControlFlow::Break(())
            }
        },
    )?;
    failed.map_or(Ok(troubles), Err)
}

/// A relay as the driver sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayView<'a> {
    /// Normalised URL.
    pub url: &'a str,
    /// Whether it just came back: waits that were written while it was down do not count.
    pub woken: bool,
}

/// What the driver asks before it sends.
#[derive(Clone, Copy, Debug)]
pub struct DueQuery<'a> {
    /// Now.
    pub now: UnixMillis,
    /// The relays in use. A message goes to all of them, also to those that were not known when
    /// it was queued.
    pub relays: &'a [RelayView<'a>],
    /// Age in milliseconds of a signature at which an unsent message is signed anew. The wider
    /// world accepts 24 h, so half of that leaves room for a recipient that sleeps.
    pub resign_after_ms: u64,
    /// Age in milliseconds of a signature at which a message that one relay has is given up on
    /// the others.
    pub give_up_after_ms: u64,
    /// Furthest in milliseconds that a signature may be ahead of now before it is made anew: it
    /// was made under a clock that was wrong.
    pub future_ms: u64,
    /// Most answers.
    pub limit: usize,
}

/// What to do with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueAction {
    /// Post it.
    Send {
        /// Failed attempts so far.
        attempts: u32,
    },
    /// Sign it anew (once for all relays), then look again.
    Resign,
    /// Record that it is given up here: another relay has it, and this one was down, or is not in
    /// the configuration, for too long.
    GiveUp,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// Position of the message.
    pub seq: Seq,
    /// The session that sends.
    pub session: SessionId,
    /// The recipient.
    pub to: PublicKey,
    /// The recipient's session.
    pub to_session: SessionId,
    /// Position of the body.
    pub body: Seq,
    /// The relay.
    pub relay: String,
    /// What to do.
    pub action: DueAction,
}

/// What to do now, and when to look again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DueList {
    /// What to do, oldest message first.
    pub due: Vec<Due>,
    /// The earliest time at which something else becomes due.
    pub next: Option<UnixMillis>,
}

/// What is due on each relay: for every recipient the oldest message that the relay has not
/// answered for good, and none behind it, so that a relay gets a recipient's messages in order and
/// one recipient's trouble delays nobody else. `wants` chooses the sending sessions.
///
/// # Errors
///
/// [`TableError`].
pub fn outbox_pending(
    tables: &dyn TableReader,
    query: &DueQuery<'_>,
    wants: &dyn Fn(&SessionId) -> bool,
) -> Result<DueList, TableError> {
    let mut list = DueList::default();
    let mut blocked: BTreeSet<(PublicKey, SessionId, usize)> = BTreeSet::new();
    let mut open_messages = vec![];
    scan_open(tables, |seq, open| {
        if wants(&open.session) {
            open_messages.push((seq, open));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    for (seq, open) in open_messages {
        if list.due.len() >= query.limit {
            break;
        }
        let place = |relay: usize| (open.to, open.to_session.clone(), relay);
        let is_blocked = |relay: usize| blocked.contains(&place(relay));
        if !query.relays.is_empty() && (0..query.relays.len()).all(is_blocked) {
            continue;
        }
        if let Some(mail) = outbox_at(tables, seq)? {
            for relay in due_of(&mail, query, &mut list, &is_blocked) {
                blocked.insert(place(relay));
            }
        }
    }
    list.due.truncate(query.limit);
    Ok(list)
}

/// A pairing message is signed anew for nearly every attempt: strangers take it for a day only, and
/// the answer to it may have to wait as long again.
fn resign_after_ms(row: &OutboxRow, query: &DueQuery<'_>) -> u64 {
    match row.kind {
        MailKind::Message => query.resign_after_ms,
        MailKind::PairRequest | MailKind::PairAccept => {
            query.resign_after_ms.min(CONTROL_RESIGN_MS)
        }
    }
}

/// Adds what is due of one message; returns the relays on which it now blocks its recipient.
fn due_of(
    mail: &OutMail,
    query: &DueQuery<'_>,
    list: &mut DueList,
    is_blocked: &dyn Fn(usize) -> bool,
) -> Vec<usize> {
    let row = &mail.row;
    let due = |relay: &str, action| Due {
        seq: mail.seq,
        session: row.session.clone(),
        to: row.to,
        to_session: row.to_session.clone(),
        body: row.body,
        relay: relay.to_owned(),
        action,
    };
    let accepted = row.sent() == Sent::Accepted;
    let age = query.now.since(row.ts);
    let given_up = accepted && age > query.give_up_after_ms;
    let mut blocks = vec![];
    let mut resigned = false;
    for (at, relay) in query.relays.iter().enumerate() {
        let untried = RelayState::untried();
        let state = row.relay(relay.url).unwrap_or(&untried);
        let RelayState::Waiting {
            attempts, next_at, ..
        } = state
        else {
            continue;
        };
        if is_blocked(at) {
            continue;
        }
        if given_up {
            list.due.push(due(relay.url, DueAction::GiveUp));
            continue;
        }
        blocks.push(at);
        let stale = age > resign_after_ms(row, query) || row.ts.since(query.now) > query.future_ms;
        if !relay.woken && !is_due(*next_at, query.now) {
            list.next = Some(list.next.map_or(*next_at, |next| next.min(*next_at)));
        } else if stale && !accepted {
            if !resigned {
                list.due.push(due(relay.url, DueAction::Resign));
            }
            resigned = true;
        } else {
            let attempts = *attempts;
            list.due.push(due(relay.url, DueAction::Send { attempts }));
        }
    }
    // A relay that is not configured here may be configured in another session of this identity,
    // which still owes it the message: it is gone only when no session reached it in all that time.
    let configured = |url: &str| query.relays.iter().any(|r| r.url == url);
    for relay in &row.relays {
        let waiting = matches!(relay.state, RelayState::Waiting { .. });
        if given_up && waiting && !configured(&relay.url) {
            list.due.push(due(&relay.url, DueAction::GiveUp));
        }
    }
    blocks
}
