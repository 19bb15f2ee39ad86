"""Real processes for the checks: a bus on a port of its own, agents driven over stdio.

Standard library only. Everything lives in one temporary folder and dies with the `Lab`; waiting
is polling with a deadline, never a fixed sleep that hopes.
"""

import json
import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

PROTOCOL = "2025-06-18"
POLL_SECONDS = 0.05
# Variables that would steer a program under test from outside.
FOREIGN_PREFIXES = ("INTERLINK_", "CLAUDE", "XDG_", "RUST_LOG", "RUST_BACKTRACE", "AI_AGENT", "CODEX")


class CheckFailed(Exception):
    """A check that did not hold; the text says which and what was seen."""


class RpcError(Exception):
    """A JSON-RPC error answer."""

    def __init__(self, error):
        super().__init__(f"{error.get('code')}: {error.get('message')}")
        self.code = error.get("code")


def wait_until(what, probe, seconds=20.0):
    """The first true value of `probe`, or a failure that names `what`."""
    deadline = time.monotonic() + seconds
    while True:
        value = probe()
        if value:
            return value
        if time.monotonic() > deadline:
            raise CheckFailed(f"{what}: not within {seconds:g} s")
        time.sleep(POLL_SECONDS)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def stop(process, gentle=signal.SIGTERM, seconds=3.0):
    """Ends a process we started; returns its exit status."""
    if process.poll() is None:
        process.send_signal(gentle)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return process.returncode


