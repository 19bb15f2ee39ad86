//! Requests to the relay of a sealed session.
//!
//! Such a relay is trusted with nothing: it may be anybody's. Redirects are not followed and no proxy
//! is used, because either would let it choose where requests go. No answer is read without a bound
//! or without end. What it says about an error is foreign text, and is shown as such: one short line,
//! with everything odd spelled out.

use std::fmt;
use std::time::Duration;

use reqwest::header::RETRY_AFTER;
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde::Serialize;

use crate::agent::connect::{self, Authorities, Cause, Paths, SetUpError};
use crate::agent::mcp::render;
use crate::domain::bond::wrap::foreign_line;
use crate::domain::machine::bond::Failure;
use crate::wire::rendezvous_client::{
    Done, Failure as Refusal, JoinReply, Leave, Opened, PollReply, Said,
};

/// How long a relay may take to answer, and between two pieces of its answer. It may hold an empty
/// poll for four seconds.
const SILENCE: Duration = Duration::from_secs(8);
/// Slowest line in bytes a second over which a message still passes.
const SLOWEST_LINE: u64 = 64 * 1024;
/// Largest batch that is read: one message of the largest size that a relay takes, and the rest of an
/// answer.
const MAX_BATCH_BYTES: usize = 6 * 1024 * 1024 + 512 * 1024;
/// Largest of the small answers.
const MAX_SMALL_BYTES: usize = 64 * 1024;
/// The pause that a relay wants that says "too many" and not for how long.
const DEFAULT_RETRY_MS: u64 = 5_000;
/// Longest pause that a relay can impose, in milliseconds.
const MAX_RETRY_AFTER_MS: u64 = 60_000;

/// The address of a relay for sealed sessions, without a slash at its end. A path is kept: what is
/// asked of the relay is appended to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BondUrl(String);

impl BondUrl {
    /// Checks and normalises an address.
    ///
    /// # Errors
    ///
    /// [`BondUrlError`], with the rule that it breaks.
    pub fn parse(text: &str) -> Result<BondUrl, BondUrlError> {
        connect::address(text, Paths::Kept, "is not a URL like http://127.0.0.1:9441")
            .map(BondUrl)
            .map_err(|reason| BondUrlError {
                url: render::attribute(text.trim()),
                reason,
            })
    }

    /// The address.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BondUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a text is not the address of a relay.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("relay address {url:?} {reason}")]
pub struct BondUrlError {
    /// The text, in one bounded line.
    pub url: String,
    /// The rule that it breaks.
    pub reason: &'static str,
}

/// Why a request was not answered with what it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// No connection, or no answer in time.
    Unreachable,
    /// The answer makes no sense.
    Nonsense,
    /// The relay answered with this HTTP status.
    Status(u16),
}

/// What a relay can say is wrong, as far as a session cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Not a member.
    Unauthorized,
    /// Two are in, or the place is taken.
    Full,
    /// No such session.
    NotFound,
    /// Its time was over.
    Expired,
}

impl Code {
    fn read(text: &str) -> Option<Code> {
        match text {
            "ERR_UNAUTHORIZED" => Some(Code::Unauthorized),
            "ERR_SESSION_FULL" => Some(Code::Full),
            "ERR_SESSION_NOT_FOUND" => Some(Code::NotFound),
            "ERR_SESSION_EXPIRED" => Some(Code::Expired),
            _ => None,
        }
    }
}

/// A request that did not work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct RelayFailure {
    /// The class.
    pub kind: FailureKind,
    /// The relay's word for it, where it is one that such relays have.
    pub code: Option<Code>,
    /// In words; safe to show: one bounded line, without words of the relay's own choosing.
    pub detail: String,
    /// How long the relay wants to be left alone, in milliseconds.
    pub retry_after_ms: Option<u64>,
}

/// A relay, as a client of sealed sessions sees it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct BondRelay {
    url: BondUrl,
    http: Client,
}

