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
from typing import Annotated, Any, TypedDict, Unpack, cast, get_args

import anyio
import msgspec
from msgspec.structs import replace

from teamwright.app import Options, open_session
from teamwright.app.options import OwnHook
from teamwright.core.data.checked import checked
from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.event import TurnEnded
from teamwright.core.data.message import Effort, ToolSpec
from teamwright.core.errors import UsageError
from teamwright.core.permissions.consent import MODES, Allow, Decision, Deny, Mode, Question
from teamwright.core.permissions.rules import Problem, parse_rule
from teamwright.core.policies.budget import Limits
from teamwright.core.policies.placement import Asked
from teamwright.core.ports import Model, Tool
from teamwright.runtime.agents.resume import Origin
from teamwright.runtime.asking import PromptInput
from teamwright.runtime.session import Session
from teamwright.tools.function import FunctionTool, tool


class SessionOptions(TypedDict, total=False):
    """Options of `session` and `query`, besides the directory. The documentation lists them in a table."""

    model: str | Model | None  # a name as on the command line, or an object such as a `ScriptedModel`
    tools: Sequence[Tool | Callable[..., Any]]
    built_in_tools: Sequence[str] | None  # names of the built-in tools that agents also have; None: all
    schema: Mapping[str, Any] | None  # JSON schema of the answers, which then come as data: `end.data`
    agents: Sequence[AgentDefinition]
    hooks: Mapping[str, Sequence[OwnHook]] | None  # by event; `("Bash", function)` has a matcher
    mcp_servers: Mapping[str, Mapping[str, Any]] | None
    # called where a person would be asked; without it calls are denied
    answer: Callable[[Question], Awaitable[Decision]] | None
    permission_mode: Mode | None
    allowed_tools: Sequence[str]
    disallowed_tools: Sequence[str]
    system_prompt: str | None
    append_system_prompt: str
    fallback_model: str | None
    effort: Effort | int | None
    max_turns: int | None
    max_budget_usd: float | None
    resume: str | None  # id of the session to continue
    session_id: str | None
    home: str | Path | None  # instead of TEAMWRIGHT_HOME
    env: Mapping[str, str] | None
    add_dirs: Sequence[str | Path]
    settings: str | Path | Mapping[str, Any] | None  # a file, JSON text, or the settings themselves
    teammate_mode: Asked | None
    keep_files: bool  # keeps files before agents change them, so that a `Rewind` can restore them
    trust: bool  # False: the project's settings do not count


class session:
    """A session in `cwd` that lives inside its `async with`. `SessionOptions` lists the options.

    Invalid options raise UsageError here, before anything is opened.
    """

    def __init__(self, cwd: str | Path = ".", **options: Unpack[SessionOptions]) -> None:
        self._options = _read(cwd, options)
        self._session: Session | None = None
        self._raised: list[Exception] = []
        if (answer := self._options.answer) is not None:
            self._options.answer = partial(_answer, answer, self._raised)

    async def __aenter__(self) -> Session:
        self._session = await open_session(self._options)
        self._session.checks_ops, self._session.raised = True, self._raised
        return await self._session.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None
        try:
            await self._session.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            if not _wraps(group, error):
                raise
        if error is None and self._raised:
            raise self._raised[0]  # nobody asked


async def _answer(
    answer: Callable[[Question], Awaitable[Decision]], raised: list[Exception], question: Question
) -> Decision:
    """What the caller's function raises denies the call, ends the turn, and comes out of the `ask` that waits."""
    try:
        decision: Any = await answer(question)
        if not isinstance(decision, Allow | Deny):
            raise UsageError(f"answer: it returned {decision!r}, neither Allow nor Deny")
    except Exception as error:  # noqa: BLE001 -- users' code
        raised.append(error)
        return Deny(f"The program that answers failed: {type(error).__name__}.", interrupt=True)
    return decision


def _wraps(group: BaseException, error: BaseException | None) -> bool:
    """Is it this error, alone in the groups that task groups have put around it?"""
    inside: Sequence[BaseException] = getattr(group, "exceptions", ())
    return group is error or (len(inside) == 1 and _wraps(inside[0], error))


async def query(prompt: PromptInput, cwd: str | Path = ".", **options: Unpack[SessionOptions]) -> TurnEnded:
    """Ask one question in a session of its own. Returns the last answer, once its background jobs and teams have
    ended."""
    async with session(cwd, **options) as agent:
        end = await agent.ask(prompt)
        if end.reason == "done":
            await agent.idle()
        history = agent.main.history
        last = history.ended or end
        return replace(last, data=agent.asking.data)


