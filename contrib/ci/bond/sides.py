"""Both implementations behind one face, so that each check runs with either at each end."""

import hashlib
import re
import threading
import time
from pathlib import Path

from harness import Agent, CheckFailed, wait_until
from peer import Peer, RelayError

CODE = re.compile(r"Session Code: (\S+)")
TRANSFER = re.compile(r"Transfer ID: ([0-9a-f]{16})")
SAVED = re.compile(r"Saved to: (\S.*)")


class Ours:
    """Our channel server, driven through its tools."""

    kind = "ours"

    def __init__(self, lab, programs, label, bus, relay):
        identity = lab.identity(programs / "interlink-keygen", label)
        self.folder = identity.folder
        self.agent = Agent(
            lab, programs / "interlink-mcp", identity, bus, label,
            flags=("--consent", "tool", "--bond-root", str(identity.folder)),
            INTERLINK_BOND_RELAY=relay, INTERLINK_NOTIFICATIONS="off",
        )
        self.told, self.lock = [], threading.Lock()

    def ask(self, name, **arguments):
        """A tool call; its text, errors included."""
        # One at a time: results carry what happened since the last one.
        with self.lock:
            result = self.agent.request(
                "tools/call", {"name": name, "arguments": arguments}, seconds=60
            )
            text = "\n".join(part.get("text", "") for part in result.get("content", []))
            self.told.append(text)
        return text, bool(result.get("isError"))

    def must(self, name, **arguments):
        text, failed = self.ask(name, **arguments)
        if failed:
            raise CheckFailed(f"{self.agent.session}: {name} answered {text}")
        return text

    def connect(self):
        return CODE.search(self.must("bond_connect")).group(1)

    def join(self, code):
        self.must("bond_join", sessionCode=code)

    def all(self):
        """Everything this side was told so far."""
        if "unread event" in self.ask("bond_status")[0]:
            self.ask("bond_wait", timeoutSeconds=1)
        return "\n".join(self.told)

    def confirmed(self):
        return "Secure channel established" in self.ask("bond_status")[0]

    def aborted(self):
        return "SESSION ABORTED: " in self.all()

    def gone(self):
        text = self.all()
        return "Peer has disconnected" in text or "Peer disconnected" in text

    def say(self, text):
        retry(lambda: self.must("bond_message", content=text))

    def heard(self):
        """How often each text came in is counted by its own marker."""
        return self.all()

    def send_file(self, name, content):
        path = self.folder / name
        path.write_bytes(content.encode())
        shown = retry(lambda: self.must("bond_send", filepath=str(path)))
        if hashlib.sha256(content.encode()).hexdigest() not in shown:
            raise CheckFailed(f"the sender was not shown the SHA-256: {shown}")

    def take_file(self, name):
        """Accepts the one file that waits; the bytes on disk."""
        found = wait_until(f"{name} is offered", lambda: TRANSFER.search(self.all()), 30)
        offer = self.all()
        if f"File: {name}" not in offer or "Incoming File Transfer" not in offer:
            raise CheckFailed(f"the offer does not name {name}: {offer}")
        text = self.must("bond_accept", transferId=found.group(1))
        path = Path(SAVED.search(text).group(1).strip())
        if path.stat().st_mode & 0o777 != 0o600:
            raise CheckFailed(f"{path} is not private")
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() not in text + offer:
            raise CheckFailed(f"the receiver was not shown the SHA-256: {text}")
        return data

    def leave(self):
        self.must("bond_end")

    def close(self):
        self.agent.close()


class Theirs:
    """The second implementation, polling in a thread of its own."""

    kind = "legacy"

    def __init__(self, relay):
        self.peer, self.stopping = Peer(relay), threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.stopping.wait(0.2):
            try:
                self.peer.poll()
            except (RelayError, OSError, ValueError):
                continue

    def connect(self):
        return self.peer.connect()

    def join(self, code):
        self.peer.join(code)

    def confirmed(self):
        return self.peer.state == "confirmed" and not self.peer.peer_gone

    def aborted(self):
        return self.peer.aborted is not None

    def gone(self):
        return self.peer.peer_gone

    def say(self, text):
        self.peer.say(text)

    def heard(self):
        return "\n".join(self.peer.chats)

    def send_file(self, name, content):
        self.peer.send_file(name, content, "a note")

    def take_file(self, name):
        wait_until(f"{name} is offered", lambda: self.peer.files, 30)
        packet = self.peer.files.pop(0)
        if packet["filename"] != name or packet["preview"]["size"] != len(packet["content"].encode()):
            raise CheckFailed(f"a file packet that does not fit itself: {packet['preview']}")
        return packet["content"].encode()

    def leave(self):
        self.peer.leave()

    def close(self):
        self.stopping.set()
        self.thread.join(15)


def retry(call, seconds=30):
    """Repeats a call that the pause between two sends refuses."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return call()
        except CheckFailed as problem:
            if "Rate limit" not in str(problem) or time.monotonic() > deadline:
                raise
            time.sleep(0.5)
