//! From a code to keys: a PAKE on the words, an X25519 agreement under it, and a proof each way.
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

use super::keys::Keys;
use crate::crypto::agree::{AgreementPublic, EphemeralSecret};
use crate::crypto::pake::{ELEMENT_BYTES, PakeError, Run, Side};
use crate::crypto::{hash, kdf};
use crate::types::entropy::{Entropy, EntropyError};
use crate::types::secret::Secret;
use crate::wire::bond::Role;
use crate::wire::bond::code::RoutingId;
use crate::wire::bond::own::Hello;
use crate::wire::bond::own_code::OwnCode;

/// Before the peer's element is known.
pub(super) struct Start {
    role: Role,
    routing: RoutingId,
    run: Run,
    ephemeral: EphemeralSecret,
}

impl Start {
    pub(super) fn new(
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
            run,
            ephemeral: EphemeralSecret::generate(entropy)?,
        })
    }

    /// What stands where a relay wants a public key.
    pub(super) const fn element(&self) -> &[u8; ELEMENT_BYTES] {
        self.run.element()
    }

    /// The peer's element came.
    pub(super) fn meet(self, theirs: &[u8; ELEMENT_BYTES]) -> Result<Met, PakeError> {
        let ours = *self.run.element();
        let (host, guest) = match self.role {
            Role::Host => (&ours, theirs),
            Role::Guest => (theirs, &ours),
        };
        let mut base = b"interlink-1 pake".to_vec();
        base.extend_from_slice(self.routing.as_bytes());
        base.extend_from_slice(host);
        base.extend_from_slice(guest);
        Ok(Met {
            role: self.role,
            base: hash::sha256(&base),
            pake: self.run.finish(theirs)?,
            ephemeral: self.ephemeral,
        })
    }
}

/// The PAKE has run; nobody is proven.
pub(super) struct Met {
    role: Role,
    base: [u8; 32],
    pake: Secret<[u8; 32]>,
    ephemeral: EphemeralSecret,
}

/// The proof does not fit: another code, or somebody in between.
pub(super) struct WrongProof;

impl Met {
    /// What the guest opens with.
    pub(super) fn guest_hello(&self) -> Hello {
        let ephemeral = *self.ephemeral.public().as_bytes();
        Hello {
            ephemeral,
            confirmation: self.guest_tag(&ephemeral),
        }
    }

    /// The host takes the guest's proof and answers with its own.
    pub(super) fn host(self, theirs: &Hello) -> Result<(Keys, Hello), WrongProof> {
        if !kdf::same(&self.guest_tag(&theirs.ephemeral), &theirs.confirmation) {
            return Err(WrongProof);
        }
        let ephemeral = *self.ephemeral.public().as_bytes();
        let (keys, confirmation) = self.finish(&theirs.ephemeral)?;
        let hello = Hello {
            ephemeral,
            confirmation,
        };
        Ok((keys, hello))
    }

    /// The guest takes the host's proof.
    pub(super) fn guest(self, theirs: &Hello) -> Result<Keys, WrongProof> {
        let (keys, expected) = self.finish(&theirs.ephemeral)?;
        if kdf::same(&expected, &theirs.confirmation) {
            Ok(keys)
        } else {
            Err(WrongProof)
        }
    }

    fn guest_tag(&self, ephemeral: &[u8; 32]) -> [u8; 32] {
        let key = kdf::hkdf_sha256(&self.base, self.pake.expose(), b"interlink-1 confirm guest");
        kdf::hmac_sha256(key.expose(), &[&self.base, ephemeral])
    }

    /// The keys, and the host's proof.
    fn finish(self, theirs: &[u8; 32]) -> Result<(Keys, [u8; 32]), WrongProof> {
        let ours = *self.ephemeral.public().as_bytes();
        let shared = self
            .ephemeral
            .agree(&AgreementPublic::from_bytes(*theirs))
            .map_err(|_| WrongProof)?;
        let (host, guest) = match self.role {
            Role::Host => (&ours, theirs),
            Role::Guest => (theirs, &ours),
        };
        let mut script = b"interlink-1 session".to_vec();
        script.extend_from_slice(&self.base);
        script.extend_from_slice(host);
        script.extend_from_slice(guest);
        let script = hash::sha256(&script);
        let mut ikm = Secret::new([0; 64]);
        let (first, second) = ikm.expose_mut().split_at_mut(32);
        first.copy_from_slice(self.pake.expose());
        second.copy_from_slice(shared.expose());
        let master = kdf::hkdf_sha256(&script, ikm.expose(), b"interlink-1 master");
        let key = kdf::hkdf_sha256(&script, master.expose(), b"interlink-1 confirm host");
        let confirmation = kdf::hmac_sha256(key.expose(), &[&script]);
        Ok((Keys::new(self.role, &script, master.expose()), confirmation))
    }
}
