#!/usr/bin/env bash
# The optional halves are optional: every documented set of features compiles alone, free of
# warnings. The full powerset repeats these graphs; a feature that implies another adds nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."

sets='
identity
persist
bus
agent
bus,agent
testkit
cli
identity,cli
persist,cli
bus,cli
agent,cli
sealed
testkit,bus,agent
tls
tls,cli
'
count=0
check() {
  echo "features: ${1:-none}"
  cargo clippy --quiet --no-default-features ${1:+--features "$1"} --lib --bins -- -D warnings
  count=$((count + 1))
}
check ''
for set in $sets; do
  check "$set"
done

# A feature that no set names is a feature that nobody checks.
for feature in $(cargo metadata --no-deps --format-version 1 |
  python3 -c 'import json,sys; print(*json.load(sys.stdin)["packages"][0]["features"])'); do
  [ "$feature" = default ] && continue
  if ! tr ',' '\n' <<<"$sets" | grep -qx "$feature"; then
    echo "feature \`$feature\` is in no set above"
    exit 1
  fi
done
echo "features: $count sets are free of warnings"
