"""Questions in the editor: calls, plans, forms, trust."""

import json
from typing import Any

import anyio
import pytest
from acp_editor import Refused, Workshop, agent, bash, tool

pytestmark = pytest.mark.anyio
FORMS = {"elicitation": {"form": {}}}
ENDED = ("completed", "failed")


@pytest.mark.spec("J9")
async def test_a_question_shows_all_that_a_yes_covers(shop: Workshop) -> None:
    command = "touch made; " + "true; " * 400 + "echo the-very-end"
    shop.play([bash(command), "done"])
    async with shop.editor() as editor:
        session = await editor.new(shop.project)
        assert await editor.prompt(session, "go") == "end_turn" and (shop.project / "made").exists()
        (question,) = editor.asked
        assert question["sessionId"] == session and question["toolCall"]["toolCallId"] in editor.calls(session)
        assert question["toolCall"]["rawInput"]["command"] == command
        assert "the-very-end" in json.dumps(question["toolCall"]["content"])
        assert question["options"][0]["optionId"] == "once"


@pytest.mark.spec("J9")
@pytest.mark.parametrize("answer", ["reject_once", None, "no-such-option"])
async def test_everything_but_a_yes_is_a_no(shop: Workshop, answer: str | None) -> None:
    shop.play([bash("touch made"), "understood"])
    async with shop.editor(answer=answer) as editor:
        session = await editor.new(shop.project)
        assert await editor.prompt(session, "go") == "end_turn"
        (card,) = editor.calls(session).values()
        assert card["statuses"][-1] == "failed" and not (shop.project / "made").exists()
        assert card["texts"][-1]


@pytest.mark.spec("J9")
@pytest.mark.parametrize(
    "answer",
    [
        {"error": "no dialogs here"},
        {"error": {"code": "x", "message": None}},
        {"error": {}},
        {"result": None},
        {"result": {"outcome": "selected"}},
        {},
    ],
)
async def test_an_answer_that_cannot_be_read_is_a_no(shop: Workshop, answer: dict[str, Any]) -> None:
    shop.play([bash("touch made"), "understood"])
    async with shop.editor(answer=lambda _: answer) as editor:
        session = await editor.new(shop.project)
        assert await editor.prompt(session, "go") == "end_turn"
        (card,) = editor.calls(session).values()
        assert card["statuses"][-1] == "failed" and card["texts"][-1] and not (shop.project / "made").exists()


@pytest.mark.spec("J9")
@pytest.mark.parametrize(
    "body",
    [
        b'"error":{"code":1e400}',
        b'"result":{"outcome":"\xff"}',
        b'"result":' + b"[" * 100_000 + b"]" * 100_000,
        b'"result":{"outcome":',
        b'"result":' + b" " * (65 << 20),
    ],
    ids=["number", "bytes", "depth", "half", "length"],
)
async def test_an_answer_that_is_no_json_is_a_no(shop: Workshop, body: bytes) -> None:
    """It can be the only one, so the prompt must not wait for another."""
    shop.play([bash("touch made"), "understood"])

    async def broken(_: Any) -> dict[str, Any]:
        id = next(m["id"] for m in reversed(editor.heard) if m.get("method") == "session/request_permission")
        await editor.write(b'{"jsonrpc":"2.0","id":%d,%b}' % (id, body))
        await editor.until(lambda e: any(c["statuses"][-1] in ENDED for c in e.calls(session).values()))
        return {"result": None}

    async with shop.editor(answer=broken) as editor:
        session = await editor.new(shop.project)
        with anyio.fail_after(30):
            assert await editor.prompt(session, "go") == "end_turn"
        (card,) = editor.calls(session).values()
        assert card["statuses"][-1] == "failed" and not (shop.project / "made").exists()
        assert "cannot be read" in card["texts"][-1]


@pytest.mark.spec("J1", "J9")
async def test_a_request_that_cannot_be_read_answers_none_of_ours(shop: Workshop) -> None:
    shop.play([bash("touch made"), "done"])

    async def after_a_broken_request(_: Any) -> str:
        id = next(m["id"] for m in reversed(editor.heard) if m.get("method") == "session/request_permission")
        await editor.write(b'{"jsonrpc":"2.0","id":%d,"method":"session/list","params":{"error":\xff}}' % id)
        await editor.until(lambda e: any("error" in m and m.get("id") is None for m in e.heard))
        return "allow_once"

    async with shop.editor(answer=after_a_broken_request) as editor:
        assert await editor.prompt(await editor.new(shop.project), "go") == "end_turn"
        assert (shop.project / "made").exists()


