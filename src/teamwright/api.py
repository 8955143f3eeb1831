"""The library: open a session, ask, watch, answer questions from code.

>>> import anyio, tempfile
>>> from teamwright import ScriptedModel, query_sync, session
>>> async def main():
...     with tempfile.TemporaryDirectory() as home:
...         async with session(home, model=ScriptedModel(["Hello."]), home=home) as agent:
...             return (await agent.ask("Say hello")).text
>>> anyio.run(main)
'Hello.'

One question, from a script without an event loop:

>>> with tempfile.TemporaryDirectory() as home:
...     print(query_sync("Say hello", cwd=home, model=ScriptedModel(["Hello."]), home=home).text)
Hello.

Or lead a team from code:

>>> model = ScriptedModel({"ada": {"when": "Greet", "steps": ["Ready.", "Hello, lead."]}})
>>> async def lead():
...     with tempfile.TemporaryDirectory() as home:
...         async with session(home, model=model, home=home) as agent:
...             team = await agent.team("crew", "to say hello")
...             await team.spawn("ada", "Greet whoever writes to you.")
...             await team.idle()
...             return (await team.ask("ada", "Hello, ada.")).text
>>> anyio.run(lead)
'Hello, lead.'
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, TypedDict, Unpack, cast

import anyio
import msgspec

from teamwright.app import Options, open_session
from teamwright.app.options import OwnHook
from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.event import TurnEnded
from teamwright.core.data.message import Effort, ToolSpec
from teamwright.core.errors import UsageError
from teamwright.core.permissions.consent import MODES, Decision, Mode, Question
from teamwright.core.permissions.rules import Problem, parse_rule
from teamwright.core.policies.budget import Limits
from teamwright.core.ports import Model, Tool
from teamwright.runtime.agents.resume import Origin
from teamwright.runtime.session import Session
from teamwright.tools.function import FunctionTool, tool


class SessionOptions(TypedDict, total=False):
    """What `session` and `query` take besides the directory. The documentation has them in a table."""

    model: str | Model | None  # a name as on the command line, or an object such as a `ScriptedModel`
    tools: Sequence[Tool | Callable[..., Any]]
    agents: Sequence[AgentDefinition]
    hooks: Mapping[str, Sequence[OwnHook]] | None  # by event; `("Bash", function)` has a matcher
    mcp_servers: Mapping[str, Mapping[str, Any]] | None
    answer: Callable[[Question], Awaitable[Decision]] | None  # asked where a person would be; without it: denied
    permission_mode: Mode | None
    allowed_tools: Sequence[str]
    disallowed_tools: Sequence[str]
    system_prompt: str | None
    append_system_prompt: str
    fallback_model: str | None
    effort: Effort | int | None
    max_turns: int | None
    max_budget_usd: float | None
    resume: str | None  # the id of a session to go on with
    session_id: str | None
    home: str | Path | None  # in the place of TEAMWRIGHT_HOME
    env: Mapping[str, str] | None
    trust: bool  # only then do the project's settings count


class session:
    """A session in `cwd`, for the time of an `async with`. For its options see `SessionOptions`.

    Wrong ones are a UsageError here, before anything is opened.
    """

    def __init__(self, cwd: str | Path = ".", **options: Unpack[SessionOptions]) -> None:
        self._options = _read(cwd, options)
        self._session: Session | None = None

    async def __aenter__(self) -> Session:
        self._session = await open_session(self._options)
        return await self._session.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None
        await self._session.__aexit__(kind, error, trace)


async def query(prompt: str, cwd: str | Path = ".", **options: Unpack[SessionOptions]) -> TurnEnded:
    """Ask one question in a session of its own; the last answer, once its background jobs and teams have ended."""
    async with session(cwd, **options) as agent:
        end = await agent.ask(prompt)
        if end.reason == "done":
            await agent.idle()
        return agent.main.history.ended or end


def query_sync(prompt: str, cwd: str | Path = ".", **options: Unpack[SessionOptions]) -> TurnEnded:
    """`query` for scripts that have no event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return anyio.run(partial(query, prompt, cwd, **options))
    raise UsageError("query_sync would block the event loop that runs here: write `await query(...)`")


