//! `/admin/v1/*`: the operator's view of a running bus. Who may come here is checked before the
//! request is routed ([`allowed`]).

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use data_encoding::HEXLOWER;
use serde::Deserialize;

use super::json;
use crate::bus::failure::Failure;
use crate::bus::request;
use crate::bus::state::App;
use crate::crypto::hash::sha256;
use crate::domain::decide::bus::Bus;
use crate::domain::tables::TableId;
use crate::event::bus::BusEvent;
use crate::event::kind::StoreKind;
use crate::store::{CopyError, Cut, ReadError, Snapshot, copy_proven, inspect, verify as proof};
use crate::types::limit::{MAX_ADMIN_ROWS, MAX_REPLAYED_ROWS};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;
use crate::wire::admin::{Backup, Verification};

/// Rows of an answer when the request names no limit.
const DEFAULT_ROWS: usize = 100;

/// Whether a path belongs to the operator.
pub(in crate::bus) fn is_admin(path: &str) -> bool {
    path.starts_with("/admin/")
}

/// Callers of this machine that know the token.
///
/// # Errors
///
/// 403 for everybody else.
pub(in crate::bus) fn allowed(app: &App, head: &Parts, peer: IpAddr) -> Result<(), Failure> {
    let token = head
        .headers
        .get(AUTHORIZATION)
        .and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    match (app.admin, token) {
        // Digests are compared: how long that takes says nothing about the token.
        (Some(digest), Some(token))
            if peer.to_canonical().is_loopback() && sha256(token) == digest =>
        {
            Ok(())
        }
        _ => Err(Failure::admin_token()),
    }
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    from: u64,
    #[serde(default)]
    limit: Option<usize>,
}

impl Page {
    fn of(uri: &Uri) -> Result<Page, Failure> {
        let Query(page) =
            Query::try_from_uri(uri).map_err(|e| Failure::bad_request(e.body_text()))?;
        Ok(page)
    }

    fn limit(&self) -> usize {
        self.limit.unwrap_or(DEFAULT_ROWS).min(MAX_ADMIN_ROWS)
    }
}

/// Records from a position on.
pub(in crate::bus) async fn records(
    State(app): State<Arc<App>>,
    uri: Uri,
) -> Result<Response, Failure> {
    let page = Page::of(&uri)?;
    let records =
        inspect::records::<BusEvent>(&app.store.snapshot()?, Seq(page.from), page.limit())?;
    json(StatusCode::OK, &records)
}

/// Queues in which something waits.
pub(in crate::bus) async fn queues(State(app): State<Arc<App>>) -> Result<Response, Failure> {
    let queues = app.store.with_index(|index, _| inspect::queues(index));
    json(StatusCode::OK, &queues)
}

#[derive(Deserialize)]
struct Rows {
    #[serde(default)]
    after: Option<String>,
    #[serde(default)]
    at: Option<u64>,
    #[serde(default)]
    limit: Option<usize>,
}

/// Rows of a projection, as they are now or as they were.
pub(in crate::bus) async fn table(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Response, Failure> {
    let Query(wanted) =
        Query::<Rows>::try_from_uri(&uri).map_err(|e| Failure::bad_request(e.body_text()))?;
    let table = TableId::named(StoreKind::Bus, &name).ok_or_else(Failure::not_found)?;
    let after = wanted
        .after
        .as_deref()
        .map(|hex| HEXLOWER.decode(hex.as_bytes()));
    let after = after
        .transpose()
        .map_err(|e| Failure::bad_request(format!("after: {e}")))?;
    let most = match wanted.at {
        None => MAX_ADMIN_ROWS,
        Some(_) => MAX_REPLAYED_ROWS,
    };
    let limit = wanted.limit.unwrap_or(DEFAULT_ROWS).min(most);
    let snapshot = app.store.snapshot()?;
    drop(app);
    let rows = on_a_thread(move || match wanted.at {
        None => Ok(inspect::table(&snapshot, table, after.as_deref(), limit)?),
        Some(at) => {
            let tables = snapshot.replay_until::<Bus>(Seq(at))?;
            Ok(inspect::table(&tables, table, after.as_deref(), limit)?)
        }
    });
    json(StatusCode::OK, &rows.await?)
}

/// How much waited when.
pub(in crate::bus) async fn depth(State(app): State<Arc<App>>) -> Result<Response, Failure> {
    let snapshot = app.store.snapshot()?;
    drop(app);
    json(
        StatusCode::OK,
        &on_a_thread(move || inspect::depths::<Bus>(&snapshot)).await?,
    )
}

/// What reads much runs on a thread of its own. It holds a snapshot only, so that a shutdown need
/// not wait for it.
async fn on_a_thread<T: Send + 'static>(
    f: impl FnOnce() -> Result<T, ReadError> + Send + 'static,
) -> Result<T, Failure> {
    let outcome = tokio::task::spawn_blocking(f).await;
    Ok(outcome.map_err(|e| Failure::internal(e.to_string()))??)
}

