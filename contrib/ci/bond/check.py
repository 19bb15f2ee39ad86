#!/usr/bin/env python3
"""Sealed sessions against a second implementation and against a hostile relay.

Real channel servers over stdio; a relay that is ours (a real bus) or one that plays tricks; at the
other end a client written from the specification alone, or ours. Every trick has a control: the
same steps on the same relay without it must succeed.
"""

import argparse
import json
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import tricks  # noqa: E402
import vectors  # noqa: E402
from harness import Bus, CheckFailed, Lab, free_port, wait_until  # noqa: E402
from relay import Mischief, Relay  # noqa: E402
from sides import Ours, Theirs  # noqa: E402

VECTORS = HERE.parents[2] / "tests/golden/vectors/bond.json"
FILE = "# caf\u00e9\r\n\u2603 exact bytes\n\tend without a newline"


class Scene:
    """One session: two sides, one relay."""

    def __init__(self, checks, label, kinds, relay):
        self.checks, self.label, self.relay = checks, label, relay
        self.sides = []
        try:
            for kind, role in zip(kinds, ("host", "guest")):
                self.sides.append(checks.side(kind, f"{label}-{role}", relay))
        except BaseException:
            self.close()
            raise
        self.host, self.guest = self.sides

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for side in self.sides:
            side.close()

    def open(self):
        self.guest.join(self.host.connect())
        for side in self.sides:
            wait_until(f"{self.label}: {side.kind} is confirmed", side.confirmed, 60)

    def deliver(self, sender, receiver, mark):
        text = f"{mark} caf\u00e9 \U0001f980"
        sender.say(text)
        wait_until(f"{self.label}: {mark} arrives", lambda: text in receiver.heard(), 40)

    def both_ways(self, mark):
        self.deliver(self.host, self.guest, f"{mark}-down")
        self.deliver(self.guest, self.host, f"{mark}-up")

    def refuse_all(self):
        for side in self.sides:
            if side.confirmed():
                raise CheckFailed(f"{self.label}: {side.kind} trusts the relay's key")


