#!/usr/bin/env bash
# Sealed sessions against a second implementation of the legacy wire and a hostile relay.
#
#   INTERLINK_PROGRAMS          folder of our programs (default: built in release)
#   INTERLINK_CI_BOND_PYTHON    a python that has `cryptography` (default: a venv of our own)
#   INTERLINK_SKIP_BOND         1: do not run; exits 77
set -euo pipefail
cd "$(dirname "$0")/../.."
. contrib/ci/tools.sh

if [ "${INTERLINK_SKIP_BOND:-0}" = 1 ]; then
  echo "bond: switched off by INTERLINK_SKIP_BOND"
  exit "$skipped"
fi
wanted=contrib/ci/bond/requirements.txt
python=${INTERLINK_CI_BOND_PYTHON:-$tools/bond-python/bin/python}
if [ -z "${INTERLINK_CI_BOND_PYTHON:-}" ] && ! cmp -s "$wanted" "$tools/bond-python/requirements.txt"; then
  rm -rf "$tools/bond-python"
  python3 -m venv "$tools/bond-python"
  "$python" -m pip install --quiet --disable-pip-version-check -r "$wanted"
  cp "$wanted" "$tools/bond-python/requirements.txt"
fi
ours=$(programs)
PYTHONDONTWRITEBYTECODE=1 "$python" contrib/ci/bond/check.py --programs "$ours" "$@"
