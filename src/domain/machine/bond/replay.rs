//! Which packets are new.
//!
//! Both directions share one key and nothing in a packet says who wrote it, so a relay could hand
//! us our own words as the peer's. Therefore the nonces that we sent are remembered too.
//!
//! Nonces are kept for the session, not for the window only: a clock that is set back must not
//! make an old packet new. Only a full set is swept, and what is still in the window is never
//! evicted for something newer; then the newer packet is dropped.

use std::collections::HashMap;

use super::REPLAY_WINDOW_MS;
use super::row::Dropped;
use crate::types::time::UnixMillis;
use crate::wire::bond::packet::PacketNonce;

/// Nonces that are kept each way. An honest peer sends at most 100 in twice the window.
pub const MAX_NONCES: usize = 4_096;

/// The nonces of one session.
#[derive(Debug, Default)]
pub struct Replay {
    received: HashMap<PacketNonce, f64>,
    sent: HashMap<PacketNonce, f64>,
}

/// Why a packet is not new.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NotNew {
    /// The reason.
    pub reason: Dropped,
    /// For a stale one with a time: its time minus ours.
    pub clock_difference_ms: Option<i64>,
}

impl Replay {
    /// Remembers a nonce that goes out now.
    pub fn sending(&mut self, now: UnixMillis, nonce: PacketNonce) {
        if self.sent.len() >= MAX_NONCES {
            sweep(&mut self.sent, millis(now));
        }
        self.sent.insert(nonce, millis(now));
    }

    /// Judges a decrypted packet and remembers its nonce if it is new. A packet that is refused
    /// for its nonce's form or its time does not use its nonce up.
    ///
    /// # Errors
    ///
    /// Why it is to be dropped.
    pub fn accept(
        &mut self,
        now: UnixMillis,
        nonce: Option<PacketNonce>,
        timestamp: Option<f64>,
    ) -> Result<(), NotNew> {
        let not_new = |reason| NotNew {
            reason,
            clock_difference_ms: None,
        };
        let nonce = nonce.ok_or(not_new(Dropped::Nonce))?;
        if self.sent.contains_key(&nonce) {
            return Err(not_new(Dropped::Reflected));
        }
        let timestamp = timestamp.ok_or(not_new(Dropped::Stale))?;
        let now = millis(now);
        if !in_window(now, timestamp) {
            return Err(NotNew {
                reason: Dropped::Stale,
                clock_difference_ms: Some(whole(timestamp - now)),
            });
        }
        if self.received.contains_key(&nonce) {
            return Err(not_new(Dropped::Replay));
        }
        if self.received.len() >= MAX_NONCES {
            sweep(&mut self.received, now);
            if self.received.len() >= MAX_NONCES {
                return Err(not_new(Dropped::Full));
            }
        }
        self.received.insert(nonce, timestamp);
        Ok(())
    }
}

fn in_window(now: f64, timestamp: f64) -> bool {
    (now - timestamp).abs() <= millis(UnixMillis(REPLAY_WINDOW_MS))
}

/// What is too old to pass by its time may be forgotten; the future is kept.
fn sweep(nonces: &mut HashMap<PacketNonce, f64>, now: f64) {
    let window = millis(UnixMillis(REPLAY_WINDOW_MS));
    nonces.retain(|_, timestamp| now - *timestamp <= window);
}

#[expect(
    clippy::cast_precision_loss,
    reason = "exact below 2^53, and the peer's number is no better"
)]
const fn millis(time: UnixMillis) -> f64 {
    time.0 as f64
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the cast saturates, which is what is wanted"
)]
const fn whole(ms: f64) -> i64 {
    ms as i64
}
