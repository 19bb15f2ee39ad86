"""A relay for the checks, and every trick that a hostile one could play.

The honest behaviour is the public Worker's. A trick is a `Mischief` whose hooks see each request
and may change what is stored, what is answered, or both. The base class is the control: the same
code paths, no tricks.
"""

import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

ID = re.compile(r"[0-9a-f]{64}")
TTL_MS, QUEUE, PEERS = 30 * 60_000, 100, 2
SENDS, WINDOW_MS, POLL_UNITS = 10, 60_000, 1_048_576
CAPS = {"/create": 10_240, "/join": 10_240, "/send": 5_242_880, "/disconnect": 1_024}
HOLD_SECONDS = 4.0


def now_ms():
    return int(time.time() * 1000)


class Refused(Exception):
    def __init__(self, status, code, text, **extra):
        super().__init__(text)
        self.status, self.body = status, {"error": text, "code": code, **extra}


class Session:
    def __init__(self, peer, key):
        self.peers, self.host_key = [peer], key
        self.messages, self.next_seq, self.oldest = [], 1, 1
        self.sends, self.touched = {}, now_ms()

    def queue(self, sender, payload):
        self.messages.append(
            {"from": sender, "seq": self.next_seq, "payload": payload, "timestamp": now_ms()}
        )
        self.next_seq += 1
        while self.next_seq - self.oldest > QUEUE:
            self.oldest += 1
        self.messages = [m for m in self.messages if m["seq"] >= self.oldest]


class Mischief:
    """No mischief at all."""

    def join_answer(self, answer):
        return answer

    def joined(self, session, peer, key):
        """What the host is told of a guest that joined."""
        session.queue("system", {"type": "peer_joined", "peerId": peer, "publicKey": key})

    def created(self, session):
        """Right after a session was made."""

    def sent(self, session, sender, payload):
        """A member's message arrives."""
        session.queue(sender, payload)

    def poll_answer(self, session, peer, answer):
        return answer

    def intercept(self, method, path):
        """(status, headers, bytes) instead of any answer, or None."""
        return None


