"""Commands, usage, titles, notices, servers: what is sent beside the turns."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
from acp_editor import Workshop, agent, bash, tool

pytestmark = pytest.mark.anyio
SERVERS = Path(__file__).parents[2] / "servers"
UNASKED = ("--permission-mode", "bypassPermissions")


@pytest.mark.spec("J20", "S4")
async def test_commands_that_need_no_model(shop: Workshop) -> None:
    shop.play({"main": [tool("TaskCreate", subject="the subject", description="x"), "done"], "child": ["x"]})
    (shop.project / ".claude" / "commands").mkdir(parents=True)
    (shop.project / ".claude" / "commands" / "greet.md").write_text("SCRIPT:child Say hello to $ARGUMENTS.")
    async with shop.editor() as editor:
        session = await editor.new(shop.project)
        offered = (await editor.until(lambda e: e.updates(session, "available_commands_update")))[-1]
        names = {c["name"] for c in offered["availableCommands"]}
        assert {"greet", "agents", "tasks", "inbox", "why", "cost", "compact", "btw", "stop", "to"} <= names
        await editor.prompt(session, "go")
        for command, words in {
            "/tasks": "the subject",
            "/agents": "main",
            "/inbox": "no mail",
            "/why": "",
            "/cost": "$",
            "/to nobody hi": "no agent is called nobody",
            "/to": "needs a name",
            "/stop": "stopped",
            "/nosuch words": "There is no command /nosuch here",
        }.items():
            before = len(editor.text(session))
            assert await editor.prompt(session, command) == "end_turn"
            assert words in editor.text(session)[before:], command
        transcript = next((shop.home / ".teamwright" / "projects").rglob(f"{session}.jsonl")).read_text()
        assert "/tasks" not in transcript and "/nosuch" not in transcript
        assert await editor.prompt(session, "/greet the-world") == "end_turn"
        transcript = next((shop.home / ".teamwright" / "projects").rglob(f"{session}.jsonl")).read_text()
        assert "Say hello to the-world." in transcript


@pytest.mark.spec("J5", "J20")
async def test_a_command_takes_what_is_attached_to_it(shop: Workshop) -> None:
    shop.play(["hello", "again"])
    (shop.project / ".claude" / "commands").mkdir(parents=True)
    (shop.project / ".claude" / "commands" / "greet.md").write_text("Say hello to $ARGUMENTS.")
    link = {"type": "resource_link", "uri": f"file://{shop.project}/notes.md", "name": "notes.md"}
    async with shop.editor() as editor:
        session = await editor.new(shop.project)
        assert await editor.prompt(session, "/greet the-world", link) == "end_turn"
        transcript = next((shop.home / ".teamwright" / "projects").rglob(f"{session}.jsonl")).read_text()
        assert "Say hello to the-world." in transcript and f"[notes.md]({shop.project}/notes.md)" in transcript
        assert await editor.prompt(session, "/cost", link) == "end_turn" and "$" in editor.text(session)
        assert await editor.prompt(session, "/no/such/file is missing", link) == "end_turn"
        assert editor.text(session).endswith("again")


@pytest.mark.spec("J5", "J20")
async def test_what_is_attached_is_nothing_to_a_command_without_a_model(shop: Workshop) -> None:
    shop.play({"main": ["not attached"], "file": ["it was read"]})
    file = {"type": "resource", "resource": {"uri": "file:///a.py", "text": "print( 'SCRIPT:file' )"}}
    async with shop.editor() as editor:
        session = await editor.new(shop.project)
        for command, words in {
            "/stop": "Every agent was stopped.",
            "/why": "WAITS FOR",
            "/to nobody hi": "no agent is called nobody;",
            "/btw what is\nthis?": "it was read",
        }.items():
            before = len(editor.text(session))
            assert await editor.prompt(session, command, file) == "end_turn"
            assert words in editor.text(session)[before:], command


@pytest.mark.spec("J20", "J32")
@pytest.mark.parametrize("young", [True, False])
async def test_a_compaction_is_told(shop: Workshop, young: bool) -> None:
    shop.play(["one", "the summary", "two"])
    capabilities = {"session": {"compaction": {}, "notices": {}}} if young else {}
    async with shop.editor(capabilities=capabilities) as editor:
        session = await editor.new(shop.project)
        await editor.prompt(session, "go")
        assert await editor.prompt(session, "/compact") == "end_turn"
        told = editor.updates(session, "compaction_update")
        assert [u["status"] for u in told] == (["completed"] if young else [])
        assert ("compacted" in editor.text(session, "agent_thought_chunk")) is not young


@pytest.mark.spec("J20")
async def test_a_side_question_is_answered_beside_the_conversation(shop: Workshop) -> None:
    shop.play(["one", "beside it"])
    async with shop.editor() as editor:
        session = await editor.new(shop.project)
        await editor.prompt(session, "go")
        assert await editor.prompt(session, "/btw what was that?") == "end_turn"
        assert editor.text(session).endswith("beside it")


@pytest.mark.spec("J27")
async def test_usage_and_title(shop: Workshop) -> None:
    shop.play([bash("true"), "done"])
    async with shop.editor(*UNASKED) as editor:
        session = await editor.new(shop.project)
        await editor.prompt(session, "the first words of it")
        usage = editor.updates(session, "usage_update")
        assert len(usage) == 2 and usage[-1]["used"] > 0 and usage[-1]["size"] >= usage[-1]["used"]
        assert usage[-1]["cost"]["currency"] == "USD"
        titles = [u["title"] for u in editor.updates(session, "session_info_update") if "title" in u]
        assert titles == ["the first words of it"]


@pytest.mark.spec("J15")
async def test_the_state_is_told(shop: Workshop) -> None:
    shop.play(["done"])
    async with shop.editor() as editor:
        session = await editor.new(shop.project)
        await editor.prompt(session, "go")
        infos = [
            u["_meta"]["teamwright"]["state"] for u in editor.updates(session, "session_info_update") if "_meta" in u
        ]
        assert infos == ["running", "idle"]


def server(shop: Workshop, name: str) -> dict[str, Any]:
    args = [str(SERVERS / "small_mcp.py"), str(shop.home / f"{name}.log")]
    return {"name": name, "command": sys.executable, "args": args, "env": [{"name": "COLOUR", "value": "green"}]}


@pytest.mark.spec("J21", "J32")
@pytest.mark.parametrize("young", [True, False])
async def test_servers_of_the_editor(shop: Workshop, young: bool) -> None:
    """One works in the first request; one cannot start and is reported; the session continues."""
    shop.play([tool("mcp__good__echo", text="over-mcp"), "done"])
    broken = {"name": "broken", "command": "/nowhere/at-all", "args": [], "env": []}
    capabilities = {"session": {"notices": {}}} if young else {}
    async with shop.editor(*UNASKED, capabilities=capabilities) as editor:
        session = await editor.new(shop.project, mcpServers=[server(shop, "good"), broken])
        assert await editor.prompt(session, "go") == "end_turn"
        (card,) = editor.calls(session).values()
        assert card["statuses"][-1] == "completed" and "over-mcp" in card["texts"][-1] and card["kind"] == "other"
        notices = json.dumps(editor.updates(session, "notice"))
        thoughts = editor.text(session, "agent_thought_chunk")
        assert "broken" in (notices if young else thoughts)


@pytest.mark.spec("J21")
@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_servers_of_the_editor_behind_an_address(shop: Workshop, kind: str) -> None:
    """With the headers that the editor gives for them."""
    shop.play([tool("mcp__far__header", name="x-colour"), "done"])
    argv = [sys.executable, str(SERVERS / "web_mcp.py"), kind, "word"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(await anyio.to_thread.run_sync(process.stdout.readline))
            headers = [{"name": "Authorization", "value": "Bearer word"}, {"name": "X-Colour", "value": "green"}]
            url = f"http://127.0.0.1:{port}/{'mcp' if kind == 'http' else 'sse'}"
            async with shop.editor(*UNASKED) as editor:
                far = {"type": kind, "name": "far", "url": url, "headers": headers}
                session = await editor.new(shop.project, mcpServers=[far])
                assert await editor.prompt(session, "go") == "end_turn"
                (card,) = editor.calls(session).values()
                assert card["statuses"][-1] == "completed" and "green" in card["texts"][-1]
        finally:
            process.terminate()


@pytest.mark.spec("J10", "J21")
@pytest.mark.parametrize("given", [{"name": "Kim"}, None])
async def test_a_servers_question_is_a_form(shop: Workshop, given: Any) -> None:
    shop.play([tool("mcp__good__ask"), "done"])
    async with shop.editor(*UNASKED, capabilities={"elicitation": {"form": {}}}, form=given) as editor:
        session = await editor.new(shop.project, mcpServers=[server(shop, "good")])
        assert await editor.prompt(session, "go") == "end_turn"
        (form,) = editor.asked
        assert form["message"].startswith("The MCP server good asks:") and form["sessionId"] == session
        (card,) = editor.calls(session).values()
        assert ("Kim" in card["texts"][-1]) == bool(given)


@pytest.mark.spec("J22")
async def test_additional_directories(shop: Workshop) -> None:
    other = shop.home / "other"
    other.mkdir()
    write = tool("Write", file_path=str(other / "a"), content="x")
    shop.play({"main": [write, "done"], "again": [write, "done"]})
    async with shop.editor("--permission-mode", "acceptEdits", answer="no") as editor:
        session = await editor.new(shop.project, additionalDirectories=[str(other)])
        assert await editor.prompt(session, "go") == "end_turn" and (other / "a").exists() and not editor.asked
    (other / "a").unlink()
    async with shop.editor("--permission-mode", "acceptEdits", answer="no") as again:
        await again.call("session/load", sessionId=session, cwd=str(shop.project), mcpServers=[])
        await again.prompt(session, "SCRIPT:again")
        assert len(again.asked) == 1 and not (other / "a").exists()


@pytest.mark.spec("J16")
async def test_a_childs_calls_are_not_told_one_by_one(shop: Workshop) -> None:
    shop.play(
        {"main": [agent("child"), "done"], "child": [bash("echo one"), bash("sleep 0.5; echo two"), "the report"]}
    )
    async with shop.editor(*UNASKED) as editor:
        session = await editor.new(shop.project)
        assert await editor.prompt(session, "go") == "end_turn"
        (card,) = editor.calls(session).values()
        assert card["statuses"][-1] == "completed" and card["statuses"].count("completed") == 1
        assert "the report" in card["texts"][-1] and any("echo one" in text for text in card["texts"])
