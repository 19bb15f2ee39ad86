//! `POST /ack`: 200 once the messages are durably gone. Unknown keys are no error.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};

use super::check_name;
use crate::bus::failure::Failure;
use crate::bus::request;
use crate::bus::state::App;
use crate::domain::decide::bus::BusCommand;
use crate::types::limit::MAX_ACKS_PER_RECORD;
use crate::types::seq::Seq;
use crate::wire::http::AckRequest;

pub(in crate::bus) async fn ack(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, Failure> {
    let AckRequest { me, ack, acks } = request::json(&headers, body).await?;
    if ack.is_none() && acks.is_none() {
        return Err(Failure::shape("missing field `ack` or `acks`"));
    }
    check_name("me", &me)?;
    let mut seqs = vec![];
    for key in ack.iter().chain(acks.iter().flatten()) {
        let digits = key
            .strip_prefix(&me)
            .and_then(|rest| rest.strip_prefix('\0'))
            .ok_or_else(Failure::foreign_ack)?;
        seqs.extend(position(digits));
    }
    for seqs in seqs.chunks(MAX_ACKS_PER_RECORD) {
        app.commit(BusCommand::Ack {
            me: me.clone(),
            seqs: seqs.to_vec(),
        })
        .await?;
    }
    Ok(StatusCode::OK)
}

/// The position in an ack key; a key of another shape names no message.
fn position(digits: &str) -> Option<Seq> {
    let plain = digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit());
    digits.parse().ok().filter(|_| plain).map(Seq)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_have_twenty_digits() {
        assert_eq!(position("00000000000000000007"), Some(Seq(7)));
        for bad in ["", "7", "+0000000000000000007", "99999999999999999999"] {
            assert_eq!(position(bad), None, "{bad}");
        }
    }
}
