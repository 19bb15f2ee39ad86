#!/usr/bin/env python3
"""The channel server, judged by a client that shares no code with it.

The official Python `mcp` package connects, lists and calls every tool with good and with bad
arguments; a raw line-by-line driver does what that client never would: it probes and cancels
before `initialize` and writes lines that are no JSON-RPC at all. The server must answer each with
a result, a tool error or a protocol error, and must still be there afterwards.
"""

import argparse
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import jsonschema
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from mcp.types import ElicitResult

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from harness import (  # noqa: E402
    Agent, CheckFailed, Lab, RpcError, free_port, receipts, sent_id, texts, wait_until,
)

INVALID_PARAMS, METHOD_NOT_FOUND, INTERNAL_ERROR = -32602, -32601, -32603
# What a request may be called that is no well-formed request of its method.
MISSHAPEN = (INVALID_PARAMS, METHOD_NOT_FOUND, -32600)
ANSWER_SECONDS = 20
# Told in a message and looked for in every log.
BODY = "a body that no log may hold"
ALWAYS_LOADED = {"send_message", "receive_messages", "acknowledge_messages"}
READS_ONLY = {
    "get_my_session_id", "list_peers", "list_pending", "message_status", "discover", "list_tasks",
    "list_pair_requests", "pair_status",
}
WRITES = {
    "send_message", "acknowledge_messages", "add_peer", "remove_peer", "set_summary", "cancel_task",
    "request_pair", "accept_pair", "reject_pair", "cancel_pair_request",
    "bond_connect", "bond_join", "bond_status", "bond_send", "bond_message", "bond_wait", "bond_accept",
    "bond_decline", "bond_end", "bond_pin", "send_file",
}
ASKS_THE_USER = {"add_peer", "remove_peer", "request_pair", "accept_pair", "bond_accept", "bond_pin"}
SAMPLES = {
    "string": "text", "integer": 7, "number": 1.5, "boolean": True, "array": [1], "object": {"x": 1},
}


class Tally:
    """Counts checks and goes on after a failed one."""

    def __init__(self):
        self.passed = self.failed = 0

    def check(self, name, holds, seen=""):
        if holds:
            self.passed += 1
        else:
            self.failed += 1
            # Peer text may hold control characters; a log of checks must not.
            print(f"FAIL {ascii(name)[1:-1]}: {ascii(seen)[1:-1]}", flush=True)

    async def run(self, name, step):
        """An async step that raises when it does not hold."""
        try:
            with anyio.fail_after(120):
                await step
            self.check(name, True)
            print(f"ok   {name}", flush=True)
        except BaseException as problem:  # a task group wraps what went wrong in a group
            if isinstance(problem, (KeyboardInterrupt, SystemExit)):
                raise
            self.check(name, False, causes(problem))


def causes(problem):
    inner = getattr(problem, "exceptions", None)
    if inner:
        return "; ".join(causes(each) for each in inner)
    return f"{type(problem).__name__}: {problem}"


def must(what, holds, seen=""):
    if not holds:
        raise CheckFailed(f"{what} {seen}".strip())


