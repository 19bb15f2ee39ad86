//! From a code, or from two identities, to keys. With a code: a PAKE on the words, an X25519
//! agreement under it, and a proof each way.
//!
//! ```text
//! base   = SHA-256("interlink-1 pake" || routing id || host element || guest element)
//! tag g  = HMAC(HKDF(base, pake key, "interlink-1 confirm guest"), base || guest ephemeral)
//! script = SHA-256("interlink-1 session" || base || host ephemeral || guest ephemeral)
//! master = HKDF(script, pake key || X25519, "interlink-1 master")
//! tag h  = HMAC(HKDF(script, master, "interlink-1 confirm host"), script)
//! ```
//!
//! The guest proves itself first, so a wrong code costs the host's session and nothing else: one
//! guess. The host's proof covers everything. The agreement under the PAKE is there because the
//! PAKE's own scalar is not erased by its crate: what a memory dump gives away later, X25519 keeps.
//!
//! Two that have pinned each other need no code. In place of the PAKE stands another X25519
//! agreement, both identities go into the base, and each hello is signed: sign and MAC (SIGMA).

use std::sync::Arc;

use super::keys::Keys;
use crate::crypto::agree::{AgreementPublic, EphemeralSecret};
use crate::crypto::pake::{ELEMENT_BYTES, Run, Side};
use crate::crypto::sign::{self, Signature, SigningIdentity};
use crate::crypto::{hash, kdf};
use crate::types::entropy::{Entropy, EntropyError};
use crate::types::id::PublicKey;
use crate::types::secret::Secret;
use crate::wire::bond::Role;
use crate::wire::bond::code::RoutingId;
use crate::wire::bond::identity::hello_bytes;
use crate::wire::bond::own::Hello;
use crate::wire::bond::own_code::OwnCode;

/// Two identities that know each other already.
#[derive(Clone, Debug)]
pub struct Pinned {
    /// Ours.
    pub identity: Arc<SigningIdentity>,
    /// The one that we want to talk to, and nobody else.
    pub peer: PublicKey,
}

/// What the two have in common beforehand.
enum First {
    Code(Run),
    Pinned {
        agreement: EphemeralSecret,
        element: [u8; ELEMENT_BYTES],
        pinned: Pinned,
    },
}

/// Before the peer's element is known.
pub(super) struct Start {
    role: Role,
    routing: RoutingId,
    first: First,
    ephemeral: EphemeralSecret,
}

/// The peer's element is none.
pub(super) struct BadElement;

impl Start {
    pub(super) fn with_code(
        role: Role,
        code: &OwnCode,
        entropy: &dyn Entropy,
    ) -> Result<Start, EntropyError> {
        let routing = code.routing();
        let id = |role: Role| format!("interlink-1 {} {routing}", role.word());
        let side = match role {
            Role::Host => Side::A,
            Role::Guest => Side::B,
        };
        let run = Run::start(
            side,
            code.password().expose(),
            id(Role::Host).as_bytes(),
            id(Role::Guest).as_bytes(),
            entropy,
        )?;
        Ok(Start {
            role,
            routing,
            first: First::Code(run),
            ephemeral: EphemeralSecret::generate(entropy)?,
        })
    }

    pub(super) fn with_identities(
        role: Role,
        routing: RoutingId,
        pinned: Pinned,
        entropy: &dyn Entropy,
    ) -> Result<Start, EntropyError> {
        let agreement = EphemeralSecret::generate(entropy)?;
        let element = *agreement.public().as_bytes();
        Ok(Start {
            role,
            routing,
            first: First::Pinned {
                agreement,
                element,
                pinned,
            },
            ephemeral: EphemeralSecret::generate(entropy)?,
        })
    }

    /// What stands where a relay wants a public key.
    pub(super) const fn element(&self) -> &[u8; ELEMENT_BYTES] {
        match &self.first {
            First::Code(run) => run.element(),
            First::Pinned { element, .. } => element,
        }
    }

    /// The peer's element came.
    pub(super) fn meet(self, theirs: &[u8; ELEMENT_BYTES]) -> Result<Met, BadElement> {
        let ours = *self.element();
        let role = self.role;
        let mut base = match &self.first {
            First::Code(_) => b"interlink-1 pake".to_vec(),
            First::Pinned { .. } => b"interlink-1 pinned".to_vec(),
        };
        base.extend_from_slice(self.routing.as_bytes());
        let mut add = |ours: &[u8; 32], theirs: &[u8; 32]| {
            let (host, guest) = in_order(role, ours, theirs);
            base.extend_from_slice(host);
            base.extend_from_slice(guest);
        };
        add(&ours, theirs);
        let (common, pinned) = match self.first {
            First::Code(run) => (run.finish(theirs).map_err(|_| BadElement)?, None),
            First::Pinned {
                agreement, pinned, ..
            } => {
                let own_key = pinned.identity.public();
                add(own_key.as_bytes(), pinned.peer.as_bytes());
                let shared = agreement
                    .agree(&AgreementPublic::from_bytes(*theirs))
                    .map_err(|_| BadElement)?;
                (Secret::new(*shared.expose()), Some(pinned))
            }
        };
        Ok(Met {
            role,
            base: hash::sha256(&base),
            common,
            pinned,
            ephemeral: self.ephemeral,
        })
    }
}