def _read(cwd: str | Path, given: SessionOptions) -> Options:
    if unknown := sorted(given.keys() - SessionOptions.__annotations__.keys()):
        raise TypeError(f"session() has no argument {', '.join(map(repr, unknown))}")
    environment = dict(os.environ if (env := given.get("env")) is None else env)
    if (home := given.get("home")) is not None:
        environment["TEAMWRIGHT_HOME"] = str(home)
    tools, model, mode = _tools(given.get("tools", ())), _model(given.get("model")), _mode(given.get("permission_mode"))
    asked = {t.spec.name for t in tools if isinstance(t, FunctionTool) and t.ask}
    unasked = [t.spec.name for t in tools if t.spec.name not in asked]
    servers = given.get("mcp_servers")
    return Options(
        cwd=Path(cwd),
        env=environment,
        origin=Origin(given.get("resume"), id=given.get("session_id")),
        model=model if isinstance(model, str) else None,
        own_model=None if isinstance(model, str) else model,
        fallback_model=given.get("fallback_model"),
        effort=given.get("effort"),
        limits=Limits(turns=given.get("max_turns"), usd=given.get("max_budget_usd")),
        system_prompt=given.get("system_prompt"),
        append_system_prompt=given.get("append_system_prompt", ""),
        mode=mode,
        may_bypass=mode == "bypassPermissions",
        allowed_tools=[*_rules("allowed_tools", given.get("allowed_tools", ())), *unasked],
        disallowed_tools=_rules("disallowed_tools", given.get("disallowed_tools", ())),
        own_tools=tools,
        definitions=_agents(given.get("agents", ())),
        hooks=given.get("hooks") or {},
        mcp_config=[msgspec.json.encode({"mcpServers": servers}).decode()] if servers else [],
        trust=given.get("trust", False),
        answer=given.get("answer"),
        code_leads=True,
    )


# --- what callers may get wrong; types do not reach those who do not check them


def _model(given: Any) -> Any:
    if given is not None and not isinstance(given, str) and not callable(getattr(given, "reply", None)):
        raise UsageError(f"model: {given!r} is neither a name nor a model such as a ScriptedModel")
    return given


def _mode(given: Any) -> Any:
    if given is not None and given not in MODES:
        raise UsageError(f"permission_mode: there is no {given!r}; there are {', '.join(MODES)}")
    return given


def _rules(name: str, given: Any) -> list[str]:
    for text in _sequence(name, given):
        if not isinstance(text, str):
            raise UsageError(f"{name}: {text!r} is no text; a rule is written as `Bash(git log *)`")
        if isinstance(rule := parse_rule(text, "flag"), Problem):
            raise UsageError(f"{name}: {text!r} is no rule: {rule.reason}")
    return list(given)


def _tools(given: Any) -> list[Tool]:
    found: list[Tool] = []
    for one in _sequence("tools", given):
        if isinstance(getattr(one, "spec", None), ToolSpec):
            found.append(one)
        elif callable(one) and getattr(one, "__name__", "<").isidentifier() and not isinstance(one, type):
            found.append(tool(one))
        else:
            raise UsageError(f"tools: {one!r} is neither a tool nor a function with a name; @tool makes one")
    names = [t.spec.name for t in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"tools: there are two of the name {twice[0]}")
    return found


def _agents(given: Any) -> list[AgentDefinition]:
    for one in _sequence("agents", given):
        if not isinstance(one, AgentDefinition):
            raise UsageError(f"agents: {one!r} is no AgentDefinition; AgentDefinition(name=..., description=...) is")
    return list(given)


def _sequence(name: str, given: Any) -> Sequence[Any]:
    if not isinstance(given, list | tuple):
        raise UsageError(f"{name} takes a list, not {given!r}")
    return cast("Sequence[Any]", given)
