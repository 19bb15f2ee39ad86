//! Sealing and opening records, and the ratchet that leaves old keys behind.
//!
//! ```text
//! nonce = lane letter, 3 zero bytes, sequence number (big endian)      12 bytes
//! aad   = "interlink-1 record" || session id || sender's role || lane letter || number
//! next  = HKDF-SHA256(salt "interlink-1 ratchet", ikm = key, info = session id)   every 256 records
//! ```
//!
//! Every direction and lane has a key of its own, so a number is never used twice under one key,
//! and nothing that came back, was moved or was renumbered opens.

use std::collections::VecDeque;

use super::REKEY_RECORDS;
use crate::crypto::aead::{self, SealKey, Sealed, TAG_BYTES};
use crate::crypto::kdf;
use crate::types::secret::Secret;
use crate::wire::bond::Role;
use crate::wire::bond::own::{Lane, Record};

/// How far a control record may be ahead of the last one.
const MAX_SKIP: u64 = 1 << 16;

/// Bytes that plaintexts are filled up to a multiple of.
const PAD_BYTES: usize = 256;

/// The keys of one direction and lane, only ever forward.
pub(super) struct Chain {
    session: [u8; 32],
    sender: Role,
    lane: Lane,
    key: SealKey,
    epoch: u64,
    /// Keys of the epochs after it, as far as a record asked for them: garbage that claims to be far
    /// ahead costs their derivation once.
    ahead: VecDeque<SealKey>,
}

impl Chain {
    pub(super) fn new(session: [u8; 32], master: &[u8; 32], sender: Role, lane: Lane) -> Chain {
        let mut info = b"interlink-1 key ".to_vec();
        info.extend_from_slice(sender.word().as_bytes());
        info.push(lane.letter());
        Chain {
            session,
            sender,
            lane,
            key: SealKey::new(kdf::hkdf_sha256(&session, master, &info)),
            epoch: 0,
            ahead: VecDeque::new(),
        }
    }

    /// Seals number `seq`, and forgets the keys of numbers before its epoch.
    pub(super) fn seal(&mut self, seq: u64, body: &[u8]) -> Option<Record> {
        self.forward(seq);
        let mut padded = Secret::new(Vec::with_capacity(body.len().saturating_add(PAD_BYTES)));
        padded.expose_mut().extend_from_slice(body);
        padded.expose_mut().push(0x80);
        let full = padded.expose().len().next_multiple_of(PAD_BYTES);
        padded.expose_mut().resize(full, 0);
        let sealed =
            aead::seal(&self.key, self.nonce(seq), &self.aad(seq), padded.expose()).ok()?;
        let mut bytes = sealed.ciphertext;
        bytes.extend_from_slice(&sealed.tag);
        Some(Record {
            lane: self.lane,
            seq,
            sealed: bytes,
        })
    }

    /// Opens a record of this chain, without moving.
    pub(super) fn open(&mut self, record: &Record) -> Option<Secret<Vec<u8>>> {
        let epoch = record.seq / REKEY_RECORDS;
        if record.lane != self.lane
            || epoch < self.epoch
            || epoch - self.epoch > MAX_SKIP / REKEY_RECORDS
            || record.sealed.len() < PAD_BYTES + TAG_BYTES
        {
            return None;
        }
        let steps = usize::try_from(epoch - self.epoch).ok()?;
        while self.ahead.len() < steps {
            let next = self.after(self.ahead.back().unwrap_or(&self.key));
            self.ahead.push_back(next);
        }
        let at = record.sealed.len().checked_sub(TAG_BYTES)?;
        let (ciphertext, tag) = record.sealed.split_at_checked(at)?;
        let sealed = Sealed {
            nonce: self.nonce(record.seq),
            ciphertext: ciphertext.to_vec(),
            tag: tag.try_into().ok()?,
        };
        let key = match steps.checked_sub(1) {
            Some(at) => self.ahead.get(at)?,
            None => &self.key,
        };
        let mut body = aead::open(key, &self.aad(record.seq), &sealed).ok()?;
        let end = body.expose().iter().rposition(|byte| *byte != 0)?;
        if body.expose().get(end) != Some(&0x80) {
            return None;
        }
        body.expose_mut().truncate(end);
        Some(body)
    }

    /// Nothing before number `seq` will be asked for any more.
    pub(super) fn forward(&mut self, seq: u64) {
        while self.epoch < seq / REKEY_RECORDS {
            self.key = match self.ahead.pop_front() {
                Some(key) => key,
                None => self.after(&self.key),
            };
            self.epoch += 1;
        }
    }

    fn after(&self, key: &SealKey) -> SealKey {
        SealKey::new(kdf::hkdf_sha256(
            b"interlink-1 ratchet",
            key.expose(),
            &self.session,
        ))
    }

    fn nonce(&self, seq: u64) -> [u8; 12] {
        let mut nonce = [0; 12];
        let number = std::iter::once(self.lane.letter())
            .chain([0; 3])
            .chain(seq.to_be_bytes());
        for (to, from) in nonce.iter_mut().zip(number) {
            *to = from;
        }
        nonce
    }

    fn aad(&self, seq: u64) -> Vec<u8> {
        let mut aad = b"interlink-1 record".to_vec();
        aad.extend_from_slice(&self.session);
        aad.extend_from_slice(self.sender.word().as_bytes());
        aad.push(self.lane.letter());
        aad.extend_from_slice(&seq.to_be_bytes());
        aad
    }
}

/// Everything that comes of a finished handshake.
pub(super) struct Keys {
    session: [u8; 32],
    route: Secret<[u8; 32]>,
    words: [u8; 6],
    binding: [u8; 32],
    pub(super) send_data: Chain,
    pub(super) send_control: Chain,
    pub(super) receive_data: Chain,
    pub(super) receive_control: Chain,
}

