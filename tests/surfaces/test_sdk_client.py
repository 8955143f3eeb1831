"""The public client package drives the program unchanged. Skipped unless `claude-agent-sdk` is installed."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

sdk = pytest.importorskip("claude_agent_sdk")
pytestmark = pytest.mark.anyio
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
        env = {"HOME": str(home), "TEAMWRIGHT_HOME": str(home / ".teamwright")}
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
