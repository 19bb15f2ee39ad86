//! After sleep: new connections, and at once.
//!
//! A laptop that wakes has dead connections whose other end does not say so, and has been counted
//! away on every board. Waiting for the next heartbeat or the end of a long-poll would cost minutes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::core::Core;
use crate::domain::machine::wake::{Jump, Watch};
use crate::types::time::{Clock as _, UnixMillis};

/// How often the clocks are compared.
const LOOK: Duration = Duration::from_secs(2);

/// Watches the clocks for as long as the process runs; after a jump everything that listens to
/// [`Core::woke`] starts anew.
pub async fn run(core: Arc<Core>) {
    let started = Instant::now();
    let mut watch = Watch::new(core.clock.now(), Duration::ZERO);
    loop {
        tokio::time::sleep(LOOK).await;
        look(&core, &mut watch, core.clock.now(), started.elapsed());
    }
}

fn look(core: &Core, watch: &mut Watch, wall: UnixMillis, mono: Duration) {
    let Some(jump) = watch.look(wall, mono) else {
        return;
    };
    match jump {
        Jump::Forward(ms) | Jump::Stopped(ms) => {
            tracing::info!("{} s passed unseen: connecting anew", ms / 1000);
        }
        Jump::Back(ms) => {
            tracing::info!("the clock went back {} s: announcing anew", ms / 1000);
        }
    }
    core.wake();
}
