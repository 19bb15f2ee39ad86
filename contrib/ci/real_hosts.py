#!/usr/bin/env python3
"""Real coding agents against a scripted model on loopback.

Claude Code and Codex run in a pseudo-terminal, in a throw-away home, wired by `interlink-mcp setup`,
by the plugin, or by the commands of README. Their model is a server of this script: it says "ok" to
prompts, does what a few phrases ask, and follows an inbox notice by calling receive_messages and
answering. A way to wake a session works when the text of the peer's message comes back to the model
as a result of that call, and the answer reaches the peer: no rule but those of `setup --allow` lets
the tools run.

    real_hosts.py BIN_DIR NODE_MODULES [TEST...]
"""

import json
import os
import re
import subprocess
import sys

from real_world import ANSWER, SECRET, Terminal, World


def claude_home(world, work=None):
    key = "sk-ant-" + "x" * 40
    path = world.home + "/.claude.json"
    config = {}
    if os.path.exists(path):
        with open(path) as f:
            config = json.load(f)
    config.update({
        "hasCompletedOnboarding": True, "theme": "dark", "numStartups": 5,
        "bypassPermissionsModeAccepted": True,
        "customApiKeyResponses": {"approved": [key[-20:]], "rejected": []},
    })
    config.setdefault("projects", {})[work or world.work] = {
        "hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    with open(path, "w") as f:
        json.dump(config, f)
    return dict(world.env, ANTHROPIC_BASE_URL=world.model.url, ANTHROPIC_API_KEY=key,
                DISABLE_AUTOUPDATER="1", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
                DISABLE_TELEMETRY="1", DISABLE_ERROR_REPORTING="1")


def program_of_claude(world):
    return world.modules + "/@anthropic-ai/claude-code-linux-x64/claude"


def start_claude(world, delivery, *more, work=None):
    env = dict(claude_home(world, work), INTERLINK_CLAUDE_DELIVERY=delivery)
    terminal = Terminal([program_of_claude(world), "--permission-mode", "default", *more],
                        env, work or world.work)
    terminal.until("the prompt", lambda: b"\xe2\x9d\xaf" in terminal.output
                   or b"> " in terminal.output, 40)
    terminal.pump(3)
    return terminal


def prompt(world, terminal, text):
    terminal.type(text)
    terminal.enter()
    terminal.until("the turn of " + text, lambda: world.model.heard(text))


def answered(world, terminal):
    """The peer's words reach the model, and its answer reaches the peer."""
    terminal.until("the peer's words in a result", lambda: world.model.heard(SECRET))
    terminal.until("the answer at the peer", lambda: ANSWER in world.peer.inbox())


def claude(world, delivery):
    # What was written by another hand meanwhile does not hinder a second setup.
    claude_home(world)
    world.setup("claude")
    terminal = start_claude(world, delivery)
    try:
        prompt(world, terminal, "hello there")
        session = terminal.until("the roster", world.session)
        world.peer.send(session, SECRET)
        answered(world, terminal)
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
        prompt(world, terminal, "hello there")
        first = terminal.until("the roster", world.session)
        terminal.pump(2)
        terminal.type("/clear")
        terminal.enter()
        terminal.pump(2)
        prompt(world, terminal, "hello again")
        second = terminal.until("the new session", lambda: world.session(old=(first,)))
        world.peer.send(second, SECRET)
        answered(world, terminal)
    finally:
        terminal.close()


def claude_plugin(world):
    """The plugin of this checkout validates, loads, wakes and answers."""
    here = os.path.dirname(os.path.abspath(__file__)) + "/../claude-plugin"
    env = claude_home(world)
    for what in (here, here + "/plugin"):
        done = subprocess.run([program_of_claude(world), "plugin", "validate", what], env=env,
                              cwd=world.work, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
    tools = ["receive_messages", "acknowledge_messages", "message_status", "send_message"]
    rules = ["mcp__plugin_interlink_interlink__" + tool for tool in tools]
    os.makedirs(world.home + "/.claude", exist_ok=True)
    with open(world.home + "/.claude/settings.json", "w") as f:
        json.dump({"permissions": {"allow": rules}}, f)
    world.env["INTERLINK_URL"] = world.bus_url
    terminal = start_claude(world, "inbox", "--plugin-dir", here + "/plugin")
    try:
        prompt(world, terminal, "hello there")
        session = terminal.until("the roster", world.session)
        world.peer.send(session, SECRET)
        answered(world, terminal)
        assert world.model.heard("notified via listener"), "it was not the listener that woke"
    finally:
        terminal.close()


def listed(world, key):
    with open(world.home + "/.config/interlink/peers.json") as f:
        return key in f.read()


def claude_form(world):
    """A form of the host admits a peer; an answer to it that is no leaves the list as it is."""
    key = world.keygen(world.dir)
    world.model.script["admit the newcomer"] = ("add_peer", {"petname": "newcomer", "key": key})
    terminal = start_claude(world, "inbox")
    try:
        prompt(world, terminal, "admit the newcomer")
        terminal.until("the question of the host", lambda: "proceed?" in terminal.screen(), 30)
        terminal.enter()
        terminal.until("the form", lambda: "Your decision" in terminal.screen(), 30)
        # What is to be compared is shown, not folded away.
        form = terminal.shown().split("requestsyourinput")[-1]
        assert f"Key:{key}Fingerprint:{key[:8]}" in form, form
        assert "newcomer" in form, form
        assert not listed(world, key)
        right, down = b"\x1b[C", b"\x1b[B"
        terminal.keys(right, down, b" ", down, b"\r")
        terminal.until("the list", lambda: listed(world, key), 20)
    finally:
        terminal.close()


def readme(world):
    """Every command of README's five minutes, by two real sessions of Claude Code."""
    with open(os.path.dirname(os.path.abspath(__file__)) + "/../../README.md") as f:
        part = f.read().split("## Five minutes")[1].split("\n## ")[0]
    blocks = [[line.strip() for line in block.strip().split("\n")]
              for block in re.findall(r"```sh\n(.*?)```", part, re.S)]
    install, bus, keys, trust, wire, look = blocks
    assert install == ["cargo install --path ."], install
    world.env.update(INTERLINK_ADDR=f"127.0.0.1:{world.port}", INTERLINK_URL=world.bus_url)
    world.start_bus(bus[0].split())
    folders = [world.work, world.dir + "/b"]
    os.mkdir(folders[1])

    def sh(line, folder=world.work):
        done = subprocess.run(["sh", "-c", line], env=world.env, cwd=folder, capture_output=True,
                              text=True)
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
        return done.stdout

    public = [re.search(r"public key : (\S+)", sh(line)).group(1) for line in keys]
    for line in trust:
        sh(line.replace("<public key of A>", public[0]).replace("<public key of B>", public[1]))
    for line, folder in zip(wire, folders, strict=True):
        sh(line, folder)
        sh("interlink-mcp doctor", folder)
    wish = "send bob a message saying hello"
    assert wish in part
    world.model.script[wish] = ("send_message", {"to": "bob", "text": SECRET})
    sessions = []
    try:
        for key, folder in zip(public, folders):
            world.key = key
            terminal = start_claude(world, "inbox", work=folder)
            sessions.append(terminal)
            # The third of three answers, "without it", is the one that Claude Code proposes.
            terminal.until("the question of the host",
                           lambda: "New MCP server found" in terminal.screen(), 20)
            terminal.keys(b"\x1b[A", b"\x1b[A", b"\r")
            terminal.pump(4)
            prompt(world, terminal, "hi from " + os.path.basename(folder))
            terminal.until("the roster", world.session)
        prompt(world, sessions[0], wish)
        sessions[1].until("the message in a result", lambda: world.model.heard(SECRET))
        sessions[1].until("its reading", lambda: world.model.heard("notified via listener"))
    finally:
        for terminal in sessions:
            terminal.close()
    for line in look:
        assert sh(line).strip(), line


def start_codex(world, policy):
    """Codex in its terminal, after its first turn; how to end it."""
    path = world.home + "/.codex/config.toml"
    with open(path) as f:
        wired = f.read()
    program = world.modules + "/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"
    with open(path, "w") as f:
        f.write(f'model = "scripted"\nmodel_provider = "scripted"\napproval_policy = "{policy}"\n'
                'check_for_update_on_startup = false\n\n'
                '[model_providers.scripted]\nname = "scripted"\nwire_api = "responses"\n'
                f'base_url = "{world.model.url}/v1"\nenv_key = "SCRIPTED_KEY"\n\n'
                f'[projects."{world.work}"]\ntrust_level = "trusted"\n\n' + wired)
    world.env.update(SCRIPTED_KEY="x", CODEX_HOME=world.home + "/.codex")
    # A second setup finds its block, and says where codex is.
    world.setup("codex", "--codex-bin", program)
    terminal = Terminal([program, "--dangerously-bypass-hook-trust"], world.env, world.work)

    def end():
        terminal.close()
        subprocess.run([program, "daemon", "stop"], env=world.env, capture_output=True, timeout=20)

    try:
        terminal.pump(8)
        prompt(world, terminal, "ask for the id")
    except BaseException:
        end()
        raise
    return terminal, end


def codex_queue(world):
    """A notice queued by `codex queue` begins a turn; it answers though nobody can approve."""
    terminal, end = start_codex(world, "never")
    try:
        session = terminal.until("the roster", world.session)
        terminal.pump(3)
        world.peer.send(session, SECRET)
        answered(world, terminal)
        assert world.model.heard("notified via codex queue"), "it was not the queue that woke"
    finally:
        end()


def codex_form(world):
    """The form of Codex shows the key and admits a peer."""
    key = world.keygen(world.dir)
    world.model.script["admit the newcomer"] = ("add_peer", {"petname": "newcomer", "key": key})
    terminal, end = start_codex(world, "on-request")
    try:
        terminal.until("the roster", world.session)
        terminal.pump(3)
        prompt(world, terminal, "admit the newcomer")
        terminal.until("the question of the host",
                       lambda: "AllowtheinterlinkMCPserver" in terminal.shown(), 30)
        terminal.enter()
        terminal.until("the form", lambda: "Yourdecision" in terminal.shown(), 30)
        form = terminal.shown().split("Letthispeerwritetoyouragent?")[-1]
        for what in (f"Key:{key}", f"Fingerprint:{key[:8]}", "newcomer"):
            assert what in form, form
        assert not listed(world, key)
        terminal.keys(b"\x1b[B", b"\r")
        terminal.until("the list", lambda: listed(world, key), 20)
    finally:
        end()


TESTS = {
    "readme": ("readme", readme),
    "claude-listener": ("claude", claude_listener),
    "claude-socket": ("claude", claude_socket),
    "claude-clear": ("claude", claude_clear),
    "claude-plugin": ("plugin", claude_plugin),
    "claude-form": ("claude", claude_form),
    "codex-queue": ("codex", codex_queue),
    "codex-form": ("codex", codex_form),
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
