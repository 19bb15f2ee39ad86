"""A scripted model, a pseudo-terminal, a peer and a throw-away home for `real_hosts.py`."""

import fcntl
import http.server
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

LIMIT = 90.0
NOTICE = re.compile(r'\[interlink inbox notice\][^\n]*?notification_id=\\*"([0-9a-f]{8})')
SECRET = "the heron flies at noon"
ANSWER = "the heron has been seen"


class Model:
    """Answers both APIs; remembers what it was asked."""

    def __init__(self):
        self.requests = []
        self.followed = set()
        # What phrases ask for: the tool and its arguments.
        self.script = {"ask for the id": ("get_my_session_id", {})}
        self.lock = threading.Lock()
        model = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def do_HEAD(self):
                self.reply(200, b"")

            def do_GET(self):
                self.reply(200, b'{"data":[],"models":[]}')

            def do_POST(self):
                length = int(self.headers.get("content-length") or 0)
                body = self.rfile.read(length)
                try:
                    asked = json.loads(body or b"{}")
                except ValueError:
                    asked = {}
                path = self.path.split("?")[0]
                with model.lock:
                    model.requests.append((path, asked))
                if path.endswith("/count_tokens"):
                    self.reply(200, b'{"input_tokens":10}')
                elif path.endswith("/messages"):
                    self.reply(*model.messages(asked))
                elif path.endswith("/responses"):
                    self.reply(200, model.responses(asked), "text/event-stream")
                else:
                    self.reply(404, b"{}")

            def reply(self, status, body, kind="application/json"):
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def asked(self):
        with self.lock:
            return list(self.requests)

    def heard(self, text):
        """Whether a request carried a text."""
        return any(text in json.dumps(body) for _, body in self.asked())

    def next_call(self, text):
        """What to call now: the newest notice first, once each."""
        for notice in reversed(NOTICE.findall(text)):
            if notice not in self.followed:
                self.followed.add(notice)
                return "receive_messages", {"notification_id": notice}
        for phrase, call in self.script.items():
            if phrase in text and phrase not in self.followed:
                self.followed.add(phrase)
                return call
        return None

    # Anthropic's API.

    def messages(self, asked):
        tools = [t.get("name", "") for t in asked.get("tools", [])]
        call = None
        if any("receive_messages" in t for t in tools):
            call = self.next_call(json.dumps(asked.get("messages", []), ensure_ascii=False))
        if call:
            # Most tools are not listed; they are called by their full name all the same.
            known = next(t for t in tools if t.endswith("receive_messages"))
            name = known[: -len("receive_messages")] + call[0]
            block = {"type": "tool_use", "id": f"toolu_{len(self.requests)}", "name": name}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
            start, reason = dict(block, input={}), "tool_use"
            content = [dict(block, input=call[1])]
        else:
            start, reason = {"type": "text", "text": ""}, "end_turn"
            delta = {"type": "text_delta", "text": "ok"}
            content = [{"type": "text", "text": "ok"}]
        message = {
            "id": "msg_1", "type": "message", "role": "assistant",
            "model": asked.get("model", "m"), "content": [], "stop_reason": None,
            "stop_sequence": None, "usage": {"input_tokens": 10, "output_tokens": 1},
        }
        if not asked.get("stream"):
            whole = dict(message, content=content, stop_reason=reason)
            return 200, json.dumps(whole).encode()
        events = [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": start},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None},
             "usage": {"output_tokens": 5}},
            {"type": "message_stop"},
        ]
        return 200, sse(events), "text/event-stream"

    # OpenAI's API.

    def responses(self, asked):
        call = self.next_call(json.dumps(asked.get("input", []), ensure_ascii=False))
        number = len(self.requests)
        if call:
            item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}",
                    "name": call[0], "namespace": "mcp__interlink",
                    "arguments": json.dumps(call[1])}
        else:
            item = {"type": "message", "id": f"msg_{number}", "role": "assistant",
                    "content": [{"type": "output_text", "text": "ok"}]}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2,
                 "input_tokens_details": None, "output_tokens_details": None}
        return sse([
            {"type": "response.created", "response": {"id": f"resp_{number}"}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed",
             "response": {"id": f"resp_{number}", "usage": usage}},
        ])


def sse(events):
    return "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events).encode()


def plain(output):
    text = output.decode("utf-8", "replace")
    return re.sub(r"\x1b\[[0-9;?>=]*[a-zA-Z]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b.", " ", text)


class Terminal:
    """A program in a pseudo-terminal."""

    def __init__(self, argv, env, cwd):
        self.output = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execve(argv[0], argv, env)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))

    def pump(self, seconds=0.2):
        end = time.time() + seconds
        while time.time() < end:
            ready, _, _ = select.select([self.fd], [], [], 0.05)
            if ready:
                try:
                    data = os.read(self.fd, 65536)
                except OSError:
                    return
                self.output += data
                # Programs that draw ask the terminal who it is and where its cursor stands.
                if b"\x1b[6n" in data:
                    os.write(self.fd, b"\x1b[1;1R")
                if b"\x1b[c" in data:
                    os.write(self.fd, b"\x1b[?62c")

    def type(self, text):
        for char in text:
            os.write(self.fd, char.encode())
            self.pump(0.02)

    def enter(self):
        self.pump(0.3)
        os.write(self.fd, b"\r")

    def keys(self, *keys):
        for key in keys:
            self.pump(0.5)
            os.write(self.fd, key)

    def until(self, what, condition, limit=LIMIT):
        end = time.time() + limit
        while time.time() < end:
            self.pump()
            found = condition()
            if found:
                return found
        raise AssertionError(f"never happened: {what}\n--- the screen:\n{self.screen()}")

    def screen(self):
        return plain(self.output[-6000:])

    def shown(self):
        """All that was ever drawn, without blanks."""
        return re.sub(r"\s+", "", plain(self.output))

    def close(self):
        for how in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            try:
                os.kill(self.pid, how)
            except ProcessLookupError:
                return
            for _ in range(10):
                self.pump(0.1)
                if os.waitpid(self.pid, os.WNOHANG)[0]:
                    return


