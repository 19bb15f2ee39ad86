#!/usr/bin/env python3
"""Real coding agents against a scripted model on loopback.

Claude Code and Codex run in a pseudo-terminal, in a throw-away home, wired by `interlink-mcp setup`.
Their model is a server of this script: it says "ok" to prompts, and follows an inbox notice by
calling receive_messages. A peer then writes to them. A way to wake a session works when the text of
the peer's message comes back to the model as a result of that call.

    real_hosts.py BIN_DIR NODE_MODULES [claude-listener] [claude-socket] [claude-clear] [codex-queue]
"""

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


class Model:
    """Answers both APIs; remembers what it was asked."""

    def __init__(self):
        self.requests = []
        self.followed = set()
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
        if "ask for the id" in text and "asked" not in self.followed:
            self.followed.add("asked")
            return "get_my_session_id", {}
        return None

    # Anthropic's API.

    def messages(self, asked):
        tools = [t.get("name", "") for t in asked.get("tools", [])]
        call = None
        if any("receive_messages" in t for t in tools):
            call = self.next_call(json.dumps(asked.get("messages", []), ensure_ascii=False))
        if call:
            name = next((t for t in tools if t.endswith(call[0])), "mcp__interlink__" + call[0])
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

    def until(self, what, condition, limit=LIMIT):
        end = time.time() + limit
        while time.time() < end:
            self.pump()
            found = condition()
            if found:
                return found
        raise AssertionError(f"never happened: {what}\n--- the screen:\n{self.screen()}")

    def screen(self):
        text = self.output[-6000:].decode("utf-8", "replace")
        return re.sub(r"\x1b\[[0-9;?>=]*[a-zA-Z]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b.", " ", text)

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
        port = free_port()
        self.bus_url = f"http://127.0.0.1:{port}"
        self.bus = subprocess.Popen(
            [self.bin + "/interlink-bus", "--addr", f"127.0.0.1:{port}", "--memory"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.env = {
            "HOME": self.home, "PATH": f"{self.bin}:{os.environ.get('PATH', '/usr/bin:/bin')}",
            "TERM": "xterm-256color", "LANG": "C.UTF-8", "SHELL": "/bin/sh",
            "INTERLINK_NOTICE_PATIENCE": "20s", "NO_PROXY": "127.0.0.1",
        }
        done = subprocess.run(
            [self.bin + "/interlink-mcp", "setup", host, "--url", self.bus_url],
            env=self.env, cwd=self.work, capture_output=True, text=True, check=True)
        self.key = re.search(r"public key: (\S+)", done.stdout).group(1)
        self.peer = Peer(self)

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
        self.peer.close()
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


def claude_home(world):
    key = "sk-ant-" + "x" * 40
    path = world.home + "/.claude.json"
    with open(path) as f:
        config = json.load(f)
    config.update({
        "hasCompletedOnboarding": True, "theme": "dark", "numStartups": 5,
        "bypassPermissionsModeAccepted": True,
        "customApiKeyResponses": {"approved": [key[-20:]], "rejected": []},
        "projects": {world.work: {"hasTrustDialogAccepted": True,
                                  "hasCompletedProjectOnboarding": True}},
    })
    with open(path, "w") as f:
        json.dump(config, f)
    # What was written by another hand meanwhile does not hinder a second setup.
    subprocess.run([world.bin + "/interlink-mcp", "setup", "claude", "--url", world.bus_url],
                   env=world.env, cwd=world.work, capture_output=True, check=True)
    return dict(world.env, ANTHROPIC_BASE_URL=world.model.url, ANTHROPIC_API_KEY=key,
                DISABLE_AUTOUPDATER="1", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
                DISABLE_TELEMETRY="1", DISABLE_ERROR_REPORTING="1")


def start_claude(world, delivery):
    env = dict(claude_home(world), INTERLINK_CLAUDE_DELIVERY=delivery)
    program = world.modules + "/@anthropic-ai/claude-code-linux-x64/claude"
    allowed = "mcp__interlink__receive_messages,mcp__interlink__get_my_session_id"
    terminal = Terminal([program, "--allowedTools", allowed, "--permission-mode", "default"],
                        env, world.work)
    terminal.until("the prompt", lambda: b"\xe2\x9d\xaf" in terminal.output
                   or b"> " in terminal.output, 40)
    terminal.pump(3)
    terminal.type("hello there")
    terminal.enter()
    terminal.until("the first turn", lambda: world.model.heard("hello there"))
    return terminal


def claude(world, delivery):
    terminal = start_claude(world, delivery)
    try:
        session = terminal.until("the roster", world.session)
        world.peer.send(session, SECRET)
        terminal.until("the peer's words in a result", lambda: world.model.heard(SECRET))
        prompts = json.dumps([b for _, b in world.model.asked()])
        if delivery == "inbox":
            assert "task-notification" in prompts, "it was not the listener that woke"
            assert "notified via listener" in prompts
        else:
            assert "Another Claude session" in prompts, "it was not the socket that woke"
            assert "notified via messaging socket" in prompts
    finally:
        terminal.close()


def claude_listener(world):
    claude(world, "inbox")


def claude_socket(world):
    claude(world, "auto")


def claude_clear(world):
    """After /clear the server serves the new conversation."""
    terminal = start_claude(world, "inbox")
    try:
        first = terminal.until("the roster", world.session)
        terminal.pump(2)
        terminal.type("/clear")
        terminal.enter()
        terminal.pump(2)
        terminal.type("hello again")
        terminal.enter()
        terminal.until("the second turn", lambda: world.model.heard("hello again"))
        second = terminal.until("the new session", lambda: world.session(old=(first,)))
        world.peer.send(second, SECRET)
        terminal.until("the peer's words in a result", lambda: world.model.heard(SECRET))
    finally:
        terminal.close()


def codex_queue(world):
    """A notice queued by `codex queue` begins a turn."""
    path = world.home + "/.codex/config.toml"
    with open(path) as f:
        wired = f.read()
    program = world.modules + "/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"
    with open(path, "w") as f:
        f.write('model = "scripted"\nmodel_provider = "scripted"\napproval_policy = "never"\n'
                'check_for_update_on_startup = false\n\n'
                '[model_providers.scripted]\nname = "scripted"\nwire_api = "responses"\n'
                f'base_url = "{world.model.url}/v1"\nenv_key = "SCRIPTED_KEY"\n\n'
                f'[projects."{world.work}"]\ntrust_level = "trusted"\n\n' + wired)
    os.symlink(program, world.dir + "/codex")
    env = dict(world.env, SCRIPTED_KEY="x", CODEX_HOME=world.home + "/.codex",
               INTERLINK_CODEX_BIN=program)
    # A second setup finds its block, and says where codex is.
    env["PATH"] = world.dir + ":" + env["PATH"]
    subprocess.run([world.bin + "/interlink-mcp", "setup", "codex", "--url", world.bus_url],
                   env=env, cwd=world.work, capture_output=True, check=True)
    terminal = Terminal([program, "--dangerously-bypass-hook-trust"], env, world.work)
    try:
        terminal.pump(8)
        terminal.type("ask for the id")
        terminal.enter()
        terminal.until("the first turn", lambda: world.model.heard("ask for the id"))
        session = terminal.until("the roster", world.session)
        terminal.pump(3)
        world.peer.send(session, SECRET)
        terminal.until("the peer's words in a result", lambda: world.model.heard(SECRET))
        assert world.model.heard("notified via codex queue"), "it was not the queue that woke"
    finally:
        terminal.close()
        subprocess.run([program, "daemon", "stop"], env=env, capture_output=True, timeout=20)


TESTS = {
    "claude-listener": ("claude", claude_listener),
    "claude-socket": ("claude", claude_socket),
    "claude-clear": ("claude", claude_clear),
    "codex-queue": ("codex", codex_queue),
}


def main():
    bin_dir, modules, *names = sys.argv[1:]
    failed = 0
    for name in names or TESTS:
        host, test = TESTS[name]
        world = World(bin_dir, modules, host)
        try:
            test(world)
            print(f"ok     {name}: {len(world.model.asked())} requests to the model", flush=True)
        except Exception as e:
            failed += 1
            print(f"FAILED {name}: {e}", flush=True)
        finally:
            world.close()
    count = len(names or TESTS)
    print(f"{count - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
