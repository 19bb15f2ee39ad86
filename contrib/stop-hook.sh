#!/bin/sh
# Stop hook for coding agents where neither the plugin nor any way to wake a session works.
#
# When a turn ends and mail is unread, the turn goes on once, so that the mail gets read. The host
# passes a JSON object with `session_id` and `stop_hook_active` on standard input; whatever goes
# wrong, the turn ends as if this hook were not there.
#
# Claude Code, in ~/.claude/settings.json:
#   { "hooks": { "Stop": [ { "hooks": [ { "type": "command", "command": "/path/to/stop-hook.sh" } ] } ] } }
#
# INTERLINK_MCP names the program where it is not on the PATH. The key and the store are found as
# the server finds them (INTERLINK_KEY, INTERLINK_AGENT_DB, XDG_STATE_HOME).
program="${INTERLINK_MCP:-interlink-mcp}"
command -v "$program" >/dev/null 2>&1 || exit 0
exec "$program" hook stop
