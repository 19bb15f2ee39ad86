//! Requests to a relay: the only place that speaks HTTP as a client.
//!
//! A relay is not trusted and may be down, slow or wrong. Every call has its own time limit, no
//! answer is read without a bound, redirects are not followed (they could lead anywhere), and no
//! proxy of the environment is used, because a relay is usually this very machine.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use serde::Serialize;

use super::connect::{self, Authorities, Cause, Paths, SetUpError};
use crate::event::agent::AttemptError;
use crate::types::limit::{
    MAX_HTTP_BODY_BYTES, MAX_RECV_BATCH_BYTES, MAX_ROSTER_BYTES, MAX_ROSTER_ENTRIES,
};
use crate::types::route::Route;
use crate::wire::announce::Announcement;
use crate::wire::envelope::Message;
use crate::wire::http::client::{AckBody, RecvReply, RosterReply, SendBody, SendReply};

/// Slowest line in bytes a second over which a message is still sent: its time limit grows with
/// its length, so that a relay that hangs is noticed early.
const SLOWEST_LINE: u64 = 64 * 1024;
/// Time limit of the small calls, and of a send beside its bytes.
const SHORT: Duration = Duration::from_secs(10);
/// What a long-poll may take beyond the wait that it asked for.
const POLL_GRACE: Duration = Duration::from_secs(10);
/// Largest answer with mail that is read: a batch with its JSON around it.
const MAX_MAIL_BYTES: usize = MAX_RECV_BATCH_BYTES + 2 * MAX_HTTP_BODY_BYTES;
/// Largest presence board that is read: what a bus keeps, with an age and a comma for each.
const MAX_BOARD_BYTES: usize = MAX_ROSTER_BYTES + 64 * MAX_ROSTER_ENTRIES;
/// Largest answer that says what is wrong.
const MAX_PROBLEM_BYTES: usize = 64 * 1024;

/// The address of a relay: `http://host[:port]` or, with the feature `tls`, `https://host[:port]`, in
/// lower case, without a slash at its end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelayUrl(String);

impl RelayUrl {
    /// Checks and normalises an address.
    ///
    /// # Errors
    ///
    /// [`RelayUrlError`], one variant per rule.
    pub fn parse(text: &str) -> Result<RelayUrl, RelayUrlError> {
        connect::address(
            text,
            Paths::Refused,
            "is not a URL like http://127.0.0.1:9440",
        )
        .map(RelayUrl)
        .map_err(|reason| RelayUrlError {
            url: text.trim().to_owned(),
            reason,
        })
    }

    /// The address.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether what goes there is encrypted on the way.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        connect::is_secure(&self.0)
    }

    /// Whether the relay is on this machine.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        let Ok(url) = Url::parse(&self.0) else {
            return false;
        };
        let host = url.host_str().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        host.eq_ignore_ascii_case("localhost")
            || host.to_ascii_lowercase().ends_with(".localhost")
            || bare
                .parse::<std::net::IpAddr>()
                .is_ok_and(|ip| ip.is_loopback())
    }
}

impl fmt::Display for RelayUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a text is not the address of a relay.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("relay address {url:?} {reason}")]
pub struct RelayUrlError {
    /// The text.
    pub url: String,
    /// The rule that it breaks.
    pub reason: &'static str,
}

/// A relay, as a client sees it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RelayClient {
    url: RelayUrl,
    http: Connections,
}

/// The connections of all relays. They are given up together: after the machine slept, each of
/// them may be dead without anybody having said so.
#[derive(Clone, Debug)]
struct Connections {
    secure: bool,
    authorities: Authorities,
    client: Arc<RwLock<Client>>,
}

impl Connections {
    fn open(secure: bool, authorities: &Authorities) -> Result<Connections, SetUpError> {
        let client = connect::client(Client::builder(), secure, authorities)?;
        Ok(Connections {
            secure,
            authorities: authorities.clone(),
            client: Arc::new(RwLock::new(client)),
        })
    }

    fn now(&self) -> Client {
        self.client
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn renew(&self) -> Result<(), SetUpError> {
        let fresh = connect::client(Client::builder(), self.secure, &self.authorities)?;
        *self.client.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }
}

/// What a relay did with a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It keeps it.
    Accepted {
        /// Whether it dropped older mail of that recipient.
        dropped: bool,
    },
    /// It will never keep it.
    Refused {
        /// HTTP status.
        status: u16,
        /// What it said.
        reason: String,
    },
}