@pytest.mark.spec("J9")
async def test_of_two_answers_the_first_counts(shop: Workshop) -> None:
    shop.play([bash("touch made"), "understood"])

    async def no_and_yes(_: Any) -> dict[str, Any]:
        id = next(m["id"] for m in reversed(editor.heard) if m.get("method") == "session/request_permission")
        said = [{"outcome": {"outcome": "selected", "optionId": option}} for option in ("no", "once")]
        lines = [json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode() for result in said]
        await editor.write(b"\n".join(lines))  # both are there before the question's task runs
        await editor.until(lambda e: any(c["statuses"][-1] in ENDED for c in e.calls(session).values()))
        return {"result": None}

    async with shop.editor(answer=no_and_yes) as editor:
        session = await editor.new(shop.project)
        assert await editor.prompt(session, "go") == "end_turn"
        (card,) = editor.calls(session).values()
        assert card["statuses"][-1] == "failed" and not (shop.project / "made").exists()


@pytest.mark.spec("J9")
async def test_always_holds_for_the_session_or_for_one_agent(shop: Workshop) -> None:
    touch = bash("touch made")
    shop.play({"main": [touch, touch, agent("child"), "done"], "child": [bash("mkdir sub"), bash("mkdir sub"), "ok"]})
    async with shop.editor(answer=lambda q: "agent" if "mkdir" in json.dumps(q) else "all") as editor:
        session = await editor.new(shop.project)
        assert await editor.prompt(session, "go") == "end_turn"
        first, second = editor.asked
        assert [o["optionId"] for o in first["options"]] == ["once", "all", "no"]
        assert [o["optionId"] for o in second["options"]] == ["once", "agent", "all", "no"]
        assert "touch" in first["options"][1]["name"] and second["sessionId"] == session
        assert second["toolCall"]["title"].startswith("general-purpose")


@pytest.mark.spec("J9")
async def test_several_questions_are_open_at_once(shop: Workshop) -> None:
    both = anyio.Event()

    async def patient(_: Any) -> str:
        await both.wait()
        return "allow_once"

    shop.play(
        {"main": [[agent("one"), agent("two")], "done"], "one": [bash("touch a"), "x"], "two": [bash("touch b"), "y"]}
    )
    async with shop.editor(answer=patient) as editor:
        session = await editor.new(shop.project)
        turn = await editor.prompting(session, "go")
        await editor.until(lambda e: len(e.asked) == 2)
        states = [
            u["_meta"]["teamwright"]["state"] for u in editor.updates(session, "session_info_update") if "_meta" in u
        ]
        assert states[-1] == "waiting"
        both.set()
        assert (await turn.result())["stopReason"] == "end_turn"
        assert (shop.project / "a").exists() and (shop.project / "b").exists()


@pytest.mark.spec("J10")
async def test_a_plan_is_asked_for(shop: Workshop) -> None:
    plan, write = "# The plan\n\n1. write it", tool("Write", file_path=str(shop.project / "a"), content="x")
    shop.play([tool("ExitPlanMode", plan=plan), tool("ExitPlanMode", plan=plan), write, "done"])
    answers = iter(["no", "edits"])
    async with shop.editor("--permission-mode", "plan", answer=lambda _: next(answers)) as editor:
        session = await editor.new(shop.project)
        assert await editor.prompt(session, "go") == "end_turn"
        asked = editor.asked[-1]
        assert asked["toolCall"]["kind"] == "switch_mode" and asked["toolCall"]["content"][0]["content"]["text"] == plan
        assert [o["optionId"] for o in asked["options"]] == ["once", "edits", "no"]
        modes = [u["currentModeId"] for u in editor.updates(session, "current_mode_update")]
        assert modes[-1] == "acceptEdits" and (shop.project / "a").read_text() == "x" and len(editor.asked) == 2


QUESTION = {
    "question": "Which one?",
    "header": "Choice",
    "options": [{"label": "A", "description": "the first"}, {"label": "B", "description": "the second"}],
}


@pytest.mark.spec("J10")
@pytest.mark.parametrize(("given", "told"), [({"q1": "B"}, "Which one? B"), ({"q1_other": "C"}, "C"), (None, "")])
async def test_an_agents_own_questions_are_forms(shop: Workshop, given: Any, told: str) -> None:
    shop.play([tool("AskUserQuestion", questions=[QUESTION]), "done"])
    async with shop.editor(capabilities=FORMS, form=given) as editor:
        session = await editor.new(shop.project)
        assert await editor.prompt(session, "go") == "end_turn"
        (form,) = editor.asked
        assert (
            form["message"] == "Which one?" and form["requestedSchema"]["properties"]["q1"]["oneOf"][1]["const"] == "B"
        )
        (card,) = editor.calls(session).values()
        assert card["statuses"][-1] == ("completed" if given else "failed") and told in card["texts"][-1]