impl RelayFailure {
    /// The same as a session understands it.
    #[must_use]
    pub fn for_session(&self) -> Failure {
        match (self.kind, self.code) {
            (FailureKind::Status(403), Some(Code::Unauthorized)) => Failure::NotAMember,
            (FailureKind::Status(403), Some(Code::Full)) => Failure::Full,
            (FailureKind::Status(404), Some(Code::NotFound))
            | (FailureKind::Status(410), Some(Code::Expired)) => Failure::NoSession,
            (FailureKind::Status(429), _) => Failure::Limited {
                retry_after_ms: self.retry_after_ms.unwrap_or(DEFAULT_RETRY_MS),
            },
            (FailureKind::Status(status), _) if status < 500 => Failure::Refused { status },
            (FailureKind::Unreachable | FailureKind::Nonsense | FailureKind::Status(_), _) => {
                Failure::Unreachable
            }
        }
    }
}

impl BondRelay {
    /// A client of this relay. Each has its own connections: they end with the session.
    ///
    /// # Errors
    ///
    /// [`SetUpError`].
    pub fn new(url: &BondUrl, authorities: &Authorities) -> Result<BondRelay, SetUpError> {
        let builder = Client::builder().read_timeout(SILENCE);
        let http = connect::client(builder, connect::is_secure(&url.0), authorities)?;
        Ok(BondRelay {
            url: url.clone(),
            http,
        })
    }

    /// Its address.
    #[must_use]
    pub const fn url(&self) -> &BondUrl {
        &self.url
    }

    /// `POST /create`.
    ///
    /// # Errors
    ///
    /// [`RelayFailure`].
    pub async fn create(&self, open: &Opened<'_>) -> Result<(), RelayFailure> {
        let Done {} = self.post("create", open).await?;
        Ok(())
    }

    /// `POST /join`: gives the host's public key, unchecked.
    ///
    /// # Errors
    ///
    /// [`RelayFailure`].
    pub async fn join(&self, open: &Opened<'_>) -> Result<String, RelayFailure> {
        let reply: JoinReply = self.post("join", open).await?;
        reply.host_public_key.ok_or_else(nonsense)
    }

    /// `POST /send`. The relay keeps the message when this returns.
    ///
    /// # Errors
    ///
    /// [`RelayFailure`].
    pub async fn send(&self, said: &Said<'_>) -> Result<(), RelayFailure> {
        let Done {} = self.post("send", said).await?;
        Ok(())
    }

    /// `GET /poll`.
    ///
    /// # Errors
    ///
    /// [`RelayFailure`].
    pub async fn poll(
        &self,
        routing: &str,
        peer: &str,
        since: u64,
    ) -> Result<PollReply, RelayFailure> {
        let query = [
            ("routingId", routing),
            ("peerId", peer),
            ("since", &since.to_string()),
        ];
        let request = self.http.get(self.path("poll")).query(&query);
        let bytes = answer(request, 0, MAX_BATCH_BYTES).await?;
        serde_json::from_slice(&bytes).map_err(|_| nonsense())
    }

    /// `POST /disconnect`.
    ///
    /// # Errors
    ///
    /// [`RelayFailure`].
    pub async fn disconnect(&self, leave: &Leave<'_>) -> Result<(), RelayFailure> {
        let Done {} = self.post("disconnect", leave).await?;
        Ok(())
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.url)
    }

    async fn post<T: serde::de::DeserializeOwned>(
        &self,
        name: &str,
        body: &(impl Serialize + Sync),
    ) -> Result<T, RelayFailure> {
        let body = serde_json::to_vec(body).map_err(|_| nonsense())?;
        let length = body.len();
        let request = self
            .http
            .post(self.path(name))
            .header(reqwest::header::CONTENT_TYPE, "application/json")
            .body(body);
        let bytes = answer(request, length, MAX_SMALL_BYTES).await?;
        serde_json::from_slice(&bytes).map_err(|_| nonsense())
    }
}

/// The body of a good answer, of at most `limit` bytes.
async fn answer(
    request: RequestBuilder,
    sent: usize,
    limit: usize,
) -> Result<Vec<u8>, RelayFailure> {
    let bytes = |n: usize| Duration::from_secs(u64::try_from(n).unwrap_or(u64::MAX) / SLOWEST_LINE);
    let patience = SILENCE.saturating_add(bytes(sent));
    let response = tokio::time::timeout(patience, request.send())
        .await
        .map_err(|_| late())?
        .map_err(|e| transport(&e))?;
    let status = response.status();
    let retry_after_ms = retry_after(&response);
    let limit = if status.is_success() {
        limit
    } else {
        MAX_SMALL_BYTES
    };
    let body = tokio::time::timeout(SILENCE.saturating_add(bytes(limit)), read(response, limit))
        .await
        .unwrap_or_else(|_| Err(late()));
    if status.is_success() {
        return body;
    }
    Err(refusal(status, &body.unwrap_or_default(), retry_after_ms))
}

