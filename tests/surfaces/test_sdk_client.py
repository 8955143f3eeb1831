"""The public client package drives the program unchanged: everything that it can send and expects to receive."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

sdk = pytest.importorskip("claude_agent_sdk")
pytestmark = [pytest.mark.anyio, pytest.mark.spec("M10")]
CLI = Path(sys.executable).parent / "teamwright"
LIMIT = 60.0


@pytest.fixture
def options(tmp_path: Path) -> Callable[..., Any]:
    """Options of the package, for a script that plays the model."""
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    home.mkdir()

    def make(script: list[Any], **more: Any) -> Any:
        file = tmp_path / f"script{len(list(tmp_path.iterdir()))}.json"
        file.write_text(json.dumps(script))
        env = {
            "HOME": str(home),
            "TEAMWRIGHT_HOME": str(home / ".teamwright"),
            "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        }
        return sdk.ClaudeAgentOptions(cli_path=str(CLI), cwd=str(project), model=f"script/{file}", env=env, **more)

    return make


def use(name: str, **input: Any) -> dict[str, Any]:
    return {"tool": name, "input": input}


def text_of(messages: list[Any]) -> str:
    blocks = [b for m in messages for b in (m.content if isinstance(getattr(m, "content", None), list) else [])]
    return "\n".join(str(getattr(b, "text", None) or getattr(b, "content", "")) for b in blocks)


async def asked(options: Any, prompt: Any = "go") -> list[Any]:
    with anyio.fail_after(LIMIT):
        return [message async for message in sdk.query(prompt=prompt, options=options)]


async def answer(client: Any, prompt: str) -> list[Any]:
    with anyio.fail_after(LIMIT):
        await client.query(prompt)
        return [message async for message in client.receive_response()]


async def test_one_query(options: Any) -> None:
    first, *_, last = await asked(options(["hi there"]))
    assert first.subtype == "init" and isinstance(last, sdk.ResultMessage)
    assert last.result == "hi there" and not last.is_error and last.session_id


async def test_prompts_as_a_stream(options: Any) -> None:
    async def prompts() -> Any:
        yield {
            "type": "user",
            "message": {"role": "user", "content": "one"},
            "parent_tool_use_id": None,
            "session_id": "",
        }

    messages = await asked(options(["streamed"]), prompts())
    assert messages[-1].result == "streamed"


async def test_a_callback_is_asked_for_permission(options: Any) -> None:
    seen: list[str] = []

    async def can(name: str, input: dict[str, Any], _: Any) -> Any:
        seen.append(input["command"])
        if "no" in input["command"]:
            return sdk.PermissionResultDeny(message="not that")
        return sdk.PermissionResultAllow(updated_input={"command": "echo instead"})

    made = options([use("Bash", command="touch yes"), use("Bash", command="touch no"), "end"], can_use_tool=can)
    async with sdk.ClaudeSDKClient(made) as client:
        messages = await answer(client, "go")
    assert seen == ["touch yes", "touch no"] and messages[-1].result == "end"
    assert "instead" in text_of(messages) and "not that" in text_of(messages)


async def test_hooks_and_tools_that_live_in_the_client(options: Any) -> None:
    seen: list[str] = []

    async def before(input: dict[str, Any], id: str | None, _: Any) -> dict[str, Any]:
        seen.append(input["tool_name"])
        return {}

    async def after(input: dict[str, Any], id: str | None, _: Any) -> dict[str, Any]:
        return {"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "from the hook"}}

    @sdk.tool("add", "adds two numbers", {"a": int, "b": int})
    async def add(args: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": f"sum {args['a'] + args['b']}"}]}

    made = options(
        [use("mcp__calc__add", a=2, b=3), "end"],
        mcp_servers={"calc": sdk.create_sdk_mcp_server("calc", tools=[add])},
        allowed_tools=["mcp__calc__add"],
        hooks={"PreToolUse": [sdk.HookMatcher(hooks=[before])], "PostToolUse": [sdk.HookMatcher(hooks=[after])]},
    )
    async with sdk.ClaudeSDKClient(made) as client:
        messages = await answer(client, "go")
        status = await client.get_mcp_status()
    assert "sum 5" in text_of(messages) and "from the hook" in text_of(messages) and seen == ["mcp__calc__add"]
    (server,) = status["mcpServers"]
    assert (server["name"], server["status"], server["tools"]) == ("calc", "connected", [{"name": "add"}])


async def test_a_guard_that_cannot_be_registered_ends_the_connection(options: Any, tmp_path: Path) -> None:
    async def guard(*_: Any) -> dict[str, Any]:
        return {}

    hooks = {"PreToolUse": [sdk.HookMatcher(matcher="(", hooks=[guard])]}
    with pytest.raises(Exception, match="not a valid expression"), anyio.fail_after(LIMIT):
        await sdk.ClaudeSDKClient(options([use("Bash", command="touch made"), "end"], hooks=hooks)).connect()
    assert not (tmp_path / "project" / "made").exists()


async def test_interrupt_mode_and_model(options: Any, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text(json.dumps(["-", "from the other"]))
    async with sdk.ClaudeSDKClient(options([use("Bash", command="sleep 60"), "x"])) as client:
        assert (await client.get_server_info())["commands"]
        await client.set_permission_mode("acceptEdits")
        with anyio.fail_after(LIMIT):
            await client.query("one")
            async for message in client.receive_messages():
                if isinstance(message, sdk.AssistantMessage):
                    break
        await client.interrupt()
        with anyio.fail_after(LIMIT):
            ended = [m async for m in client.receive_response()]
        assert ended[-1].subtype == "error_during_execution"
        await client.set_model(f"script/{other}")
        messages = await answer(client, "two")
    assert messages[0].data["permissionMode"] == "acceptEdits" and messages[-1].result == "from the other"


async def test_agents_and_resume(options: Any) -> None:
    call = use("Agent", description="d", prompt="p", subagent_type="helper")
    helper = sdk.AgentDefinition(description="helps", prompt="You help.", tools=["Read"])
    messages = await asked(options([call, "end"], agents={"helper": helper}))
    assert "helper" in messages[0].data["agents"] and any(isinstance(m, sdk.TaskStartedMessage) for m in messages)
    session = messages[-1].session_id
    again = await asked(options(["-", "-", "again"], resume=session))
    assert again[-1].session_id == session and not again[-1].is_error


async def test_a_yes_for_good_holds_for_the_session_and_is_written_down(options: Any, tmp_path: Path) -> None:
    seen: list[list[Any]] = []

    async def can(name: str, input: dict[str, Any], context: Any) -> Any:
        seen.append(context.suggestions)
        rules = [sdk.types.PermissionRuleValue(tool_name="Bash", rule_content="touch *")]
        always = [
            sdk.types.PermissionUpdate(type="addRules", rules=rules, behavior="allow", destination="session"),
            sdk.types.PermissionUpdate(type="addRules", rules=rules, behavior="allow", destination="userSettings"),
        ]
        return sdk.PermissionResultAllow(updated_permissions=always)

    made = options([use("Bash", command="touch a"), use("Bash", command="touch b"), "end"], can_use_tool=can)
    async with sdk.ClaudeSDKClient(made) as client:
        assert (await answer(client, "go"))[-1].result == "end"
    assert len(seen) == 1 and seen[0][0].rules[0].rule_content == "touch a"
    kept = json.loads((tmp_path / "home/.teamwright/settings.json").read_text())
    assert kept["permissions"]["allow"] == ["Bash(touch *)"] and (tmp_path / "project/b").exists()


async def test_a_no_may_end_the_turn_and_the_session_goes_on(options: Any) -> None:
    async def can(name: str, input: dict[str, Any], _: Any) -> Any:
        return sdk.PermissionResultDeny(message="stop it all", interrupt=True)

    async with sdk.ClaudeSDKClient(
        options([use("Bash", command="touch a"), "-", "still here"], can_use_tool=can)
    ) as client:
        first = await answer(client, "go")
        assert first[-1].subtype == "error_during_execution" and first[-1].is_error
        assert not (await answer(client, "and now?"))[-1].is_error


async def test_an_answer_as_data(options: Any) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    script = ["it is seven", use("StructuredOutput", n="seven"), use("StructuredOutput", n=7), "never read"]
    messages = await asked(options(script, output_format={"type": "json_schema", "schema": schema}))
    assert messages[-1].structured_output == {"n": 7} and messages[-1].subtype == "success"
    assert "StructuredOutput" in messages[0].data["tools"] and "not of type" in text_of(messages)


async def test_text_as_it_comes_and_a_limit_of_turns(options: Any) -> None:
    script = [use("Bash", command="echo 1"), use("Bash", command="echo 2"), "never"]
    with pytest.raises(Exception, match="limit of 1 turn"):  # the package raises after an error's result
        await asked(options(script, max_turns=1))
    messages = await asked(options(["word by word"], include_partial_messages=True))
    parts = [m.event for m in messages if isinstance(m, sdk.StreamEvent)]
    assert "".join(e["delta"].get("text", "") for e in parts if e["type"] == "content_block_delta") == "word by word"


async def test_a_session_goes_on_from_an_earlier_line_under_a_new_id(options: Any) -> None:
    async with sdk.ClaudeSDKClient(options(["one", "two"])) as client:
        first, second = await answer(client, "first"), await answer(client, "second")
    at = next(m.uuid for m in first if isinstance(m, sdk.AssistantMessage))
    session = second[-1].session_id
    again = options(["-", "{{re:(first|second)}} again"], resume=session, fork_session=True, resume_session_at=at)
    messages = await asked(again, "third")
    assert messages[-1].session_id != session and not messages[-1].is_error
    with pytest.raises(Exception):  # noqa: B017 -- whatever the package makes of exit status 2
        await asked(options(["x"], resume=session, resume_session_at=at, resume_drops_turn="nobody"))


async def test_what_the_client_may_ask_about(options: Any) -> None:
    async with sdk.ClaudeSDKClient(options(["hi"], thinking={"type": "disabled"}, betas=["b-1"])) as client:
        await answer(client, "go")
        usage = await client.get_context_usage()
    names = {part["name"] for part in usage["categories"]}
    assert {"System tools", "Messages"} <= names and usage["totalTokens"] > 0


async def test_background_agents_are_waited_for_and_hooks_are_seen(options: Any) -> None:
    seen: list[str] = []

    async def stop(input: dict[str, Any], id: str | None, _: Any) -> dict[str, Any]:
        seen.append(input["hook_event_name"])
        return {}

    call = use("Agent", description="a long job", prompt="p", subagent_type="helper", run_in_background=True)
    helper = sdk.AgentDefinition(description="helps", prompt="You help.", tools=["Read"])
    script = {"main": [call, "started it", "it is done"], "sub": {"when": "^p$", "steps": ["the report"]}}
    messages = await asked(
        options(
            script, agents={"helper": helper}, include_hook_events=True, hooks={"Stop": [sdk.HookMatcher(hooks=[stop])]}
        )
    )
    assert messages[-1].result == "it is done" and "Stop" in seen
    ended = [m for m in messages if isinstance(m, sdk.TaskUpdatedMessage)]
    assert [m.status for m in ended] == ["completed"]
    hooked = [m for m in messages if isinstance(m, sdk.HookEventMessage)]
    assert {m.subtype for m in hooked} == {"hook_started", "hook_response"} and hooked[0].hook_event_name == "Stop"


async def test_a_hook_that_fails_blocks_only_where_it_should(options: Any) -> None:
    async def broken(input: dict[str, Any], id: str | None, _: Any) -> dict[str, Any]:
        raise RuntimeError("out of order")

    def made(**more: Any) -> Any:
        hooks = {"PreToolUse": [sdk.HookMatcher(matcher="Bash", hooks=[broken], **more)]}
        return options([use("Bash", command="echo ran"), "end"], hooks=hooks)

    assert "ran" in text_of(await asked(made()))
    blocked = text_of(await asked(made(on_failure="block")))
    assert "out of order" in blocked and "ran\n" not in blocked


async def test_files_come_back_as_they_were_before_a_prompt(options: Any, tmp_path: Path) -> None:
    old, new = tmp_path / "project/old.txt", tmp_path / "project/new.txt"
    old.write_text("before\n")
    write = use("Write", file_path=str(new), content="made\n")
    script = [use("Read", file_path=str(old)), use("Edit", file_path=str(old), old_string="before", new_string="after")]
    made = options(
        ["nothing yet", *script, write, "changed"],
        permission_mode="acceptEdits",
        enable_file_checkpointing=True,
        extra_args={"replay-user-messages": None},
    )
    async with sdk.ClaudeSDKClient(made) as client:
        await answer(client, "hello")
        messages = await answer(client, "change them")
        assert old.read_text() == "after\n" and new.exists()
        said = next(m for m in messages if isinstance(m, sdk.UserMessage) and "change them" in text_of([m]))
        await client.rewind_files(said.uuid)
        with pytest.raises(Exception, match="no message"):
            await client.rewind_files("nobody")
    assert old.read_text() == "before\n" and not new.exists()


async def test_a_store_of_the_client_gets_every_message(options: Any) -> None:
    store = sdk.InMemorySessionStore()
    call = use("Agent", description="d", prompt="SCRIPT:child", subagent_type="general-purpose")
    script = {"main": [call, "end"], "child": ["the report"]}
    messages = await asked(options(script, session_store=store), "SCRIPT:main")
    session = messages[-1].session_id
    ((key, kept), (child, inner)) = sorted(store._store.items(), key=lambda item: len(item[0]))
    assert session in key and [e["type"] for e in kept] == ["user", "assistant", "user", "assistant"]
    assert [e["parentUuid"] for e in kept] == [None, *(e["uuid"] for e in kept[:-1])]
    assert "/subagents/agent-" in child and inner[-1]["message"]["content"] == [{"type": "text", "text": "the report"}]
    again = await asked(options({"main": ["-", "-", "again"]}, session_store=store, resume=session), "more")
    assert again[-1].session_id == session and not again[-1].is_error
