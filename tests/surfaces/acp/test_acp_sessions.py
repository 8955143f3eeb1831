"""Sessions of the store in the editor: listed, loaded, shared with a terminal, after a kill."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from acp_editor import Refused, Workshop, agent, appears, bash, tool

pytestmark = pytest.mark.anyio
UNASKED = ("--permission-mode", "bypassPermissions")
GO_ON = ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call")


def again(session: str, shop: Workshop) -> dict[str, Any]:
    return {"sessionId": session, "cwd": str(shop.project), "mcpServers": []}


@pytest.mark.spec("J23")
async def test_sessions_are_listed_in_pages(shop: Workshop) -> None:
    """The sessions of a directory or of all, newest first, and none without words."""
    shop.play(["hi"])
    other = shop.home / "other"
    other.mkdir()
    async with shop.editor() as editor:
        await editor.new(shop.project)
        ids = []
        for n in range(3):
            ids.append(await editor.new(shop.project))
            await editor.prompt(ids[-1], f"prompt {n}")
        elsewhere = await editor.new(other)
        await editor.prompt(elsewhere, "over there")
        listed = (await editor.call("session/list", cwd=str(shop.project)))["sessions"]
        assert [e["sessionId"] for e in listed] == ids[::-1]
        assert [e["title"] for e in listed] == ["prompt 2", "prompt 1", "prompt 0"]
        everything = (await editor.call("session/list"))["sessions"]
        assert everything[0]["sessionId"] == elsewhere and everything[0]["cwd"] == str(other)
        with pytest.raises(Refused) as refused:
            await editor.call("session/list", cursor="nonsense")
        assert refused.value.code == -32602


@pytest.mark.spec("J23")
async def test_a_title_is_what_the_person_said_without_what_was_attached(shop: Workshop) -> None:
    shop.play(["hi"])
    attached = {"type": "resource", "resource": {"uri": "file:///notes.txt", "text": "all of the notes"}}
    async with shop.editor() as editor:
        await editor.prompt(await editor.new(shop.project), attached, "sum this up")
        assert (await editor.call("session/list"))["sessions"][0]["title"] == "sum this up"


@pytest.mark.spec("J23")
async def test_a_long_list_has_pages(shop: Workshop) -> None:
    shop.play(["hi"])
    async with shop.editor() as editor:
        session = await editor.new(shop.project)
        await editor.prompt(session, "go")
        transcript = next((shop.home / ".teamwright" / "projects").rglob(f"{session}.jsonl"))
        for n in range(60):
            transcript.with_name(f"00000000-0000-4000-8000-{n:012}.jsonl").write_bytes(transcript.read_bytes())
        first = await editor.call("session/list", cwd=str(shop.project))
        second = await editor.call("session/list", cwd=str(shop.project), cursor=first["nextCursor"])
        found = [e["sessionId"] for page in (first, second) for e in page["sessions"]]
        assert len(first["sessions"]) == 50 and len(found) == len(set(found)) == 61 and "nextCursor" not in second


@pytest.mark.spec("J24")
async def test_a_session_is_loaded_with_all_that_was_said(shop: Workshop) -> None:
    path = shop.project / "a.txt"
    steps = [["before it", bash("echo in-history")], tool("Write", file_path=str(path), content="x\n"), "after it"]
    shop.play({"main": [[{"thinking": "hm"}, *steps[0]], *steps[1:]], "more": ["goes on"]})
    async with shop.editor(*UNASKED) as editor:
        session = await editor.new(shop.project)
        await editor.prompt(session, "the first words")
        live = [u["messageId"] for u in editor.updates(session, "agent_message_chunk")]
    async with shop.editor(*UNASKED) as later:
        state = await later.call("session/load", **again(session, shop))
        assert state["modes"]["currentModeId"] == "bypassPermissions"
        told = [u for u in later.updates(session) if u["sessionUpdate"] in GO_ON]
        kinds = ["user", "agent_thought", "agent", "tool_call", "tool_call", "agent"]
        assert [u["sessionUpdate"].removesuffix("_message_chunk").removesuffix("_chunk") for u in told] == kinds
        assert "in-history" in told[3]["content"][0]["content"]["text"] and told[3]["status"] == "completed"
        assert told[4]["content"] == [{"type": "diff", "path": str(path), "oldText": None, "newText": "x\n"}]
        assert list(dict.fromkeys(live)) == [told[2]["messageId"], told[5]["messageId"]]
        answered = next(n for n, m in enumerate(later.heard) if "modes" in m.get("result", {}))
        assert all("user_message_chunk" not in json.dumps(m) for m in later.heard[answered:])
        assert await later.prompt(session, "SCRIPT:more") == "end_turn" and later.text(session).endswith("goes on")


@pytest.mark.spec("J25")
async def test_resume_close_fork_and_delete(shop: Workshop) -> None:
    shop.play({"main": ["remember it"], "more": ["goes on"]})
    async with shop.editor() as editor:
        session = await editor.new(shop.project)
        await editor.prompt(session, "go")
        assert await editor.call("session/close", sessionId=session) == {}
        with pytest.raises(Refused) as closed:
            await editor.prompt(session, "go")
        assert closed.value.code == -32002
        before = len(editor.updates(session, "agent_message_chunk"))
        await editor.call("session/resume", **again(session, shop))
        assert len(editor.updates(session, "agent_message_chunk")) == before
        assert await editor.prompt(session, "SCRIPT:more") == "end_turn"
        copy = (await editor.call("session/fork", **again(session, shop)))["sessionId"]
        assert copy != session and await editor.prompt(copy, "SCRIPT:more") == "end_turn"
        for id in (session, copy, copy, "3f2a0000-0000-4000-8000-000000000000"):
            assert await editor.call("session/delete", sessionId=id) == {}
        assert (await editor.call("session/list"))["sessions"] == []
        with pytest.raises(Refused) as gone:
            await editor.call("session/load", **again(session, shop))
        assert gone.value.code == -32002
        with pytest.raises(Refused):
            await editor.call("session/load", **again("../../etc/passwd", shop))


def start(shop: Workshop, *args: str) -> "subprocess.Popen[bytes]":
    argv = [sys.executable, "-m", "teamwright", "-p", "go", *shop.model, "--trust", "--output-format", "stream-json"]
    with shop.errors.open("ab") as errors:
        return subprocess.Popen([*argv, *args], cwd=shop.project, env=shop.env, stdout=errors, stderr=errors)


async def the_session(shop: Workshop) -> str:
    """The session that somebody else has begun, once it listens."""
    run = shop.home / ".teamwright" / "run"
    with anyio.fail_after(30):
        while not (found := list(run.glob("session-*.door")) if run.exists() else []):
            await anyio.sleep(0.02)
    return found[0].stem.removeprefix("session-")


@pytest.mark.spec("J26", "J15")
async def test_a_session_of_a_terminal_is_open_in_the_editor_as_well(shop: Workshop) -> None:
    """The editor shows what happens there, a question can be answered here, and a prompt from here is answered."""
    wait = bash("for n in $(seq 800); do [ -e joined ] && break; sleep 0.02; done")
    shop.play({"main": [wait, ["hello from there", bash("touch answered")], "done there"], "here": ["said here"]})
    settings = json.dumps({"permissions": {"allow": [f"Bash({wait['input']['command']})"]}})
    process = start(shop, "--listen", "--settings", settings)
    try:
        session = await the_session(shop)
        async with shop.editor() as editor:
            await editor.until(lambda e: True)
            await editor.call("session/load", **again(session, shop))
            prompt = await editor.prompting(session, "SCRIPT:here")
            (shop.project / "joined").touch()
            await editor.until(lambda e: "hello from there" in e.text(session) or "said here" in e.text(session))
            assert (await prompt.result())["stopReason"] == "end_turn"
    finally:
        process.kill()
        process.wait()


@pytest.mark.spec("J26")
async def test_a_question_of_there_is_answered_here(shop: Workshop) -> None:
    shop.play([bash("touch answered"), "done there"])
    process = start(shop, "--listen")
    try:
        session = await the_session(shop)
        async with shop.editor() as editor:
            await editor.call("session/load", **again(session, shop))
            await editor.until(lambda e: "done there" in e.text(session))
            assert len(editor.asked) == 1 and (shop.project / "answered").exists()
    finally:
        process.kill()
        process.wait()


@pytest.mark.spec("J26", "J15")
async def test_a_session_of_the_editor_is_open_for_others(shop: Workshop) -> None:
    """A second editor is a guest like a terminal: the first one shows its prompt as somebody else's."""
    shop.play({"main": ["hi"], "more": ["for both"]})
    async with shop.editor() as editor:
        session = await editor.new(shop.project)
        await editor.prompt(session, "go")
        async with shop.editor() as guest:
            await guest.call("session/resume", **again(session, shop))
            assert await guest.prompt(session, "SCRIPT:more from the guest") == "end_turn"
            await editor.until(lambda e: "for both" in e.text(session))
            assert editor.text(session, "user_message_chunk") == "SCRIPT:more from the guest"
            assert guest.text(session) == "for both" and not guest.text(session, "user_message_chunk")


