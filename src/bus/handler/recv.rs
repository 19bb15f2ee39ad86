//! `GET /recv`: the oldest mail that is not acknowledged, waiting for some if there is none.
//!
//! A look at the index finds positions, ignoring those that are not durable yet; a snapshot gives
//! the bodies. A body that is missing though its message still waits, or that is not what its
//! record says, is given up with a record of its own, so that it does not block the queue.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use tokio::time::Instant;

use super::{ack_key, check_name, json_text};
use crate::bus::failure::Failure;
use crate::bus::state::{App, closed};
use crate::crypto::hash::sha256;
use crate::domain::decide::bus::{BusCommand, Item};
use crate::types::limit::{
    DEFAULT_RECV_WAIT_MS, MAX_RECV_BATCH, MAX_RECV_BATCH_BYTES, MAX_RECV_WAIT_MS,
};
use crate::types::seq::Seq;
use crate::wire::http::RecvQuery;

/// A message with its body.
struct Mail {
    seq: Seq,
    item: Item,
    body: Vec<u8>,
}

pub(in crate::bus) async fn recv(
    State(app): State<Arc<App>>,
    uri: Uri,
) -> Result<Response, Failure> {
    let Query(query) =
        Query::<RecvQuery>::try_from_uri(&uri).map_err(|e| Failure::bad_request(e.body_text()))?;
    let me = query.me;
    check_name("me", &me)?;
    let max = query.max.map(|max| {
        usize::try_from(max)
            .unwrap_or(usize::MAX)
            .clamp(1, MAX_RECV_BATCH)
    });
    let wait = wait_ms(query.timeout_ms);
    let count = max.unwrap_or(1);
    let mut mail = look(&app, &me, count).await?;
    if mail.is_empty() && wait > 0 {
        mail = wait_for_mail(&app, &me, count, Duration::from_millis(wait)).await?;
    }
    let body = match (mail.as_slice(), max) {
        ([], _) => br#"{"status":"timeout"}"#.to_vec(),
        ([first, ..], None) => single(&me, first)?,
        (mail, Some(_)) => batch(&me, mail)?,
    };
    Ok(json_text(StatusCode::OK, body))
}

fn wait_ms(asked: Option<u64>) -> u64 {
    asked.unwrap_or(DEFAULT_RECV_WAIT_MS).min(MAX_RECV_WAIT_MS)
}

/// Waits until there is mail, the time is up or the bus shuts down.
async fn wait_for_mail(
    app: &App,
    me: &str,
    count: usize,
    wait: Duration,
) -> Result<Vec<Mail>, Failure> {
    let deadline = Instant::now() + wait;
    let waiter = app
        .waiters
        .register(me)
        .ok_or_else(|| Failure::waiters(app.waiters.max()))?;
    let mut closing = app.closing.clone();
    loop {
        let mut bell = std::pin::pin!(waiter.bell().notified());
        bell.as_mut().enable();
        let mail = look(app, me, count).await?;
        if !mail.is_empty() {
            return Ok(mail);
        }
        tokio::select! {
            () = bell => {}
            () = tokio::time::sleep_until(deadline) => return look(app, me, count).await,
            () = closed(&mut closing) => return Ok(vec![]),
        }
    }
}

/// The oldest durable mail of a queue.
async fn look(app: &App, me: &str, count: usize) -> Result<Vec<Mail>, Failure> {
    let mut given_up = HashSet::new();
    loop {
        let wanted = oldest(app, me, count, &given_up);
        if wanted.is_empty() {
            return Ok(vec![]);
        }
        let (found, lost) = read_bodies(app, wanted)?;
        for seq in lost {
            let waits = app
                .store
                .with_index(|index, _| index.recipient(seq) == Some(me));
            if !waits {
                // Acknowledged between the two looks.
                continue;
            }
            tracing::error!(%seq, "the body of a message is missing or damaged");
            if app.commit(BusCommand::LoseBody { seq }).await.is_err() {
                // A store that takes no writes: pass over it.
                given_up.insert(seq);
            }
        }
        if !found.is_empty() {
            return Ok(found);
        }
    }
}

fn oldest(app: &App, me: &str, count: usize, given_up: &HashSet<Seq>) -> Vec<(Seq, Item)> {
    app.store.with_index(|index, durable| {
        let mut wanted = vec![];
        let mut bytes = 0usize;
        for (seq, item) in index.queue(me).into_iter().flat_map(|queue| queue.iter()) {
            bytes = bytes.saturating_add(item.len as usize);
            let full = !wanted.is_empty() && bytes > MAX_RECV_BATCH_BYTES;
            if seq > durable || wanted.len() == count || full {
                break;
            }
            if !given_up.contains(&seq) {
                wanted.push((seq, *item));
            }
        }
        wanted
    })
}

/// Reads bodies, each checked against its record; also the positions of those that do not hold.
fn read_bodies(app: &App, wanted: Vec<(Seq, Item)>) -> Result<(Vec<Mail>, Vec<Seq>), Failure> {
    let snapshot = app.store.snapshot()?;
    let (mut found, mut lost) = (vec![], vec![]);
    for (seq, item) in wanted {
        match snapshot.body(seq)? {
            Some(body) if body.len() == item.len as usize && sha256(&body) == item.sha256 => {
                found.push(Mail { seq, item, body });
            }
            _ => lost.push(seq),
        }
    }
    Ok((found, lost))
}

/// `"ack":K,"envelope":{"payload":P,"ts":N}` around the payload's bytes as they are stored.
fn delivery(out: &mut Vec<u8>, me: &str, mail: &Mail) -> Result<(), Failure> {
    let key = serde_json::to_string(&ack_key(me, mail.seq))
        .map_err(|e| Failure::internal(e.to_string()))?;
    out.extend_from_slice(b"\"ack\":");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b",\"envelope\":{\"payload\":");
    out.extend_from_slice(&mail.body);
    let mut rest = String::new();
    let _ = write!(rest, ",\"ts\":{}}}", mail.item.at);
    out.extend_from_slice(rest.as_bytes());
    Ok(())
}

fn single(me: &str, mail: &Mail) -> Result<Vec<u8>, Failure> {
    let mut out = Vec::with_capacity(mail.body.len() + me.len() + 128);
    out.push(b'{');
    delivery(&mut out, me, mail)?;
    out.extend_from_slice(b",\"status\":\"message\"}");
    Ok(out)
}

fn batch(me: &str, mail: &[Mail]) -> Result<Vec<u8>, Failure> {
    let bytes: usize = mail.iter().map(|m| m.body.len() + me.len() + 128).sum();
    let mut out = Vec::with_capacity(bytes);
    out.extend_from_slice(b"{\"messages\":[");
    for (i, one) in mail.iter().enumerate() {
        out.extend_from_slice(if i == 0 { b"{" } else { b",{" });
        delivery(&mut out, me, one)?;
        out.push(b'}');
    }
    out.extend_from_slice(b"],\"status\":\"message\"}");
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_clamped() {
        assert_eq!(wait_ms(None), 25_000);
        assert_eq!(wait_ms(Some(0)), 0);
        assert_eq!(wait_ms(Some(60_001)), 60_000);
        assert_eq!(wait_ms(Some(u64::MAX)), 60_000);
    }
}
