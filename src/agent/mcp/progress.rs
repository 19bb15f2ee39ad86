//! Progress notifications: how far files are, while a call that asked for it waits for them.
//!
//! They stop before the answer leaves: each is written out before the call goes on. A host that does
//! not read holds up its own call only.

use std::pin::pin;
use std::time::Duration;

use rmcp::model::{NumberOrString, ProgressNotificationParam, ProgressToken};

use super::server::HostConnection;
use crate::agent::bond::moves::{Meter, Reading};
use crate::agent::core::Core;
use crate::domain::machine::bond::OfferId;

/// The shortest time between two of them.
const EVERY: Duration = Duration::from_millis(250);

/// Longest token in bytes. It goes back with every notification.
const MAX_TOKEN_BYTES: usize = 256;

/// The token, where it is one to be repeated again and again.
pub(super) fn usable(token: ProgressToken) -> Option<ProgressToken> {
    match &token.0 {
        NumberOrString::String(text) if text.len() > MAX_TOKEN_BYTES => None,
        _ => Some(token),
    }
}

/// Does the work and tells meanwhile how far one file, or all that move, are.
pub(super) async fn during<T>(
    core: &Core,
    host: &HostConnection,
    only: Option<OfferId>,
    work: impl Future<Output = T>,
) -> T {
    let Some(token) = host.progress_token() else {
        return work.await;
    };
    let mut moved = core.bond.moved();
    let mut meter = Meter::new(only, &core.bond.moves());
    let mut work = pin!(work);
    let done = loop {
        tokio::select! {
            biased;
            done = &mut work => break done,
            // The other end lives as long as the process.
            _ = moved.changed() => {}
        }
        if let Some(reading) = meter.read(&core.bond.moves()) {
            tell(host, &token, reading).await;
        }
        tokio::select! {
            biased;
            done = &mut work => break done,
            () = tokio::time::sleep(EVERY) => {}
        }
    };
    if let Some(reading) = meter.read(&core.bond.moves()) {
        tell(host, &token, reading).await;
    }
    done
}

async fn tell(host: &HostConnection, token: &ProgressToken, reading: Reading) {
    let progress = ProgressNotificationParam::new(token.clone(), float(reading.done))
        .with_total(float(reading.total))
        .with_message(reading.what);
    tokio::select! {
        biased;
        _ = host.withdrawn() => {}
        told = host.peer.notify_progress(progress) => {
            if let Err(e) = told {
                tracing::debug!("progress was not told: {e}");
            }
        }
    }
}

/// The nearest number of that kind; exact for whatever fits on a disk of ours.
fn float(n: u64) -> f64 {
    let half = |n: u64| u32::try_from(n & u64::from(u32::MAX)).map_or(0.0, f64::from);
    half(n >> 32).mul_add(4_294_967_296.0, half(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_exact_in_any_size_that_moves() {
        for (n, f) in [
            (0, 0.0),
            (1, 1.0),
            (4_294_967_295, 4_294_967_295.0),
            (4_294_967_297, 4_294_967_297.0),
            (1 << 40, 1_099_511_627_776.0),
        ] {
            assert!((float(n) - f).abs() < f64::EPSILON, "{n}");
        }
    }

    #[test]
    fn a_token_that_is_a_book_is_not_repeated() {
        let text = |n: usize| ProgressToken(NumberOrString::String("t".repeat(n).into()));
        assert!(usable(text(256)).is_some());
        assert!(usable(text(257)).is_none());
        assert!(usable(ProgressToken(NumberOrString::Number(7))).is_some());
    }
}
