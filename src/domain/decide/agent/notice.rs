//! Wake-up notices: the schedule of [`machine::notice`](crate::domain::machine::notice), recorded.

use super::{
    AgentCommand, AgentRefusal, AgentReply, Decided, changed, done, host, nothing, refuse,
};
use crate::domain::machine::notice::{
    NextNotice, NoticePhase, NoticeStep, NoticeView, next, offer_ms, retry_ms,
};
use crate::domain::projection::agent::{NoticeRow, UnreadRow, key, seq_key};
use crate::domain::query::agent::{news, notice as current, unread_totals};
use crate::domain::tables::{TableError, TableId, TableReader, scan_rows};
use crate::event::agent::{AgentEvent, NoticeChange, NoticeChanged, NoticePath};
use crate::types::id::SessionId;
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

fn change(session: &SessionId, id: &str, change: NoticeChange) -> AgentEvent {
    NoticeChanged {
        session: session.clone(),
        id: id.to_owned(),
        change,
    }
    .into()
}

fn is_notice_id(id: &str) -> bool {
    id.len() == 8 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

pub(super) fn reserve(tables: &dyn TableReader, command: &AgentCommand) -> Decided {
    let AgentCommand::ReserveNotice {
        lease,
        id,
        path,
        patience_ms,
        now,
    } = command
    else {
        return nothing(AgentReply::Notice(NoticeStep::Idle));
    };
    if !is_notice_id(id) {
        return refuse(AgentRefusal::NoticeId);
    }
    let waiting = unread_totals(tables, &lease.session)?.waiting();
    let row = current(tables, &lease.session)?;
    let schedule = row.as_ref().map(NoticeRow::schedule);
    let (again, attempt) = match next(schedule.as_ref(), waiting, *now) {
        NextNotice::Idle => return nothing(AgentReply::Notice(NoticeStep::Idle)),
        NextNotice::Wait { until } => {
            return nothing(AgentReply::Notice(NoticeStep::Wait { until }));
        }
        NextNotice::New => (None, 1),
        NextNotice::Again { attempt } => (row, attempt),
    };
    let view = NoticeView {
        id: again.as_ref().map_or(id, |row| &row.id).clone(),
        path: *path,
        unanswered: again.as_ref().and_then(|row| row.accepted),
        attempt,
        offers: again.as_ref().map_or(0, |row| row.offers),
        attention: waiting.attention,
        news: waiting.news,
    };
    let own = retry_ms(attempt);
    let wait = patience_ms.map_or(own, |patience| patience.min(own));
    let reserved = NoticeChange::Reserved {
        path: *path,
        covered: waiting.newest,
        attempt,
        due: now.plus(wait),
    };
    let event = change(&lease.session, &view.id, reserved);
    done(vec![event], AgentReply::Notice(NoticeStep::Offer(view)))
}

pub(super) fn result(
    tables: &dyn TableReader,
    session: &SessionId,
    id: &str,
    taken: Option<(NoticePath, Option<u64>)>,
    now: UnixMillis,
) -> Decided {
    let row = current(tables, session)?;
    let row = row.filter(|row| row.id == id && row.phase == NoticePhase::Reserved);
    changed(row.map(|row| {
        let what = match taken {
            Some((path, patience)) => {
                let own = offer_ms(path, row.offers.saturating_add(1));
                let wait = patience.map_or(own, |patience| patience.min(own));
                let due = now.plus(wait);
                NoticeChange::Accepted { path, due }
            }
            None => NoticeChange::Failed,
        };
        change(session, id, what)
    }))
}

/// Follows a notice up: the reader now knows of everything that waits.
pub(super) fn observe(
    tables: &dyn TableReader,
    session: &SessionId,
    id: Option<&str>,
    reset: bool,
) -> Decided {
    let row = current(tables, session)?;
    let Some(row) = row.filter(|row| reset || id == Some(row.id.as_str())) else {
        return changed(None);
    };
    let waiting = unread_totals(tables, session)?.waiting();
    let covered = waiting.newest.max(row.covered);
    let mut events = vec![];
    // An id that came back proves the way it went.
    if id == Some(row.id.as_str()) {
        events.extend(host::confirmed(tables, session, row.accepted)?);
    }
    if !row.observed || covered > row.covered {
        events.push(change(session, &row.id, NoticeChange::Observed { covered }));
    }
    let changed = !events.is_empty();
    done(events, AgentReply::Done { changed })
}

pub(super) fn forget(tables: &dyn TableReader, session: &SessionId) -> Decided {
    let row = current(tables, session)?;
    changed(row.map(|row| change(session, &row.id, NoticeChange::Dropped)))
}

/// Acknowledging everything that a notice speaks for follows it up, so that later mail gets a
/// notice of its own at once.
pub(super) fn after_acknowledge(
    tables: &dyn TableReader,
    session: &SessionId,
    acknowledged: &[Seq],
) -> Result<Option<AgentEvent>, TableError> {
    after(tables, session, acknowledged, Seq::ZERO)
}

/// So does seeing all that is new about pairing, when no mail is left of what it speaks for.
pub(super) fn after_news(
    tables: &dyn TableReader,
    session: &SessionId,
    seen: Seq,
) -> Result<Option<AgentEvent>, TableError> {
    after(tables, session, &[], seen)
}

fn after(
    tables: &dyn TableReader,
    session: &SessionId,
    acknowledged: &[Seq],
    seen: Seq,
) -> Result<Option<AgentEvent>, TableError> {
    let Some(row) = current(tables, session)?.filter(|row| !row.observed) else {
        return Ok(None);
    };
    let news = news(tables, session)?;
    let mut left = news.iter().any(|n| n.seq > seen && n.seq <= row.covered);
    let table = TableId::MailboxUnread;
    let prefix = key::session(session);
    scan_rows::<UnreadRow>(tables, table, &prefix, |rest, unread| {
        let seq = seq_key(table, rest)?;
        left |= unread.attention && seq <= row.covered && acknowledged.binary_search(&seq).is_err();
        Ok(if left || seq > row.covered {
            std::ops::ControlFlow::Break(())
        } else {
            std::ops::ControlFlow::Continue(())
        })
    })?;
    let covered = row.covered;
    Ok((!left).then(|| change(session, &row.id, NoticeChange::Observed { covered })))
}
