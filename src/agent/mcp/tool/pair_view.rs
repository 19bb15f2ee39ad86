//! `list_pair_requests`, `pair_status`: how far pairing is. Every session of the identity sees all of it.

use std::collections::BTreeSet;

use super::room::Room;
use crate::agent::core::Core;
use crate::agent::lease::Right;
use crate::agent::mcp::args;
use crate::agent::mcp::error::ToolError;
use crate::agent::mcp::render;
use crate::agent::mcp::reply::Answer;
use crate::agent::mcp::reply::pairing::{
    Asked, Asking, Conflict, PairNews, PairRequests, PairStatus,
};
use crate::domain::decide::agent::PairingCommand;
use crate::domain::projection::agent::{NewsKind, Sent};
use crate::domain::query::agent::{self as query, Blocked, Inbound, News, Outbound, Peer};
use crate::event::agent::ConflictReason;
use crate::store::{ReadError, Snapshot};
use crate::types::id::PublicKey;
use crate::types::time::Clock as _;

/// Everything about pairing, at one moment.
struct Books {
    peers: Vec<Peer>,
    inbound: Vec<Inbound>,
    outbound: Vec<Outbound>,
    conflicts: Vec<query::Conflict>,
    blocked: Vec<Blocked>,
    news: Vec<News>,
}

async fn books(core: &Core) -> Result<Books, ToolError> {
    let session = core.session.clone();
    let read = move |s: &Snapshot| -> Result<Books, ReadError> {
        Ok(Books {
            peers: query::peers(s)?,
            inbound: query::inbound(s)?,
            outbound: query::outbound(s)?,
            conflicts: query::conflicts(s)?,
            blocked: query::blocked(s)?,
            news: query::news(s, &session)?,
        })
    };
    Ok(core.ledger.read(read).await?)
}

/// The keys that a text means among keys and their names: a key, else a fingerprint, else a name.
pub(super) fn fitting(all: Vec<(PublicKey, String)>, text: &str) -> Vec<PublicKey> {
    let keys = |fits: &dyn Fn(&PublicKey, &str) -> bool| -> Vec<PublicKey> {
        let fitting = all.iter().filter(|(key, name)| fits(key, name));
        let keys: BTreeSet<PublicKey> = fitting.map(|(key, _)| *key).collect();
        keys.into_iter().collect()
    };
    let mut found = keys(&|key, _| key.to_string() == text);
    if found.is_empty() {
        found = keys(&|key, _| key.fingerprint().as_str() == text);
    }
    if found.is_empty() && !text.is_empty() {
        found = keys(&|_, name| name == text);
    }
    found
}

/// Lists what waits, and what is new; that counts as seen then.
///
/// # Errors
///
/// [`ToolError`].
pub async fn list_pair_requests(
    core: &Core,
    _: args::Nothing,
) -> Result<Answer<PairRequests>, ToolError> {
    let books = books(core).await?;
    let data = requests(core, &books);
    if let Some(newest) = books.news.last() {
        see(core, newest).await;
    }
    Ok(Answer {
        text: text(&data),
        data,
    })
}

/// What fits into an answer. No sort of entry pushes out all of another: anybody can ask.
fn requests(core: &Core, books: &Books) -> PairRequests {
    let mut room = Room::of(core);
    let conflicts = books.conflicts.iter().map(conflict).collect();
    let (conflicts, c) = room.share(4).first_of(conflicts);
    room.less(&conflicts);
    let (outbound, o) = room
        .share(4)
        .first_of(books.outbound.iter().map(asked).collect());
    room.less(&outbound);
    // The newest: it is what this session came for.
    let newest = books.news.iter().rev();
    let (mut news, n) = room
        .share(3)
        .first_of(newest.map(|n| news(n, &books.peers)).collect());
    news.reverse();
    room.less(&news);
    let (inbound, i) = room.first_of(books.inbound.iter().map(asking).collect());
    PairRequests {
        inbound,
        outbound,
        conflicts,
        news,
        left_out: c.saturating_add(o).saturating_add(n).saturating_add(i),
        note: note(books).to_owned(),
    }
}

/// The list is worth more than the bookkeeping of what was seen of it.
async fn see(core: &Core, newest: &News) {
    let Right::Held(lease) = core.lease.now() else {
        return;
    };
    let command = PairingCommand::SeeNews {
        lease,
        up_to: newest.seq,
        now: core.clock.now(),
    };
    if let Err(e) = core.submit(command.into()).await {
        tracing::warn!("the news could not be marked as seen: {e}");
    }
}

