#!/usr/bin/env python3
"""Our bus against the public interlink-bus 0.13.0, in alternating rounds, as a table.

A shared machine drifts by more than the differences worth reporting, so nothing here is an
absolute figure: each round measures both programs back to back, the order swaps from round to
round, and what counts is the median over the rounds of ours divided by theirs.

    contrib/bench/compare.py --ours target/release/interlink-bus --public PATH/interlink-bus

The load generator is not part of this project; `--loadgen` or INTERLINK_LOADGEN names its binary.
It takes `--base-url U --tag T --server-pid P {send|cycle} --conns N --secs S` and prints one line
of JSON with `rate`, `err`, `lat_us` and `other_cpu`.
"""

import argparse
import http.client
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "ci"))
from harness import Bus, CheckFailed, Lab  # noqa: E402

BODY_BYTES = 512
# CPU, in cores, that neither server nor generator used: above this a sample measures a neighbour.
NOISY_CORES = 0.35


def send_row(conns, bar):
    return (f"durable sends/s, {conns} connections", "send", conns, rate, ">=", bar)


def cycle_row(conns, bar):
    return (f"send + recv + ack cycles/s, {conns} connections", "cycle", conns, rate, ">=", bar)


def rate(sample):
    return sample["rate"]


def p99_of_send(sample):
    return sample["lat_us"]["send"]["p99"]


ROWS = [
    send_row(64, 10.0),
    ("p99 of a send in us, 64 connections", "send", 64, p99_of_send, "<=", 0.1),
    send_row(16, 4.5),
    send_row(1, 0.9),
    cycle_row(64, 6.5),
    cycle_row(16, 3.8),
]
RESTART = ("ms to ready after SIGKILL, {fill:,} queued", "<=", 0.7)


def generate(options, bus, tag, *arguments):
    """One line of the load generator, refused when a request failed or order broke."""
    done = subprocess.run(
        [
            options.loadgen, "--base-url", bus.url, "--tag", tag, "--size", str(BODY_BYTES),
            "--server-pid", str(bus.process.pid), *arguments,
        ],
        capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=1800, check=False,
    )
    if done.returncode != 0:
        raise CheckFailed(f"load generator: {done.stderr.strip()}")
    sample = json.loads(done.stdout)
    if sample["err"] or sample.get("fifo_bad") or sample.get("dup"):
        raise CheckFailed(f"{tag}: failed requests or broken order: {done.stdout.strip()}")
    return sample


def measure(options, program, mode, conns, label):
    """A fresh bus on a fresh file, one sample."""
    with Lab("bench") as lab:
        bus = lab.bus(program)
        return generate(options, bus, label, mode, "--conns", str(conns), "--secs", str(options.secs))


def first_answer(bus, began):
    """Milliseconds until a read of the store is answered; polled each millisecond."""
    while time.monotonic() - began < 120:
        if bus.process.poll() is not None:
            raise CheckFailed(f"{bus.program} exited with {bus.process.returncode}")
        connection = http.client.HTTPConnection("127.0.0.1", bus.port, timeout=60)
        try:
            connection.request("GET", "/recv?me=nobody&timeout_ms=0")
            if connection.getresponse().status == 200:
                return (time.monotonic() - began) * 1000
        except OSError:
            time.sleep(0.001)
        finally:
            connection.close()
    raise CheckFailed(f"{bus.program} is not ready after 120 s")


class RestartedBus(Bus):
    """A bus whose start is timed up to its first read."""

    def answers(self):
        if getattr(self, "ready_ms", None) is None:
            self.ready_ms = first_answer(self, self.began)
        return True

    def start(self):
        self.began, self.ready_ms = time.monotonic(), None
        super().start()


def restarts(options):
    """Fills both once, then kills and restarts them in turn."""
    with Lab("restart") as lab:
        buses = {}
        for name, program in options.programs.items():
            bus = buses[name] = RestartedBus(lab, program, name, True, ())
            print(f"filling {name} with {options.fill:,} messages", file=sys.stderr)
            generate(
                options, bus, "fill", "send", "--conns", "64", "--count", str(options.fill),
                "--secs", "1800", "--warm", "0",
            )
            bus.kill()
        found = {name: [] for name in buses}
        for number in range(options.rounds):
            for name in order(buses, number):
                buses[name].start()
                found[name].append(buses[name].ready_ms)
                buses[name].kill()
        return found