class Lab:
    """A temporary folder, the processes started in it, and their end."""

    def __init__(self, label):
        self.folder = Path(tempfile.mkdtemp(prefix=f"interlink-{label}-"))
        self.closers = []

    def __enter__(self):
        # A terminated check unwinds like a failed one, so that nothing stays behind.
        signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(SystemExit(143)))
        return self

    def __exit__(self, kind, error, trace):
        for close in reversed(self.closers):
            try:
                close()
            except OSError as problem:
                print(f"cleaning up: {problem}")
        if kind is not None:
            self.print_logs()
        shutil.rmtree(self.folder, ignore_errors=True)

    def print_logs(self, lines=5, width=200):
        """The last lines of every log that are worth a look after a failure."""
        logs = (log for log in self.folder.rglob("*.log") if log.name != "audit.log")
        for log in sorted(logs):
            text = log.read_text(errors="replace").splitlines()
            told = [line for line in text if not re.search("TRACE|DEBUG|INFO", line)]
            if told:
                print(f"--- {log.name}, last lines")
                plain = (re.sub("\x1b\\[[0-9;]*m", "", line)[:width] for line in told[-lines:])
                print("\n".join(ascii(line)[1:-1] for line in plain))

    def environment(self, home, **extra):
        """This process's environment, without what would steer the programs under test."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN_PREFIXES)}
        home.mkdir(parents=True, exist_ok=True)
        kept.update(HOME=str(home), XDG_STATE_HOME=str(home / "state"), **extra)
        return kept

    def bus(self, program, label="bus", database=True, extra=()):
        return Bus(self, program, label, database, extra)

    def identity(self, keygen, label):
        """A fresh key: its path and its public half."""
        folder = self.folder / label
        folder.mkdir(mode=0o700)
        path = folder / "id.key"
        done = subprocess.run(
            [keygen, "--out", str(path)], capture_output=True, text=True, timeout=20,
            stdin=subprocess.DEVNULL, env=self.environment(folder), check=False,
        )
        found = re.search(r"public key\s*:\s*([A-Za-z0-9_-]{43})\b", done.stdout)
        if done.returncode != 0 or not found:
            raise CheckFailed(f"{keygen} answered {done.returncode}: {done.stdout}{done.stderr}")
        return Identity(folder, path, found.group(1))


class Identity:
    """A key and the folder of the agent that holds it."""

    def __init__(self, folder, path, public, peers=None):
        self.folder, self.path, self.public = folder, path, public
        self.peers = peers or folder / "peers.json"
        if peers is None:
            self.trust({})

    def trust(self, peers):
        """Writes the allowlist: petname -> Identity."""
        entries = {name: {"key": other.public} for name, other in peers.items()}
        self.peers.write_text(json.dumps(entries, indent=2, sort_keys=True) + "\n")
        self.peers.chmod(0o600)


class Bus:
    """A bus process that answers."""

    def __init__(self, lab, program, label, database, extra):
        self.lab, self.program, self.extra = lab, program, list(extra)
        self.log = lab.folder / f"{label}.log"
        self.database = lab.folder / f"{label}.redb" if database else None
        self.home = lab.folder / f"{label}-home"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        lab.closers.append(self.stop)
        self.start()

    def start(self):
        """Starts the program on the same port and file; the seconds until it answered."""
        command = [self.program, "--addr", f"127.0.0.1:{self.port}", *self.extra]
        if self.database:
            command += ["--db", str(self.database)]
        elif "--memory" in subprocess.run(
            [self.program, "--help"], capture_output=True, text=True, timeout=20, check=False
        ).stdout:
            command.append("--memory")
        began = time.monotonic()
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=self.lab.environment(self.home), cwd=self.lab.folder,
            )
        wait_until(f"{self.program} answers on {self.url}", self.answers, 60)
        return time.monotonic() - began

    def answers(self):
        if self.process.poll() is not None:
            raise CheckFailed(f"{self.program} exited with {self.process.returncode}")
        try:
            with urllib.request.urlopen(f"{self.url}/roster", timeout=2) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        return stop(self.process)


class Agent:
    """A channel server driven over newline-delimited JSON-RPC."""

    def __init__(self, lab, program, identity, url, session, name=None, handshake=True, flags=(), **env):
        self.session, self.identity = session, identity
        self.stray = []
        self.answers, self.notices, self.last_id = {}, queue.Queue(), 0
        self.arrived = threading.Condition()
        self.log = open(lab.folder / f"agent-{session}.log", "ab")
        command = [
            program, "--key", str(identity.path), "--peers", str(identity.peers), "--url", url,
            "--name", name or f"node-{session}", "--session", session, *flags,
        ]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
            env=lab.environment(identity.folder, **env), cwd=identity.folder,
        )
        lab.closers.append(self.close)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.server = self.handshake() if handshake else None

    def read(self):
        for line in self.process.stdout:
            try:
                message = json.loads(line)
                if message["jsonrpc"] != "2.0":
                    raise ValueError("not JSON-RPC 2.0")
            except (ValueError, KeyError, TypeError):
                self.stray.append(line)
                continue
            with self.arrived:
                if "method" in message:
                    self.notices.put(message)
                else:
                    self.answers[json.dumps(message.get("id"))] = message
                self.arrived.notify_all()
        with self.arrived:
            self.arrived.notify_all()

    def raw(self, data):
        """Bytes as they are, line end included."""
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def post(self, message):
        self.raw(json.dumps(message).encode() + b"\n")

    def notify(self, method, params=None):
        message = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        self.post(message)

    def request(self, method, params=None, seconds=20.0, request_id=None):
        """The result of one request; an error answer raises `RpcError`."""
        self.last_id += 1
        number = request_id if request_id is not None else self.last_id
        message = {"jsonrpc": "2.0", "id": number, "method": method}
        if params is not None:
            message["params"] = params
        try:
            self.post(message)
        except OSError as problem:
            raise CheckFailed(f"{self.session}: gone before {method}: {problem}") from problem
        key, deadline = json.dumps(number), time.monotonic() + seconds
        with self.arrived:
            while key not in self.answers:
                left = deadline - time.monotonic()
                if left <= 0 or not self.arrived.wait(min(left, 0.5)):
                    if self.process.poll() is not None and key not in self.answers:
                        status = self.process.returncode
                        raise CheckFailed(f"{self.session}: exited with {status} during {method}")
                    if left <= 0:
                        raise CheckFailed(f"{self.session}: no answer to {method}, {seconds:g} s")
            answer = self.answers.pop(key)
        if "error" in answer:
            raise RpcError(answer["error"])
        return answer["result"]

    def handshake(self):
        result = self.request(
            "initialize",
            {
                "protocolVersion": PROTOCOL,
                "capabilities": {},
                "clientInfo": {"name": "interlink-checks", "version": "1"},
            },
        )
        self.notify("notifications/initialized")
        return result

    def tool(self, name, **arguments):
        """A tool call that must succeed."""
        result = self.request("tools/call", {"name": name, "arguments": arguments})
        if result.get("isError"):
            raise CheckFailed(f"{self.session}: {name} answered {texts(result)}")
        return result

    def close(self):
        """Ends it the way a host does: end of input first. Returns the exit status."""
        if self.process.poll() is None:
            try:
                self.process.stdin.close()
                self.process.wait(10)
            except (OSError, subprocess.TimeoutExpired):
                stop(self.process)
        self.reader.join(5)
        for stream in (self.process.stdin, self.process.stdout, self.log):
            try:
                stream.close()
            except OSError:
                pass
        return self.process.returncode


def strings(value):
    """Every string inside a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)


def texts(result):
    """All text of a tool result, structured part included, as one string."""
    parts = [part.get("text", "") for part in result.get("content", [])]
    parts += strings(result.get("structuredContent"))
    return "\n".join(parts)


def receipts(result):
    """(sender, msg_id) of every listed message, from the structured result or from the text."""
    structured = result.get("structuredContent")
    if structured is not None:
        return list(structured_receipts(structured))
    text = "\n".join(part.get("text", "") for part in result.get("content", []))
    found = (json.loads(match) for match in re.findall(r"^.*?Receipt: (\{.*\})\s*$", text, re.M))
    return [(receipt["sender"], receipt["msg_id"]) for receipt in found]


def structured_receipts(value):
    if isinstance(value, dict):
        pair = (value.get("sender"), value.get("msg_id"))
        if all(isinstance(part, str) for part in pair):
            yield pair
            return
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from structured_receipts(item)


def sent_id(result):
    """The message id that `send_message` reported."""
    structured = result.get("structuredContent")
    if isinstance(structured, dict) and isinstance(structured.get("msg_id"), str):
        return structured["msg_id"]
    found = re.search(r"msg_id ([0-9a-f]{32})", texts(result))
    if not found:
        raise CheckFailed(f"no msg_id in {texts(result)!r}")
    return found.group(1)
