#!/usr/bin/env bash
# Supply chain: licences, bans, sources, and advisories where their database can be reached.
#
#   INTERLINK_REQUIRE_ADVISORIES   1: an unreachable advisory database is a failure
#   INTERLINK_SKIP_DENY            1: do not run; exits 77
set -euo pipefail
cd "$(dirname "$0")/../.."
. contrib/ci/tools.sh

if [ "${INTERLINK_SKIP_DENY:-0}" = 1 ]; then
  echo "deny: switched off by INTERLINK_SKIP_DENY"
  exit "$skipped"
fi
PATH=$PATH:$tools/bin
command -v cargo-deny >/dev/null || cargo_tool cargo-deny 0.20.2 "$tools"
deny() {
  cargo deny --log-level error --all-features --config contrib/ci/deny.toml "$@"
}
deny check --hide-inclusion-graph bans licenses sources
if timeout 120 cargo deny --log-level off --config contrib/ci/deny.toml fetch db; then
  deny check --hide-inclusion-graph advisories
elif [ "${INTERLINK_REQUIRE_ADVISORIES:-0}" = 1 ]; then
  echo "deny: the advisory database is out of reach"
  exit 1
else
  echo "deny: ADVISORIES NOT CHECKED, their database is out of reach" | tee -a "${CI_NOTES:-/dev/null}"
fi
