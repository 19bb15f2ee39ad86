//! `GET /roster`: the presence board, in no order.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use super::json_text;
use crate::bus::state::App;

pub(in crate::bus) async fn roster(State(app): State<Arc<App>>) -> Response {
    json_text(StatusCode::OK, app.board.roster(app.clock.now()))
}