async fn read(mut response: Response, limit: usize) -> Result<Vec<u8>, RelayFailure> {
    let too_long = || RelayFailure {
        kind: FailureKind::Nonsense,
        detail: format!("the relay's answer has more than {limit} bytes"),
        code: None,
        retry_after_ms: None,
    };
    let said = response.content_length();
    if said.is_some_and(|n| n > u64::try_from(limit).unwrap_or(u64::MAX)) {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|e| transport(&e))? {
        if bytes.len() + chunk.len() > limit {
            return Err(too_long());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// Whole seconds, as the relays of this kind say it; a date is not understood and left out.
fn retry_after(response: &Response) -> Option<u64> {
    let text = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    let seconds: u64 = text.trim().parse().ok()?;
    Some(seconds.saturating_mul(1000).min(MAX_RETRY_AFTER_MS))
}

/// What relays of this kind say. Anything else could be meant for the model that reads the answer,
/// so it goes to the program's own log.
const KNOWN_WORDS: [&str; 18] = [
    "Invalid routing ID format",
    "Missing required fields",
    "Missing body",
    "Invalid JSON body",
    "The body cannot be read",
    "Session is full",
    "Unauthorized access",
    "Session not found",
    "Endpoint not found",
    "The body took too long",
    "Session expired",
    "Request payload too large",
    "Rate limit exceeded",
    "An internal error occurred",
    "The relay is busy",
    "The relay is full",
    "Web pages may not use this relay",
    "This relay does not answer for that host",
];

/// Characters of a relay's own words that reach the log.
const MAX_FOREIGN_CHARS: usize = 200;

fn refusal(status: StatusCode, body: &[u8], header: Option<u64>) -> RelayFailure {
    let said: Refusal = serde_json::from_slice(body).unwrap_or_default();
    let code = status.as_u16();
    let detail = match said.error.as_deref() {
        Some(text) if KNOWN_WORDS.contains(&text) => {
            format!("the relay answered with HTTP {code}: {text}")
        }
        Some(text) if !text.is_empty() => {
            tracing::warn!(
                "the relay answered with HTTP {code} and says: \"{}\"",
                foreign_line(text, MAX_FOREIGN_CHARS)
            );
            format!("the relay answered with HTTP {code}, in words that are not shown here")
        }
        _ => format!("the relay answered with HTTP {code}"),
    };
    let body = said.retry_after.map(|seconds| seconds.saturating_mul(1000));
    RelayFailure {
        kind: FailureKind::Status(code),
        code: said.code.as_deref().and_then(Code::read),
        detail,
        retry_after_ms: header.or(body).map(|ms| ms.min(MAX_RETRY_AFTER_MS)),
    }
}

fn nonsense() -> RelayFailure {
    RelayFailure {
        kind: FailureKind::Nonsense,
        detail: "the relay's answer is not what such a relay says".to_owned(),
        code: None,
        retry_after_ms: None,
    }
}

fn late() -> RelayFailure {
    RelayFailure {
        kind: FailureKind::Unreachable,
        detail: "the relay did not answer in time".to_owned(),
        code: None,
        retry_after_ms: None,
    }
}

fn transport(e: &reqwest::Error) -> RelayFailure {
    if e.is_timeout() {
        return late();
    }
    let kind = if e.is_connect() {
        FailureKind::Unreachable
    } else {
        FailureKind::Nonsense
    };
    let detail = match (connect::cause(e), kind) {
        (Cause::Tls(words), _) => format!("no connection to the relay: {words}"),
        (Cause::Other(reason), FailureKind::Unreachable) => format!(
            "the relay cannot be reached: {}; it runs with interlink-bus --relay-addr, and \
             INTERLINK_BOND_RELAY says where",
            render::attribute(&reason)
        ),
        (Cause::Other(reason), FailureKind::Nonsense | FailureKind::Status(_)) => {
            format!(
                "the relay cannot be reached: {}",
                render::attribute(&reason)
            )
        }
    };
    RelayFailure {
        kind,
        detail,
        code: None,
        retry_after_ms: None,
    }
}
