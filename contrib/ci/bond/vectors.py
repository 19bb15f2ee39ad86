"""The second implementation against the recorded vectors: it must be right to judge another."""

import json

import wire


def check(path):
    """Raises `AssertionError` at the first vector that does not hold; returns how many did."""
    data = json.loads(path.read_text())
    count = 0

    def holds(condition, what):
        nonlocal count
        assert condition, what
        count += 1

    for row in data["session_codes"]:
        holds(wire.is_code(row["code"]), row["code"])
        holds(wire.routing_id(row["code"]) == row["routing_id"], "routing id")
        holds(wire.code_key(row["code"]).hex() == row["code_key"], "code key")
    for row in data["invalid_session_codes"]:
        holds(not wire.is_code(row["code"]), row)
    for row in data["code_is_not_normalised"]:
        holds(wire.routing_id(row["input"]) == row["routing_id"], row)
    keys = {}
    for row in data["handshakes"]:
        host = wire.Pair(bytes.fromhex(row["host_private"]))
        guest = wire.Pair(bytes.fromhex(row["guest_private"]))
        holds(host.public.hex() == row["host_public"], "host key")
        holds(guest.public.hex() == row["guest_public"], "guest key")
        shared = host.agree(guest.public)
        holds(shared.hex() == row["shared_secret"], "shared secret")
        both = wire.Keys(shared, bytes.fromhex(row["code_key"]), host.public, guest.public)
        holds(both.transcript.hex() == row["transcript"], "transcript")
        holds(both.session.hex() == row["session_key"], "session key")
        holds(both.tag("host") == row["confirm_host"], "host tag")
        holds(both.tag("guest") == row["confirm_guest"], "guest tag")
        keys[row["id"]] = both
    for row in data["packets"]:
        key = bytes.fromhex(row["session_key"])
        holds(wire.seal(key, row["plaintext"], bytes.fromhex(row["iv"])) == row["wire"], row["name"])
        holds(wire.open_payload(key, row["wire"]) == row["plaintext"], row["name"])
    for row in data["decrypt_cases"]:
        try:
            wire.open_payload(bytes.fromhex(row["key"]), row["wire"])
            verdict = "accept"
        except wire.Unreadable:
            verdict = "reject"
        # The recording tolerates a foreign version number; a strict reader insists on 2.
        wanted = "accept" if row["ours"] == "accept" else "reject"
        holds(verdict == wanted, row["name"])
    for row in data["confirm_cases"]:
        got = keys[row["handshake"]].is_tag(row["peer_role"], row["tag"])
        holds(got == row["accepted"], row["name"])
    for row in data["public_key_cases"]:
        pair = wire.Pair(bytes.fromhex(row["host_private"]))
        try:
            pair.agree(bytes.fromhex(row["key"]))
            good = True
        except ValueError:
            good = False
        if good != row["node"]["ok"]:
            # Only where the recorded reader is laxer than the relay lets through.
            holds(not wire.ID.fullmatch(row["key"]), row["name"])
        else:
            count += 1
    seen = wire.Seen()
    for row in data["replay_sequence"]["steps"]:
        holds((seen.accept(row, row["now"]) is None) == row["accepted"], row["note"])
    return count
