//! Two sides of a sealed session that pin each other, or that know each other by their keys: what was
//! said about it, and what was decided.
//!
//! The admission itself is a `peer_added`, as every admission is; here stands how it came about.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::bond::{BondRef, DecidedBy};
use super::hex;
use crate::types::id::PublicKey;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PinStep {
    /// Our human agreed to pin the other side, whose card had not come yet.
    Asked,
    /// Our card went out.
    Sent,
    /// The other side's card came: it proved its key for this session.
    Received,
    /// A card that proves nothing came, or a second one of another key.
    Refused,
    /// Our human said no.
    Declined,
    /// The other side is a peer now.
    Pinned,
    /// Our human agreed, but the name is another peer's, or is none.
    Conflicted,
    /// The other side of a session that two identities opened without a code proved its key.
    Met,
}

impl PinStep {
    /// Every step.
    pub const ALL: [PinStep; 8] = [
        PinStep::Asked,
        PinStep::Sent,
        PinStep::Received,
        PinStep::Refused,
        PinStep::Declined,
        PinStep::Pinned,
        PinStep::Conflicted,
        PinStep::Met,
    ];

    /// The word that people and scripts see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            PinStep::Asked => "asked",
            PinStep::Sent => "sent",
            PinStep::Received => "received",
            PinStep::Refused => "refused",
            PinStep::Declined => "declined",
            PinStep::Pinned => "pinned",
            PinStep::Conflicted => "conflicted",
            PinStep::Met => "met",
        }
    }
}

/// A step on the way to pinning the other side of a sealed session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BondPin {
    /// Which session.
    pub of: BondRef,
    /// What happened.
    pub step: PinStep,
    /// The other side's key, where it proved one.
    pub key: Option<PublicKey>,
    /// The name that it gives itself, or that it got here; spelled out and cut, often empty.
    pub name: String,
    /// Through what a decision came, where there was one.
    pub by: Option<DecidedBy>,
}

impl BondPin {
    pub(super) fn json(&self) -> Value {
        json!({
            "bond": self.of.bond, "routing": hex(&self.of.routing), "pid": self.of.pid,
            "step": self.step.name(), "key": self.key, "name": self.name,
            "by": self.by.map(DecidedBy::name),
        })
    }
}
