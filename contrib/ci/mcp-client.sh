#!/usr/bin/env bash
# The official Python MCP client against our channel server.
#
#   INTERLINK_PROGRAMS          folder of our programs (default: built in release)
#   INTERLINK_CI_PYTHON         a python that has the `mcp` package (default: a venv of our own)
#   INTERLINK_SKIP_MCP_CLIENT   1: do not run; exits 77
set -euo pipefail
cd "$(dirname "$0")/../.."
. contrib/ci/tools.sh

if [ "${INTERLINK_SKIP_MCP_CLIENT:-0}" = 1 ]; then
  echo "mcp client: switched off by INTERLINK_SKIP_MCP_CLIENT"
  exit "$skipped"
fi
wanted=contrib/ci/python/requirements.txt
python=${INTERLINK_CI_PYTHON:-$tools/python/bin/python}
if [ -z "${INTERLINK_CI_PYTHON:-}" ] && ! cmp -s "$wanted" "$tools/python/requirements.txt"; then
  rm -rf "$tools/python"
  python3 -m venv "$tools/python"
  "$python" -m pip install --quiet --disable-pip-version-check -r "$wanted"
  cp "$wanted" "$tools/python/requirements.txt"
fi
ours=$(programs)
PYTHONDONTWRITEBYTECODE=1 "$python" contrib/ci/python/mcp_client.py --programs "$ours" "$@"