class Relay:
    """Serves on a free loopback port until closed."""

    def __init__(self, mischief=None):
        self.mischief = mischief or Mischief()
        self.sessions, self.lock = {}, threading.Condition()
        self.requests = []
        relay = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            do_GET = do_POST = do_PUT = do_DELETE = lambda self: relay.serve(self)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.1,), daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(5)

    def serve(self, http):
        url = urlsplit(re.sub("^/+", "/", http.path))
        self.requests.append((http.command, url.path))
        try:
            length = int(http.headers.get("content-length") or 0)
            cap = CAPS.get(url.path, 1_024)
            body = http.rfile.read(min(length, cap))
            if length > cap:
                http.close_connection = True
            answer = self.mischief.intercept(http.command, url.path)
            if answer is None:
                try:
                    if length > cap:
                        raise Refused(413, "ERR_PAYLOAD_TOO_LARGE", "Request payload too large",
                                      maxSize=cap)
                    status, value = 200, self.route(http.command, url, body)
                except Refused as refused:
                    status, value = refused.status, refused.body
                answer = status, {"Content-Type": "application/json"}, json.dumps(value).encode()
            status, headers, data = answer
            http.send_response(status)
            for name, text in headers.items():
                http.send_header(name, text)
            http.send_header("Content-Length", str(len(data)))
            if status == 429:
                http.send_header("Retry-After", "1")
            http.end_headers()
            http.wfile.write(data)
        except OSError:
            http.close_connection = True

    def route(self, method, url, body):
        path = url.path
        if path == "/health":
            return {"status": "ok", "timestamp": now_ms()}
        if (method, path) == ("GET", "/poll"):
            query = {k: v[0] for k, v in parse_qs(url.query, keep_blank_values=True).items()}
            return self.poll(query)
        if method != "POST" or path not in CAPS:
            raise Refused(404, "ERR_NOT_FOUND", "Endpoint not found")
        try:
            request = json.loads(body)
        except ValueError:
            raise Refused(400, "ERR_MISSING_FIELDS", "Invalid JSON body") from None
        if not isinstance(request, dict):
            raise Refused(500, "ERR_INTERNAL_ERROR", "An internal error occurred")
        self.check_id(request.get("routingId"))
        with self.lock:
            answer = getattr(self, path[1:])(request)
            self.lock.notify_all()
            return answer

    def check_id(self, routing):
        if not (isinstance(routing, str) and ID.fullmatch(routing)):
            raise Refused(400, "ERR_INVALID_SESSION_CODE", "Invalid routing ID format")

    def live(self, routing):
        session = self.sessions.get(routing)
        if session and now_ms() - session.touched > TTL_MS:
            del self.sessions[routing]
            return None
        return session

    def fields(self, request, *names):
        values = [request.get(name) for name in names]
        if not all(isinstance(v, str) and ID.fullmatch(v) for v in values):
            raise Refused(400, "ERR_MISSING_FIELDS", "Missing required fields")
        return values

    def create(self, request):
        key, peer = self.fields(request, "publicKey", "peerId")
        routing = request["routingId"]
        if self.live(routing):
            raise Refused(403, "ERR_SESSION_FULL", "Session is full")
        session = self.sessions[routing] = Session(peer, key)
        self.mischief.created(session)
        return {"ok": True, "routingId": routing, "expiresAt": now_ms() + TTL_MS}

    def join(self, request):
        key, peer = self.fields(request, "publicKey", "peerId")
        session = self.live(request["routingId"])
        if not session:
            raise Refused(404, "ERR_SESSION_NOT_FOUND", "Session not found")
        if peer not in session.peers:
            if len(session.peers) >= PEERS:
                raise Refused(403, "ERR_SESSION_FULL", "Session is full")
            session.peers.append(peer)
            session.touched = now_ms()
            self.mischief.joined(session, peer, key)
        answer = {"ok": True, "hostPublicKey": session.host_key, "peerCount": len(session.peers)}
        return self.mischief.join_answer(answer)

    def send(self, request):
        (peer,) = self.fields(request, "fromPeerId")
        payload = request.get("encryptedPayload")
        if not payload:
            raise Refused(400, "ERR_MISSING_FIELDS", "Missing required fields")
        session = self.live(request["routingId"])
        if not session:
            raise Refused(404, "ERR_SESSION_NOT_FOUND", "Session not found")
        if peer not in session.peers:
            raise Refused(403, "ERR_UNAUTHORIZED", "Unauthorized access")
        stamps = [t for t in session.sends.get(peer, []) if now_ms() - t < WINDOW_MS]
        if len(stamps) >= SENDS:
            wait = -(-(stamps[0] + WINDOW_MS - now_ms()) // 1000)
            raise Refused(429, "ERR_RATE_LIMIT_EXCEEDED", "Rate limit exceeded", retryAfter=wait)
        session.sends[peer] = [*stamps, now_ms()]
        session.touched = now_ms()
        self.mischief.sent(session, peer, payload)
        return {"ok": True}

    def poll(self, query):
        self.check_id(query.get("routingId"))
        peer = query.get("peerId", "")
        if not ID.fullmatch(peer):
            raise Refused(400, "ERR_MISSING_FIELDS", "Missing required fields")
        number = re.match(r"\s*(-?\d+)", query.get("since", "") or "0")
        deadline = time.monotonic() + HOLD_SECONDS
        with self.lock:
            while True:
                session = self.live(query["routingId"])
                if not session:
                    return {"messages": [], "disconnected": True}
                if peer not in session.peers:
                    raise Refused(403, "ERR_UNAUTHORIZED", "Unauthorized access")
                session.touched = now_ms()
                found, units = [], 0
                for message in session.messages if number else []:
                    if message["seq"] <= int(number.group(1)) or message["from"] == peer:
                        continue
                    units += len(json.dumps(message, ensure_ascii=False))
                    if found and units > POLL_UNITS:
                        break
                    found.append(message)
                left = deadline - time.monotonic()
                if found or left <= 0:
                    answer = {
                        "messages": found, "disconnected": False, "oldestSeq": session.oldest
                    }
                    return self.mischief.poll_answer(session, peer, answer)
                self.lock.wait(left)

    def disconnect(self, request):
        session, peer = self.live(request["routingId"]), request.get("peerId")
        if session and peer in session.peers:
            session.peers.remove(peer)
            if session.peers:
                session.queue("system", {"type": "disconnect", "peerId": peer})
            else:
                del self.sessions[request["routingId"]]
        return {"ok": True}

    def wipe(self):
        """Forgets everything, like a relay that lost its memory."""
        with self.lock:
            self.sessions.clear()
            self.lock.notify_all()
