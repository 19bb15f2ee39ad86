//! Paths, and what each does. The order in which a request is judged is the wire's: path and
//! method, size, JSON, routing id, the route's own members, then the session.

use std::net::IpAddr;

use axum::body::Body;
use axum::extract::Request;
use axum::http::Method;
use axum::response::Response;

use super::answer::{Refused, ok};
use super::{commit, poll, read};
use crate::bus::guard::Guard;
use crate::bus::state::App;
use crate::crypto::hash::sha256;
use crate::domain::decide::bus::{RELAY_SALT_BYTES, RelayCommand, RelayReply};
use crate::event::bus_rendezvous::RelayFlow;
use crate::types::limit::{
    MAX_RELAY_DEPTH, MAX_RELAY_DISCONNECT_BYTES, MAX_RELAY_OPEN_BYTES, MAX_RELAY_SEND_BYTES,
    RELAY_TTL_MS,
};
use crate::wire::rendezvous::{
    Body as Json, CreateReply, FLOW, HealthReply, JoinReply, OkReply, Posted, ReadBodyError,
    RelayId,
};

const OK: OkReply = OkReply { ok: true };

pub(super) async fn answer(
    app: &App,
    guard: &Guard,
    request: Request,
    peer: IpAddr,
) -> Result<Response, Refused> {
    let (head, body) = request.into_parts();
    guard
        .check_origin(&head.headers)
        .map_err(|_| Refused::Origin)?;
    guard.check_local(&head).map_err(|_| Refused::Host)?;
    // Clients join URLs as texts, and a trailing slash of the base becomes a leading one here.
    let path = head.uri.path().trim_start_matches('/');
    if path == "health" {
        return ok(&HealthReply {
            status: "ok".to_owned(),
            timestamp: app.clock.now().0,
        });
    }
    let admitted = app.relay.addresses.admit(peer, app.clock.now());
    admitted.map_err(|after_ms| Refused::TooFast { after_ms })?;
    match (path, &head.method) {
        ("create", &Method::POST) => create(app, body).await,
        ("join", &Method::POST) => join(app, body).await,
        ("send", &Method::POST) => send(app, body).await,
        ("disconnect", &Method::POST) => disconnect(app, body).await,
        ("poll", &Method::GET) => poll::poll(app, head.uri.query().unwrap_or_default()).await,
        _ => Err(Refused::Endpoint),
    }
}

/// Reads a body and its routing id.
async fn posted(body: Body, max: usize) -> Result<(Posted, RelayId), Refused> {
    let (bytes, _room) = read::whole(body, max).await?;
    let posted = match Json::read(&bytes, MAX_RELAY_DEPTH) {
        Ok(Json::Members(posted)) => *posted,
        // What the public relay answers where it looks into nothing.
        Ok(Json::Null) => return Err(Refused::Internal),
        Ok(Json::Other) => return Err(Refused::RoutingId),
        Err(ReadBodyError::Missing) => return Err(Refused::MissingBody),
        Err(_) => return Err(Refused::InvalidBody),
    };
    let routing = posted.routing_id.ok_or(Refused::RoutingId)?;
    Ok((posted, routing))
}

fn salt() -> Result<[u8; RELAY_SALT_BYTES], Refused> {
    let mut salt = [0; RELAY_SALT_BYTES];
    getrandom::fill(&mut salt).map_err(|_| Refused::Internal)?;
    Ok(salt)
}

fn flow_name(flow: RelayFlow) -> Option<String> {
    (flow == RelayFlow::Lossless).then(|| FLOW.to_owned())
}

async fn create(app: &App, body: Body) -> Result<Response, Refused> {
    let (posted, routing) = posted(body, MAX_RELAY_OPEN_BYTES).await?;
    let (Some(key), Some(peer)) = (posted.public_key, posted.peer_id) else {
        return Err(Refused::Fields);
    };
    let flow = match posted.flow {
        true => RelayFlow::Lossless,
        false => RelayFlow::Ordinary,
    };
    let now = app.clock.now();
    let wish = RelayCommand::Open {
        routing: routing.0,
        peer: peer.0,
        key: key.0,
        flow,
        salt: salt()?,
        now,
        limits: app.relay.limits,
    };
    commit(app, wish).await?;
    ok(&CreateReply {
        ok: true,
        routing_id: routing.to_string(),
        expires_at: now.plus(RELAY_TTL_MS).0,
        flow: flow_name(flow),
    })
}

async fn join(app: &App, body: Body) -> Result<Response, Refused> {
    let (posted, routing) = posted(body, MAX_RELAY_OPEN_BYTES).await?;
    let (Some(key), Some(peer)) = (posted.public_key, posted.peer_id) else {
        return Err(Refused::Fields);
    };
    let wish = RelayCommand::Join {
        routing: routing.0,
        peer: peer.0,
        key: key.0,
        salt: salt()?,
        now: app.clock.now(),
        limits: app.relay.limits,
    };
    match commit(app, wish).await? {
        RelayReply::Joined {
            host_key,
            count,
            flow,
        } => ok(&JoinReply {
            ok: true,
            host_public_key: RelayId(host_key).to_string(),
            peer_count: count as u64,
            flow: flow_name(flow),
        }),
        _ => Err(Refused::Expired),
    }
}

async fn send(app: &App, body: Body) -> Result<Response, Refused> {
    let (posted, routing) = posted(body, MAX_RELAY_SEND_BYTES).await?;
    let (Some(peer), Some(payload)) = (posted.from_peer_id, posted.encrypted_payload) else {
        return Err(Refused::Fields);
    };
    // In front of the payload stand random bytes, so that its digest in the log tells nothing.
    let mut bytes = salt()?.to_vec();
    bytes.reserve_exact(payload.get().len());
    bytes.extend_from_slice(payload.get().as_bytes());
    drop(payload);
    let digest = sha256(&bytes);
    // What waits for the writer is bounded apart from usual mail.
    let weight = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let place = app.relay.line.acquire_many(weight).await;
    let _place = place.map_err(|_| Refused::Internal)?;
    let wish = RelayCommand::Send {
        routing: routing.0,
        peer: peer.0,
        body: bytes.into(),
        sha256: digest,
        now: app.clock.now(),
        limits: app.relay.limits,
    };
    match commit(app, wish).await? {
        RelayReply::Over => Err(Refused::NoSession),
        _ => ok(&OK),
    }
}

async fn disconnect(app: &App, body: Body) -> Result<Response, Refused> {
    let (posted, routing) = posted(body, MAX_RELAY_DISCONNECT_BYTES).await?;
    let peer = posted.peer_id.ok_or(Refused::Fields)?;
    let wish = RelayCommand::Leave {
        routing: routing.0,
        peer: peer.0,
        now: app.clock.now(),
    };
    commit(app, wish).await?;
    ok(&OK)
}
