//! `list_pending`: what did not go the way that it should.

use std::ops::ControlFlow;

use super::inbox::{expired_text, expired_view};
use super::room::Room;
use super::view::{outgoing, outgoing_text};
use crate::agent::core::Core;
use crate::agent::mcp::args;
use crate::agent::mcp::error::ToolError;
use crate::agent::mcp::reply::{Answer, Outgoing, Pending};
use crate::domain::projection::agent::{OutboxRow, Sent, seq_key};
use crate::domain::query::agent::{self as query, OutMail};
use crate::domain::tables::{TableError, TableId, TableReader, scan_rows};
use crate::types::id::SessionId;

/// Sent messages that are shown of each sort.
const LISTED: usize = 50;

/// Lists what no relay has taken yet, what every relay refused, what pushed older mail out, and what
/// came too late.
///
/// # Errors
///
/// [`ToolError`].
pub async fn list_pending(core: &Core, _: args::Nothing) -> Result<Answer<Pending>, ToolError> {
    let session = core.session.clone();
    let (open, troubled, expired, peers) = core
        .ledger
        .read(move |s| {
            let open = query::outbox_open(s, Some(&session), LISTED)?;
            let troubled = troubled(s, &session)?;
            let expired = query::expired(s, Some(&session))?;
            Ok((open, troubled, expired, query::peers(s)?))
        })
        .await?;
    let mut room = Room::of(core);
    let mut left_out = 0u64;
    // No sort pushes out all of another.
    let mut view = |share: usize, list: &[OutMail]| -> Vec<Outgoing> {
        let list = list.iter().map(|out| outgoing(core, &peers, out));
        let (shown, left) = room.share(share).first_of(list.collect());
        room.less(&shown);
        left_out = left_out.saturating_add(left);
        shown
    };
    let refused = view(4, &troubled.refused);
    let dropped = view(4, &troubled.dropped);
    let pending = view(2, &open);
    let (expired, left) = room.first_of(expired_view(&expired, |_| true));
    let data = Pending {
        pending,
        refused,
        dropped,
        expired,
        left_out: left_out.saturating_add(left),
    };
    Ok(Answer {
        text: text(&data),
        data,
    })
}

fn text(data: &Pending) -> String {
    let mut lines: Vec<String> = data.pending.iter().map(outgoing_text).collect();
    if lines.is_empty() {
        lines.push("Nothing is pending.".to_owned());
    }
    if !data.refused.is_empty() {
        lines.push("Refused for good:".to_owned());
        lines.extend(data.refused.iter().map(outgoing_text));
    }
    if !data.dropped.is_empty() {
        lines.push(
            "Taken by a relay that dropped the recipient's oldest mail for it, perhaps an earlier \
             message of yours:"
                .to_owned(),
        );
        lines.extend(data.dropped.iter().map(outgoing_text));
    }
    if !data.expired.is_empty() {
        lines.push("Came too late; acknowledge to put away:".to_owned());
        lines.extend(data.expired.iter().map(expired_text));
    }
    if data.left_out > 0 {
        lines.push(format!("{} more did not fit.", data.left_out));
    }
    lines.join("\n")
}

#[derive(Default)]
struct Troubled {
    refused: Vec<OutMail>,
    dropped: Vec<OutMail>,
}

/// The newest of what was refused or pushed older mail out.
fn troubled(tables: &dyn TableReader, session: &SessionId) -> Result<Troubled, TableError> {
    let mut found = Troubled::default();
    scan_rows::<OutboxRow>(tables, TableId::Outbox, &[], |key, row| {
        if row.session != *session {
            return Ok(ControlFlow::Continue(()));
        }
        let list = if row.sent() == Sent::Refused {
            &mut found.refused
        } else if row.pushed_out() {
            &mut found.dropped
        } else {
            return Ok(ControlFlow::Continue(()));
        };
        let seq = seq_key(TableId::Outbox, key)?;
        list.push(OutMail { seq, row });
        if list.len() > LISTED {
            list.remove(0);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}
