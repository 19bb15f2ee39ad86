//! Paths and their methods. Exact: a trailing or doubled slash is another path.

use std::sync::Arc;

use axum::Router;
use axum::routing::{MethodRouter, get, post};

use super::failure::Failure;
use super::handler::{ack, admin, announce, health, operator as held, recv, roster, send};
use super::state::App;

type Methods = MethodRouter<Arc<App>>;

fn posted(methods: Methods) -> Methods {
    methods.fallback(|| async { Failure::method("POST") })
}

/// axum answers HEAD by GET.
fn read(methods: Methods) -> Methods {
    methods.fallback(|| async { Failure::method("GET,HEAD") })
}

pub(super) fn router(app: Arc<App>) -> Router {
    let operator = Router::new()
        .route("/queue", read(get(held::queue)))
        .route("/message/{seq}", read(get(held::message)))
        .route("/roster", read(get(held::roster)))
        .route(
            "/relay",
            get(held::relayed)
                .post(held::end_relayed)
                .fallback(|| async { Failure::method("GET,HEAD,POST") }),
        )
        .route("/discard", posted(post(held::discard)))
        .route("/evict", posted(post(held::evict)))
        .route("/records", read(get(admin::records)))
        .route("/queues", read(get(admin::queues)))
        .route("/tables/{name}", read(get(admin::table)))
        .route("/depth", read(get(admin::depth)))
        .route("/status", read(get(health::full_status)))
        .route("/verify", posted(post(admin::verify)))
        .route("/backup", posted(post(admin::backup)))
        .route("/compact", posted(post(admin::compact)));
    Router::new()
        .route("/send", posted(post(send::send)))
        .route("/recv", read(get(recv::recv)))
        .route("/ack", posted(post(ack::ack)))
        .route("/announce", posted(post(announce::announce)))
        .route("/unregister", posted(post(announce::unregister)))
        .route("/roster", read(get(roster::roster)))
        .route("/healthz", read(get(health::healthz)))
        .route("/readyz", read(get(health::readyz)))
        .route("/status", read(get(health::status)))
        .nest("/admin/v1", operator)
        .fallback(|| async { Failure::not_found() })
        .with_state(app)
}