class World:
    """A bus, the server under test and one admitted peer that writes to it."""

    def __init__(self, lab, options):
        self.lab, self.options = lab, options
        self.bus = lab.bus(options.bus)
        relay = free_port()
        self.relay = f"http://127.0.0.1:{relay}"
        lab.bus(options.bus, "relay", extra=["--relay-addr", f"127.0.0.1:{relay}"])
        self.me = lab.identity(options.keygen, "me")
        self.peer = lab.identity(options.keygen, "peer")
        self.spare = lab.identity(options.keygen, "spare")
        self.me.trust({"other": self.peer})
        self.peer.trust({"me": self.me})
        self.sessions = 0

    def session(self):
        self.sessions += 1
        return f"mcp-{self.sessions}"

    @asynccontextmanager
    async def client(self, mode="legacy", session=None, consent="tool", human=None):
        """The official client; what it could not parse is a failure of the server's stdout."""
        session = session or self.session()
        odd = []

        async def on_message(message):
            if isinstance(message, Exception):
                odd.append(repr(message))

        server = StdioServerParameters(
            command=str(self.options.mcp),
            args=[
                "--key", str(self.me.path), "--peers", str(self.me.peers), "--url", self.bus.url,
                "--name", "node-me", "--session", session,
            ],
            env=self.lab.environment(
                self.me.folder, RUST_LOG="trace", INTERLINK_CONSENT=consent,
                INTERLINK_BOND_RELAY=self.relay, INTERLINK_BOND_ROOT=str(self.me.folder),
                INTERLINK_NOTIFICATIONS="off",
            ),
        )
        with open(self.lab.folder / f"{session}.log", "a") as log:
            client = Client(
                stdio_client(server, errlog=log), mode=mode, message_handler=on_message,
                read_timeout_seconds=ANSWER_SECONDS, elicitation_callback=human,
            )
            async with client:
                client.session_name = session
                yield client
        must("stdout holds JSON-RPC only", not odd, str(odd))

    def roster(self):
        """The bus's presence board, as text."""
        with urllib.request.urlopen(f"{self.bus.url}/roster", timeout=5) as answer:
            return answer.read().decode()

    def agent(self, session=None, **options):
        return Agent(self.lab, self.options.mcp, self.me, self.bus.url, session or self.session(), **options)


async def call(client, name, arguments):
    """('ok' | 'error' | code, text, result) of one call."""
    try:
        result = await client.call_tool(name, arguments)
    except MCPError as error:
        return error.error.code, error.error.message, None
    plain = {
        "content": [part.model_dump() for part in result.content],
        "structuredContent": result.structured_content,
    }
    return ("error" if result.is_error else "ok"), texts(plain), plain


# --- what the server says about itself ---------------------------------------------------------


async def initialize(world, mode):
    async with world.client(mode) as client:
        must("server name", client.server_info.name == "interlink-mcp", client.server_info.name)
        capabilities = client.server_capabilities
        must("offers tools", capabilities.tools is not None)
        must("declares no logging it lacks", capabilities.logging is None)
        tools = (await client.list_tools()).tools
        must("lists tools", len(tools) > 0)


