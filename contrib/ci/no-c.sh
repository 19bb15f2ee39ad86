#!/usr/bin/env bash
# No C in what we ship: no crate of the normal or build tree compiles C, on any shipped target,
# and the crate builds where there is no working C compiler.
#
#   contrib/ci/no-c.sh            trees, build, positive control
#   contrib/ci/no-c.sh --trees    trees and positive control; for callers that build with
#                                 CC=/bin/false themselves
#
# The lock file is no witness: it also lists optional crates that are never built.
set -euo pipefail
cd "$(dirname "$0")/../.."

forbidden='cc cmake bindgen ring aws-lc-rs aws-lc-sys openssl-sys'
targets='x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu x86_64-unknown-linux-musl
aarch64-unknown-linux-musl aarch64-apple-darwin x86_64-pc-windows-msvc'
out=${CARGO_TARGET_DIR:-target}
mkdir -p "$out"
work=$(mktemp -d "$out/no-c.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Names of all crates in the normal and build tree of manifest $1 on target $2.
crates() {
  cargo tree --manifest-path "$1" --all-features -e normal,build --target "$2" \
    --prefix none --format '{p}' | awk '{ print $1 }' | sort -u
}

# Fails when the tree of manifest $1 on target $2 holds a forbidden crate.
clean() {
  crates "$1" "$2" >"$work/crates"
  local found
  found=$(printf '%s\n' $forbidden | sort | comm -12 - "$work/crates")
  if [ -n "$found" ]; then
    echo "$1 on $2 compiles C through:" $found
    return 1
  fi
}

for target in $targets; do
  clean Cargo.toml "$target"
  # A list that lost the crate itself would be clean for the wrong reason.
  grep -qx interlink-mcp "$work/crates"
  echo "no C on $target among $(wc -l <"$work/crates") crates"
done

if [ "${1:-}" != --trees ]; then
  CC=/bin/false CXX=/bin/false cargo build --all-features --lib --bins --target-dir "$out/no-c"
  echo "builds with CC=/bin/false"
fi

# Positive control, in a copy: cargo writes a lock file beside the manifest.
cp -r contrib/ci/no-c-fixture "$work/fixture"
crates "$work/fixture/Cargo.toml" x86_64-unknown-linux-gnu >"$work/control"
grep -qx criterion "$work/control"
if clean "$work/fixture/Cargo.toml" x86_64-unknown-linux-gnu >"$work/said"; then
  echo "positive control: the trees of a fixture with C passed; this gate cannot fail"
  exit 1
fi
echo "positive control, trees: $(cat "$work/said" | sed "s|$work/||")"
if CC=/bin/false CXX=/bin/false cargo check --quiet --manifest-path "$work/fixture/Cargo.toml" \
  --package alloca --target-dir "$work/built" 2>"$work/said"; then
  echo "positive control: the fixture built with CC=/bin/false; this gate cannot fail"
  exit 1
fi
# It must have failed for want of a compiler, not for want of a network.
grep -q '/bin/false' "$work/said"
echo "positive control, build: alloca fails without a C compiler"