@pytest.mark.spec("J10")
async def test_without_forms_the_tool_is_not_there(shop: Workshop) -> None:
    shop.play([tool("AskUserQuestion", questions=[QUESTION]), "done"])
    async with shop.editor() as editor:
        session = await editor.new(shop.project)
        assert await editor.prompt(session, "go") == "end_turn" and not editor.asked


def distrusted(shop: Workshop) -> None:
    hook = {"hooks": [{"type": "command", "command": "touch $HOME/hooked"}]}
    (shop.project / ".claude" / "commands").mkdir(parents=True)
    (shop.project / ".claude" / "commands" / "greet.md").write_text("Say hello.")
    (shop.project / ".claude" / "settings.json").write_text(json.dumps({"hooks": {"UserPromptSubmit": [hook]}}))


def commands_of(editor: Any, session: str) -> set[str]:
    offered = editor.updates(session, "available_commands_update")
    return {c["name"] for c in offered[-1]["availableCommands"]} if offered else set()


@pytest.mark.spec("J28")
@pytest.mark.parametrize("answer", ["yes", "no"])
async def test_an_untrusted_directory_is_asked_about_once(shop: Workshop, answer: str) -> None:
    distrusted(shop)
    shop.play(["hi"])
    async with shop.editor(trust=False, answer=answer) as editor:
        session = await editor.new(shop.project)
        assert await editor.prompt(session, "go") == "end_turn" and editor.text(session) == "hi"
        (question,) = editor.asked
        assert "touch $HOME/hooked" in json.dumps(question["toolCall"]["content"]) and question["sessionId"] == session
        assert (shop.home / "hooked").exists() == (answer == "yes")
        assert ("greet" in commands_of(editor, session)) == (answer == "yes")
    async with shop.editor(trust=False, answer=answer) as again:
        session = await again.new(shop.project)
        assert await again.prompt(session, "go") == "end_turn" and not again.asked


@pytest.mark.spec("J12", "J28")
async def test_a_prompt_can_be_cancelled_while_the_directory_is_asked_about(shop: Workshop) -> None:
    distrusted(shop)
    shop.play(["hi"])
    decided = anyio.Event()

    async def later(_: Any) -> str:
        await decided.wait()
        return "no"

    async with shop.editor(trust=False, answer=later) as editor:
        session = await editor.new(shop.project)
        await editor.until(lambda e: e.asked)
        turn = await editor.prompting(session, "never mind")
        await editor.notify("session/cancel", sessionId=session)
        assert (await turn.result())["stopReason"] == "cancelled"
        decided.set()
        assert await editor.prompt(session, "go") == "end_turn" and editor.text(session) == "hi"
        assert not (shop.home / "hooked").exists()


@pytest.mark.spec("J11")
async def test_modes_and_options_are_one_state(shop: Workshop) -> None:
    write = tool("Write", file_path=str(shop.project / "a"), content="x")
    shop.play([write, "done"])
    async with shop.editor(answer="no") as editor:
        session = await editor.new(shop.project)
        modes = {m["id"] for m in editor.opened["modes"]["availableModes"]}
        assert modes == {"default", "acceptEdits", "plan", "dontAsk"}
        options = {o["id"]: o for o in editor.opened["configOptions"]}
        assert set(options) == {"mode", "model", "effort", "turns"} and options["turns"]["currentValue"] == "settled"
        await editor.call("session/set_mode", sessionId=session, modeId="plan")
        told = await editor.until(lambda e: e.updates(session, "config_option_update"))
        assert told[-1]["configOptions"][0]["currentValue"] == "plan"
        changed = {"sessionId": session, "configId": "mode", "value": "acceptEdits"}
        state = (await editor.call("session/set_config_option", **changed))["configOptions"]
        assert state[0]["currentValue"] == "acceptEdits" and len(state) == 4
        await editor.until(lambda e: e.updates(session, "current_mode_update")[-1]["currentModeId"] == "acceptEdits")
        state = await editor.call("session/set_config_option", sessionId=session, configId="effort", value="high")
        assert state["configOptions"][2]["currentValue"] == "high"
        assert await editor.prompt(session, "go") == "end_turn" and (shop.project / "a").exists() and not editor.asked


@pytest.mark.spec("J11")
@pytest.mark.parametrize(
    ("id", "value"),
    [("mode", "bypassPermissions"), ("mode", "x"), ("no", "x"), ("model", "no-such-model"), ("effort", "")],
)
async def test_what_is_not_allowed_is_refused(shop: Workshop, id: str, value: str) -> None:
    shop.play(["hi"])
    async with shop.editor() as editor:
        session = await editor.new(shop.project)
        with pytest.raises(Refused) as refused:
            await editor.call("session/set_config_option", sessionId=session, configId=id, value=value)
        assert refused.value.code == -32602