def nodes(schema):
    """Every schema object inside a schema."""
    if isinstance(schema, dict):
        yield schema
        for value in schema.values():
            yield from nodes(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from nodes(value)


def describe(tally, tool):
    """Static checks on one listed tool."""
    name, annotations = tool.name, tool.annotations
    tally.check(f"{name} has a description", bool(tool.description))
    tally.check(f"{name} has an object inputSchema", tool.input_schema.get("type") == "object")
    tally.check(f"{name} has an outputSchema", (tool.output_schema or {}).get("type") == "object")
    # Absent is how an optional parameter is optional: unions with null draw warnings from hosts.
    unions = [n["type"] for n in nodes(tool.input_schema) if isinstance(n.get("type"), list)]
    unions += [n for n in nodes(tool.input_schema) if n.get("type") == "null"]
    tally.check(f"{name} has plain parameter types", not unions, str(unions))
    undescribed = [
        key for key, value in tool.input_schema.get("properties", {}).items()
        if not resolve(tool.input_schema, value).get("description") and not value.get("description")
    ]
    tally.check(f"{name} describes its parameters", not undescribed, str(undescribed))
    hints = annotations and {
        "readOnly": annotations.read_only_hint, "destructive": annotations.destructive_hint,
        "openWorld": annotations.open_world_hint,
    }
    complete = bool(hints) and hints["readOnly"] is not None and hints["openWorld"] is not None
    complete = complete and (hints["readOnly"] or hints["destructive"] is not None)
    tally.check(f"{name} is annotated", complete, str(hints))
    if name in READS_ONLY:
        tally.check(f"{name} says it only reads", bool(hints) and hints["readOnly"] is True, str(hints))
    if name in WRITES:
        tally.check(f"{name} admits that it writes", bool(hints) and not hints["readOnly"], str(hints))
    if name in ASKS_THE_USER:
        asks = (tool.meta or {}).get("anthropic/requiresUserInteraction")
        tally.check(f"{name} wants the user asked", asks is True, str(tool.meta))
    if name in ALWAYS_LOADED:
        loaded = (tool.meta or {}).get("anthropic/alwaysLoad")
        tally.check(f"{name} is always loaded", loaded is True, str(tool.meta))


# --- good calls ----------------------------------------------------------------------------------


async def good_calls(world, tally, client, tools):
    """Every tool once, in an order in which it has something to do."""
    peer = Agent(world.lab, world.options.mcp, world.peer, world.bus.url, "peer-1")
    hello = sent_id(peer.tool("send_message", to="me", session=client.session_name, text=BODY))
    hello_receipt = {"sender": world.peer.public, "msg_id": hello}
    called, sent = set(), ""

    async def good(name, arguments, wanted=""):
        called.add(name)
        outcome, text, result = await call(client, name, arguments)
        held = outcome == "ok" and wanted in text
        tally.check(f"{name} {arguments} works", held, f"{outcome}: {text[:300]}")
        structured = (result or {}).get("structuredContent")
        schema = tools[name].output_schema if name in tools else None
        try:
            jsonschema.validate(structured, schema if schema else {"type": "object"})
            tally.check(f"{name} answers in its outputSchema", True)
        except jsonschema.ValidationError as problem:
            tally.check(f"{name} answers in its outputSchema", False, problem.message[:200])
        return text, result

    async def refuses(name, arguments):
        """A hook of a host that this server was not started for."""
        called.add(name)
        outcome, text, _ = await call(client, name, arguments)
        tally.check(f"{name} refuses", outcome == INVALID_PARAMS, f"{outcome}: {text[:300]}")

    await good("get_my_session_id", {}, client.session_name)
    thread = "01a2b3c4-0000-7000-8000-000000000001"
    await refuses("bind_claude_session", {"session_id": "c1"})
    await refuses("end_claude_session", {"session_id": "c1"})
    await refuses("bind_codex_session", {"thread_id": thread})
    await refuses("check_codex_inbox", {"thread_id": thread, "stop_hook_active": False})
    hook = {"session_id": client.session_name, "stop_hook_active": False}
    await good("check_claude_inbox", hook, "{}")
    await good("failed_deliveries", {"action": "list"}, "[]")
    await good("set_summary", {"summary": "checking"})
    await good("list_peers", {}, world.peer.public)
    await good("add_peer", {"petname": "spare", "key": world.spare.public})
    await good("list_peers", {}, world.spare.public)
    await good("remove_peer", {"petname": "spare"})
    text, result = await good(
        "send_message",
        {"to": "other", "session": "peer-1", "text": "reply", "task_id": "t", "status": "update",
         "in_reply_to": hello},
    )
    if result:
        sent = sent_id(result)
    await good("list_pending", {})
    await good("discover", {}, world.me.public)
    await good("discover", {"peer": "other"}, "peer-1")
    await good("discover", {"peer": "nobody of that name"})
    # Its own words make it a task that somebody else works on.
    await good("send_message", {"to": "other", "session": "peer-1", "text": "do", "task_id": "t2"})
    await good("list_tasks", {}, "t2")
    await good("cancel_task", {"to": "other", "task_id": "t2", "reason": "never mind"}, "peer-1")
    text, _ = await good("list_tasks", {})
    tally.check("a withdrawn task is not open", "t2" not in text, text[:300])
    await good("list_tasks", {"all": True}, "canceled")
    await good("message_status", {"msg_id": sent}, sent)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        _, _, result = await call(client, "receive_messages", {"limit": 100})
        if result and receipts(result):
            break
        await anyio.sleep(0.05)
    await good("receive_messages", {"limit": 5}, hello)
    await good("conversation_history", {"peer": "other", "limit": 5}, hello)
    await good("acknowledge_messages", {"messages": [hello_receipt]})
    text, result = await good("receive_messages", {})
    tally.check("acknowledging empties the mailbox", hello not in text, text[:300])
    at_peer = await anyio.to_thread.run_sync(
        lambda: wait_until("the reply arrives", lambda: receipts(peer.tool("receive_messages")) or None)
    )
    replies = [receipt for receipt in at_peer if receipt == (world.me.public, sent)]
    tally.check("the peer lists the reply once", len(replies) == 1, str(at_peer))
    peer.close()
    await pairing_calls(world, tally, good)
    await bond_calls(world, tally, client, good)
    uncalled = sorted(set(tools) - called)
    tally.check("no tool goes uncalled", not uncalled, f"add a call for {uncalled}")
    tally.check("every expected tool is listed", called <= set(tools), str(sorted(called - set(tools))))


async def bond_calls(world, tally, client, good):
    """A sealed session with a stranger: words, a file each way, and its end; then one that is joined."""
    other = Agent(
        world.lab, world.options.mcp, world.peer, world.bus.url, "bond-1", INTERLINK_CONSENT="tool",
        INTERLINK_BOND_RELAY=world.relay, INTERLINK_BOND_ROOT=str(world.peer.folder),
        INTERLINK_NOTIFICATIONS="off",
    )

    def tool(name, **arguments):
        return anyio.to_thread.run_sync(lambda: other.tool(name, **arguments))

    async def told(kind):
        """The next event of a kind that this session is told."""
        deadline = time.monotonic() + 40
        while time.monotonic() < deadline:
            _, result = await good("bond_wait", {"timeoutSeconds": 5})
            for event in (result or {}).get("structuredContent", {}).get("events") or []:
                if event["kind"] == kind:
                    return event
        raise CheckFailed(f"never told: {kind}")

    async def offer():
        """The id of the next file that is offered to this session."""
        return (await told("file_offered"))["transfer_id"]

    async def send(name):
        """The stranger offers a file as soon as it may."""
        (world.peer.folder / name).write_text("a file of the stranger's\n")
        deadline = time.monotonic() + 40
        while True:
            try:
                return await tool("bond_send", filepath=name)
            except (CheckFailed, RpcError):
                if time.monotonic() > deadline:
                    raise
                await anyio.sleep(0.5)

    await good("bond_status", {}, "Not connected")
    _, result = await good("bond_connect", {}, "Session Code: ")
    code = result["structuredContent"]["session_code"]
    await tool("bond_join", sessionCode=code)
    await good("bond_status", {}, code)
    await send("one.md")
    one = await offer()
    await good("bond_status", {}, "Secure channel established")
    await good("bond_accept", {"transferId": one}, "File Transfer Accepted")
    await good("bond_message", {"content": "words"}, "Message Sent")
    (world.me.folder / "mine.md").write_text("a file of mine\n")
    await anyio.sleep(10.2)  # what the protocol wants between two sends
    await good("bond_send", {"filepath": "mine.md", "message": "a note"}, "File Sent")
    await send("two.md")
    await good("bond_decline", {"transferId": await offer()}, "File Transfer Declined")
    await good("bond_end", {}, "Session Ended")
    await tool("bond_end")
    result = await tool("bond_connect")
    await good("bond_join", {"sessionCode": result["structuredContent"]["session_code"]}, "joined")
    await good("bond_end", {}, "Session Ended")
    await tool("bond_end")

    # A code to say aloud: words at once, a file that is no text, and how far it is.
    _, result = await good("bond_connect", {"spoken": True}, "Session Code: ")
    code = result["structuredContent"]["session_code"]
    tally.check("a spoken code is digits and words", len(code.split("-")) == 5, code)
    await tool("bond_join", sessionCode=code.upper().replace("-", " "))
    content = bytes(range(256)) * (24 * 1024)
    (world.peer.folder / "large.bin").write_bytes(content)
    deadline = time.monotonic() + 40
    while True:
        try:
            await tool("bond_send", filepath="large.bin")
            break
        except (CheckFailed, RpcError):  # not confirmed yet
            if time.monotonic() > deadline:
                raise
            await anyio.sleep(0.2)
    steps = []

    async def progress(done, total, message):
        steps.append((done, total, message))

    taken = await client.call_tool("bond_accept", {"transferId": await offer()}, progress_callback=progress)
    tally.check("a file of any content is taken", not taken.is_error, str(taken.content)[:300])
    saved = (taken.structured_content or {}).get("path")
    tally.check("it is whole", bool(saved) and Path(saved).read_bytes() == content, str(saved))
    grows = all(one[0] < two[0] for one, two in zip(steps, steps[1:]))
    tally.check("progress is told and only grows", len(steps) > 0 and grows, str(steps))
    ends = steps and steps[-1] == (len(content), len(content), "receiving large.bin")
    tally.check("progress ends with the whole file", bool(ends), str(steps[-1:]))
    for words in ("one", "two"):
        await good("bond_message", {"content": words}, "Message Sent")

    # The two pin each other there, and a file goes without a code.
    await tool("bond_pin")
    await told("pin_asked")
    await good("bond_pin", {}, "Peer Pinned")
    await good("bond_end", {}, "Session Ended")
    await tool("bond_end")
    await good("send_file", {"peer": "other", "session": "bond-1", "filepath": "mine.md"}, "File Offered")
    await good("bond_end", {}, "Session Ended")
    other.close()


async def pairing_calls(world, tally, good):
    """A stranger and this session pair, after a request that is called off and one that is rejected."""
    stranger = Agent(
        world.lab, world.options.mcp, world.spare, world.bus.url, "spare-1", INTERLINK_CONSENT="tool"
    )
    public = world.spare.public

    def asks():
        """The stranger asks anew, and is on the list."""
        stranger.tool("cancel_pair_request", target=world.me.public)
        stranger.tool("request_pair", target=world.me.public, petname="me")

    async def listed():
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            text, result = await good("list_pair_requests", {})
            if result and public in [i["key"] for i in result["structuredContent"]["inbound"]]:
                return True
            await anyio.sleep(0.1)
        return False

    await anyio.to_thread.run_sync(
        lambda: wait_until("the stranger is announced", lambda: "spare-1" in world.roster())
    )
    await good("request_pair", {"target": public, "petname": "spare"}, public)
    await good("pair_status", {"target": "spare"}, "requested")
    await good("cancel_pair_request", {"target": "spare"}, public)
    await anyio.to_thread.run_sync(asks)
    tally.check("a stranger's request is listed", await listed())
    await good("reject_pair", {"fingerprint": public[:8]}, public)
    await anyio.to_thread.run_sync(asks)
    tally.check("a new request after a rejection is listed", await listed())
    await good("accept_pair", {"fingerprint": public[:8], "petname": "spare"}, public)
    await good("pair_status", {"target": "spare"}, "peer")
    await anyio.to_thread.run_sync(
        lambda: wait_until(
            "the stranger trusts", lambda: "peer" in texts(stranger.tool("pair_status", target="me"))
        )
    )
    await good("remove_peer", {"petname": "spare"}, public)
    stranger.close()


async def asks_the_user(world):
    """A form of the official client: its user's yes admits, its host's own no does not."""
    seen = []

    def human(action, content):
        async def answer(context, params):
            seen.append(params)
            return ElicitResult(action=action, content=content)

        return answer

    arguments = {"petname": "spare", "key": world.spare.public}
    async with world.client(consent="auto", human=human("decline", None)) as client:
        outcome, text, result = await call(client, "add_peer", arguments)
        must("a host's own refusal admits nobody", outcome == "error", text)
        command = result["structuredContent"].get("command", "")
        line = f"interlink-admin peers add spare {world.spare.public}"
        must("the line for the terminal is there", command.startswith(line), command)
    async with world.client(consent="auto", human=human("accept", {"decision": "admit"})) as client:
        outcome, text, result = await call(client, "add_peer", arguments)
        must("a user's yes admits", outcome == "ok" and result["structuredContent"]["changed"], text)
        must("the form names the key", world.spare.public in seen[-1].message, seen[-1].message)
    async with world.client(consent="auto", human=human("accept", {"decision": "revoke"})) as client:
        outcome, text, result = await call(client, "remove_peer", {"petname": "spare"})
        must("a user's yes revokes", outcome == "ok" and result["structuredContent"]["removed"], text)
    async with world.client(consent="auto") as client:
        outcome, text, result = await call(client, "add_peer", arguments)
        must("without forms nobody is admitted", outcome == "error", text)


# --- bad calls -----------------------------------------------------------------------------------


def resolve(root, schema):
    while "$ref" in schema:
        target = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        schema = target
    return schema


def accepted_types(root, schema):
    """JSON types that a schema lets through; empty when it says nothing."""
    schema = resolve(root, schema)
    for combined in ("anyOf", "oneOf"):
        if combined in schema:
            return set().union(*(accepted_types(root, each) for each in schema[combined]))
    kind = schema.get("type", [])
    kinds = {kind} if isinstance(kind, str) else set(kind)
    if "enum" in schema or "const" in schema:
        kinds = kinds or {"string"}
    return kinds | ({"integer"} if "number" in kinds else set())


def bad_arguments(tool, good):
    """(why, arguments, must_fail) derived from the tool's own schema."""
    root = tool.input_schema
    required = root.get("required", [])
    for name, schema in root.get("properties", {}).items():
        fine = accepted_types(root, schema)
        for kind, sample in SAMPLES.items():
            number = kind == "integer" and "number" in fine
            if fine and kind not in fine and not number:
                yield f"{name} as {kind}", {**good, name: sample}, True
        if name in required:
            yield f"without {name}", {k: v for k, v in good.items() if k != name}, True
            yield f"{name} null", {**good, name: None}, True
            yield f"{name} alone", {name: good.get(name)}, len(required) > 1
        if "string" in fine:
            yield f"{name} with control characters", {**good, name: "a\u0000b\u001b[2J\u202e"}, False
            yield f"{name} of 3 MiB", {**good, name: "x" * (3 << 20)}, name in ("text",)
        if "integer" in fine:
            for number in (-1, 2**63, 2**64, 10**30):
                yield f"{name} = {number}", {**good, name: number}, True
        if "array" in fine:
            for items in ([], [None], [{}], [[]], [{"sender": 1, "msg_id": 2}], [{"sender": "x"}]):
                yield f"{name} = {items}", {**good, name: items}, True
    yield "an unknown field", {**good, "no_such_field": {"deep": [[[[1]]]]}}, False


def refused(outcome):
    return outcome in ("error", INVALID_PARAMS)


def answered(outcome):
    """Well-typed arguments: any outcome, as long as it is one of the documented ones."""
    return outcome in ("ok", INTERNAL_ERROR) or refused(outcome)


async def bad_calls(world, tally, tools):
    unknown = "0" * 32
    good = {
        "send_message": {"to": "other", "session": "nobody", "text": "x"},
        "message_status": {"msg_id": unknown},
        "conversation_history": {"peer": "other"},
        "acknowledge_messages": {"messages": [{"sender": world.peer.public, "msg_id": unknown}]},
        "add_peer": {"petname": "spare", "key": world.spare.public},
        "remove_peer": {"petname": "nobody"},
        "set_summary": {"summary": "x"},
        "cancel_task": {"to": "other", "session": "nobody", "task_id": "x"},
        "request_pair": {"target": world.spare.public},
        "accept_pair": {"fingerprint": "nobody00"},
        "reject_pair": {"fingerprint": "nobody00"},
        "cancel_pair_request": {"target": "nobody"},
        "pair_status": {"target": "nobody"},
    }
    for name, tool in sorted(tools.items()):
        async with world.client() as client:
            count = 0
            for why, arguments, must_fail in bad_arguments(tool, good.get(name, {})):
                if any(isinstance(v, str) and len(v) > 1 << 20 for v in arguments.values()):
                    # A line over the server's limit may end the connection, not the process's data.
                    await oversize(world, tally, name, why, arguments)
                    continue
                outcome, text, _ = await call(client, name, arguments)
                held = refused(outcome) if must_fail else answered(outcome)
                tally.check(f"{name} with {why}", held, f"{outcome}: {text[:200]}")
                count += 1
            with anyio.fail_after(ANSWER_SECONDS):
                await client.send_ping()
            print(f"ok   {name}: {count} malformed calls answered, still there", flush=True)
    async with world.client() as client:
        outcome, text, _ = await call(client, "no_such_tool", {})
        tally.check("an unknown tool is refused", refused(outcome) or outcome == METHOD_NOT_FOUND, text)
        await client.send_ping()


async def oversize(world, tally, name, why, arguments):
    """Too large a request: refused, or the connection closed; never accepted, never a hang."""
    agent = world.agent()
    try:
        result = await anyio.to_thread.run_sync(
            lambda: agent.request("tools/call", {"name": name, "arguments": arguments})
        )
        outcome = "error" if result.get("isError") else "ok"
    except RpcError as error:
        outcome = error.code
    except CheckFailed:
        outcome = "closed" if agent.process.poll() is not None else "hangs"
    agent.close()
    fine = (refused(outcome) or outcome in ("closed", -32600, -32700)) if name == "send_message" else outcome != "hangs"
    tally.check(f"{name} with {why}", fine, str(outcome))


# --- before and beside the protocol --------------------------------------------------------------

FULL_PROBE = {
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "probe", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {
            "roots": {"listChanged": True}, "elicitation": {"form": {}, "url": {}},
        },
    }
}


