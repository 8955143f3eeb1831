"""The connection itself: bad lines, bad requests, an editor that leaves."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import anyio
import pytest
from acp_editor import ARGV, Editor, Refused, Workshop, appears, bash

pytestmark = pytest.mark.anyio


def codes(editor: Editor) -> list[int]:
    return [m["error"]["code"] for m in editor.heard if "error" in m and m.get("id") is None]


@pytest.mark.spec("J1")
async def test_bad_lines_have_their_codes_and_the_next_one_is_read(shop: Workshop) -> None:
    shop.play(["hi"])
    async with shop.editor(hello=False) as editor:
        for line in (b"{nonsense", b"[1, 2]", b'"text"', b"\xff\xfe", b"{}", b'{"jsonrpc":"2.0","id":{},"method":"x"}'):
            await editor.write(line)
        with pytest.raises(Refused) as early:
            await editor.call("session/new", cwd="/", mcpServers=[])
        assert early.value.code == -32600
        await editor.call("initialize", protocolVersion=1)
        with pytest.raises(Refused) as unknown:
            await editor.call("no/such")
        assert unknown.value.code == -32601
        await editor.notify("no/such/notice", x=1)
        await editor.notify("session/cancel", sessionId=7)
        with pytest.raises(Refused) as wrong:
            await editor.call("session/new", cwd=7)
        assert wrong.value.code == -32602
        assert codes(editor) == [-32700, -32600, -32600, -32700, -32600, -32600]
        assert await editor.prompt(await editor.new(shop.project), "go") == "end_turn"


@pytest.mark.spec("J1")
async def test_an_id_that_is_given_twice_harms_nobody(shop: Workshop) -> None:
    shop.play(["hi"])
    async with shop.editor() as editor:
        session = await editor.new(shop.project)
        for _ in range(2):
            params = {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]}
            line = {"jsonrpc": "2.0", "id": "twice", "method": "session/prompt", "params": params}
            await editor.write(json.dumps(line).encode())
        await editor.until(lambda e: len([m for m in e.heard if m.get("id") == "twice"]) == 2)
        assert await editor.prompt(session, "go") == "end_turn"


@pytest.mark.spec("J1", "J12")
async def test_a_cancel_that_cannot_be_read_harms_nobody(shop: Workshop) -> None:
    shop.play(["hi"])
    async with shop.editor() as editor:
        session = await editor.new(shop.project)
        deep = b'{"requestId": 1, "more": ' + b"[" * 9_000 + b"]" * 9_000 + b"}"
        for params in (b'{"requestId": "\xff"}', deep, b"7", b"null", b'{"requestId": {}}', b'{"requestId": 99}'):
            await editor.write(b'{"jsonrpc":"2.0","method":"$/cancel_request","params":' + params + b"}")
        assert await editor.prompt(session, "go") == "end_turn"


@pytest.mark.spec("J1")
async def test_a_line_that_is_too_long_is_left_out(shop: Workshop) -> None:
    shop.play(["hi"])
    async with shop.editor() as editor:
        piece = b"x" * (1 << 20)
        assert editor.process.stdin is not None
        for _ in range(66):
            await editor.process.stdin.send(piece)
        await editor.write(b"")
        session = await editor.new(shop.project)
        assert codes(editor) == [-32600]
        big = "word " * 200_000
        assert await editor.prompt(session, big) == "end_turn"


@pytest.mark.spec("J1")
async def test_only_protocol_lines_reach_the_editor(shop: Workshop) -> None:
    """A hook that prints and a command that writes to every pipe it can find."""
    hook = {"hooks": [{"type": "command", "command": "echo from-a-hook; echo noise >&2"}]}
    (shop.project / ".claude").mkdir()
    (shop.project / ".claude" / "settings.json").write_text(json.dumps({"hooks": {"PreToolUse": [hook]}}))
    shop.play([bash("echo loud; for n in 1 2 3 4 5 6 7 8 9; do echo stray >&$n; done 2>/dev/null; true"), "done"])
    async with shop.editor() as editor:
        assert await editor.prompt(await editor.new(shop.project), "go") == "end_turn"
        assert all(m.get("jsonrpc") == "2.0" for m in editor.heard)


@pytest.mark.spec("J2")
async def test_initialize_is_quick_and_needs_nothing(shop: Workshop) -> None:
    """Without a model, and from a directory that cannot be read as a project; our newest version is 1."""
    async with shop.editor(model=False, trust=False, hello=False) as editor:
        info = await editor.call("initialize", protocolVersion=99)
        assert info["protocolVersion"] == 1 and info["agentInfo"]["name"] == "teamwright"
        assert "--model" in info["authMethods"][0]["description"]
        again = await editor.call("initialize", protocolVersion=2)
        assert again["protocolVersion"] == 1


@pytest.mark.spec("J2")
def test_the_application_is_not_imported_before_initialize_is_answered() -> None:
    check = "import sys; import teamwright.surfaces.acp.run; print('teamwright.app' in sys.modules)"
    ran = subprocess.run([ARGV[0], "-c", check], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == "False"


@pytest.mark.spec("J3")
async def test_without_a_model_there_is_a_sentence_with_three_ways(shop: Workshop) -> None:
    async with shop.editor(model=False) as editor:
        for method in ("session/new", "authenticate"):
            with pytest.raises(Refused) as refused:
                await editor.call(method, cwd=str(shop.project), mcpServers=[], methodId="model")
            assert refused.value.code == -32000
            assert all(way in str(refused.value) for way in ("ANTHROPIC_API_KEY", "OPENAI_BASE_URL", "--model"))


@pytest.mark.spec("J29")
async def test_an_editor_that_goes_leaves_nothing_running(shop: Workshop) -> None:
    shop.play([bash("echo $$ > pid; sleep 300"), "never"])
    async with shop.editor("--permission-mode", "bypassPermissions") as editor:
        await editor.prompting(await editor.new(shop.project), "go")
        pid = int(await appears(shop.project / "pid"))
        began = time.monotonic()
        assert editor.process.stdin is not None
        await editor.process.stdin.aclose()
        assert await editor.ended() == 0 and time.monotonic() - began < 6
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.spec("J29")
async def test_a_signal_ends_it_in_order(shop: Workshop) -> None:
    shop.play([bash("echo $$ > pid; sleep 300"), "never"])
    async with shop.editor("--permission-mode", "bypassPermissions") as editor:
        session = await editor.new(shop.project)
        await editor.prompting(session, "go")
        pid = int(await appears(shop.project / "pid"))
        editor.process.send_signal(signal.SIGTERM)
        assert await editor.ended() == 143
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.spec("J29")
async def test_an_editor_that_does_not_listen_any_more_is_left(shop: Workshop) -> None:
    """Its end of our output is closed while the input stays open."""
    shop.play([bash("sleep 0.3; echo more"), "done"])
    with shop.errors.open("ab") as errors:
        process = subprocess.Popen(
            [*ARGV, *shop.model, "--trust"],
            cwd=shop.project,
            env=shop.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    assert process.stdin and process.stdout
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
    process.stdin.write(json.dumps(hello).encode() + b"\n")
    process.stdin.flush()
    await anyio.to_thread.run_sync(process.stdout.readline)
    process.stdout.close()
    new = {"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": str(shop.project), "mcpServers": []}}
    process.stdin.write(json.dumps(new).encode() + b"\n")
    process.stdin.flush()
    assert await anyio.to_thread.run_sync(lambda: process.wait(20)) == 0
    process.stdin.close()


@pytest.mark.spec("J6")
def test_a_slow_reader_loses_nothing(shop: Workshop) -> None:
    """While it does not read at all, more words come than are queued for it."""
    words = "0123456789 " * 1_000_000
    shop.play([words])
    with shop.errors.open("ab") as errors:
        process = subprocess.Popen(
            [*ARGV, *shop.model, "--trust"],
            cwd=shop.project,
            env=shop.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    assert process.stdin and process.stdout
    asked = [
        ("initialize", {"protocolVersion": 1}),
        ("session/new", {"cwd": str(shop.project), "mcpServers": []}),
        ("session/prompt", {"prompt": [{"type": "text", "text": "go"}]}),
    ]
    told, session = list[str](), ""
    for id, (method, params) in enumerate(asked):
        named = params | ({"sessionId": session} if session else {})
        process.stdin.write(
            json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": named}).encode() + b"\n"
        )
        process.stdin.flush()
        if method == "session/prompt":
            transcript = (shop.home / ".teamwright" / "projects").rglob("*.jsonl")
            wait_until_long(next(iter(transcript)), len(words))
        while (message := json.loads(process.stdout.readline())).get("id") != id:
            update = message["params"]["update"]
            told += [update["content"]["text"]] if update["sessionUpdate"] == "agent_message_chunk" else []
        session = session or message["result"].get("sessionId", "")
    assert "".join(told) == words and message["result"]["stopReason"] == "end_turn"
    process.stdin.close()
    assert process.wait(20) == 0
    process.stdout.close()


def wait_until_long(path: Path, size: int) -> None:
    """Wait until the transcript has the reply: all of it was said while nobody read."""
    limit = time.monotonic() + 60
    while path.stat().st_size < size:
        assert time.monotonic() < limit
        time.sleep(0.02)
