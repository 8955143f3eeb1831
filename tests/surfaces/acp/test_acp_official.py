"""The official client package drives the program: its models read everything, its connection writes everything."""

import subprocess
from typing import Any

import anyio
import pytest
from acp_editor import ARGV, Workshop, bash, tool

acp = pytest.importorskip("acp")
schema = pytest.importorskip("acp.schema")
pytestmark = pytest.mark.anyio
LIMIT = 60.0


class Client(acp.Client):  # type: ignore[misc, name-defined]
    """Says yes to everything and keeps what it receives, as the package's own objects."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.asked: list[Any] = []

    async def request_permission(self, session_id: str, tool_call: Any, options: list[Any], **_: Any) -> Any:
        self.asked.append(tool_call)
        chosen = next(option for option in options if option.kind == "allow_once")
        outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)

    async def ext_notification(self, method: str, params: Any) -> None:
        pass

    async def ext_method(self, method: str, params: Any) -> Any:
        return {}


@pytest.mark.spec("J2", "J6", "J7", "J9", "J23", "J24")
async def test_a_whole_visit(shop: Workshop) -> None:
    """Open, prompt, answer a request, list, load: by the package's own calls."""
    steps = [bash("echo from-the-shell > made"), tool("Write", file_path=str(shop.project / "a"), content="x\n")]
    shop.play([steps, "all done"])
    client = Client()
    argv = [*ARGV, *shop.model, "--trust"]
    with shop.errors.open("ab") as errors, anyio.fail_after(LIMIT):
        started = {"limit": 1 << 26, "stderr": errors, "shutdown_timeout": 8.0}
        spawned = acp.spawn_agent_process(client, *argv, env=shop.env, cwd=shop.project, transport_kwargs=started)
        async with spawned as (connection, process):
            info = await connection.initialize(protocol_version=1)
            assert info.protocol_version == 1 and info.agent_capabilities.load_session
            opened = await connection.new_session(cwd=str(shop.project), mcp_servers=[])
            words = [schema.TextContentBlock(type="text", text="go")]
            answer = await connection.prompt(session_id=opened.session_id, prompt=words)
            assert answer.stop_reason == "end_turn" and len(client.asked) == 2
            texts = [u.content.text for u in client.updates if u.session_update == "agent_message_chunk"]
            assert "".join(texts) == "all done" and (shop.project / "made").exists()
            listed = await connection.list_sessions(cwd=str(shop.project))
            assert [entry.session_id for entry in listed.sessions] == [opened.session_id]
            client.updates.clear()
            await connection.load_session(cwd=str(shop.project), session_id=opened.session_id, mcp_servers=[])
            kinds = [u.session_update for u in client.updates]
            assert kinds == ["user_message_chunk", "tool_call", "tool_call", "agent_message_chunk"]
        assert process.returncode == 0 or isinstance(process, subprocess.Popen)
