//! What arrived, and what the reader still has to see.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::{NewsTotals, OutMail, news_totals};
use crate::domain::machine::notice::Waiting;
use crate::domain::projection::agent::{
    ExpiredRow, FloorRow, MailRow, NoticeRow, OutboxRow, ReplayRow, RouteRow, SeqRow, UnreadRow,
    key, seq_key,
};
use crate::domain::tables::{TableError, TableId, TableReader, get_row, scan_rows};
use crate::event::agent::MailKind;
use crate::types::id::{MsgId, PublicKey, SessionId};
use crate::types::route::Route;
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// A received message.
#[derive(Clone, Debug, PartialEq)]
pub struct Mail {
    /// Its position, and that of its body.
    pub seq: Seq,
    /// Its row.
    pub row: MailRow,
}

/// The received message at a position.
///
/// # Errors
///
/// [`TableError`].
pub fn mail_at(tables: &dyn TableReader, seq: Seq) -> Result<Option<Mail>, TableError> {
    let row = get_row(tables, TableId::Mailbox, &seq.to_key())?;
    Ok(row.map(|row| Mail { seq, row }))
}

/// The message of a sender with this id in a session's mailbox.
///
/// # Errors
///
/// [`TableError`].
pub fn mailbox_entry(
    tables: &dyn TableReader,
    session: &SessionId,
    from: &PublicKey,
    msg_id: &MsgId,
) -> Result<Option<Mail>, TableError> {
    let mail = mail_of(tables, from, msg_id)?;
    Ok(mail.filter(|mail| mail.row.session == *session))
}

/// The message of a sender with this id, in whichever session's mailbox it stands.
///
/// # Errors
///
/// [`TableError`].
pub fn mail_of(
    tables: &dyn TableReader,
    from: &PublicKey,
    msg_id: &MsgId,
) -> Result<Option<Mail>, TableError> {
    let key = key::mail(from, msg_id);
    let index: Option<SeqRow> = get_row(tables, TableId::MailboxByMsg, &key)?;
    match index {
        Some(index) => mail_at(tables, index.seq),
        None => Ok(None),
    }
}

/// Every message with this id in a session's mailbox: ids are unique per sender only.
///
/// # Errors
///
/// [`TableError`].
pub fn find_mail(
    tables: &dyn TableReader,
    session: &SessionId,
    msg_id: &MsgId,
) -> Result<Vec<Mail>, TableError> {
    let mut seqs = vec![];
    scan_rows::<SeqRow>(
        tables,
        TableId::MailboxByMsg,
        &key::mails(msg_id),
        |_, row| {
            seqs.push(row.seq);
            Ok(ControlFlow::Continue(()))
        },
    )?;
    let mut mails = read_all(tables, seqs)?;
    mails.retain(|mail| mail.row.session == *session);
    Ok(mails)
}

fn read_all(
    tables: &dyn TableReader,
    seqs: impl IntoIterator<Item = Seq>,
) -> Result<Vec<Mail>, TableError> {
    let mut mails = vec![];
    for seq in seqs {
        mails.extend(mail_at(tables, seq)?);
    }
    Ok(mails)
}

fn scan_unread(
    tables: &dyn TableReader,
    session: &SessionId,
    mut visit: impl FnMut(Seq, UnreadRow),
) -> Result<(), TableError> {
    let table = TableId::MailboxUnread;
    scan_rows::<UnreadRow>(tables, table, &key::session(session), |rest, row| {
        visit(seq_key(table, rest)?, row);
        Ok(ControlFlow::Continue(()))
    })
}

/// Unread messages of a session as a reader gets them: in order of arrival, progress last, at
/// most `limit`. Reads change nothing.
///
/// # Errors
///
/// [`TableError`].
pub fn unread(
    tables: &dyn TableReader,
    session: &SessionId,
    limit: usize,
) -> Result<Vec<Mail>, TableError> {
    let (mut urgent, mut progress) = (vec![], vec![]);
    scan_unread(tables, session, |seq, row| {
        if row.attention {
            urgent.push(seq);
        } else {
            progress.push(seq);
        }
    })?;
    read_all(tables, urgent.into_iter().chain(progress).take(limit))
}

/// How much waits for a session's reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnreadTotals {
    /// Unread messages.
    pub messages: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Those that are worth waking somebody.
    pub attention: usize,
    /// Position of the newest of these.
    pub newest: Seq,
    /// What is new about pairing.
    pub news: NewsTotals,
}

impl UnreadTotals {
    /// What the schedule of notices needs to know.
    #[must_use]
    pub const fn waiting(&self) -> Waiting {
        Waiting {
            attention: self.attention,
            news: self.news.count,
            newest: if self.news.newest.0 > self.newest.0 {
                self.news.newest
            } else {
                self.newest
            },
        }
    }
}

/// How much waits for a session's reader.
///
/// # Errors
///
/// [`TableError`].
pub fn unread_totals(
    tables: &dyn TableReader,
    session: &SessionId,
) -> Result<UnreadTotals, TableError> {
    let mut totals = UnreadTotals {
        news: news_totals(tables, session)?,
        ..UnreadTotals::default()
    };
    scan_unread(tables, session, |seq, row| {
        totals.messages += 1;
        totals.bytes += u64::from(row.len);
        if row.attention {
            totals.attention += 1;
            totals.newest = seq;
        }
    })?;
    Ok(totals)
}

