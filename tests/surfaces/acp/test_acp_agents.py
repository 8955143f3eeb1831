"""Agents and teams in the editor: cards, transcripts, sessions of their own."""

import time
from typing import Any

import pytest
from acp_editor import Editor, Workshop, agent, bash, tool

pytestmark = pytest.mark.anyio
UNASKED = ("--permission-mode", "bypassPermissions")


def wait_for(name: str) -> dict[str, Any]:
    return bash(f"for n in $(seq 800); do [ -e {name} ] && break; sleep 0.02; done")


@pytest.mark.spec("J14", "J16")
async def test_a_prompt_waits_for_its_background_agents(shop: Workshop) -> None:
    shop.play(
        {"main": [agent("child", background=True), "it runs", "it has ended"], "child": [wait_for("go"), "the report"]}
    )
    async with shop.editor(*UNASKED) as editor:
        session = await editor.new(shop.project)
        turn = await editor.prompting(session, "go")
        await editor.until(lambda e: "it runs" in e.text(session))
        assert not turn.here and editor.card(session, "play child")["statuses"][-1] == "in_progress"
        (shop.project / "go").touch()
        assert (await turn.result())["stopReason"] == "end_turn"
        card = editor.card(session, "play child")
        assert "it has ended" in editor.text(session) and "the report" in card["texts"][-1]
        assert card["statuses"].count("completed") == 1 and card["statuses"][-1] == "completed"


@pytest.mark.spec("J14", "J15")
async def test_a_prompt_can_be_answered_before_they_end(shop: Workshop) -> None:
    shop.play(
        {"main": [agent("child", background=True), "it runs", "it has ended"], "child": [wait_for("go"), "the report"]}
    )
    async with shop.editor(*UNASKED) as editor:
        session = await editor.new(shop.project)
        await editor.call("session/set_config_option", sessionId=session, configId="turns", value="answered")
        assert await editor.prompt(session, "go") == "end_turn" and "it has ended" not in editor.text(session)
        assert editor.card(session, "play child")["statuses"][-1] == "in_progress"
        (shop.project / "go").touch()
        await editor.until(lambda e: "it has ended" in e.text(session))
        await editor.until(lambda e: e.card(session, "play child")["statuses"][-1] == "completed")


@pytest.mark.spec("J12", "J14")
async def test_cancel_ends_the_wait_and_the_agents_go_on(shop: Workshop) -> None:
    shop.play(
        {"main": [agent("child", background=True), "it runs", "it has ended"], "child": [wait_for("go"), "the report"]}
    )
    async with shop.editor(*UNASKED) as editor:
        session = await editor.new(shop.project)
        turn = await editor.prompting(session, "go")
        await editor.until(lambda e: "it runs" in e.text(session) and "idle" not in e.text(session))
        await editor.notify("session/cancel", sessionId=session)
        assert (await turn.result(4))["stopReason"] == "cancelled"
        (shop.project / "go").touch()
        await editor.until(lambda e: "it has ended" in e.text(session))


@pytest.mark.spec("J16")
async def test_a_card_is_told_at_most_four_times_a_second(shop: Workshop) -> None:
    shop.play({"main": [agent("child"), "done"], "child": [*(bash(f"echo {n}") for n in range(40)), "the report"]})
    async with shop.editor(*UNASKED) as editor:
        session = await editor.new(shop.project)
        began = time.monotonic()
        await editor.prompt(session, "go")
        most = 4 * (time.monotonic() - began) + 4
        assert len(editor.updates(session, "tool_call_update")) <= most


@pytest.mark.spec("J17")
async def test_transcripts_for_those_who_ask_for_them(shop: Workshop) -> None:
    shop.play(
        {"main": [agent("child"), "done"], "child": [["I look", tool("Read", file_path="/etc/hostname")], "report"]}
    )
    async with shop.editor(*UNASKED, capabilities={"_meta": {"subagent-transcript": True}}) as editor:
        session = await editor.new(shop.project)
        await editor.prompt(session, "go")
        parent, below = editor.calls(session).items()
        assert below[1]["kind"] == "read" and below[1]["statuses"][-1] == "completed"
        said = [u for u in editor.updates(session, "agent_message_chunk") if "_meta" in u]
        owners = [u["_meta"]["claudeCode"]["parentToolUseId"] for u in [*said, below[1]]]
        assert set(owners) == {parent[0]} and "".join(u["content"]["text"] for u in said) == "I lookreport"


def states(editor: Editor, session: str, child: str) -> list[str]:
    updates = editor.updates(session, "subagent_update")
    return [u["state"]["state"] for u in updates if u["sessionId"] == child]


@pytest.mark.spec("J18")
async def test_children_can_be_sessions_of_their_own(shop: Workshop) -> None:
    child = [bash("touch asked"), "the report"]
    shop.play({"main": [agent("child"), "done"], "child": child})
    async with shop.editor(capabilities={"subagents": {}}) as editor:
        session = await editor.new(shop.project)
        await editor.prompt(session, "go")
        first = editor.updates(session, "subagent_update")[0]
        id = first["sessionId"]
        assert first["title"] and first["description"] == "play child" and first["capabilities"] == {"cancel": {}}
        assert states(editor, session, id) == ["running", "requires_action", "running", "idle"]
        assert editor.updates(session, "subagent_update")[-1]["state"]["stopReason"] == "end_turn"
        assert editor.text(id) == "the report" and "SCRIPT:child" in editor.text(id, "user_message_chunk")
        (call,) = editor.calls(id).values()
        assert call["statuses"][-1] == "completed" and [q["sessionId"] for q in editor.asked] == [session]
        places = [m["params"]["sessionId"] for m in editor.heard if m.get("method") == "session/update"]
        announced = next(n for n, m in enumerate(editor.heard) if "subagent_update" in str(m))
        assert all(m.get("params", {}).get("sessionId") != id for m in editor.heard[:announced]) and id in places
        listed = (await editor.call("session/list"))["sessions"]
        assert [entry["sessionId"] for entry in listed] == [session]