impl Keys {
    pub(super) fn new(role: Role, transcript: &[u8; 32], master: &[u8; 32]) -> Keys {
        let derive = |info: &[u8]| kdf::hkdf_sha256(transcript, master, info);
        let session = *derive(b"interlink-1 session id").expose();
        let spoken = derive(b"interlink-1 words");
        let mut words = [0; 6];
        for (to, from) in words.iter_mut().zip(spoken.expose()) {
            *to = *from;
        }
        let chain = |sender, lane| Chain::new(session, master, sender, lane);
        Keys {
            session,
            route: derive(b"interlink-1 route"),
            words,
            binding: *derive(b"interlink-1 binding").expose(),
            send_data: chain(role, Lane::Data),
            send_control: chain(role, Lane::Control),
            receive_data: chain(role.other(), Lane::Data),
            receive_control: chain(role.other(), Lane::Control),
        }
    }

    /// Where the session is looked for after the relay lost it for the `generation`th time.
    pub(super) fn route(&self, generation: u64) -> [u8; 32] {
        let mut info = b"interlink-1 link".to_vec();
        info.extend_from_slice(&generation.to_be_bytes());
        *kdf::hkdf_sha256(&self.session, self.route.expose(), &info).expose()
    }

    /// What statements about this session are bound to.
    pub(super) const fn binding(&self) -> [u8; 32] {
        self.binding
    }

    /// Of what both sides may compare aloud.
    pub(super) const fn words(&self) -> &[u8; 6] {
        &self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(sender: Role, lane: Lane) -> Chain {
        Chain::new([1; 32], &[2; 32], sender, lane)
    }

    #[test]
    fn a_record_opens_in_its_place_only() {
        let mut from_host = chain(Role::Host, Lane::Data);
        let record = from_host.seal(5, b"words").unwrap();
        let open = |chain: &mut Chain, record: &Record| {
            let body = chain.open(record)?;
            Some(body.expose().clone())
        };
        assert_eq!(open(&mut from_host, &record), Some(b"words".to_vec()));
        for (sender, lane) in [
            (Role::Guest, Lane::Data),
            (Role::Host, Lane::Control),
            (Role::Guest, Lane::Control),
        ] {
            assert_eq!(open(&mut chain(sender, lane), &record), None);
            let renamed = Record {
                lane,
                ..record.clone()
            };
            assert_eq!(open(&mut chain(sender, lane), &renamed), None);
        }
        let moved = Record {
            seq: 6,
            ..record.clone()
        };
        assert_eq!(open(&mut from_host, &moved), None);
        let mut other_session = Chain::new([3; 32], &[2; 32], Role::Host, Lane::Data);
        assert_eq!(open(&mut other_session, &record), None);
        for at in 0..record.sealed.len() {
            let mut bent = record.clone();
            bent.sealed[at] ^= 1;
            assert_eq!(open(&mut from_host, &bent), None, "byte {at}");
        }
    }

    #[test]
    fn keys_go_forward_and_never_back() {
        let mut sender = chain(Role::Guest, Lane::Data);
        let mut receiver = chain(Role::Guest, Lane::Data);
        let first = sender.seal(0, b"a").unwrap();
        let next = sender.seal(REKEY_RECORDS, b"b").unwrap();
        let far = sender.seal(REKEY_RECORDS * 9 + 3, b"c").unwrap();
        for record in [&first, &next, &far] {
            assert!(receiver.open(record).is_some());
        }
        receiver.forward(REKEY_RECORDS);
        assert!(receiver.open(&first).is_none(), "its key is gone");
        assert!(receiver.open(&next).is_some());
        assert_ne!(
            chain(Role::Guest, Lane::Data).key.expose(),
            receiver.key.expose()
        );
        let too_far = Record {
            seq: u64::MAX,
            ..far
        };
        assert!(receiver.open(&too_far).is_none());
    }

    #[test]
    fn garbage_that_claims_to_be_far_ahead_costs_its_keys_once() {
        let mut sender = chain(Role::Guest, Lane::Control);
        let mut receiver = chain(Role::Guest, Lane::Control);
        let far = sender.seal(REKEY_RECORDS * 9, b"c").unwrap();
        let short = Record {
            sealed: vec![0; TAG_BYTES + PAD_BYTES - 1],
            ..far.clone()
        };
        assert!(receiver.open(&short).is_none());
        assert!(receiver.ahead.is_empty(), "too short to be worth a key");
        let garbage = Record {
            sealed: vec![0; TAG_BYTES + PAD_BYTES],
            ..far.clone()
        };
        for _ in 0..3 {
            assert!(receiver.open(&garbage).is_none());
            assert_eq!(receiver.ahead.len(), 9);
        }
        // They are the keys that the sender comes to.
        receiver.forward(REKEY_RECORDS * 4);
        assert_eq!(receiver.ahead.len(), 5);
        assert!(receiver.open(&far).is_some());
        receiver.forward(REKEY_RECORDS * 9);
        assert!(receiver.open(&far).is_some());
        assert!(receiver.ahead.is_empty());
    }

    #[test]
    fn lengths_are_rounded_up() {
        let mut sender = chain(Role::Host, Lane::Data);
        let lengths: Vec<_> = [0, 1, 100, 255, 256]
            .iter()
            .map(|n| sender.seal(0, &vec![b'x'; *n]).unwrap().sealed.len() - TAG_BYTES)
            .collect();
        assert_eq!(lengths, [256, 256, 256, 256, 512]);
    }
}
