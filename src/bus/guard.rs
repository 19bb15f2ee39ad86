//! Keeps web pages away from a bus on this machine.
//!
//! A browser names the page's origin in what it sends on a page's behalf, so requests with an
//! `Origin` are refused unless it was allowed (RFC 6454). A page can also have its own name
//! resolve to a loopback address; its requests then carry that name as `Host` (RFC 9110 section
//! 7.2), which a loopback listener refuses. Programs send neither.

use std::net::IpAddr;

use axum::http::header::{HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri, Version};

use super::failure::Failure;

/// What a listener lets through.
#[derive(Debug)]
pub(super) struct Guard {
    loopback: bool,
    origins: Vec<String>,
}

impl Guard {
    pub(super) const fn new(loopback: bool, origins: Vec<String>) -> Self {
        Guard { loopback, origins }
    }

    /// Checks a request's head.
    pub(super) fn check(&self, head: &Parts) -> Result<(), Failure> {
        self.check_origin(&head.headers)?;
        self.check_local(head)
    }

    /// Refuses what names another host, where only this machine may come.
    pub(super) fn check_local(&self, head: &Parts) -> Result<(), Failure> {
        if self.loopback {
            check_host(&head.headers, &head.uri, head.version)?;
        }
        Ok(())
    }

    /// Refuses what is sent on behalf of a web page.
    pub(super) fn check_origin(&self, headers: &HeaderMap) -> Result<(), Failure> {
        let refused = headers.get_all(ORIGIN).iter().any(|origin| {
            !self
                .origins
                .iter()
                .any(|allowed| allowed.as_bytes() == origin.as_bytes())
        });
        if refused {
            Err(Failure::origin())
        } else {
            Ok(())
        }
    }
}

fn check_host(headers: &HeaderMap, uri: &Uri, version: Version) -> Result<(), Failure> {
    // In absolute form the target counts, and `Host` must still not be foreign.
    if uri.host().is_some_and(|host| !is_local(host)) {
        return Err(Failure::host());
    }
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) if version == Version::HTTP_10 => Ok(()),
        (None, _) => Err(Failure::bad_request("a request needs a Host header")),
        (Some(_), Some(_)) => Err(Failure::bad_request("a request has one Host header")),
        (Some(host), None) => match host.to_str() {
            Ok(host) if is_local(without_port(host)) => Ok(()),
            _ => Err(Failure::host()),
        },
    }
}

/// The host of `host`, `host:port`, `[v6]` and `[v6]:port`.
fn without_port(text: &str) -> &str {
    match text.rsplit_once(':') {
        Some((host, port))
            if port.bytes().all(|b| b.is_ascii_digit())
                && (!host.contains(':') || host.ends_with(']')) =>
        {
            host
        }
        _ => text,
    }
}

fn is_local(host: &str) -> bool {
    let bare = host
        .strip_prefix('[')
        .and_then(|h| h.strip_suffix(']'))
        .unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || bare
            .parse::<IpAddr>()
            .is_ok_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_hosts_and_no_others() {
        for good in [
            "localhost",
            "LOCALHOST:1",
            "127.0.0.1",
            "127.0.0.1:9440",
            "127.9.9.9:1",
            "[::1]",
            "[::1]:9440",
        ] {
            assert!(is_local(without_port(good)), "{good}");
        }
        for bad in [
            "",
            "localhost.evil.example",
            "evil.example:9440",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "[::2]:1",
            "localhost:x",
        ] {
            assert!(!is_local(without_port(bad)), "{bad}");
        }
    }
}
