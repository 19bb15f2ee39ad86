//! `GET /poll`: what a peer has not seen yet. Nothing new: the request is held for a while.

use axum::http::Uri;
use axum::response::Response;

use super::answer::{Refused, ok, ok_text};
use super::{bell, commit, storage};
use crate::bus::state::{App, closed};
use crate::crypto::hash::sha256;
use crate::domain::decide::bus::{
    RELAY_SALT_BYTES, RelayCommand, RelayIndex, RelayMessage, RelaySession,
};
use crate::domain::projection::bus_rendezvous::RelayMessageKind;
use crate::event::bus_rendezvous::RelayFlow;
use crate::types::limit::{RELAY_POLL_UNITS, RELAY_TOUCH_MS};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;
use crate::wire::rendezvous::{PollReply, RelayId, SYSTEM, SystemPayload, since};

/// What is asked.
struct Wish {
    routing: RelayId,
    peer: RelayId,
    /// `None` is a number that no message follows.
    since: Option<i64>,
}

/// One message that is due: number, sender, text of a system message.
struct Due {
    number: u64,
    from: String,
    system: Option<String>,
    message: RelayMessage,
}

/// What the index says.
enum Look {
    /// No such session, or one that is over.
    Gone,
    /// The peer is not in it.
    Stranger,
    Session {
        at: Seq,
        oldest: u64,
        /// The session is to be prolonged.
        touch: bool,
        /// A lossless session keeps something that this peer has.
        fetched: bool,
        due: Vec<Due>,
    },
}

pub(super) async fn poll(app: &App, query: &str) -> Result<Response, Refused> {
    let wish = read(query)?;
    let mut deadline = None;
    let mut tended = false;
    let mut closing = app.closing.clone();
    loop {
        // The bell is heard from before the look on: nothing that comes in between is missed.
        let name = app
            .store
            .with_index(|index, _| index.relay().find(&wish.routing.0).map(|(at, _)| bell(at)));
        let waiter = name
            .as_deref()
            .and_then(|name| app.relay.waiters.register(name));
        let mut notified = waiter
            .as_ref()
            .map(|waiter| Box::pin(waiter.bell().notified()));
        if let Some(notified) = &mut notified {
            notified.as_mut().enable();
        }
        let (at, oldest, due) = match look(app, &wish) {
            Look::Gone => return gone(),
            Look::Stranger => return Err(Refused::Stranger),
            Look::Session {
                at, touch, fetched, ..
            } if (touch || fetched) && !tended => {
                tended = true;
                tend(app, &wish, at, (touch, fetched)).await;
                continue;
            }
            Look::Session {
                at, oldest, due, ..
            } => (at, oldest, due),
        };
        if !due.is_empty()
            && let Some(text) = messages(app, at, oldest, &due).await?
        {
            return Ok(ok_text(text));
        }
        let end = *deadline.get_or_insert_with(|| tokio::time::Instant::now() + app.relay.hold);
        let (Some(notified), Some(_)) = (notified, wish.since) else {
            return nothing(oldest);
        };
        tokio::select! {
            () = notified => {}
            () = tokio::time::sleep_until(end) => return nothing(oldest),
            () = closed(&mut closing) => return nothing(oldest),
        }
    }
}

/// Records what a poll says. Who reads is answered also where that cannot be written.
async fn tend(app: &App, wish: &Wish, session: Seq, (touch, fetched): (bool, bool)) {
    if touch {
        let _ = commit(app, RelayCommand::Touch { session }).await;
    }
    let until = wish.since.and_then(|n| u64::try_from(n).ok());
    if let Some(until) = until.filter(|_| fetched) {
        let peer = wish.peer.0;
        let fetched = RelayCommand::Fetched {
            session,
            peer,
            until,
        };
        let _ = commit(app, fetched).await;
    }
}

fn gone() -> Result<Response, Refused> {
    ok(&PollReply {
        messages: vec![],
        disconnected: true,
        oldest_seq: None,
    })
}

fn nothing(oldest: u64) -> Result<Response, Refused> {
    ok(&PollReply {
        messages: vec![],
        disconnected: false,
        oldest_seq: Some(oldest),
    })
}

/// The query; of a name that stands there twice the first one counts.
fn read(query: &str) -> Result<Wish, Refused> {
    let uri: Uri = format!("/?{query}")
        .parse()
        .map_err(|_| Refused::RoutingId)?;
    let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&uri);
    let pairs = pairs.map_err(|_| Refused::RoutingId)?.0;
    let value = |name: &str| {
        let pair = pairs.iter().find(|(n, _)| n == name);
        pair.map(|(_, value)| value.as_str())
    };
    let id = |name: &str| value(name).and_then(|text| text.parse().ok());
    Ok(Wish {
        routing: id("routingId").ok_or(Refused::RoutingId)?,
        peer: id("peerId").ok_or(Refused::Fields)?,
        since: since(value("since").unwrap_or_default()),
    })
}