def order(names, number):
    names = list(names)
    return names if number % 2 == 0 else list(reversed(names))


def table_row(title, ours, public, comparison, bar):
    ratios = [a / b for a, b in zip(ours, public)]
    median = statistics.median(ratios)
    holds = median >= bar if comparison == ">=" else median <= bar
    mark = "" if holds else " **missed**"
    spread = f"{min(ratios):.2f} - {max(ratios):.2f}"
    figures = f"{statistics.median(ours):,.0f} | {statistics.median(public):,.0f}"
    print(f"| {title} | {figures} | {median:.2f} | {spread} | {comparison} {bar:g}{mark} |", flush=True)
    return holds


def describe_machine(options):
    model = "unknown processor"
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    folder = tempfile.gettempdir()
    kind = subprocess.run(
        ["stat", "-f", "-c", "%T", folder], capture_output=True, text=True, check=False
    ).stdout.strip()
    print(
        f"Machine: {os.cpu_count()} x {model}, {platform.system()} {platform.release()}, store on"
        f" {kind or 'an unknown file system'}. {options.rounds} alternating rounds of"
        f" {options.secs:g} s, {BODY_BYTES}-byte bodies, a fresh store for each sample.\n"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--ours", required=True)
    parser.add_argument("--public", required=True)
    parser.add_argument("--loadgen", default=os.environ.get("INTERLINK_LOADGEN"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--secs", type=float, default=5.0, help="length of one sample")
    parser.add_argument("--fill", type=int, default=100_000, help="messages queued before a kill; 0: skip")
    parser.add_argument("--only", default="", help="rows whose title holds this text")
    parser.add_argument("--json", help="also write every sample to this file")
    options = parser.parse_args()
    if not options.loadgen:
        parser.error("name the load generator with --loadgen or INTERLINK_LOADGEN")
    options.programs = {
        name: str(Path(path).resolve()) for name, path in (("ours", options.ours), ("public", options.public))
    }

    rows = [row for row in ROWS if options.only in row[0]]
    scenarios = list(dict.fromkeys((mode, conns) for _, mode, conns, *_ in rows))
    samples = {(scenario, name): [] for scenario in scenarios for name in options.programs}
    for number in range(options.rounds):
        for scenario in scenarios:
            for name in order(options.programs, number):
                label = f"{name}{number}{scenario[0]}{scenario[1]}"
                sample = measure(options, options.programs[name], *scenario, label)
                samples[scenario, name].append(sample)
                print(f"round {number + 1}: {name} {scenario} {sample['rate']:,.0f}/s", file=sys.stderr)
    title = RESTART[0].format(fill=options.fill)
    restarted = restarts(options) if options.fill and options.only in title else None

    describe_machine(options)
    print("| against the public interlink-bus 0.13.0 | ours | public | ratio, median | spread | bar |")
    print("|---|---:|---:|---:|---:|---|", flush=True)
    held = []
    for row_title, mode, conns, figure, comparison, bar in rows:
        ours, public = (
            [figure(sample) for sample in samples[(mode, conns), name]] for name in ("ours", "public")
        )
        held.append(table_row(row_title, ours, public, comparison, bar))
    if restarted:
        held.append(table_row(title, restarted["ours"], restarted["public"], *RESTART[1:]))
    every = [sample for group in samples.values() for sample in group]
    noisy = sum(sample.get("other_cpu", 0) > NOISY_CORES for sample in every)
    if noisy:
        print(f"\n{noisy} of {len(every)} samples had more than {NOISY_CORES} cores of other load.")
    if options.json:
        flat = [
            {"program": name, "mode": mode, "conns": conns, **sample}
            for ((mode, conns), name), group in samples.items() for sample in group
        ]
        Path(options.json).write_text(json.dumps({"samples": flat, "restart_ms": restarted}, indent=1))
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
