//! Whose sessions there are, and what is not to be remembered any more.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::types::id::{MsgId, PublicKey, SessionId};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// A verified announcement, as far as it is remembered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sighting {
    /// Who announced: a peer that is admitted, or our own key.
    pub key: PublicKey,
    /// The session.
    pub session: SessionId,
    /// Signed time.
    pub ts: UnixMillis,
    /// When a relay got it, by our clock.
    pub heard: UnixMillis,
}

/// Sessions were seen announced by their keys: new ones, and known ones with a newer signature. Not
/// one record for each heartbeat: the first, the last, and one in ten minutes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionsSeen {
    /// At most 256, one for each (key, session).
    pub sightings: Vec<Sighting>,
}

impl SessionsSeen {
    pub(super) fn json(&self) -> Value {
        let sightings: Vec<Value> = self
            .sightings
            .iter()
            .map(|s| json!({ "key": s.key, "session": s.session, "ts": s.ts, "heard": s.heard }))
            .collect();
        json!({ "sightings": sightings })
    }
}

/// A peer's session said good-bye, in a message that its key signed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionClosed {
    /// The verified sender.
    pub key: PublicKey,
    /// The session that ends.
    pub session: SessionId,
    /// Signed time. What the session announced up to then does not count any more.
    pub ts: UnixMillis,
}

impl SessionClosed {
    pub(super) fn json(&self) -> Value {
        json!({ "key": self.key, "session": self.session, "ts": self.ts })
    }
}

/// Why sessions leave the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ForgetReason {
    /// Neither seen nor written to for long.
    Unused,
    /// The operator said so.
    Operator,
}

impl ForgetReason {
    /// The word that people and scripts see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ForgetReason::Unused => "unused",
            ForgetReason::Operator => "operator",
        }
    }
}

/// Sessions left the directory, with everybody who claimed them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionsForgotten {
    /// At most 256 ids, ascending.
    pub sessions: Vec<SessionId>,
    /// Why.
    pub reason: ForgetReason,
}

impl SessionsForgotten {
    pub(super) fn json(&self) -> Value {
        json!({ "sessions": self.sessions, "reason": self.reason.name() })
    }
}

/// The reader put messages away that came too late.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExpiredDismissed {
    /// The session.
    pub session: SessionId,
    /// (sender, message id) of each, at most 256.
    pub items: Vec<(PublicKey, MsgId)>,
}

impl ExpiredDismissed {
    pub(super) fn json(&self) -> Value {
        let items: Vec<Value> = self
            .items
            .iter()
            .map(|(from, msg_id)| json!({ "from": from, "msg_id": msg_id }))
            .collect();
        json!({ "session": self.session, "items": items })
    }
}

/// What was exchanged with a key was erased, on the operator's wish: rows, and the bodies at the
/// positions below. The ids of its messages stay used up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerForgotten {
    /// The key.
    pub key: PublicKey,
    /// Positions of received messages, ascending.
    pub received: Vec<Seq>,
    /// Positions of sent messages, ascending.
    pub sent: Vec<Seq>,
    /// Positions of the bodies that go; with `received` and `sent` at most 2048 messages.
    pub bodies: Vec<Seq>,
    /// Whether this is the last of its records: everything else that names the key goes with it.
    pub last: bool,
}

impl PeerForgotten {
    pub(super) fn json(&self) -> Value {
        json!({
            "key": self.key, "received": self.received, "sent": self.sent,
            "bodies": self.bodies, "last": self.last,
        })
    }
}