def usable(agent):
    """The connection still completes a handshake and lists tools."""
    agent.handshake()
    must("tools are listed", agent.request("tools/list", {})["tools"])


def finish(agent):
    """End of input: exit 0, nothing but JSON-RPC on stdout."""
    status = agent.close()
    must("exits with 0 at end of input", status == 0, f"exited {status}")
    must("stdout holds JSON-RPC only", not agent.stray, str(agent.stray[:3]))


def code_of(agent, method, params, request_id=None):
    try:
        agent.request(method, params, request_id=request_id)
    except RpcError as error:
        return error.code
    return "a result"


def probe_before_initialize(world):
    agent = world.agent(handshake=False)
    for params, number in ((FULL_PROBE, "server-discover-probe-1"), ({}, 2), (None, 3), (FULL_PROBE, 0)):
        code = code_of(agent, "server/discover", params, number)
        must(f"server/discover {params} before initialize", code == METHOD_NOT_FOUND, str(code))
    usable(agent)
    code = code_of(agent, "server/discover", FULL_PROBE)
    must("server/discover after initialize", code == METHOD_NOT_FOUND, str(code))
    finish(agent)


def cancel_before_initialize(world):
    agent = world.agent(handshake=False)
    for params in ({"requestId": 99, "reason": "too slow"}, {"requestId": "server-discover-probe-1"}):
        agent.notify("notifications/cancelled", params)
    code = code_of(agent, "server/discover", {}, "server-discover-probe-1")
    must("server/discover after a cancellation", code == METHOD_NOT_FOUND, str(code))
    agent.notify("notifications/cancelled", {"requestId": "server-discover-probe-1"})
    usable(agent)
    agent.notify("notifications/cancelled", {"requestId": 12345})
    agent.request("ping")
    finish(agent)


