//! Logs go to standard error, always: the standard output of a channel server carries JSON-RPC and
//! nothing else.
//!
//! `RUST_LOG` chooses what is logged, but it cannot open the loggers of libraries that print whole
//! requests: bodies and tokens must not be in any log.

use std::io::{self, IsTerminal as _};

use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::{EnvFilter, FilterExt as _, filter_fn};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Registry, fmt};

/// The filter when `RUST_LOG` says nothing.
const DEFAULT: &str = "interlink=info";

/// Libraries that may only warn.
const CAPPED: [&str; 13] = [
    "axum",
    "h2",
    "hyper",
    "hyper_rustls",
    "hyper_util",
    "mio",
    "reqwest",
    "rmcp",
    "rustls",
    "rustls_platform_verifier",
    "tokio_rustls",
    "tower",
    "tower_http",
];

/// Starts logging. Later calls change nothing.
pub fn init() {
    let color = io::stderr().is_terminal() && super::args::variable("NO_COLOR").is_none();
    let (filter, broken) = match std::env::var("RUST_LOG").ok().filter(|v| !v.is_empty()) {
        None => (EnvFilter::new(DEFAULT), None),
        Some(text) => match EnvFilter::try_new(&text) {
            Ok(filter) => (filter, None),
            Err(e) => (EnvFilter::new(DEFAULT), Some(e)),
        },
    };
    let lines = fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(color)
        .with_filter(filter.and(filter_fn(permitted)));
    let _ = Registry::default()
        .with(LevelFilter::TRACE)
        .with(lines)
        .try_init();
    if let Some(e) = broken {
        tracing::warn!(%e, "RUST_LOG cannot be read; logging {DEFAULT}");
    }
}

fn permitted(metadata: &Metadata<'_>) -> bool {
    *metadata.level() <= Level::WARN || !is_capped(metadata.target())
}

fn is_capped(target: &str) -> bool {
    let library = target.split("::").next().unwrap_or(target);
    CAPPED.contains(&library)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_that_print_requests_are_capped_at_every_depth() {
        for target in [
            "hyper",
            "hyper::proto::h1",
            "rmcp::service",
            "reqwest::connect",
        ] {
            assert!(is_capped(target), "{target}");
        }
        for target in ["interlink", "interlink::bus::serve", "hyperspace"] {
            assert!(!is_capped(target), "{target}");
        }
    }
}
