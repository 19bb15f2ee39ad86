//! The announcement: "this session of mine exists".
//!
//! The bus keeps it and shows it to everybody; receivers believe the signature, not the bus. The
//! only member that the bus adds, `age_ms`, is outside the signature and only as good as the bus.
//!
//! The signed time is under no freshness rule on the public network, so an old announcement can
//! be played again: treat presence as a hint.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::crypto::sign::{
    KeyError, Signature, SignatureTextError, SigningIdentity, VerifyError, decode_public_key,
    verify_strict,
};
use crate::types::id::PublicKey;
use crate::types::time::UnixMillis;

use super::canonical::{ANNOUNCE_DOMAIN, Canonical};

/// What a session says about itself. All of it is public.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SessionInfo {
    /// The session id; empty when the node has none. Not validated: it is somebody else's claim.
    pub session_id: String,
    /// Working directory, as far as its owner wants it known.
    #[serde(default)]
    pub cwd: String,
    /// Name (not path) of the repository around it, empty if none.
    #[serde(default)]
    pub git_root: String,
    /// What the session works on.
    #[serde(default)]
    pub summary: String,
}

/// A signed announcement. Reading one checks its shape only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Announcement {
    /// Who announces.
    pub pubkey: PublicKey,
    /// The node's own name for itself; a claim, not an identity.
    pub name: String,
    /// The session.
    pub session: SessionInfo,
    /// When it was signed.
    pub ts: UnixMillis,
    /// Signature over [`Announcement::canonical_bytes`].
    pub sig: Signature,
    /// Milliseconds since the bus last heard it. **Not signed**; written by the bus on read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
}

impl Announcement {
    /// Signs an announcement.
    #[must_use]
    pub fn sign(
        identity: &SigningIdentity,
        name: String,
        session: SessionInfo,
        ts: UnixMillis,
    ) -> Announcement {
        let unsigned = Announcement {
            pubkey: identity.public(),
            name,
            session,
            ts,
            sig: Signature::from_bytes([0; 64]),
            age_ms: None,
        };
        let sig = identity.sign(&unsigned.canonical_bytes());
        Announcement { sig, ..unsigned }
    }

    /// The bytes under the signature: `schema/canonical.md`.
    #[must_use]
    pub fn canonical_bytes(&self) -> Vec<u8> {
        let s = &self.session;
        let strings = [&self.name, &s.session_id, &s.cwd, &s.git_root, &s.summary];
        // Key, time and five lengths take 60 bytes.
        let room = strings
            .iter()
            .fold(60usize, |sum, s| sum.saturating_add(s.len()));
        let start = Canonical::new(ANNOUNCE_DOMAIN, room).key(&self.pubkey);
        strings
            .iter()
            .fold(start, |bytes, text| bytes.text(text))
            .time(self.ts)
            .finish()
    }

    /// Checks that the announced key signed exactly this. Says nothing about how old it is.
    ///
    /// # Errors
    ///
    /// [`VerifyAnnouncementError::Signature`].
    pub fn verify(&self) -> Result<(), VerifyAnnouncementError> {
        verify_strict(&self.pubkey, &self.canonical_bytes(), &self.sig)?;
        Ok(())
    }

    /// Reads JSON text.
    ///
    /// # Errors
    ///
    /// [`ReadAnnouncementError::Shape`] or, for keys and signatures that are not well-formed,
    /// [`ReadAnnouncementError::Verify`].
    pub fn from_json(text: &str) -> Result<Announcement, ReadAnnouncementError> {
        serde_json::from_str::<RawAnnouncement>(text)?.check()
    }

    /// Reads parsed JSON.
    ///
    /// # Errors
    ///
    /// As [`Announcement::from_json`].
    pub fn from_value(value: serde_json::Value) -> Result<Announcement, ReadAnnouncementError> {
        serde_json::from_value::<RawAnnouncement>(value)?.check()
    }
}

impl<'de> Deserialize<'de> for Announcement {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Announcement, D::Error> {
        RawAnnouncement::deserialize(d)?
            .check()
            .map_err(D::Error::custom)
    }
}

/// A signed announcement of a session. Members that are not named here are ignored. A missing
/// `session` is an empty one; an explicit null is not.
// The shape before key and signature are looked at. Its comments are published as the schema.
#[derive(Deserialize, schemars::JsonSchema)]
#[schemars(rename = "Announcement")]
pub(super) struct RawAnnouncement {
    /// Who announces. Signed.
    #[schemars(with = "PublicKey")]
    pubkey: String,
    /// The node's own name for itself. Signed.
    name: String,
    /// The session. Signed.
    #[serde(default)]
    session: SessionInfo,
    /// When it was signed, Unix milliseconds. Signed.
    ts: u64,
    /// Ed25519 over the bytes of schema/canonical.md.
    #[schemars(regex(pattern = "^[A-Za-z0-9_-]{86}$"))]
    sig: String,
    /// Milliseconds since the bus last heard it; added by the bus. Not signed.
    #[serde(default)]
    age_ms: Option<u64>,
}

impl RawAnnouncement {
    fn check(self) -> Result<Announcement, ReadAnnouncementError> {
        Ok(Announcement {
            pubkey: decode_public_key(&self.pubkey).map_err(VerifyAnnouncementError::Key)?,
            name: self.name,
            session: self.session,
            ts: UnixMillis(self.ts),
            sig: self
                .sig
                .parse()
                .map_err(VerifyAnnouncementError::SignatureText)?,
            age_ms: self.age_ms,
        })
    }
}

/// Why bytes from outside are not an announcement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadAnnouncementError {
    /// Not JSON, a required member missing, or a wrong type.
    #[error("not an announcement: {0}")]
    Shape(#[from] serde_json::Error),
    /// The key or the signature cannot be read.
    #[error(transparent)]
    Verify(#[from] VerifyAnnouncementError),
}

/// Why an announcement is not its key's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyAnnouncementError {
    /// The announced key is not one.
    #[error("announced key: {0}")]
    Key(KeyError),
    /// The signature is not 64 bytes of canonical base64url.
    #[error(transparent)]
    SignatureText(SignatureTextError),
    /// The signature does not hold.
    #[error(transparent)]
    Signature(#[from] VerifyError),
}