def ping_before_initialize(world):
    agent = world.agent(handshake=False)
    agent.request("ping")
    usable(agent)
    finish(agent)


def odd_lines(world):
    agent = world.agent(RUST_LOG="trace")
    lines = [
        b"\n", b"   \n", b"not json\n", b"{\n", b"[]\n", b"null\n", b"7\n", b'"text"\n', b"\xff\xfe\x00\n",
        b'{"jsonrpc":"1.0","id":1,"method":"ping"}\n', b'{"jsonrpc":"2.0"}\n',
        b'{"jsonrpc":"2.0","id":{},"method":"ping"}\n',
        b'{"jsonrpc":"2.0","id":5,"result":{}}\n', b'{"jsonrpc":"2.0","id":6,"error":{"code":1}}\n',
        b'[{"jsonrpc":"2.0","id":8,"method":"ping"}]\n', b'{"jsonrpc":"2.0","method":"no/such"}\n',
        b"{" * 5000 + b"\n", b"[" * 5000 + b"\n",
    ]
    for number, line in enumerate(lines):
        agent.raw(line)
        agent.request("ping", request_id=f"after-{number}")
    for number, arguments in enumerate(([], "x", 7, True, [[1]])):
        call_with = {"name": "list_peers", "arguments": arguments}
        code = code_of(agent, "tools/call", call_with, f"args-{number}")
        must(f"arguments {arguments!r} refused", code in MISSHAPEN, str(code))
    code = code_of(agent, "tools/call", {"arguments": {}}, "nameless")
    must("a call without a name is refused", code in MISSHAPEN, str(code))
    for method in ("no/such", "logging/setLevel"):
        code = code_of(agent, method, {"level": "debug"})
        must(f"{method} is unknown", code == METHOD_NOT_FOUND, str(code))
    agent.request("tools/list", {})
    finish(agent)