@pytest.mark.spec("J18")
async def test_a_child_session_can_be_cancelled_alone(shop: Workshop) -> None:
    shop.play({"main": [agent("child"), "it was stopped"], "child": [bash("sleep 300"), "never"]})
    async with shop.editor(*UNASKED, capabilities={"subagents": {}}) as editor:
        session = await editor.new(shop.project)
        turn = await editor.prompting(session, "go")
        first = (await editor.until(lambda e: e.updates(session, "subagent_update")))[0]
        await editor.until(lambda e: e.calls(first["sessionId"]))
        await editor.notify("session/cancel", sessionId=first["sessionId"])
        assert (await turn.result())["stopReason"] == "end_turn" and "it was stopped" in editor.text(session)
        assert editor.updates(session, "subagent_update")[-1]["state"] == {"state": "idle", "stopReason": "cancelled"}


def team(*names: str) -> list[Any]:
    """The first two steps of a lead."""
    mates = [
        tool(
            "Agent",
            description=f"{name} at work",
            prompt=f"SCRIPT:{name}",
            subagent_type="general-purpose",
            name=name,
            team_name="crew",
        )
        for name in names
    ]
    return [tool("TeamCreate", team_name="crew", description="x"), mates]


MAIL = {"to": "bob", "message": "SCRIPT:two the words", "summary": "a note"}


@pytest.mark.spec("J19")
async def test_a_team_is_cards_and_a_plan(shop: Workshop) -> None:
    """Each teammate works and rests in its card; mail is in its sender's card; the shared list is the plan."""
    tasks = [tool("TaskCreate", subject="grammar", description="x", owner="ada")]
    lead = [*team("ada", "bob"), tasks, wait_for("told"), tool("TaskUpdate", taskId="1", status="completed"), "done"]
    shop.play(
        {
            "main": lead,
            "ada": [tool("SendMessage", **MAIL), "rest"],
            "bob": ["ready"],
            "two": [bash("touch told"), "rest"],
        }
    )
    async with shop.editor(*UNASKED) as editor:
        session = await editor.new(shop.project)
        assert await editor.prompt(session, "go") == "end_turn"
        plan = editor.updates(session, "plan")[-1]["entries"]
        assert [(e["content"], e["status"]) for e in plan] == [("#1 grammar (ada)", "completed")]
        for name in ("ada", "bob"):
            card = editor.card(session, f"{name} (general-purpose)")
            assert "in_progress" in card["statuses"] and card["statuses"][-1] == "completed"
        assert any("→ bob: SCRIPT:two the words" in t for t in editor.card(session, "ada (")["texts"])


@pytest.mark.spec("J19")
async def test_mail_of_child_sessions_is_told_whole(shop: Workshop) -> None:
    """In the session of its sender: the words themselves, not their summary."""
    lead = [*team("ada", "bob"), wait_for("told"), "done"]
    ada, bob = [tool("SendMessage", **MAIL), "rest"], [bash("touch told"), "rest"]
    shop.play({"main": lead, "ada": ada, "bob": ["ready"], "two": bob})
    async with shop.editor(*UNASKED, capabilities={"subagents": {}}) as editor:
        session = await editor.new(shop.project)
        assert await editor.prompt(session, "go") == "end_turn"
        ids = {u["title"]: u["sessionId"] for u in editor.updates(session, "subagent_update") if "title" in u}
        (mail,) = editor.updates(ids["ada"], "session_message")
        told = {key: mail[key] for key in ("sender", "recipient", "content")}
        assert told == {"sender": "ada@crew", "recipient": "bob@crew", "content": MAIL["message"]}


@pytest.mark.spec("J19", "J24")
async def test_a_team_comes_back_with_its_session(shop: Workshop) -> None:
    shop.play(
        {
            "main": [*team("ada"), "made"],
            "ada": ["ready"],
            "more": [tool("SendMessage", to="ada", message="SCRIPT:ada2", summary="x"), "sent"],
            "ada2": ["woken"],
        }
    )
    async with shop.editor(*UNASKED) as editor:
        session = await editor.new(shop.project)
        await editor.prompt(session, "go")
        listed = (await editor.call("session/list"))["sessions"][0]
        assert listed["_meta"]["teamwright"] == {"team": "crew", "agents": ["ada"], "open_tasks": 0}
    async with shop.editor(*UNASKED) as again:
        await again.call("session/load", sessionId=session, cwd=str(shop.project), mcpServers=[])
        assert await again.prompt(session, "SCRIPT:more") == "end_turn"
        assert any("woken" in text for text in again.card(session, "ada (general-purpose)")["texts"])


@pytest.mark.spec("J19", "J24")
@pytest.mark.parametrize("how", ["session/load", "session/resume"])
async def test_the_plan_comes_back_with_its_session(shop: Workshop, how: str) -> None:
    shop.play([*team("ada"), tool("TaskCreate", subject="grammar", description="x"), "made"])
    async with shop.editor(*UNASKED) as editor:
        session = await editor.new(shop.project)
        await editor.prompt(session, "go")
    async with shop.editor(*UNASKED) as again:
        await again.call(how, sessionId=session, cwd=str(shop.project), mcpServers=[])
        plan = (await again.until(lambda e: e.updates(session, "plan")))[-1]
        assert plan["entries"][0]["content"].split(" (")[0] == "#1 grammar"