/// A call that did not work this time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct CallError {
    /// The class.
    pub class: AttemptError,
    /// In words.
    pub detail: String,
}

impl CallError {
    /// Whether the relay itself is in trouble, so that every other message would fare alike. What
    /// asks one message to come back (408, 429, 507) says nothing about the others.
    #[must_use]
    pub const fn is_relay_down(&self) -> bool {
        match self.class {
            AttemptError::Connect | AttemptError::Timeout | AttemptError::Protocol => true,
            AttemptError::Status(code) => !matches!(code, 408 | 429 | 507),
        }
    }
}
impl RelayClient {
    /// One client for all relays.
    ///
    /// # Errors
    ///
    /// [`SetUpError`].
    pub fn all(
        urls: &[RelayUrl],
        authorities: &Authorities,
    ) -> Result<Vec<RelayClient>, SetUpError> {
        let http = Connections::open(urls.iter().any(RelayUrl::is_secure), authorities)?;
        Ok(urls
            .iter()
            .map(|url| RelayClient {
                url: url.clone(),
                http: http.clone(),
            })
            .collect())
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    /// Uses no connection again that was made before, to any relay of this process. Calls under
    /// way keep theirs.
    ///
    /// # Errors
    ///
    /// [`SetUpError`]; the old connections stay in use then.
    pub fn renew_connections(&self) -> Result<(), SetUpError> {
        self.http.renew()
    }

    /// `POST /send`.
    ///
    /// # Errors
    ///
    /// [`CallError`] for everything that is worth another try.
    pub async fn send(&self, to: &Route, payload: &Message) -> Result<Sent, CallError> {
        let body = SendBody { payload, to };
        let bytes = u64::try_from(payload.text.len()).unwrap_or(u64::MAX);
        let limit = SHORT.saturating_add(Duration::from_secs(bytes / SLOWEST_LINE));
        let answer = self.post("send", &body, limit).await?;
        let status = answer.status();
        let code = status.as_u16();
        if status.is_success() {
            let bytes = read(answer, MAX_PROBLEM_BYTES).await.unwrap_or_default();
            let reply: SendReply = serde_json::from_slice(&bytes).unwrap_or_default();
            return Ok(Sent::Accepted {
                dropped: !reply.dropped.is_empty(),
            });
        }
        let retry = status.is_server_error() || matches!(code, 408 | 429);
        let bytes = read(answer, MAX_PROBLEM_BYTES).await.unwrap_or_default();
        if status.is_client_error() && !retry {
            let reason = problem_text(&bytes, status);
            return Ok(Sent::Refused {
                status: code,
                reason,
            });
        }
        Err(status_error(&bytes, status))
    }

    /// `GET /recv`: waits up to `wait` for mail. An old relay ignores `max` and gives one message.
    ///
    /// # Errors
    ///
    /// [`CallError`].
    pub async fn recv(
        &self,
        me: &Route,
        wait: Duration,
        max: usize,
    ) -> Result<RecvReply, CallError> {
        let query = [
            ("me", me.to_string()),
            ("timeout_ms", wait.as_millis().to_string()),
            ("max", max.to_string()),
        ];
        let request = self
            .http
            .now()
            .get(self.path("recv"))
            .query(&query)
            .timeout(wait.saturating_add(POLL_GRACE));
        let bytes = self.json(request, MAX_MAIL_BYTES).await?;
        serde_json::from_slice(&bytes).map_err(protocol)
    }

    /// `POST /ack` of one key.
    ///
    /// # Errors
    ///
    /// [`CallError`]; acknowledging again is harmless.
    pub async fn ack(&self, me: &Route, key: &str) -> Result<(), CallError> {
        let ack = Some(key);
        self.done("ack", &AckBody { me, ack, acks: &[] }, SHORT)
            .await
    }

    /// `POST /ack` of several keys, for relays that gave several messages.
    ///
    /// # Errors
    ///
    /// As [`RelayClient::ack`].
    pub async fn ack_all(&self, me: &Route, acks: &[&str]) -> Result<(), CallError> {
        self.done(
            "ack",
            &AckBody {
                me,
                ack: None,
                acks,
            },
            SHORT,
        )
        .await
    }

    /// `POST /announce`.
    ///
    /// # Errors
    ///
    /// [`CallError`].
    pub async fn announce(&self, announcement: &Announcement) -> Result<(), CallError> {
        self.done("announce", announcement, SHORT).await
    }

    /// `POST /unregister`.
    ///
    /// # Errors
    ///
    /// [`CallError`].
    pub async fn unregister(&self, announcement: &Announcement) -> Result<(), CallError> {
        self.done("unregister", announcement, SHORT).await
    }

    /// `GET /roster`. The entries are unchecked.
    ///
    /// # Errors
    ///
    /// [`CallError`].
    pub async fn roster(&self) -> Result<RosterReply, CallError> {
        let request = self.http.now().get(self.path("roster")).timeout(SHORT);
        let bytes = self.json(request, MAX_BOARD_BYTES).await?;
        serde_json::from_slice(&bytes).map_err(protocol)
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.url)
    }