fn asking(inbound: &Inbound) -> Asking {
    let usable = inbound
        .petname
        .as_ref()
        .filter(|_| inbound.holder.is_none());
    let problem = match (&inbound.petname, &inbound.holder) {
        (None, _) => Some("the claimed name cannot be a petname".to_owned()),
        (Some(name), Some(holder)) => Some(format!(
            "{} is the name of {holder}",
            render::label(name.as_str())
        )),
        _ => None,
    };
    Asking {
        key: inbound.key.to_string(),
        fingerprint: inbound.key.fingerprint().to_string(),
        claimed_name: render::label(&inbound.row.name),
        petname: usable.map(|name| render::label(name.as_str())),
        problem,
        since_ms: inbound.row.first_at.0,
    }
}

const fn sent_name(sent: Option<Sent>) -> &'static str {
    match sent {
        Some(sent) => sent.name(),
        None => Sent::Accepted.name(),
    }
}

fn asked(outbound: &Outbound) -> Asked {
    Asked {
        key: outbound.key.to_string(),
        fingerprint: outbound.key.fingerprint().to_string(),
        petname: render::label(&outbound.row.name),
        state: sent_name(outbound.sent).to_owned(),
        session: outbound.row.session.to_string(),
        since_ms: outbound.row.first_at.0,
    }
}

fn conflict(conflict: &query::Conflict) -> Conflict {
    Conflict {
        key: conflict.key.to_string(),
        fingerprint: conflict.key.fingerprint().to_string(),
        petname: render::label(&conflict.row.name),
        problem: conflict_text(conflict),
    }
}

fn conflict_text(conflict: &query::Conflict) -> String {
    let name = render::label(&conflict.row.name);
    match (conflict.row.reason, &conflict.row.holder) {
        (ConflictReason::NameTaken, Some(holder)) => {
            format!("{name} is the name of {holder} now")
        }
        (ConflictReason::NameTaken, None) => format!("{name} is the name of another key now"),
        (ConflictReason::ListFull, _) => "the list of peers is full".to_owned(),
    }
}

fn news(news: &News, peers: &[Peer]) -> PairNews {
    let peer = peers.iter().find(|peer| peer.key == news.key);
    PairNews {
        kind: news.kind.name().to_owned(),
        key: news.key.to_string(),
        petname: peer.map(|peer| render::label(&peer.petname)),
    }
}

const fn note(books: &Books) -> &'static str {
    if !books.inbound.is_empty() {
        "Tell the user who asks, by fingerprint. Only the user decides; accept_pair asks them, \
         reject_pair drops a request."
    } else if !books.conflicts.is_empty() {
        "Ask the user for another name and call accept_pair with it, or cancel_pair_request."
    } else {
        "Nobody waits for a decision."
    }
}

fn text(data: &PairRequests) -> String {
    let mut lines = vec![];
    for n in &data.news {
        let who = n
            .petname
            .as_ref()
            .map_or_else(String::new, |p| format!(" \"{p}\""));
        let what = match n.kind.as_str() {
            kind if kind == NewsKind::Paired.name() && n.petname.is_none() => {
                "accepted; it is no peer any more"
            }
            kind if kind == NewsKind::Paired.name() => "accepted; it is a peer now",
            kind if kind == NewsKind::Conflict.name() => "accepted, but needs another name",
            kind if kind == NewsKind::Expired.name() => "did not answer in time",
            _ => "asks to be admitted",
        };
        lines.push(format!("New: {}{who} {what}.", n.key));
    }
    for i in &data.inbound {
        let problem = i
            .problem
            .as_ref()
            .map_or_else(String::new, |p| format!("; {p}"));
        lines.push(format!(
            "{} asks, claiming to be \"{}\" (not verified{problem}), key {}",
            i.fingerprint, i.claimed_name, i.key
        ));
    }
    for o in &data.outbound {
        lines.push(format!(
            "{} was asked, to be called \"{}\" [{}], key {}",
            o.fingerprint, o.petname, o.state, o.key
        ));
    }
    for c in &data.conflicts {
        lines.push(format!(
            "{} accepted, but {}, key {}",
            c.fingerprint, c.problem, c.key
        ));
    }
    if data.left_out > 0 {
        lines.push(format!(
            "{} more did not fit; the user sees all with `interlink-admin pair list`.",
            data.left_out
        ));
    }
    lines.push(data.note.clone());
    lines.join("\n")
}