class Peer:
    """A second identity, spoken to as any MCP server."""

    def __init__(self, world):
        home = world.dir + "/peer"
        os.mkdir(home)
        key = world.keygen(home)
        with open(home + "/peers.json", "w") as f:
            json.dump({"host": {"key": world.key}}, f)
        with open(world.home + "/.config/interlink/peers.json", "w") as f:
            json.dump({"peer": {"key": key}}, f)
        self.process = subprocess.Popen(
            [world.bin + "/interlink-mcp", "--key", home + "/id.key", "--peers",
             home + "/peers.json", "--url", world.bus_url, "--session", "peer"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={"HOME": home, "XDG_STATE_HOME": home + "/state", "PATH": "/usr/bin:/bin"})
        self.id = 0
        self.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {},
                                    "clientInfo": {"name": "peer", "version": "1"}})
        self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def write(self, value):
        self.process.stdin.write(json.dumps(value).encode() + b"\n")
        self.process.stdin.flush()

    def request(self, method, params):
        self.id += 1
        self.write({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params})
        while True:
            answer = json.loads(self.process.stdout.readline())
            if answer.get("id") == self.id:
                return answer

    def send(self, session, text):
        answer = self.request("tools/call", {"name": "send_message", "arguments": {
            "to": "host", "session": session, "text": text}})
        assert not answer["result"]["isError"], answer

    def inbox(self):
        answer = self.request("tools/call", {"name": "receive_messages", "arguments": {}})
        return json.dumps(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=10)


class World:
    """A home, a key, a bus, a model."""

    def __init__(self, bin_dir, modules, host):
        self.bin, self.modules = os.path.abspath(bin_dir), os.path.abspath(modules)
        # Codex refuses a home under the temporary directory.
        base = os.environ.get("REAL_HOSTS_DIR") or os.path.expanduser("~")
        self.dir = tempfile.mkdtemp(prefix="interlink-real-", dir=base)
        self.home = self.dir + "/home"
        self.work = self.dir + "/project"
        os.makedirs(self.home)
        os.makedirs(self.work)
        self.model = Model()
        self.port = free_port()
        self.bus_url = f"http://127.0.0.1:{self.port}"
        self.bus = self.peer = None
        self.env = {
            "HOME": self.home, "PATH": f"{self.bin}:{os.environ.get('PATH', '/usr/bin:/bin')}",
            "TERM": "xterm-256color", "LANG": "C.UTF-8", "SHELL": "/bin/sh",
            "INTERLINK_NOTICE_PATIENCE": "20s", "NO_PROXY": "127.0.0.1",
        }
        if host == "readme":
            return
        self.start_bus(["interlink-bus", "--addr", f"127.0.0.1:{self.port}", "--memory"])
        if host == "plugin":
            os.makedirs(self.home + "/.config/interlink", mode=0o700)
            self.key = self.keygen(self.home + "/.config/interlink")
        else:
            self.key = re.search(r"public key: (\S+)", self.setup(host)).group(1)
        self.peer = Peer(self)
        self.model.script[SECRET] = ("send_message", {
            "to": "peer", "session": "peer", "text": ANSWER})

    def start_bus(self, command):
        self.bus = subprocess.Popen(
            [self.bin + "/" + command[0], *command[1:]], env=self.env,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def setup(self, host, *more):
        done = subprocess.run(
            [self.bin + "/interlink-mcp", "setup", host, "--url", self.bus_url, "--allow",
             "answer", *more],
            env=self.env, cwd=self.work, capture_output=True, text=True, check=True)
        return done.stdout

    def keygen(self, home):
        done = subprocess.run(
            [self.bin + "/interlink-keygen", "--out", home + "/id.key"],
            capture_output=True, text=True, check=True)
        return re.search(r"public key : (\S+)", done.stdout).group(1)

    def session(self, old=()):
        """The session of the host on the roster."""
        import urllib.request
        with urllib.request.urlopen(self.bus_url + "/roster", timeout=5) as answer:
            for entry in json.load(answer)["roster"]:
                text = json.dumps(entry)
                if self.key in text:
                    found = re.search(r'"session_id": "([^"]+)"', text)
                    if found and found.group(1) not in old:
                        return found.group(1)
        return None

    def close(self):
        if self.peer:
            self.peer.close()
        if self.bus:
            self.bus.terminate()
            self.bus.wait(timeout=10)
        if os.environ.get("REAL_HOSTS_KEEP"):
            print("kept:", self.dir)
        else:
            shutil.rmtree(self.dir, ignore_errors=True)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
