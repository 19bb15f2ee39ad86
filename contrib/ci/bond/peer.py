"""A legacy client: what the public program does, step for step, its rough edges included.

One object is one side of one session. `poll` is called by whoever drives the test; nothing here
has a thread or a timer.
"""

import json
import secrets
import urllib.error
import urllib.parse
import urllib.request

import wire


class RelayError(Exception):
    def __init__(self, status, body):
        super().__init__(f"{status}: {body}")
        self.status, self.body = status, body


class Peer:
    def __init__(self, url):
        self.url = url.rstrip("/")
        self.id = secrets.token_hex(32)
        self.role = self.code = self.keys = self.code_key = self.routing = None
        self.pair = wire.Pair()
        self.state, self.peer_gone = "none", False
        self.cursor, self.pending_tag = 0, None
        self.seen = wire.Seen()
        self.chats, self.files, self.drops, self.aborted = [], [], [], None

    # The relay.

    def call(self, path, value):
        request = urllib.request.Request(
            self.url + path, json.dumps(value).encode(), {"Content-Type": "application/json"}
        )
        return self.fetch(request)

    def fetch(self, request):
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                raise RelayError(error.code, error.read().decode(errors="replace")) from error

    def post(self, packet):
        payload = packet if "v" in packet else self.keys.seal(packet)
        self.call("/send", {
            "routingId": self.routing, "fromPeerId": self.id, "encryptedPayload": payload,
        })

    # The user.

    def connect(self, code=None):
        self.begin("host", code or wire.new_code())
        self.call("/create", self.introduction())
        self.state = "waiting"
        return self.code

    def join(self, code):
        self.begin("guest", code)
        answer = self.call("/join", self.introduction())
        self.agree(bytes.fromhex(answer["hostPublicKey"]))
        self.post(wire.key_confirm("guest", self.keys.tag("guest")))

    def begin(self, role, code):
        if not wire.is_code(code):
            raise ValueError("not a session code")
        self.role, self.code = role, code
        self.routing, self.code_key = wire.routing_id(code), wire.code_key(code)

    def introduction(self):
        return {"routingId": self.routing, "publicKey": self.pair.public.hex(), "peerId": self.id}

    def agree(self, other):
        shared = self.pair.agree(other)
        ends = (self.pair.public, other) if self.role == "host" else (other, self.pair.public)
        self.keys = wire.Keys(shared, self.code_key, *ends)
        self.state = "keyed"

    def say(self, text):
        self.ready()
        self.post(wire.chat(text))

    def send_file(self, name, content, note=""):
        self.ready()
        self.post(wire.file_transfer(name, content, note))

    def ready(self):
        if self.state != "confirmed" or self.peer_gone:
            raise RuntimeError(f"not ready to send: {self.state}")

    def leave(self):
        try:
            self.call("/disconnect", {"routingId": self.routing, "peerId": self.id})
        finally:
            self.state = "none"

    # What arrives.

    def poll(self):
        if self.state == "none" or self.peer_gone:
            return
        if self.pending_tag:
            self.confirm_host()
        query = urllib.parse.urlencode(
            {"routingId": self.routing, "peerId": self.id, "since": self.cursor}
        )
        answer = self.fetch(f"{self.url}/poll?{query}")
        if answer["disconnected"]:
            self.peer_gone = True
            return
        oldest = answer.get("oldestSeq", 1)
        if 0 < self.cursor < oldest - 1:
            self.drops.append("gap")
            self.cursor = oldest - 1
        self.cursor = max([self.cursor, *(m["seq"] for m in answer["messages"])])
        for message in answer["messages"]:
            if self.state != "none":
                self.handle(message)

    def handle(self, message):
        payload = message["payload"]
        if message["from"] == "system":
            self.handle_system(payload)
            return
        if self.keys is None:
            return
        try:
            packet = json.loads(self.keys.open(payload))
        except (wire.Unreadable, ValueError):
            self.refuse("packet could not be decrypted", "undecryptable")
            return
        why = self.seen.accept(packet, wire.now_ms())
        if why:
            self.drops.append(why)
        elif packet.get("type") == "key_confirm":
            self.handle_tag(packet)
        elif packet.get("type") in ("chat", "file_transfer"):
            if self.state != "confirmed":
                self.abort("content before confirmation")
            elif packet["type"] == "chat":
                self.chats.append(packet["content"])
            else:
                self.files.append(packet)

    def refuse(self, reason, drop):
        if self.state == "confirmed":
            self.drops.append(drop)
        else:
            self.abort(reason)

    def handle_system(self, payload):
        if payload["type"] == "peer_joined" and self.role == "host" and self.state == "waiting":
            self.agree(bytes.fromhex(payload["publicKey"]))
        elif payload["type"] == "disconnect":
            self.peer_gone = True

    def handle_tag(self, packet):
        other = "guest" if self.role == "host" else "host"
        if not self.keys.is_tag(other, packet.get("tag")):
            self.abort("wrong tag")
            return
        first = self.state != "confirmed"
        self.state = "confirmed"
        if self.role == "host" and first:
            self.pending_tag = True
            self.confirm_host()

    def confirm_host(self):
        try:
            self.post(wire.key_confirm("host", self.keys.tag("host")))
            self.pending_tag = None
        except (RelayError, OSError):
            pass

    def abort(self, reason):
        self.aborted = reason
        try:
            self.leave()
        except (RelayError, OSError):
            self.state = "none"