def query_sync(prompt: PromptInput, cwd: str | Path = ".", **options: Unpack[SessionOptions]) -> TurnEnded:
    """`query` for scripts that have no event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return anyio.run(partial(query, prompt, cwd, **options))
    raise UsageError("query_sync would block the event loop that runs here: write `await query(...)`")


def _read(cwd: str | Path, given: SessionOptions) -> Options:
    if unknown := sorted(given.keys() - SessionOptions.__annotations__.keys()):
        raise TypeError(f"session() has no argument {', '.join(map(repr, unknown))}")
    _check_plain(cast("Mapping[str, Any]", given))
    tools, model, mode = _tools(given.get("tools", ())), _model(given.get("model")), _mode(given.get("permission_mode"))
    asked = {t.spec.name for t in tools if isinstance(t, FunctionTool) and t.ask}
    unasked = [t.spec.name for t in tools if t.spec.name not in asked]
    hooks, servers = dict(given.get("hooks") or {}), given.get("mcp_servers")
    if (schema := given.get("schema")) is not None:
        from teamwright.tools.structured import StructuredOutput, WantsData  # noqa: PLC0415

        tools.append(StructuredOutput(_in_dicts("schema", schema)))
        hooks["Stop"] = [*hooks.get("Stop", ()), WantsData()]
    return Options(
        cwd=Path(cwd),
        env=_environment(given),
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
        tools=_built_in(given.get("built_in_tools")),
        hooks=hooks,
        mcp_config=[msgspec.json.encode({"mcpServers": _in_dicts("mcp_servers", servers)}).decode()] if servers else [],
        add_dirs=[str(directory) for directory in _sequence("add_dirs", given.get("add_dirs", ()))],
        settings=_settings(given.get("settings")),
        teammate_mode=_place(given.get("teammate_mode")),
        keep_files=given.get("keep_files", False),
        trust=given.get("trust", False),
        answer=given.get("answer"),
        code_leads=True,
    )


def _environment(given: SessionOptions) -> dict[str, str]:
    env, home = given.get("env"), given.get("home")
    own = {} if home is None else {"TEAMWRIGHT_HOME": str(home)}
    return {**(os.environ if env is None else env), **own}


# --- checks of what callers pass, because not everybody runs a type checker


class _Plain(msgspec.Struct):
    """Arguments that need no more than a type."""

    effort: Effort | int | None = None
    max_turns: Annotated[int, msgspec.Meta(ge=1)] | None = None
    max_budget_usd: Annotated[float, msgspec.Meta(gt=0)] | None = None
    fallback_model: str | None = None
    system_prompt: str | None = None
    resume: str | None = None
    session_id: str | None = None
    hooks: dict[str, list[Any]] | None = None
    mcp_servers: dict[str, dict[str, Any]] | None = None
    schema: dict[str, Any] | None = None
    env: dict[str, str] | None = None
    keep_files: bool = False
    trust: bool = False


def _check_plain(given: Mapping[str, Any]) -> None:
    try:
        msgspec.convert({name: given[name] for name in _Plain.__struct_fields__ if name in given}, _Plain)
    except msgspec.ValidationError as error:
        words, _, place = str(error).partition(" - at `$.")
        raise UsageError(f"{place.rstrip('`')}: {words[:1].lower()}{words[1:]}") from None
    if (answer := given.get("answer")) is not None and not callable(answer):
        raise UsageError(f"answer: {answer!r} is no function")


def _model(given: Any) -> Any:
    if given is not None and not isinstance(given, str) and not callable(getattr(given, "reply", None)):
        raise UsageError(f"model: {given!r} is neither a name nor a model such as a ScriptedModel")
    return given


def _mode(given: Any) -> Any:
    if given is not None and given not in MODES:
        raise UsageError(f"permission_mode: there is no {given!r}; there are {', '.join(MODES)}")
    return given


def _place(given: Any) -> Any:
    if given is not None and given not in get_args(Asked):
        raise UsageError(f"teammate_mode: there is no {given!r}; there are {', '.join(get_args(Asked))}")
    return given


def _built_in(given: Any) -> list[str] | None:
    if given is None:
        return None
    from teamwright.tools.catalog import CATALOG  # noqa: PLC0415

    there = CATALOG.keys()
    if unknown := [name for name in _sequence("built_in_tools", given) if name not in there]:
        raise UsageError(f"built_in_tools: there is no {unknown[0]!r}; there are {', '.join(sorted(there))}")
    return list(given)


def _settings(given: Any) -> str | None:
    if isinstance(given, Mapping):
        return msgspec.json.encode(_in_dicts("settings", cast("Mapping[str, Any]", given))).decode()
    return None if given is None else str(given)


def _in_dicts(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The same, with a dict for every mapping in it."""

    def to_dict(one: Any) -> dict[str, Any]:
        if not isinstance(one, Mapping):
            raise UsageError(f"{name}: {one!r} cannot be written as JSON")
        return dict(cast("Mapping[str, Any]", one))

    return msgspec.to_builtins(given, enc_hook=to_dict)


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
    return [checked(one, AgentDefinition, f"agents: {one.name}") for one in given]


def _sequence(name: str, given: Any) -> Sequence[Any]:
    if not isinstance(given, list | tuple):
        raise UsageError(f"{name} takes a list, not {given!r}")
    return cast("Sequence[Any]", given)