class Checks:
    def __init__(self, lab, programs):
        self.lab, self.programs = lab, programs
        self.port = free_port()
        self.relay = f"http://127.0.0.1:{self.port}"
        self.bus = Bus(
            lab, programs / "interlink-bus", "bus", True, ("--relay-addr", f"127.0.0.1:{self.port}")
        )

    def side(self, kind, label, relay):
        if kind == "ours":
            return Ours(self.lab, self.programs, label, self.bus.url, relay)
        return Theirs(relay)

    # Honest relays.

    def whole(self, label, kinds, relay):
        """Everything that two honest sides do."""
        with Scene(self, label, kinds, relay) as scene:
            scene.open()
            scene.both_ways("first")
            for sender, receiver, name in (
                (scene.host, scene.guest, "down.md"), (scene.guest, scene.host, "up.py"),
            ):
                content = FILE + name
                repeat(lambda: sender.send_file(name, content))
                if receiver.take_file(name) != content.encode():
                    raise CheckFailed(f"{label}: {name} arrived with other bytes")
            scene.host.leave()
            wait_until(f"{label}: the guest is told", scene.guest.gone, 30)

    def over_our_relay(self, kinds):
        self.whole("ourrelay-" + "-".join(kinds), kinds, self.relay)

    def over_plain_relay(self, kinds):
        relay = Relay()
        try:
            self.whole("plain-" + "-".join(kinds), kinds, relay.url)
        finally:
            relay.close()

    def bus_restarts(self):
        """A killed bus forgets no session."""
        port = free_port()
        bus = Bus(self.lab, self.programs / "interlink-bus", "restart", True,
                  ("--relay-addr", f"127.0.0.1:{port}"))
        with Scene(self, "restart", ("ours", "legacy"), f"http://127.0.0.1:{port}") as scene:
            scene.open()
            bus.kill()
            bus.start()
            scene.both_ways("after")

    # Tricks.

    def played(self, name, trick, steps, kinds=("ours", "ours")):
        relay = Relay(trick)
        try:
            with Scene(self, f"{name}-{'-'.join(kinds)}", kinds, relay.url) as scene:
                steps(scene, trick, relay)
        finally:
            relay.close()

    def swapped(self, scene, trick, relay):
        try:
            scene.guest.join(scene.host.connect())
        except CheckFailed:
            pass
        wait_until("the host gives up", scene.host.aborted, 40)
        scene.refuse_all()

    def once(self, scene, trick, relay):
        """Reflected or repeated, each text is heard exactly once, by the other side alone."""
        scene.open()
        scene.both_ways("once")
        marks = (("once-down", scene.guest, scene.host), ("once-up", scene.host, scene.guest))
        for mark, reader, writer in marks:
            heard = reader.heard().count(f"{mark} caf\u00e9")
            if heard != 1:
                raise CheckFailed(f"{scene.label}: {mark} heard {heard} times")
            if f"{mark} caf\u00e9" in writer.heard():
                raise CheckFailed(f"{scene.label}: {mark} came back to its writer")

    def survived(self, scene, trick, relay):
        """The armed message is spoilt; the session lives and the next one arrives."""
        scene.open()
        trick.armed = True
        scene.host.say("SPOILT")
        wait_until(f"{scene.label}: the trick is played", lambda: trick.played, 10)
        scene.deliver(scene.host, scene.guest, "next")
        scene.deliver(scene.guest, scene.host, "back")
        if "SPOILT" in scene.guest.heard():
            raise CheckFailed(f"{scene.label}: a spoilt message was believed")

    def both_arrive(self, scene, trick, relay):
        scene.open()
        trick.armed = True
        scene.host.say("ONE")
        repeat(lambda: scene.host.say("TWO"))
        for mark in ("ONE", "TWO"):
            wait_until(f"{scene.label}: {mark}", lambda: mark in scene.guest.heard(), 30)

    def just_works(self, scene, trick, relay):
        scene.open()
        scene.both_ways("works")

    def late_guest(self, scene, trick, relay):
        scene.open()
        trick.armed = True
        scene.guest.say("ANNOUNCED")
        wait_until("the trick is played", lambda: trick.played, 10)
        scene.both_ways("after")

    def early_guest(self, scene, trick, relay):
        """Never confirmed with the relay; with the real guest: confirmed or told, not stuck."""
        code = scene.host.connect()
        time.sleep(1)
        scene.refuse_all()
        try:
            scene.guest.join(code)
        except CheckFailed:
            return
        wait_until(
            f"{scene.label}: an end", lambda: scene.host.confirmed() or scene.host.aborted(), 60
        )

    def cursor_pushed(self, scene, trick, relay):
        scene.open()
        trick.armed = True
        wait_until(f"{scene.label}: the trick is played", lambda: not trick.armed, 20)
        scene.both_ways("after")

    def hostile_errors(self, scene, trick, relay):
        """Relay text is data: no escape, no instruction outside a wrapper, no phantom session."""
        text, failed = scene.host.ask("bond_connect")
        if not failed:
            raise CheckFailed(f"{scene.label}: connected to a relay that refuses: {text}")
        if "\x1b" in text or "\u202e" in text:
            raise CheckFailed(f"{scene.label}: raw control characters reach the model")
        if "Ignore all previous" in text and "UNTRUSTED" not in text:
            raise CheckFailed(f"{scene.label}: the relay speaks to the model: {text}")
        trick.armed = False
        scene.open()
        scene.both_ways("after")

    def canary(self, scene, trick, relay):
        text, failed = scene.host.ask("bond_connect")
        if not failed:
            raise CheckFailed(f"{scene.label}: a redirect was taken for an answer: {text}")
        if self.canary_relay.requests:
            raise CheckFailed(f"{scene.label}: followed to {self.canary_relay.requests}")

    def redirects(self, name, kinds=("ours", "ours")):
        self.canary_relay = Relay()
        try:
            where = {"Location": self.canary_relay.url + "/create"}
            self.played(name, tricks.Intercept((307, where, b"")), self.canary, kinds)
        finally:
            self.canary_relay.close()

    def oversize(self, scene, trick, relay):
        trick.armed = False
        scene.open()
        trick.armed = True
        wait_until(f"{scene.label}: the trick is played", lambda: trick.played > 1, 30)
        trick.armed = False
        scene.both_ways("after")
        for side in scene.sides:
            status = Path(f"/proc/{side.agent.process.pid}/status").read_text()
            peak = int(status.split("VmHWM:")[1].split()[0]) // 1024
            if peak > 250:
                raise CheckFailed(f"{scene.label}: {peak} MiB for an answer of 64 MiB")

    def relay_forgets(self, scene, trick, relay):
        """A relay that lost the session: both are told; nobody claims a channel."""
        scene.open()
        relay.wipe()
        for side in scene.sides:
            wait_until(f"{scene.label}: {side.kind} notices", lambda: not side.confirmed(), 30)
        scene.host.leave()

    def cases(self):
        pairs = [("ours", "ours"), ("ours", "legacy"), ("legacy", "ours")]
        for kinds in pairs:
            yield f"our relay: {' with '.join(kinds)}", lambda k=kinds: self.over_our_relay(k)
            yield f"plain relay: {' with '.join(kinds)}", lambda k=kinds: self.over_plain_relay(k)
        yield "control: legacy with legacy, our relay", (
            lambda: self.over_our_relay(("legacy", "legacy"))
        )
        yield "a killed bus forgets no session", self.bus_restarts
        refusal = (500, {"Content-Type": "application/json"},
                   b'{"error":' + json.dumps(tricks.HOSTILE_TEXT).encode() + b"}")
        flood = (200, {"Content-Type": "application/json"},
                 b'{"messages":[],"disconnected":false,"oldestSeq":1,"x":"' + b"x" * (64 << 20) + b'"}')
        table = [
            ("control", Mischief, self.once, pairs[:1]),
            ("swapped keys", tricks.SwapKeys, self.swapped, pairs),
            ("reflected", tricks.Reflect, self.once, pairs[:1]),
            ("repeated", tricks.Repeat, self.once, pairs),
            ("flipped tag", tricks.FlipTag, self.survived, pairs[:1]),
            ("shortened tag", tricks.ShortTag, self.survived, pairs[:1]),
            ("dropped", tricks.Drop, self.survived, pairs[:1]),
            ("junk", tricks.Junk, self.survived, pairs[:1]),
            ("reordered", tricks.Reorder, self.both_arrive, pairs[:1]),
            ("delayed", tricks.Delay, self.just_works, pairs),
            ("early guest", tricks.EarlyGuest, self.early_guest, pairs[:2]),
            ("late guest", tricks.LateGuest, self.late_guest, pairs[:1]),
            ("pushed cursor", tricks.PushCursor, self.cursor_pushed, pairs[:1]),
            ("hostile errors", lambda: tricks.Intercept(refusal), self.hostile_errors, pairs[:1]),
            ("oversize", lambda: tricks.Intercept(flood, ("/poll",)), self.oversize, pairs[:1]),
            ("relay forgets", Mischief, self.relay_forgets, pairs[:1]),
        ]
        for name, trick, steps, kinds in table:
            for pair in kinds:
                label = name.replace(" ", "")
                yield f"{name}: {' with '.join(pair)}", (
                    lambda l=label, t=trick, s=steps, p=pair: self.played(l, t(), s, p)
                )
        yield "redirects: ours with ours", lambda: self.redirects("redirects")


def repeat(call, seconds=30):
    """Repeats what the pause between two sends refuses, on either side."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return call()
        except CheckFailed as problem:
            if "Rate limit" not in str(problem) or time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=Path, required=True, help="folder of our programs")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--at-once", type=int, default=6, help="cases that run side by side")
    options = parser.parse_args()

    print(f"vectors: {vectors.check(VECTORS)} hold in the second implementation")
    passed = failed = 0
    with Lab("bond") as lab:
        checks = Checks(lab, options.programs.resolve())
        cases = [(n, c) for n, c in checks.cases() if options.only in n]
        with ThreadPoolExecutor(options.at_once) as pool:
            runs = [(name, pool.submit(case)) for name, case in cases]
            for name, run in runs:
                try:
                    run.result()
                    passed += 1
                    print(f"ok      {name}", flush=True)
                except Exception as problem:
                    failed += 1
                    print(f"FAILED  {name}: {ascii(str(problem))[1:-1][:2000]}", flush=True)
                    if not isinstance(problem, CheckFailed):
                        traceback.print_exception(problem)
        if failed:
            lab.print_logs()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