/// The host's first.
const fn in_order<'a>(
    role: Role,
    ours: &'a [u8; 32],
    theirs: &'a [u8; 32],
) -> (&'a [u8; 32], &'a [u8; 32]) {
    match role {
        Role::Host => (ours, theirs),
        Role::Guest => (theirs, ours),
    }
}

/// The elements are exchanged; nobody is proven.
pub(super) struct Met {
    role: Role,
    base: [u8; 32],
    /// The PAKE's key, or the first agreement.
    common: Secret<[u8; 32]>,
    pinned: Option<Pinned>,
    ephemeral: EphemeralSecret,
}

/// The proof does not fit: another code, another identity, or somebody in between.
pub(super) struct WrongProof;

/// The end of the key schedule.
struct Finished {
    keys: Keys,
    script: [u8; 32],
    host_tag: [u8; 32],
}

impl Met {
    /// What the guest opens with.
    pub(super) fn guest_hello(&self) -> Hello {
        let ephemeral = *self.ephemeral.public().as_bytes();
        Hello {
            ephemeral,
            confirmation: self.guest_tag(&ephemeral),
            signature: vouch(self.pinned.as_ref(), Role::Guest, &self.base, &ephemeral),
        }
    }

    /// The host takes the guest's proof and answers with its own.
    pub(super) fn host(self, theirs: &Hello) -> Result<(Keys, Hello), WrongProof> {
        if !kdf::same(&self.guest_tag(&theirs.ephemeral), &theirs.confirmation) {
            return Err(WrongProof);
        }
        vouched(self.pinned.as_ref(), Role::Guest, &self.base, theirs)?;
        let ephemeral = *self.ephemeral.public().as_bytes();
        let pinned = self.pinned.clone();
        let done = self.finish(&theirs.ephemeral)?;
        let hello = Hello {
            ephemeral,
            confirmation: done.host_tag,
            signature: vouch(pinned.as_ref(), Role::Host, &done.script, &ephemeral),
        };
        Ok((done.keys, hello))
    }

    /// The guest takes the host's proof.
    pub(super) fn guest(self, theirs: &Hello) -> Result<Keys, WrongProof> {
        let pinned = self.pinned.clone();
        let done = self.finish(&theirs.ephemeral)?;
        if !kdf::same(&done.host_tag, &theirs.confirmation) {
            return Err(WrongProof);
        }
        vouched(pinned.as_ref(), Role::Host, &done.script, theirs)?;
        Ok(done.keys)
    }

    fn guest_tag(&self, ephemeral: &[u8; 32]) -> [u8; 32] {
        let key = kdf::hkdf_sha256(
            &self.base,
            self.common.expose(),
            b"interlink-1 confirm guest",
        );
        kdf::hmac_sha256(key.expose(), &[&self.base, ephemeral])
    }

    fn finish(self, theirs: &[u8; 32]) -> Result<Finished, WrongProof> {
        let ours = *self.ephemeral.public().as_bytes();
        let shared = self
            .ephemeral
            .agree(&AgreementPublic::from_bytes(*theirs))
            .map_err(|_| WrongProof)?;
        let (host, guest) = in_order(self.role, &ours, theirs);
        let mut script = b"interlink-1 session".to_vec();
        script.extend_from_slice(&self.base);
        script.extend_from_slice(host);
        script.extend_from_slice(guest);
        let script = hash::sha256(&script);
        let mut ikm = Secret::new([0; 64]);
        let (first, second) = ikm.expose_mut().split_at_mut(32);
        first.copy_from_slice(self.common.expose());
        second.copy_from_slice(shared.expose());
        let master = kdf::hkdf_sha256(&script, ikm.expose(), b"interlink-1 master");
        let key = kdf::hkdf_sha256(&script, master.expose(), b"interlink-1 confirm host");
        let host_tag = kdf::hmac_sha256(key.expose(), &[&script]);
        Ok(Finished {
            keys: Keys::new(self.role, &script, master.expose()),
            script,
            host_tag,
        })
    }
}

fn vouch(
    pinned: Option<&Pinned>,
    role: Role,
    script: &[u8; 32],
    ephemeral: &[u8; 32],
) -> Option<[u8; 64]> {
    pinned.map(|pinned| {
        *pinned
            .identity
            .sign(&hello_bytes(role, script, ephemeral))
            .as_bytes()
    })
}

/// With a code nobody signs; with identities nothing else will do.
fn vouched(
    pinned: Option<&Pinned>,
    role: Role,
    script: &[u8; 32],
    hello: &Hello,
) -> Result<(), WrongProof> {
    match (pinned, hello.signature) {
        (None, None) => Ok(()),
        (Some(pinned), Some(signature)) => sign::verify_strict(
            &pinned.peer,
            &hello_bytes(role, script, &hello.ephemeral),
            &Signature::from_bytes(signature),
        )
        .map_err(|_| WrongProof),
        _ => Err(WrongProof),
    }
}