def ends_on_signal(world):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        agent = world.agent()
        agent.tool("set_summary", summary="about to end")
        wait_until("the session is announced", lambda: agent.session in world.roster())
        began = time.monotonic()
        agent.process.send_signal(number)
        try:
            agent.process.wait(5)
        except subprocess.TimeoutExpired as problem:
            raise CheckFailed(f"still there 5 s after {number.name}, stdin open") from problem
        took = time.monotonic() - began
        agent.close()
        must("ends within half a second, doubled for a busy machine", took < 1.0, f"{took:.2f} s")


def keeps_secrets(world):
    """No key and no body in any log, at the most talkative level."""
    secrets = {"body": BODY}
    for who in (world.me, world.peer):
        secrets[f"key of {who.folder.name}"] = who.path.read_text().strip()
    logs = sorted(world.lab.folder.rglob("*.log"))
    traced = sum(log.stat().st_size for log in logs)
    must("the logs hold something", traced > 0)
    for log in logs:
        text = log.read_text(errors="replace")
        told = [what for what, secret in secrets.items() if secret in text]
        must(f"{log.name} tells no secret", not told, str(told))


async def sync(step, world):
    await anyio.to_thread.run_sync(step, world)


async def judge(world, tally):
    await tally.run("initialize, legacy", initialize(world, "legacy"))
    await tally.run("initialize after the client's own probe", initialize(world, "auto"))
    for step in (
        probe_before_initialize, cancel_before_initialize, ping_before_initialize, odd_lines,
        ends_on_signal,
    ):
        await tally.run(step.__name__.replace("_", " "), sync(step, world))

    tools = {}

    async def listing():
        async with world.client() as client:
            for tool in (await client.list_tools()).tools:
                tools[tool.name] = tool
                describe(tally, tool)

    async def calling():
        async with world.client() as client:
            await good_calls(world, tally, client, tools)

    await tally.run("list tools", listing())
    await tally.run("call every tool", calling())
    await tally.run("asks the user", asks_the_user(world))
    await tally.run("malformed calls", bad_calls(world, tally, tools))
    await tally.run("keeps secrets", sync(keeps_secrets, world))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=Path, required=True, help="folder of the programs")
    options = parser.parse_args()
    folder = options.programs.resolve()
    options.bus, options.mcp = str(folder / "interlink-bus"), str(folder / "interlink-mcp")
    options.keygen = str(folder / "interlink-keygen")
    tally = Tally()
    with Lab("mcp-client") as lab:
        world = World(lab, options)
        anyio.run(judge, world, tally)
        if tally.failed:
            lab.print_logs()
    print(f"mcp client: {tally.passed} passed, {tally.failed} failed")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
