//! Where mail goes: an identity, and usually one of its sessions.
//!
//! A bus sees a route as an opaque queue name. Only agents take it apart, always at the first
//! `#`, because a key's text never contains one.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::id::{KeyTextError, PublicKey, SessionId, SessionIdError};

/// A destination: `key` or `key#session`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Route {
    /// The identity.
    pub key: PublicKey,
    /// The session; `None` is the bare key, which nobody polls.
    pub session: Option<SessionId>,
}

impl Route {
    /// The route of one session.
    #[must_use]
    pub const fn new(key: PublicKey, session: SessionId) -> Route {
        Route {
            key,
            session: Some(session),
        }
    }
}

/// Takes route text apart without judging the parts: at the first `#`, and only when something
/// follows it. `key#` is a bare route whose text keeps the `#`.
#[must_use]
pub fn split(text: &str) -> (&str, Option<&str>) {
    match text.split_once('#') {
        Some((key, session)) if !session.is_empty() => (key, Some(session)),
        _ => (text, None),
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.session {
            Some(session) => write!(f, "{}#{session}", self.key),
            None => self.key.fmt(f),
        }
    }
}

impl FromStr for Route {
    type Err = RouteError;

    fn from_str(text: &str) -> Result<Route, RouteError> {
        let (key, session) = split(text);
        Ok(Route {
            key: key.parse()?,
            session: session.map(SessionId::parse).transpose()?,
        })
    }
}

/// Text that is not a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// The part before `#`.
    #[error("the key of the route: {0}")]
    Key(#[from] KeyTextError),
    /// The part after `#`.
    #[error("the session of the route: {0}")]
    Session(#[from] SessionIdError),
}

impl Serialize for Route {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Route {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Route, D::Error> {
        String::deserialize(d)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_routes_refuse_bad_parts() {
        let key = PublicKey::from_bytes([0; 32]).to_string();
        assert_eq!(key.parse::<Route>().unwrap().session, None);
        let full = format!("{key}#s 1");
        assert_eq!(full.parse::<Route>().unwrap().to_string(), full);
        for bad in [
            "",
            "#",
            "#s",
            &format!("{key}#"),
            &format!("{key}#a#b"),
            &format!("{key}#a\n"),
        ] {
            assert!(bad.parse::<Route>().is_err(), "{bad:?}");
        }
    }
}