/// State of a received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailState {
    /// Stored; nobody was told yet.
    Stored,
    /// Covered by a notice; the word says how that went.
    Noticed(&'static str),
    /// Acknowledged by the reader.
    Acknowledged,
}

impl MailState {
    /// The word that people and scripts see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            MailState::Stored => "receiver_stored",
            MailState::Noticed(word) => word,
            MailState::Acknowledged => "receiver_acknowledged",
        }
    }
}

/// State of a received message, given its session's notice.
#[must_use]
pub fn mail_state(mail: &Mail, notice: Option<&NoticeRow>) -> MailState {
    if mail.row.acknowledged_at.is_some() {
        return MailState::Acknowledged;
    }
    notice
        .filter(|notice| mail.seq <= notice.covered)
        .and_then(NoticeRow::mail_state)
        .map_or(MailState::Stored, MailState::Noticed)
}

/// The notice of a session.
///
/// # Errors
///
/// [`TableError`].
pub fn notice(
    tables: &dyn TableReader,
    session: &SessionId,
) -> Result<Option<NoticeRow>, TableError> {
    get_row(tables, TableId::Notices, session.as_str().as_bytes())
}

/// Which session of a peer wrote to one of our sessions last.
///
/// # Errors
///
/// [`TableError`].
pub fn route(
    tables: &dyn TableReader,
    session: &SessionId,
    peer: &PublicKey,
) -> Result<Option<RouteRow>, TableError> {
    get_row(tables, TableId::Routes, &key::route(session, peer))
}

/// Messages that came too late, oldest arrival first: of one session, or of all.
///
/// # Errors
///
/// [`TableError`].
pub fn expired(
    tables: &dyn TableReader,
    session: Option<&SessionId>,
) -> Result<Vec<ExpiredRow>, TableError> {
    let mut rows = vec![];
    scan_rows::<ExpiredRow>(tables, TableId::Expired, &[], |_, row| {
        if session.is_none_or(|s| *s == row.session) {
            rows.push(row);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    rows.sort_by_key(|row| row.seq);
    Ok(rows)
}

/// Whether a sender's message id is used up.
///
/// # Errors
///
/// [`TableError`].
pub fn is_seen(
    tables: &dyn TableReader,
    from: &PublicKey,
    msg_id: &MsgId,
) -> Result<bool, TableError> {
    let key = key::sender_msg(from, msg_id);
    let row: Option<ReplayRow> = get_row(tables, TableId::Replay, &key)?;
    Ok(row.is_some())
}

/// The time at or before which everything signed is stale, if ids were ever forgotten.
///
/// # Errors
///
/// [`TableError`].
pub fn floor(tables: &dyn TableReader) -> Result<Option<UnixMillis>, TableError> {
    let row: Option<FloorRow> = get_row(tables, TableId::ReplayFloor, &key::FLOOR)?;
    Ok(row.map(|row| row.floor))
}

/// The other side of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct With {
    /// The key.
    pub key: PublicKey,
    /// One of its sessions, or all.
    pub session: Option<SessionId>,
}

/// The last `limit` messages that a session of ours exchanged with somebody, both directions,
/// ascending by signed time, then id.
///
/// # Errors
///
/// [`TableError`].
pub fn conversation(
    tables: &dyn TableReader,
    own: &SessionId,
    with: &With,
    limit: usize,
) -> Result<Vec<Line>, TableError> {
    let mut last: BTreeMap<(UnixMillis, MsgId, Seq), Line> = BTreeMap::new();
    let mut keep = |ts: UnixMillis, msg_id: &MsgId, seq: Seq, line: Line| {
        last.insert((ts, msg_id.clone(), seq), line);
        if last.len() > limit {
            last.pop_first();
        }
    };
    let of = |route: Option<&Route>| route.and_then(|r| r.session.clone());
    scan_rows::<MailRow>(tables, TableId::Mailbox, &[], |key, row| {
        let seq = seq_key(TableId::Mailbox, key)?;
        let fits = with.session.is_none() || of(row.reply_to.as_ref()) == with.session;
        if row.session == *own && row.from == with.key && fits {
            let (ts, msg_id) = (row.ts, row.msg_id.clone());
            keep(ts, &msg_id, seq, Line::In(Mail { seq, row }));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    scan_rows::<OutboxRow>(tables, TableId::Outbox, &[], |key, row| {
        let seq = seq_key(TableId::Outbox, key)?;
        let fits = with.session.as_ref().is_none_or(|s| *s == row.to_session);
        let spoken = row.kind == MailKind::Message;
        if spoken && row.session == *own && row.to == with.key && fits {
            let (ts, msg_id) = (row.ts, row.msg_id.clone());
            keep(ts, &msg_id, seq, Line::Out(OutMail { seq, row }));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(last.into_values().collect())
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// Received.
    In(Mail),
    /// Sent.
    Out(OutMail),
}
