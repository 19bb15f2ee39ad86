#!/usr/bin/env bash
# One wire: our programs against the public interlink-mcp 0.13.0, installed from the registry.
#
#   INTERLINK_PROGRAMS       folder of our programs (default: built in release)
#   INTERLINK_PUBLIC_BIN     folder of the public programs (default: installed when missing)
#   INTERLINK_SKIP_INTEROP   1: do not run; exits 77
set -euo pipefail
cd "$(dirname "$0")/../.."
. contrib/ci/tools.sh

if [ "${INTERLINK_SKIP_INTEROP:-0}" = 1 ]; then
  echo "interop: switched off by INTERLINK_SKIP_INTEROP"
  exit "$skipped"
fi
version=0.13.0
public=${INTERLINK_PUBLIC_BIN:-$tools/public-$version/bin}
if ! [ -x "$public/interlink-mcp" ]; then
  cargo_tool interlink-mcp "$version" "$tools/public-$version"
  public=$tools/public-$version/bin
fi
"$public/interlink-mcp" --version | grep -qF "$version"
ours=$(programs)
PYTHONDONTWRITEBYTECODE=1 python3 contrib/ci/interop.py --ours "$ours" --public "$public" "$@"
