"""`/mcp`: the session's servers as they are now, and what can be done about one."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

import anyio
from textual.app import SuspendNotSupported

from teamwright.core.data.extensions.server import ServerState
from teamwright.core.data.op import SetServer
from teamwright.core.errors import UsageError
from teamwright.surfaces.terminal.dialogs.value_picker import Row, ValuePicker
from teamwright.surfaces.terminal.slash.command import CommandContext
from teamwright.surfaces.terminal.slash.status import about_server
from teamwright.surfaces.view.text import one_line

NO_SERVERS = "This session has no MCP servers. `teamwright mcp add` adds one for the next session."
SIGN_IN_SECONDS = 360.0
Change = Literal["again", "on", "off"]
CHANGES: tuple[Change, ...] = get_args(Change)
Action = Literal["tools", "again", "login", "off", "on"]
ACTIONS: dict[Action, str] = {
    "tools": "list its tools",
    "again": "connect again",
    "login": "sign in, in a browser",
    "off": "switch it off for this session",
    "on": "switch it on",
}


async def servers(stage: CommandContext, words: str) -> str:
    name, _, to = words.rpartition(" ")
    change: Change | None = next((known for known in CHANGES if known == to), None)
    if name and change is not None:
        return await _change(stage, name.strip(), change)
    states = (await stage.session.status()).servers
    if not states:
        return NO_SERVERS
    names = [state.name for state in states]
    if words and words not in names:
        raise UsageError(f"there is no MCP server {words}; there are: {', '.join(names)}")
    told: list[str] = []
    at = words or await _pick(stage, "")
    while at is not None:
        if done := await _act(stage, at):
            told.append(done)
        at = await _pick(stage, at)
    return "\n".join(told)


async def _pick(stage: CommandContext, at: str) -> str | None:
    async def read() -> Sequence[Row]:
        states = (await stage.session.status()).servers
        return [Row(state.name, (state.name, state.status, about_server(state))) for state in states]

    return await stage.push_screen_wait(ValuePicker("MCP server", await read(), at=at, read=read))


async def _act(stage: CommandContext, name: str) -> str:
    state = await _state(stage, name)
    rows = [Row(action, (words,)) for action, words in ACTIONS.items() if action in _possible(state)]
    chosen = await stage.push_screen_wait(ValuePicker(f"{one_line(name, 40)} ({state.status})", rows))
    match chosen:
        case "tools":
            return "\n".join([f"Tools of {one_line(name, 40)}:", *(f"  {one_line(tool)}" for tool in state.tools)])
        case "login":
            return await _sign_in(stage, name)
        case "again" | "on" | "off":
            return await _change(stage, name, chosen)
        case _:
            return ""


def _possible(state: ServerState) -> list[Action]:
    if state.status == "disabled":
        return ["on"]
    more: list[Action] = ["login"] if state.status == "needs-auth" else ["tools"] if state.tools else []
    return [*more, "again", "off"]


async def _state(stage: CommandContext, name: str) -> ServerState:
    states = (await stage.session.status()).servers
    found = next((state for state in states if state.name == name), None)
    if found is None:
        raise UsageError(f"there is no MCP server {name} in this session any more")
    return found


async def _change(stage: CommandContext, name: str, to: Change) -> str:
    await stage.session.submit(SetServer(name, to))
    state = await _state(stage, name)
    about = about_server(state)
    return f"MCP server {one_line(name, 40)} is {state.status}{f': {about}' if about else ''}."


async def _sign_in(stage: CommandContext, name: str) -> str:
    """Runs the program's own command, which has the terminal meanwhile: it prints an address."""
    try:
        with stage.suspend():
            status = await _run_login(name, stage.session.cwd, stage.options.env)
    except SuspendNotSupported:
        raise UsageError(f"run `teamwright mcp login {name}` in a terminal, then connect again") from None
    if status:
        raise UsageError(f"signing in did not work: `teamwright mcp login {name}` ended with status {status}")
    return await _change(stage, name, "again")


async def _run_login(name: str, cwd: Path, env: Mapping[str, str]) -> int:
    argv = [sys.executable, "-m", "teamwright", "mcp", "login", name]
    with anyio.move_on_after(SIGN_IN_SECONDS):
        async with await anyio.open_process(argv, stdin=None, stdout=None, stderr=None, cwd=cwd, env=env) as ran:
            return await ran.wait()
    return 1
