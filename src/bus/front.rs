//! What a listener serves: the bus, or the relay.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use tower::Service;

use super::guard::Guard;
use super::handler::admin;
use super::rendezvous;
use super::state::App;
use crate::types::limit::{MAX_CONNECTIONS, MAX_RELAY_CONNECTIONS};

/// What a listener serves.
#[derive(Clone)]
pub(super) enum Front {
    Bus(Router, Arc<Guard>),
    Relay(Arc<Guard>),
}

impl Front {
    /// Connections that are open at a time.
    pub(super) const fn max_connections(&self) -> usize {
        match self {
            Front::Bus(..) => MAX_CONNECTIONS,
            Front::Relay(_) => MAX_RELAY_CONNECTIONS,
        }
    }

    /// Answers one request.
    pub(super) async fn answer(
        self,
        app: Arc<App>,
        request: hyper::Request<Incoming>,
        peer: IpAddr,
    ) -> Result<Response, Infallible> {
        match self {
            Front::Bus(mut router, guard) => match admit(&guard, &app, request, peer) {
                Ok(request) => router.call(request).await,
                Err(refused) => Ok(*refused),
            },
            Front::Relay(guard) => Ok(rendezvous::serve(app, guard, request, peer).await),
        }
    }
}

/// Checks what must hold before a request is routed.
fn admit(
    guard: &Guard,
    app: &App,
    request: hyper::Request<Incoming>,
    peer: IpAddr,
) -> Result<Request, Box<Response>> {
    let (head, body) = request.into_parts();
    let checked = guard.check(&head).and_then(|()| {
        if admin::is_admin(head.uri.path()) {
            admin::allowed(app, &head, peer)
        } else {
            Ok(())
        }
    });
    match checked {
        Ok(()) => Ok(Request::from_parts(head, Body::new(body))),
        Err(failure) => Err(Box::new(failure.into_response())),
    }
}