@pytest.mark.spec("J24")
async def test_a_session_that_is_loaded_twice_at_once_is_opened_once(shop: Workshop) -> None:
    shop.play({"main": ["hi"], "more": ["once"]})
    async with shop.editor() as editor:
        session = await editor.new(shop.project)
        await editor.prompt(session, "go")
    async with shop.editor() as editor:
        both = [await editor.start("session/resume", **again(session, shop)) for _ in range(2)]
        for waiting in both:
            await waiting.result()
        assert await editor.prompt(session, "SCRIPT:more") == "end_turn"
        assert editor.text(session) == "once"


@pytest.mark.spec("J26")
async def test_a_session_without_a_door_says_where_it_runs(shop: Workshop) -> None:
    shop.play([bash("touch begun; sleep 30"), "never"])
    process = start(shop, *UNASKED)
    try:
        with anyio.fail_after(30):
            while not (shop.project / "begun").exists():
                await anyio.sleep(0.02)
        async with shop.editor() as editor:
            session = (await editor.call("session/list"))["sessions"][0]["sessionId"]
            with pytest.raises(Refused) as busy:
                await editor.call("session/load", **again(session, shop))
            assert f"another process ({process.pid})" in str(busy.value)
            with pytest.raises(Refused):
                await editor.call("session/delete", sessionId=session)
    finally:
        process.terminate()
        process.wait()


