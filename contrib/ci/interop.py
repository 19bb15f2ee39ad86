#!/usr/bin/env python3
"""Two programs, one wire: our bus and channel server against the public interlink-mcp 0.13.

Each case sends signed messages both ways through real processes and asks for the whole life of
each: it arrives with its text and its task fields, it is listed exactly once, it leaves the
sender's outbox, and acknowledging empties the mailbox. Then strangers pair, tasks go through their
states, and messages find their way over two relays of which one dies. At last one side moves house: its
state, left behind by a kill, is taken over by ours.
"""

import argparse
import json
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from harness import Agent, CheckFailed, Identity, Lab, receipts, sent_id, texts, wait_until

# Composed and decomposed letters, an astral character, quotes and backslashes: what a careless
# codec would normalise or escape, and with it break the signature.
BODY = 'caf\u0065\u0301 = caf\u00e9? \U0001f980 "quoted" \\ back, from %s'

CASES = [
    ("public -> our bus -> public", "ours", ("public", "public")),
    ("ours <-> public over the public bus", "public", ("ours", "public")),
    ("ours <-> public over our bus", "ours", ("ours", "public")),
    ("ours <-> ours over the public bus", "public", ("ours", "ours")),
]
PAIRINGS = [
    ("pairing: ours asks public, public bus", "public", ("ours", "public")),
    ("pairing: public asks ours, public bus", "public", ("public", "ours")),
    ("pairing: ours asks public, our bus", "ours", ("ours", "public")),
    ("pairing: public asks ours, our bus", "ours", ("public", "ours")),
    ("pairing: ours asks ours, public bus", "public", ("ours", "ours")),
]
WORK = [
    ("presence and tasks: ours with public, public bus", "public", ("ours", "public")),
    ("presence and tasks: ours with public, our bus", "ours", ("ours", "public")),
    ("presence and tasks: public with ours, our bus", "ours", ("public", "ours")),
]
TWO_RELAYS = [
    ("two relays, ours and public: ours with public", None, ("ours", "public")),
    ("two relays, ours and public: ours with ours", None, ("ours", "ours")),
]
MOVES = [("moving house: the public program's state, taken over by ours", "public", ("public", "public"))]
CONTROL = ("public <-> public over the public bus (control)", "public", ("public", "public"))


def listed(agent, msg_id):
    """The mailbox listing once `msg_id` is in it."""

    def probe():
        result = agent.tool("receive_messages", limit=100)
        return result if any(m == msg_id for _, m in receipts(result)) else None

    return wait_until(f"{agent.session} sees {msg_id}", probe, 30)


