//! What goes out: words, files, confirmations. Nothing but a tag leaves before the peer is proven.

use super::io::{Action, Carries, OutgoingFile, Ticket};
use super::row::Row;
use super::session::{Keys, Phase, Session, StepError};
use super::tell::Refusal;
use super::{BUDGET_FILES, Ending};
use crate::crypto::aead;
use crate::types::entropy::{Entropy, EntropyError};
use crate::types::secret::Secret;
use crate::types::time::UnixMillis;
use crate::wire::bond::Role;
use crate::wire::bond::packet::{self, CHAT_MAX_UNITS, FileBody, PacketNonce};
use crate::wire::bond::sealed;

/// Digits of ciphertext that a relay still takes, with what is around it.
const MAX_SEALED_CHARS: usize = sealed::MAX_CIPHERTEXT_DIGITS - 512;

/// Why something is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The peer has not proven itself yet, or does not know yet that we have.
    #[error("the secure channel is not established yet")]
    NotConfirmed,
    /// The session is over.
    #[error("the session is over")]
    Over(Ending),
    /// Too soon after the last one.
    #[error("too soon: wait {} s", left_ms.div_ceil(1000))]
    Cooldown {
        /// Milliseconds to wait.
        left_ms: u64,
    },
    /// The last one is still on its way.
    #[error("the last one is still on its way")]
    Busy,
    /// No text.
    #[error("there is nothing to say")]
    Empty,
    /// More than 4,000 UTF-16 units.
    #[error("the text has {units} UTF-16 units, the most are 4,000")]
    TooLong {
        /// How many.
        units: usize,
    },
    /// The file may not be sent.
    #[error("the file is not sent: {}", .0.name())]
    File(Refusal),
    /// Larger than a relay takes, once encrypted.
    #[error("too large for the relay once encrypted")]
    TooLarge,
    /// It could not be encoded or encrypted.
    #[error("it could not be encrypted")]
    Seal,
}

/// What the user sent and the relay has not answered.
pub(super) struct Outgoing {
    pub(super) ticket: Ticket,
    /// Of the budget.
    pub(super) charged: u64,
    /// To be recorded when the relay took it.
    pub(super) row: Row,
}

impl Session {
    pub(super) fn say(
        &mut self,
        now: UnixMillis,
        text: &str,
        entropy: &dyn Entropy,
        out: &mut Vec<Action>,
    ) -> Result<(), StepError> {
        if text.is_empty() {
            return Err(SendError::Empty.into());
        }
        let units = text.encode_utf16().count();
        if units > CHAT_MAX_UNITS {
            return Err(SendError::TooLong { units }.into());
        }
        self.may_send(now)?;
        let (nonce, payload) = self.seal(entropy, &|nonce| {
            packet::chat(nonce, now, text).map(Secret::new)
        })?;
        let ticket = self.sending(now, nonce);
        self.outgoing = Some(Outgoing {
            ticket,
            charged: 0,
            row: Row::ChatSent { chars: wide(units) },
        });
        out.push(Action::Post {
            ticket,
            kind: Carries::Chat,
            payload,
        });
        Ok(())
    }

    pub(super) fn send_file(
        &mut self,
        now: UnixMillis,
        file: OutgoingFile,
        entropy: &dyn Entropy,
        out: &mut Vec<Action>,
    ) -> Result<(), StepError> {
        self.may_send(now)?;
        let size = wide(file.content.len());
        (self.policy.name_rule)(&file.name).map_err(SendError::File)?;
        if size > self.policy.max_file_bytes {
            return Err(SendError::File(Refusal::TooLarge).into());
        }
        let total = self.spent.saturating_add(size);
        if total > self.policy.max_file_bytes.saturating_mul(BUDGET_FILES) {
            return Err(SendError::File(Refusal::Budget).into());
        }
        let body = FileBody {
            filename: file.name,
            content: file.content,
            message: file.note,
        };
        let (nonce, payload) = self.seal(entropy, &|nonce| {
            packet::file_transfer(nonce, now, &body).map(Secret::new)
        })?;
        let ticket = self.sending(now, nonce);
        self.spent = total;
        out.push(Action::Record(Row::Outbound {
            file: body.filename.clone(),
            size,
            total,
        }));
        self.outgoing = Some(Outgoing {
            ticket,
            charged: size,
            row: Row::FileSent {
                file: body.filename,
                size,
                note_chars: wide(body.message.encode_utf16().count()),
                sha256: None,
            },
        });
        out.push(Action::Post {
            ticket,
            kind: Carries::File,
            payload,
        });
        Ok(())
    }

    /// Whether the user may send something now.
    ///
    /// # Errors
    ///
    /// Why not.
    pub fn may_send(&self, now: UnixMillis) -> Result<(), SendError> {
        match self.phase {
            Phase::Over(ending) => return Err(SendError::Over(ending)),
            Phase::Opening | Phase::Waiting | Phase::Keyed => return Err(SendError::NotConfirmed),
            Phase::Confirmed => {}
        }
        if self.expired(now) {
            return Err(SendError::Over(Ending::Expired));
        }
        // A guest that hears words before the host's tag has to give up.
        if self.role == Role::Host && !self.confirmation.taken() {
            return Err(SendError::NotConfirmed);
        }
        if self.outgoing.is_some() {
            return Err(SendError::Busy);
        }
        match self.cooldown_ms(now) {
            0 => Ok(()),
            left_ms => Err(SendError::Cooldown { left_ms }),
        }
    }

    pub(super) fn seal_tag(
        &mut self,
        now: UnixMillis,
        entropy: &dyn Entropy,
    ) -> Result<(Ticket, String), StepError> {
        let role = self.role;
        let tag = self.keys()?.own_tag;
        let (nonce, payload) = self.seal(entropy, &|nonce| {
            packet::key_confirm(nonce, now, role, &tag).map(Secret::new)
        })?;
        Ok((self.sending(now, nonce), payload))
    }

    fn keys(&self) -> Result<&Keys, SendError> {
        self.keys.as_ref().ok_or(SendError::NotConfirmed)
    }

    /// Builds a packet with a fresh nonce and seals it. Changes nothing.
    fn seal(
        &self,
        entropy: &dyn Entropy,
        build: &dyn Fn(PacketNonce) -> Result<Secret<Vec<u8>>, serde_json::Error>,
    ) -> Result<(PacketNonce, String), StepError> {
        let keys = self.keys()?;
        let nonce = fresh(entropy)?;
        let iv = aead::random_nonce(entropy)?;
        let plaintext = build(nonce).map_err(|_| SendError::Seal)?;
        let sealed =
            aead::seal(&keys.seal, iv, &[], plaintext.expose()).map_err(|_| SendError::Seal)?;
        let payload = sealed::write(&sealed);
        if payload.len() > MAX_SEALED_CHARS {
            return Err(SendError::TooLarge.into());
        }
        Ok((nonce, payload))
    }

    /// From here on the packet counts as sent.
    fn sending(&mut self, now: UnixMillis, nonce: PacketNonce) -> Ticket {
        self.replay.sending(now, nonce);
        self.track.posting();
        self.ticket()
    }
}

fn fresh(entropy: &dyn Entropy) -> Result<PacketNonce, EntropyError> {
    let mut nonce = [0; 16];
    entropy.fill(&mut nonce)?;
    Ok(nonce)
}

fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
