#!/usr/bin/env bash
# Model-checks the store's threads: writer, callers, a follower, the compactor and the end, under
# schedules that a scheduler picks. INTERLINK_SCHEDULES=n tries more of them. A build of its own,
# because the standard library's locks are replaced (`--cfg shuttle`).
set -euo pipefail
cd "$(dirname "$0")/../.."
export RUSTFLAGS="${RUSTFLAGS:-} --cfg shuttle"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/model
cargo test --lib --no-default-features --features testkit -- store::tests::model --nocapture