#[derive(Deserialize)]
struct Wish {
    #[serde(default)]
    until: u64,
    #[serde(default)]
    before: u64,
    #[serde(default)]
    dry_run: bool,
}

/// How long a call compacts before it answers.
const TURN: Duration = Duration::from_millis(500);

/// Folds the oldest records, or says what that would take.
pub(in crate::bus) async fn compact(
    State(app): State<Arc<App>>,
    uri: Uri,
) -> Result<Response, Failure> {
    let Query(wish) =
        Query::<Wish>::try_from_uri(&uri).map_err(|e| Failure::bad_request(e.body_text()))?;
    let cut = Cut {
        until: Seq(wish.until),
        before: UnixMillis(wish.before),
    };
    let done = if wish.dry_run {
        let snapshot = app.store.snapshot()?;
        let counted = tokio::task::spawn_blocking(move || snapshot.foldable(cut)).await;
        counted.map_err(|e| Failure::internal(e.to_string()))??
    } else {
        let asked = app.store.compact(cut, TURN);
        let folded = match asked {
            Ok(asked) => asked.answer().await,
            Err(e) => Err(e),
        };
        folded.map_err(|e| Failure::internal(e.to_string()))?
    };
    json(StatusCode::OK, &inspect::compaction(&done))
}

/// Replays the log and compares; takes a while, on a thread of its own.
pub(in crate::bus) async fn verify(State(app): State<Arc<App>>) -> Result<Response, Failure> {
    let snapshot = app.store.snapshot()?;
    drop(app);
    let outcome = on_a_thread(move || {
        Ok(inspect::verification(&proof::verify::<Bus>(
            &snapshot,
            |_| {},
        )))
    });
    json(StatusCode::OK, &outcome.await?)
}

/// Copies the store to a path on this machine, and proves the copy before it has its name.
pub(in crate::bus) async fn backup(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Failure> {
    let wish: Backup = request::json(&headers, body).await?;
    let path = PathBuf::from(wish.file);
    if !path.is_absolute() {
        return Err(Failure::shape("`file` is no absolute path"));
    }
    let snapshot = app.store.snapshot()?;
    drop(app);
    let copied = tokio::task::spawn_blocking(move || copy(&snapshot, &path)).await;
    let outcome = copied.map_err(|e| Failure::internal(e.to_string()))??;
    json(StatusCode::OK, &outcome)
}

fn copy(snapshot: &Snapshot, path: &std::path::Path) -> Result<Verification, Failure> {
    let mut outcome = Verification::default();
    let copied = copy_proven::<Unproven>(snapshot, path, |copy| {
        outcome = inspect::verification(&proof::verify::<Bus>(copy, |_| {}));
        if outcome.ok {
            Ok(())
        } else {
            Err(Unproven(None))
        }
    });
    match copied {
        Ok(()) | Err(Unproven(None)) => Ok(outcome),
        Err(Unproven(Some(e))) => Err(Failure::internal(e.to_string())),
    }
}

/// A copy that is not kept: for what it holds, or because it could not be made.
struct Unproven(Option<CopyError>);

impl From<CopyError> for Unproven {
    fn from(e: CopyError) -> Self {
        Unproven(Some(e))
    }
}
