#!/usr/bin/env python3
"""Two programs, one wire: our bus and channel server against the public interlink-mcp 0.13.

Each case sends signed messages both ways through real processes and asks for the whole life of
each: it arrives with its text and its task fields, it is listed exactly once, it leaves the
sender's outbox, and acknowledging empties the mailbox.
"""

import argparse
import sys
import time
from pathlib import Path

from harness import Agent, CheckFailed, Lab, receipts, sent_id, texts, wait_until

# Composed and decomposed letters, an astral character, quotes and backslashes: what a careless
# codec would normalise or escape, and with it break the signature.
BODY = 'caf\u0065\u0301 = caf\u00e9? \U0001f980 "quoted" \\ back, from %s'

CASES = [
    ("public -> our bus -> public", "ours", ("public", "public")),
    ("ours <-> public over the public bus", "public", ("ours", "public")),
    ("ours <-> public over our bus", "ours", ("ours", "public")),
    ("ours <-> ours over the public bus", "public", ("ours", "ours")),
]
CONTROL = ("public <-> public over the public bus (control)", "public", ("public", "public"))


def listed(agent, msg_id):
    """The mailbox listing once `msg_id` is in it."""

    def probe():
        result = agent.tool("receive_messages", limit=100)
        return result if any(m == msg_id for _, m in receipts(result)) else None

    return wait_until(f"{agent.session} sees {msg_id}", probe, 30)


def exchange(sender, receiver):
    """One message and what must be true of it at both ends."""
    body = BODY % sender.session
    sent = sender.tool(
        "send_message", to="other", session=receiver.session, text=body,
        task_id="task-7", status="result", in_reply_to="earlier-1",
    )
    msg_id = sent_id(sent)
    result = listed(receiver, msg_id)
    expect(f"{receiver.session} sees one message", receipts(result), [(sender.identity.public, msg_id)])
    for part in (body, "task-7", "result", "earlier-1"):
        if part not in texts(result):
            raise CheckFailed(f"{receiver.session}: {part!r} is not in {texts(result)!r}")
    again = receiver.tool("receive_messages", limit=100)
    expect("reading consumes nothing", receipts(again), receipts(result))
    wait_until(
        f"{msg_id} leaves the outbox of {sender.session}",
        lambda: msg_id not in texts(sender.tool("list_pending")),
    )
    receipt = {"sender": sender.identity.public, "msg_id": msg_id}
    receiver.tool("acknowledge_messages", messages=[receipt])
    expect("acknowledging empties", receipts(receiver.tool("receive_messages", limit=100)), [])


def expect(what, seen, wanted):
    if seen != wanted:
        raise CheckFailed(f"{what}: {seen!r}, wanted {wanted!r}")


def run(case, programs):
    _, bus_kind, agent_kinds = case
    with Lab("interop") as lab:
        bus = lab.bus(programs[bus_kind] / "interlink-bus")
        left = lab.identity(programs[agent_kinds[0]] / "interlink-keygen", "left")
        right = lab.identity(programs[agent_kinds[1]] / "interlink-keygen", "right")
        left.trust({"other": right})
        right.trust({"other": left})
        agents = [
            Agent(lab, programs[kind] / "interlink-mcp", who, bus.url, session)
            for kind, who, session in zip(agent_kinds, (left, right), ("sess-left", "sess-right"))
        ]
        exchange(*agents)
        exchange(*reversed(agents))
        for agent in agents:
            expect(f"{agent.session} exits cleanly", agent.close(), 0)
            expect(f"stray lines on the stdout of {agent.session}", agent.stray, [])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ours", type=Path, required=True, help="folder of our programs")
    parser.add_argument("--public", type=Path, required=True, help="folder of the public programs")
    parser.add_argument("--control", action="store_true", help="the public programs alone")
    options = parser.parse_args()
    programs = {"ours": options.ours.resolve(), "public": options.public.resolve()}
    passed = failed = 0
    for case in [CONTROL] if options.control else [CONTROL, *CASES]:
        began = time.monotonic()
        try:
            run(case, programs)
            passed += 1
            print(f"ok   {case[0]} ({time.monotonic() - began:.1f} s)", flush=True)
        except Exception as problem:
            failed += 1
            print(f"FAIL {case[0]}: {type(problem).__name__}: {problem}", flush=True)
    print(f"interop: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