fn look(app: &App, wish: &Wish) -> Look {
    let now = app.clock.now();
    app.store
        .with_index(|index, head| found(index.relay(), wish, head, now))
}

fn found(index: &RelayIndex, wish: &Wish, head: Seq, now: UnixMillis) -> Look {
    let Some((at, session)) = index.find(&wish.routing.0) else {
        return Look::Gone;
    };
    if session.is_over(now) || at > head {
        return Look::Gone;
    }
    let Some(member) = session.member(&wish.peer.0).filter(|m| *m <= head) else {
        return Look::Stranger;
    };
    let own = |message: &RelayMessage| {
        message.kind == RelayMessageKind::Sent
            && (message.from == member
                || session
                    .peer(message.from)
                    .is_some_and(|p| p.peer == wish.peer.0))
    };
    let from = match wish.since {
        None => u64::MAX,
        Some(n) => u64::try_from(n).unwrap_or(0),
    };
    let due = session
        .messages
        .range(from.saturating_add(1)..)
        // The index may be ahead of what is durable.
        .filter(|(_, message)| wish.since.is_some() && message.seq <= head && !own(message))
        .filter_map(|(number, message)| due(session, *number, message))
        .collect();
    let fetched = session.flow == RelayFlow::Lossless
        && session
            .messages
            .range(..=from)
            .any(|(_, m)| session.peer(m.from).is_none_or(|p| p.peer != wish.peer.0));
    Look::Session {
        at,
        oldest: session.oldest(),
        touch: now.since(session.used_at) >= RELAY_TOUCH_MS,
        fetched: fetched && wish.since.is_some_and(|n| n > 0),
        due,
    }
}

fn due(session: &RelaySession, number: u64, message: &RelayMessage) -> Option<Due> {
    let peer = session.peer(message.from)?;
    let system = match message.kind {
        RelayMessageKind::Sent => None,
        RelayMessageKind::Joined => Some(SystemPayload::PeerJoined {
            peer_id: RelayId(peer.peer),
            public_key: RelayId(peer.key),
        }),
        RelayMessageKind::Left => Some(SystemPayload::Disconnect {
            peer_id: RelayId(peer.peer),
        }),
    };
    Some(Due {
        number,
        from: match system {
            Some(_) => SYSTEM.to_owned(),
            None => RelayId(peer.peer).to_string(),
        },
        system: system.and_then(|payload| serde_json::to_string(&payload).ok()),
        message: *message,
    })
}

/// The answer's text; `None` when everything that was due is gone meanwhile.
async fn messages(
    app: &App,
    at: Seq,
    oldest: u64,
    due: &[Due],
) -> Result<Option<Vec<u8>>, Refused> {
    let mut out = b"{\"messages\":[".to_vec();
    let (mut units, mut count) = (0usize, 0usize);
    for due in due {
        let payload = match &due.system {
            Some(text) => Some(text.clone()),
            None => body(app, at, due).await?,
        };
        let Some(payload) = payload else { continue };
        let (from, number, arrived) = (&due.from, due.number, due.message.at);
        let text = format!(
            "{{\"from\":\"{from}\",\"seq\":{number},\"payload\":{payload},\"timestamp\":{arrived}}}"
        );
        units = units.saturating_add(text.encode_utf16().count());
        if count > 0 && units > RELAY_POLL_UNITS {
            break;
        }
        if count > 0 {
            out.push(b',');
        }
        count += 1;
        out.extend_from_slice(text.as_bytes());
    }
    out.extend_from_slice(format!("],\"disconnected\":false,\"oldestSeq\":{oldest}}}").as_bytes());
    Ok((count > 0).then_some(out))
}

/// What was sent; `None` when it has left meanwhile. One that is lost leaves now.
async fn body(app: &App, at: Seq, due: &Due) -> Result<Option<String>, Refused> {
    let RelayMessage {
        seq,
        sha256: digest,
        ..
    } = due.message;
    let stored = app
        .store
        .snapshot()
        .and_then(|snapshot| snapshot.body(seq))
        .map_err(|e| storage(&e))?;
    let whole = stored.filter(|bytes| sha256(bytes) == digest);
    let text = whole.and_then(|mut bytes| {
        let text = bytes.split_off(RELAY_SALT_BYTES.min(bytes.len()));
        String::from_utf8(text).ok()
    });
    if text.is_none() {
        let waits = app.store.with_index(|index, _| {
            let session = index.relay().session(at);
            session.is_some_and(|session| session.messages.contains_key(&due.number))
        });
        if waits {
            tracing::error!(%seq, "a relayed message is lost: its body is missing or damaged");
            commit(app, RelayCommand::Lose { message: seq }).await?;
        }
    }
    Ok(text)
}