/// Says how far pairing with somebody is.
///
/// # Errors
///
/// [`ToolError`].
pub async fn pair_status(
    core: &Core,
    a: args::PairStatus,
) -> Result<Answer<PairStatus>, ToolError> {
    let text = a.target.trim();
    core.peers.ensure(&core.ledger).await?;
    let books = books(core).await?;
    let mut all: Vec<(PublicKey, String)> = vec![];
    all.extend(books.peers.iter().map(|p| (p.key, p.petname.clone())));
    all.extend(books.outbound.iter().map(|o| (o.key, o.row.name.clone())));
    all.extend(books.conflicts.iter().map(|c| (c.key, c.row.name.clone())));
    all.extend(books.inbound.iter().map(|i| (i.key, i.row.name.clone())));
    all.extend(books.blocked.iter().map(|b| (b.key, String::new())));
    let data = match fitting(all, text).as_slice() {
        [] => PairStatus {
            state: "unknown".to_owned(),
            key: None,
            petname: None,
            claimed_name: None,
            since_ms: None,
            note: "Nobody here has this key, fingerprint or name, and nobody with it asks."
                .to_owned(),
        },
        [key] => status(&books, key),
        _ => {
            return Err(ToolError::Invalid(
                "several identities fit; give the whole key".to_owned(),
            ));
        }
    };
    let key = data
        .key
        .as_deref()
        .map_or_else(String::new, |k| format!(" ({k})"));
    Ok(Answer {
        text: format!("{}{key}: {}", data.state, data.note),
        data,
    })
}

fn status(books: &Books, key: &PublicKey) -> PairStatus {
    let peer = books.peers.iter().find(|p| p.key == *key);
    let mut status = PairStatus {
        state: String::new(),
        key: Some(key.to_string()),
        petname: peer.map(|p| render::label(&p.petname)),
        claimed_name: None,
        since_ms: None,
        note: String::new(),
    };
    if let Some(c) = books.conflicts.iter().find(|c| c.key == *key) {
        "conflict".clone_into(&mut status.state);
        status.petname = Some(render::label(&c.row.name));
        status.since_ms = Some(c.row.at.0);
        status.note = format!(
            "It accepted, but {}. Ask the user for another name and call accept_pair with it.",
            conflict_text(c)
        );
    } else if let Some(i) = books.inbound.iter().find(|i| i.key == *key) {
        "asking".clone_into(&mut status.state);
        status.claimed_name = Some(render::label(&i.row.name));
        status.since_ms = Some(i.row.first_at.0);
        "It asks to be admitted; the user decides.".clone_into(&mut status.note);
    } else if let Some(o) = books.outbound.iter().find(|o| o.key == *key) {
        "requested".clone_into(&mut status.state);
        status.petname = Some(render::label(&o.row.name));
        status.since_ms = Some(o.row.first_at.0);
        match o.sent {
            Some(Sent::Pending) => "No relay has the request yet; it is tried until one does.",
            Some(Sent::Refused) => "Every relay refused the request; ask again to repeat it.",
            _ => "A relay has the request; their user has not answered yet.",
        }
        .clone_into(&mut status.note);
    } else if let Some(p) = peer {
        "peer".clone_into(&mut status.state);
        status.since_ms = Some(p.since.0);
        "It may write to this identity.".clone_into(&mut status.note);
    } else {
        let blocked = books.blocked.iter().find(|b| b.key == *key);
        "blocked".clone_into(&mut status.state);
        status.since_ms = blocked.map(|b| b.row.at.0);
        "The operator does not want to hear of it; interlink-admin pair unblock ends that."
            .clone_into(&mut status.note);
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::agent::Origin;
    use crate::types::seq::Seq;
    use crate::types::time::UnixMillis;

    #[test]
    fn news_of_an_admission_that_was_ended_meanwhile_does_not_say_that_it_stands() {
        let key = PublicKey::from_bytes([7; 32]);
        let paired = News {
            seq: Seq(1),
            kind: NewsKind::Paired,
            key,
        };
        let told = |peers: &[Peer]| {
            text(&PairRequests {
                inbound: vec![],
                outbound: vec![],
                conflicts: vec![],
                news: vec![news(&paired, peers)],
                left_out: 0,
                note: String::new(),
            })
        };
        let peer = Peer {
            key,
            petname: "bob".into(),
            origin: Origin::Human,
            seq: Seq(1),
            since: UnixMillis(1),
        };
        let standing = told(&[peer]);
        assert!(standing.contains("\"bob\" accepted; it is a peer now."));
        let ended = told(&[]);
        assert!(
            ended.contains("accepted; it is no peer any more."),
            "{ended}"
        );
    }
}
