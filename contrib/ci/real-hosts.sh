#!/bin/sh
# Runs Claude Code and Codex, as their makers publish them, against a scripted model on loopback.
#
# Not part of the usual checks: it installs two large packages from the npm registry into a cache
# folder, and it tests other people's programs as much as ours. Needs npm, python3 and Linux on
# x86-64. No account and no network beyond the registry are used; homes are thrown away.
#
#   contrib/ci/real-hosts.sh [TEST...]
#
#   readme           every command of README's five minutes; two sessions of Claude Code talk
#   claude-listener  mail wakes an idle session through the hook; it reads and answers, with no other
#                    permission than `setup --allow answer` writes
#   claude-socket    the same through the messaging socket
#   claude-clear     after /clear the server serves the new conversation
#   claude-plugin    the plugin validates, loads with --plugin-dir, wakes and answers
#   claude-form      the form of the host shows the key and admits a peer
#   codex-form       the same in Codex
#   codex-queue      mail wakes an idle thread through `codex queue`; it reads and answers
set -eu
cd "$(dirname "$0")/../.."
claude_version="${CLAUDE_VERSION:-2.1.332}"
codex_version="${CODEX_VERSION:-0.171.0}"
cache="${REAL_HOSTS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/interlink-real-hosts}"
mkdir -p "$cache"
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$cache" \
    "@anthropic-ai/claude-code@$claude_version" "@openai/codex@$codex_version"
if [ -z "${INTERLINK_BIN_DIR:-}" ]; then
    cargo build --quiet --bins
    INTERLINK_BIN_DIR="${CARGO_TARGET_DIR:-target}/debug"
fi
exec python3 contrib/ci/real_hosts.py "$INTERLINK_BIN_DIR" "$cache/node_modules" "$@"