    async fn post(
        &self,
        name: &str,
        body: &(impl Serialize + Sync),
        limit: Duration,
    ) -> Result<Response, CallError> {
        let http = self.http.now();
        let request = http.post(self.path(name)).json(body).timeout(limit);
        request.send().await.map_err(|e| transport(&e))
    }

    async fn done(
        &self,
        name: &str,
        body: &(impl Serialize + Sync),
        limit: Duration,
    ) -> Result<(), CallError> {
        let answer = self.post(name, body, limit).await?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let bytes = read(answer, MAX_PROBLEM_BYTES).await.unwrap_or_default();
        Err(status_error(&bytes, status))
    }

    async fn json(&self, request: RequestBuilder, limit: usize) -> Result<Vec<u8>, CallError> {
        let answer = request.send().await.map_err(|e| transport(&e))?;
        let status = answer.status();
        if status == StatusCode::OK {
            return read(answer, limit).await;
        }
        let bytes = read(answer, MAX_PROBLEM_BYTES).await.unwrap_or_default();
        Err(status_error(&bytes, status))
    }
}

async fn read(mut answer: Response, limit: usize) -> Result<Vec<u8>, CallError> {
    let too_long = || CallError {
        class: AttemptError::Protocol,
        detail: format!("the answer has more than {limit} bytes"),
    };
    if answer.content_length().is_some_and(|n| n > limit as u64) {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|e| transport(&e))? {
        if bytes.len() + chunk.len() > limit {
            return Err(too_long());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

fn transport(e: &reqwest::Error) -> CallError {
    let class = if e.is_timeout() {
        AttemptError::Timeout
    } else if e.is_connect() {
        AttemptError::Connect
    } else {
        AttemptError::Protocol
    };
    let detail = match connect::cause(e) {
        Cause::Tls(words) => words.to_owned(),
        Cause::Other(reason) => reason,
    };
    let detail = match (class, detail.is_empty()) {
        (AttemptError::Timeout, _) => "no answer in time".to_owned(),
        (_, true) => "the request failed".to_owned(),
        (_, false) => detail,
    };
    CallError { class, detail }
}

/// The parser's own words may quote a message, and this ends in logs: the place must do.
fn protocol(e: serde_json::Error) -> CallError {
    let (line, column) = (e.line(), e.column());
    CallError {
        class: AttemptError::Protocol,
        detail: format!("the answer is not what a relay says, at line {line} column {column}"),
    }
}

fn status_error(bytes: &[u8], status: StatusCode) -> CallError {
    CallError {
        class: AttemptError::Status(status.as_u16()),
        detail: problem_text(bytes, status),
    }
}

/// What the relay said about the trouble, else the name of the status. At most 200 characters,
/// nothing that could move a cursor: it is shown to people and models.
#[must_use]
pub fn problem_text(bytes: &[u8], status: StatusCode) -> String {
    #[derive(serde::Deserialize)]
    struct Said {
        title: Option<String>,
        detail: Option<String>,
    }
    let said = serde_json::from_slice::<Said>(bytes)
        .ok()
        .and_then(|said| said.detail.or(said.title));
    let text = said.unwrap_or_default();
    let text: String = text
        .chars()
        .filter(|c| !crate::types::id::is_unsafe_char(*c))
        .take(200)
        .collect();
    if text.is_empty() {
        format!("HTTP {status}")
    } else {
        format!("HTTP {}: {text}", status.as_u16())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_told_from_the_rest() {
        for (url, loopback) in [
            ("http://127.3.0.1:1", true),
            ("http://[::1]", true),
            ("http://localhost:9", true),
            ("http://a.localhost", true),
            ("http://127.0.0.1.example", false),
            ("http://10.0.0.1", false),
            ("http://localhost.example", false),
        ] {
            assert_eq!(
                RelayUrl::parse(url).unwrap().is_loopback(),
                loopback,
                "{url}"
            );
        }
    }
}