@pytest.mark.spec("J29", "J24", "J13", "J15")
async def test_after_a_kill_nothing_is_run_again(shop: Workshop) -> None:
    once = shop.project / "once"
    shop.play({"main": [bash("echo x >> once"), bash("touch second; sleep 60"), "never"], "more": ["goes on"]})
    async with shop.editor(*UNASKED) as editor:
        session = await editor.new(shop.project)
        await editor.prompting(session, "go")
        with anyio.fail_after(30):
            while not (shop.project / "second").exists():
                await anyio.sleep(0.01)
        editor.process.kill()
        await editor.ended()
    async with shop.editor(*UNASKED) as later:
        await later.call("session/load", **again(session, shop))
        cards = list(later.calls(session).values())
        assert [card["statuses"] for card in cards] == [["completed"], ["failed"]]
        assert {u["_meta"]["teamwright"]["state"] for u in later.updates(session, "session_info_update")} <= {"idle"}
        words = [{"type": "text", "text": "hello?"}]
        steered = await later.call("_session/steering", sessionId=session, prompt=words)
        assert steered == {"outcome": "promptRequired"}  # it is at rest
        assert await later.prompt(session, "SCRIPT:more") == "end_turn" and once.read_text() == "x\n"


@pytest.mark.spec("J25", "J7")
async def test_closing_ends_every_call_before_it_is_answered(shop: Workshop) -> None:
    """The command, and the card of a background agent that outlives the turn."""
    work = [agent("child", background=True), bash("echo $$ > begun; sleep 300")]
    shop.play({"main": [work, "never"], "child": [bash("echo $$ > child; sleep 300"), "never"]})
    async with shop.editor(*UNASKED) as editor:
        session = await editor.new(shop.project)
        turn = await editor.prompting(session, "SCRIPT:main")
        ids = [int(await appears(shop.project / name)) for name in ("begun", "child")]
        assert await editor.call("session/close", sessionId=session) == {}
        assert [card["statuses"][-1] for card in editor.calls(session).values()] == ["failed", "failed"]
        told = len(editor.updates(session))
        assert (await turn.result())["stopReason"] == "cancelled"
        assert not [id for id in ids if Path(f"/proc/{id}").exists()]
        assert len(editor.updates(session)) == told


@pytest.mark.spec("J25", "J26")
async def test_a_session_that_runs_elsewhere_is_not_deleted_and_stays_open_here(shop: Workshop) -> None:
    shop.play({"main": ["hi"], "more": ["for both"]})
    async with shop.editor() as editor:
        session = await editor.new(shop.project)
        await editor.prompt(session, "go")
        async with shop.editor() as guest:
            await guest.call("session/resume", **again(session, shop))
            with pytest.raises(Refused) as refused:
                await guest.call("session/delete", sessionId=session)
            assert "was not deleted" in str(refused.value)
            assert await guest.prompt(session, "SCRIPT:more") == "end_turn" and guest.text(session) == "for both"