def exchange(sender, receiver, to="other"):
    """One message and what must be true of it at both ends."""
    body = BODY % sender.session
    sent = sender.tool(
        "send_message", to=to, session=receiver.session, text=body,
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


def known_as(agent, other):
    """The name that `agent` has for the other side, once its peers.json holds that key."""
    peers = json.loads(agent.identity.peers.read_text())
    names = [name for name, entry in peers.items() if entry.get("key") == other.identity.public]
    return names[0] if names else None


def pair(requester, accepter):
    """A knock, a human's yes (given by the tool here), and trust on both sides."""
    requester.tool("request_pair", target=accepter.identity.public)
    wait_until(
        f"{accepter.session} lists the request",
        lambda: requester.identity.public in texts(accepter.tool("list_pair_requests")),
    )
    accepter.tool("accept_pair", fingerprint=requester.identity.public[:8])
    expect("the accepter's name for it", known_as(accepter, requester), f"node-{requester.session}")
    name = wait_until(f"{requester.session} trusts", lambda: known_as(requester, accepter), 30)
    # Theirs calls it by the text that it asked for, ours by the fingerprint of that key.
    if name not in (accepter.identity.public, accepter.identity.public[:8]):
        raise CheckFailed(f"the requester's name for it: {name!r}")
    listing = texts(accepter.tool("list_pair_requests"))
    if requester.identity.public in listing:
        raise CheckFailed(f"the request is still listed: {listing!r}")


def run_pairing(case, programs):
    """Strangers pair and write to each other; then trust that one side lost comes back."""
    _, bus_kind, agent_kinds = case
    with Lab("interop") as lab:
        bus = lab.bus(programs[bus_kind] / "interlink-bus")
        agents = []
        for kind, label in zip(agent_kinds, ("left", "right")):
            who = lab.identity(programs[kind] / "interlink-keygen", label)
            program = programs[kind] / "interlink-mcp"
            # Nobody sits in front of the check: the tool's word is enough. Theirs knows no other way.
            agents.append(Agent(lab, program, who, bus.url, f"sess-{label}", INTERLINK_CONSENT="tool"))
        left, right = agents
        for agent in agents:
            wait_until(f"{agent.session} is announced", lambda a=agent: a.session in roster(bus))
        pair(left, right)
        exchange(left, right, known_as(left, right))
        exchange(right, left, known_as(right, left))
        if agent_kinds[1] == "ours":
            # The left side forgets; ours still lists it and answers its request afresh.
            left.tool("remove_peer", petname=known_as(left, right))
            expect("it is forgotten", known_as(left, right), None)
            left.tool("request_pair", target=right.identity.public)
            wait_until("trust comes back", lambda: known_as(left, right), 30)
        leave(agents)


def friends(lab, programs, agent_kinds, url):
    """Two channel servers whose identities know each other as `other`."""
    left = lab.identity(programs[agent_kinds[0]] / "interlink-keygen", "left")
    right = lab.identity(programs[agent_kinds[1]] / "interlink-keygen", "right")
    left.trust({"other": right})
    right.trust({"other": left})
    return [
        Agent(lab, programs[kind] / "interlink-mcp", who, url, session)
        for kind, who, session in zip(agent_kinds, (left, right), ("sess-left", "sess-right"))
    ]


def leave(agents):
    for agent in agents:
        expect(f"{agent.session} exits cleanly", agent.close(), 0)
        expect(f"stray lines on the stdout of {agent.session}", agent.stray, [])


def say(sender, receiver, **fields):
    """A message to a session by its full id alone, once it is listed on the other side."""
    msg_id = sent_id(sender.tool("send_message", to=receiver.session, **fields))
    return msg_id, texts(listed(receiver, msg_id))


def run_work(case, programs):
    """Each sees the other and what it works on; a task goes through its states, another is called off."""
    _, bus_kind, agent_kinds = case
    with Lab("interop") as lab:
        bus = lab.bus(programs[bus_kind] / "interlink-bus")
        agents = friends(lab, programs, agent_kinds, bus.url)
        for agent, other in (agents, agents[::-1]):
            summary = f"what {agent.session} works on"
            agent.tool("set_summary", summary=summary)
            seen = wait_until(
                f"{other.session} sees {agent.session}",
                lambda a=agent, o=other, s=summary: next(
                    (t for t in [texts(o.tool("discover"))] if a.session in t and s in t), None
                ),
            )
            if agent.identity.public not in seen:
                raise CheckFailed(f"no key of {agent.session} in {seen!r}")
        for asker, worker in (agents, agents[::-1]):
            task = f"task of {asker.session}"
            question, _ = say(asker, worker, text="please do it", task_id=task)
            for text, status in (("half", "update"), ("nearly", "update"), ("which?", "needs_input")):
                _, text_there = say(worker, asker, text=text, task_id=task, status=status)
                if text not in text_there or task not in text_there:
                    raise CheckFailed(f"{asker.session}: {text!r} of {task!r} is not in {text_there!r}")
            _, done = say(worker, asker, text="here", task_id=task, status="result", in_reply_to=question)
            if "here" not in done or question not in done or "result" not in done:
                raise CheckFailed(f"{asker.session}: the result is not in {done!r}")
            _, _ = say(asker, worker, text="and this", task_id=f"{task} too")
            gone = texts(asker.tool("cancel_task", to=worker.session, task_id=f"{task} too", reason="never mind"))
            wait_until(
                f"{worker.session} learns of it",
                lambda w=worker: "never mind" in texts(w.tool("receive_messages", limit=100)),
            )
            if f"{task} too" not in gone:
                raise CheckFailed(f"cancel_task does not name its task: {gone!r}")
        leave(agents)


def run_two_relays(case, programs):
    """Each message once, whichever of the two relays is there; one that comes back is used again."""
    with Lab("interop") as lab:
        buses = [lab.bus(programs[kind] / "interlink-bus", label=kind) for kind in ("ours", "public")]
        agents = friends(lab, programs, case[2], ",".join(bus.url for bus in buses))
        exchange(*agents)
        exchange(*reversed(agents))
        for bus in buses:
            bus.kill()
            exchange(*agents)
            exchange(*reversed(agents))
            bus.start()
            exchange(*agents)
            exchange(*reversed(agents))
        leave(agents)


def run_move(case, programs):
    """A public agent and bus die with mail unread, on the bus, and with pairing under way; ours goes on."""
    with Lab("interop") as lab:
        public, ours = programs["public"], programs["ours"]
        bus = lab.bus(public / "interlink-bus")
        sender, mover = friends(lab, programs, case[2], bus.url)
        stranger = lab.identity(public / "interlink-keygen", "stranger")
        knocker = Agent(lab, public / "interlink-mcp", stranger, bus.url, "sess-stranger", name="stranger")
        for agent in (sender, mover, knocker):
            wait_until(f"{agent.session} is announced", lambda a=agent: a.session in roster(bus))
        read, _ = say(sender, mover, text="read before the move")
        mover.tool("acknowledge_messages", messages=[{"sender": sender.identity.public, "msg_id": read}])
        unread, _ = say(sender, mover, text="unread at the move")
        knocker.tool("request_pair", target=mover.identity.public)
        wait_until(
            "the request is there",
            lambda: stranger.public in texts(mover.tool("list_pair_requests")),
        )
        mover.process.kill()
        mover.process.wait()
        waits = sent_id(sender.tool("send_message", to="other", session=mover.session, text="on the bus"))
        wait_until("it is on the bus", lambda: waits not in texts(sender.tool("list_pending")))
        bus.kill()

        old = mover.identity.folder / "state" / "interlink"
        before = {path: path.read_bytes() for path in old.rglob("*") if path.is_file()}
        home = lab.folder / "new"
        store = home / "state" / "interlink" / "bus.redb"

        def take_over(*more):
            done = subprocess.run(
                [
                    ours / "interlink-admin", "import", "--json", "--key", str(mover.identity.path),
                    "--peers", str(mover.identity.peers), "--from-interlink", str(old),
                    "--from-bus", str(bus.database), *more,
                ],
                capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
                env=lab.environment(home), check=False,
            )
            if done.returncode != 0:
                raise CheckFailed(f"import ended with {done.returncode}: {done.stdout}{done.stderr}")
            told = json.loads(done.stdout)
            return {part["name"]: part["taken"] for part in told["parts"] if part["taken"]}

        wanted = {"sessions": 2, "mail": 2, "knocks": 1, "queues": 1}
        expect("what would be taken over", take_over("--dry-run"), wanted)
        expect("a dry run makes no store", store.exists(), False)
        expect("what is taken over", take_over("--yes"), wanted)
        expect("the second time", take_over("--yes"), {})
        after = {path: path.read_bytes() for path in old.rglob("*") if path.is_file()}
        expect("the old folder is as it was", after, before)

        bus.program, bus.database = ours / "interlink-bus", store
        bus.start()
        there = mover.identity
        here = Identity(home, there.path, there.public, there.peers)
        moved = Agent(lab, ours / "interlink-mcp", here, bus.url, mover.session)
        result = listed(moved, waits)
        expect("unread, in order", [m for _, m in receipts(result)], [unread, waits])
        for text in ("unread at the move", "on the bus"):
            if text not in texts(result):
                raise CheckFailed(f"{text!r} is not in {texts(result)!r}")
        if stranger.public not in texts(moved.tool("list_pair_requests")):
            raise CheckFailed("the stranger's request is gone")
        exchange_after = say(sender, moved, text="after the move")
        if "after the move" not in exchange_after[1]:
            raise CheckFailed(f"not there: {exchange_after[1]!r}")
        leave([moved, sender, knocker])


def roster(bus):
    with urllib.request.urlopen(f"{bus.url}/roster", timeout=5) as answer:
        return answer.read().decode()


def expect(what, seen, wanted):
    if seen != wanted:
        raise CheckFailed(f"{what}: {seen!r}, wanted {wanted!r}")


def run(case, programs):
    _, bus_kind, agent_kinds = case
    with Lab("interop") as lab:
        bus = lab.bus(programs[bus_kind] / "interlink-bus")
        agents = friends(lab, programs, agent_kinds, bus.url)
        exchange(*agents)
        exchange(*reversed(agents))
        leave(agents)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ours", type=Path, required=True, help="folder of our programs")
    parser.add_argument("--public", type=Path, required=True, help="folder of the public programs")
    parser.add_argument("--control", action="store_true", help="the public programs alone")
    parser.add_argument("--case", default="", help="only the cases with this text in their names")
    options = parser.parse_args()
    programs = {"ours": options.ours.resolve(), "public": options.public.resolve()}
    passed = failed = 0
    kinds = [
        (run, [CONTROL, *CASES]), (run_pairing, PAIRINGS), (run_work, WORK), (run_two_relays, TWO_RELAYS),
        (run_move, MOVES),
    ]
    cases = [(step, case) for step, these in kinds for case in these if options.case in case[0]]
    for step, case in cases[:1] if options.control else cases:
        began = time.monotonic()
        try:
            step(case, programs)
            passed += 1
            print(f"ok   {case[0]} ({time.monotonic() - began:.1f} s)", flush=True)
        except Exception as problem:
            failed += 1
            print(f"FAIL {case[0]}: {type(problem).__name__}: {problem}", flush=True)
    print(f"interop: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
