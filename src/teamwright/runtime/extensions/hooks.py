"""Runs the hooks of an event concurrently, each within its limit, and merges their answers."""

import inspect
import os.path
from collections.abc import Awaitable, Callable, Collection, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import anyio
import anyio.to_thread
import msgspec
from msgspec import Struct

from teamwright.core.data.extensions.hook import (
    DEFAULT_SECONDS,
    NOTHING,
    CommandHook,
    Fired,
    Hook,
    HookBook,
    HookEvent,
    HttpHook,
    PromptHook,
    compile_matcher,
    matches,
    merge,
    name_hook,
    payload,
)
from teamwright.core.data.extensions.hook_answer import (
    fail,
    read_exit,
    read_object,
    read_text,
    read_verdict,
    refuse,
    unanswered,
)
from teamwright.core.errors import TeamwrightError, ToolError
from teamwright.core.ids import AgentId, SessionId
from teamwright.core.text import shown

if TYPE_CHECKING:
    from teamwright.host.sandbox.box import Box

Watch = Callable[[HookEvent, str, Fired | None], Awaitable[None]]
# The file that names a hook, and its environment -> the environment and the box to run it in.
HookPlace = Callable[[str, Mapping[str, str]], "AbstractAsyncContextManager[tuple[Mapping[str, str], Box | None]]"]
Beside = Callable[[AgentId, Callable[[], Awaitable[Fired]]], None]
TraceOf = Callable[[AgentId | None, str], Mapping[str, str]]
AskModel = Callable[[PromptHook, bytes], Awaitable[str]]  # returns its words about the payload; raises TeamwrightError
HookFunction = Callable[[dict[str, Any]], Awaitable[Mapping[str, Any] | None] | Mapping[str, Any] | None]


class Called(Struct, frozen=True, eq=False):
    """A Python function. It takes the payload and returns the object that a command would print, or None."""

    matcher: str
    function: HookFunction
    seconds: float
    blocks: bool  # whether an exception in it refuses
    name: str


class HookSession(Struct, frozen=True):
    """The session that the hooks belong to."""

    id: SessionId
    transcript: Path
    project: Path


class Firing(Struct, frozen=True):
    """What every hook of one event gets."""

    event: HookEvent
    data: bytes
    cwd: Path
    env: Mapping[str, str] = {}  # added to what commands always have


class Hooks:
    """One per session. Firing an event that has no hook costs a look into a dictionary."""

    def __init__(
        self,
        book: HookBook,
        session: HookSession,
        *,
        env: Mapping[str, str],
        log: Callable[[str], None],
        passed: Collection[str] = (),
        config: Callable[[], list[tuple[str, str]]] | None = None,
        place: HookPlace | None = None,
    ) -> None:
        """`passed` names further variables that commands get; `config` lists settings files that have changed (source,
        path); `place` says where a command from that source runs."""
        self.config, self._place = config, place
        self._book, self._project, self._env, self._passed, self._log = book, session.project, env, passed, log
        self._common = {"session_id": session.id, "transcript_path": str(session.transcript)}
        self._called: dict[HookEvent, list[Called]] = {}
        self._scoped: dict[AgentId, list[HookBook]] = {}
        self._shell_env: dict[str, str] | None = None
        self.watch: Watch | None = None  # told when a hook begins, and again with its answer
        self.ask_model: AskModel | None = None  # for hooks that let a model judge
        self.beside: Beside | None = None  # runs hooks that their event does not wait for
        self.trace: TraceOf | None = None  # variables with which a command joins the trace of a call

    def has(self, event: HookEvent, agent: AgentId | None = None) -> bool:
        """Whether a hook may want this event. With `agent`, hooks of other agents' definitions do not count."""
        if event in self._book.hooks or self._called.get(event):
            return True
        agents = self._scoped if agent is None else (agent,)
        return any(self._of_agent(event, one) for one in agents) if self._scoped else False

    def matchers(self, event: HookEvent) -> tuple[str, ...]:
        """Matchers of all hooks of this event, except those of agents' own definitions."""
        return (
            *(hook.matcher for hook in self._book.hooks.get(event, ())),
            *(called.matcher for called in self._called.get(event, ())),
        )

    def add_callable(
        self,
        event: HookEvent,
        matcher: str,
        function: HookFunction,
        *,
        seconds: float = DEFAULT_SECONDS,
        blocks: bool = False,
        name: str = "",
    ) -> None:
        """Raises re.error for an invalid matcher."""
        if matcher != "*":
            compile_matcher(matcher)
        called = name or getattr(function, "__name__", "") or type(function).__name__
        self._called.setdefault(event, []).append(Called(matcher, function, seconds, blocks, shown(called, 80)))

    @contextmanager
    def scoped(self, agent: AgentId, book: HookBook) -> Generator[None]:
        """Adds the hooks of an agent's definition: for this agent only, and as long as it lives."""
        if not book.hooks:
            yield
            return
        books = self._scoped.setdefault(agent, [])
        books.append(book)
        try:
            yield
        finally:
            books.remove(book)
            if not books:
                del self._scoped[agent]

    async def fire(
        self,
        event: HookEvent,
        *,
        subject: str = "",
        agent: AgentId | None = None,
        agent_type: str = "",
        cwd: Path,
        mode: str,
        **fields: Any,
    ) -> Fired:
        """Run all hooks that match, and wait for them. `fields` go into the payload; a None is left out."""
        due = self._due(event, subject, agent)
        if not due:
            return NOTHING
        other = agent if agent != self._common["session_id"] else None  # the main agent's id is left out
        common = self._common | {"cwd": str(cwd), "permission_mode": mode, "agent_id": other}
        data = payload(event, common | {"agent_type": agent_type or None}, fields)
        env: Mapping[str, str] = {}
        if self.trace is not None:
            env = self.trace(agent, str(fields.get("tool_use_id") or ""))
        firing = Firing(event, data, cwd, env)
        if self.beside is not None and agent is not None and event != "SessionEnd":  # there is nothing beside the end
            for hook in filter(_is_beside, due):
                self.beside(agent, partial(self._run_alone, hook, firing))
            due = [hook for hook in due if not _is_beside(hook)]
        if len(due) == 1:
            return await self._run(due[0], firing)
        said: list[Fired] = [NOTHING] * len(due)

        async def run(n: int) -> None:
            said[n] = await self._run(due[n], firing)

        async with anyio.create_task_group() as group:
            for n in range(len(due)):
                group.start_soon(run, n)
        return merge(said)

    def _due(self, event: HookEvent, subject: str, agent: AgentId | None) -> Sequence[Hook | Called]:
        written = [*self._book.hooks.get(event, ()), *(self._of_agent(event, agent) if agent else ())]
        # The same twice runs once; one that nobody waits for does not stand in for a guard.
        concerned = {(hook.run, hook.beside): hook for hook in written if matches(hook.matcher, subject)}
        called = self._called.get(event, ())
        return [*concerned.values(), *(one for one in called if matches(one.matcher, subject))]

    def _of_agent(self, event: HookEvent, agent: AgentId) -> list[Hook]:
        """Hooks of an agent's definition. Its `Stop` means the end of that agent: a SubagentStop, if another agent
        started it."""
        names: tuple[HookEvent, ...] = ("SubagentStop", "Stop") if event == "SubagentStop" else (event,)
        books = self._scoped.get(agent, ())
        return [hook for book in books for name in names for hook in book.hooks.get(name, ())]

    async def _run(self, hook: Hook | Called, firing: Firing) -> Fired:
        if self.watch is None:
            return await self._answer(hook, firing)
        name = hook.name if isinstance(hook, Called) else name_hook(hook.run)
        await self.watch(firing.event, name, None)
        fired = await self._answer(hook, firing)
        await self.watch(firing.event, name, fired)
        return fired

    async def _run_alone(self, hook: Hook | Called, firing: Firing) -> Fired:
        try:
            return await self._run(hook, firing)
        except (OSError, TeamwrightError) as error:  # no agent's turn is there to report it
            self._log(f"a hook for {firing.event} failed: {error}")
            return NOTHING

    async def _answer(self, hook: Hook | Called, firing: Firing) -> Fired:
        event, data = firing.event, firing.data
        if isinstance(hook, Called):
            return await self._call(event, hook, data)
        who = f"`{name_hook(hook.run)}` ({event}{f', {shown(hook.source, 120)}' if hook.source else ''})"
        match hook.run:
            case CommandHook():
                return await self._start(hook, hook.run, firing, who)
            case HttpHook():
                return await self._post(event, hook, hook.run, data, who)
            case PromptHook():
                return await self._judge(event, hook, hook.run, data, who)

    async def _start(self, hook: Hook, run: CommandHook, firing: Firing, who: str) -> Fired:
        from teamwright.host.process.environment import tool_environment  # noqa: PLC0415
        from teamwright.host.process.hook_process import HookEnd, run_hook  # noqa: PLC0415

        if self._shell_env is None:
            here = str(self._project)
            places = {"CLAUDE_PROJECT_DIR": here, "TEAMWRIGHT_PROJECT_DIR": here}
            self._shell_env = tool_environment(self._env, places, self._passed)
        event, cwd = firing.event, self._stand(firing.cwd)
        env = {**self._shell_env, **firing.env} if firing.env else self._shell_env
        place = nullcontext((env, None)) if self._place is None else self._place(hook.source, env)
        try:
            async with place as (env, box):
                ended = await run_hook(run.command, firing.data, cwd=cwd, env=env, limit=hook.seconds, box=box)
        except ToolError as error:  # the sandbox could not be made
            ended = HookEnd(None, fault=str(error))
        if ended.status is None:
            self._log(f"a hook for {event} of {hook.source} gave no answer: {ended.fault}")
            return unanswered(event, who, ended.fault)
        if ended.status not in (0, 2):
            self._log(f"a hook for {event} of {hook.source} ended with exit status {ended.status}")
        return read_exit(event, ended.status, ended.out, self._without_secrets(ended.err), who)

    def _without_secrets(self, words: str) -> str:
        """Remove secrets from a hook's complaint, which the model reads: a trace may hold what only the hook is trusted
        with."""
        from teamwright.core.policies.redaction import redacted, secrets_of  # noqa: PLC0415  # where one complains

        return redacted(words, secrets_of(self._env)) if words else words

    def _stand(self, cwd: Path) -> Path:
        """Where a command runs: an agent's directory may be gone."""
        return next((place for place in (cwd, self._project) if os.path.isdir(place)), Path("/"))  # noqa: PTH112

    async def _post(self, event: HookEvent, hook: Hook, run: HttpHook, data: bytes, who: str) -> Fired:
        from teamwright.host.web.hook_http import post_hook  # noqa: PLC0415  # it imports aiohttp

        posted = await post_hook(run, data, env=self._env, limit=hook.seconds)
        if posted.status is None:
            self._log(f"a hook for {event} of {hook.source} gave no answer")
            return unanswered(event, who, posted.fault)
        if not 200 <= posted.status < 300:
            self._log(f"a hook for {event} of {hook.source} answered with status {posted.status}")
            return fail(who, f"answered with status {posted.status}: {posted.text.strip()}")
        return read_text(event, posted.text, who)

    async def _judge(self, event: HookEvent, hook: Hook, run: PromptHook, data: bytes, who: str) -> Fired:
        if self.ask_model is None:
            return unanswered(event, who, "there is no model to ask")
        text = None
        with anyio.move_on_after(hook.seconds):
            try:
                text = await self.ask_model(run, data)
            except TeamwrightError as error:
                self._log(f"a hook for {event} of {hook.source} gave no answer: {error}")
                return unanswered(event, who, str(error))
        if text is None:
            return unanswered(event, who, f"the model did not answer within {hook.seconds:g} s")
        return read_verdict(event, text, who)

    async def _call(self, event: HookEvent, hook: Called, data: bytes) -> Fired:
        who = f"`{hook.name}` ({event})"
        answer: Any = None
        with anyio.move_on_after(hook.seconds) as limit:
            try:
                answer = await _answer_of(hook.function, msgspec.json.decode(data))
            except Exception as error:  # noqa: BLE001 -- users' code: an exception counts as its answer
                self._log(f"a hook for {event} failed: {hook.name} raised {type(error).__name__}")
                words = f"failed: {type(error).__name__}: {error}"
                return refuse(event, f"The hook {who} {words}") if hook.blocks else fail(who, words)
        if limit.cancelled_caught:
            return unanswered(event, who, f"did not answer within {hook.seconds:g} s")
        if answer is None:
            return NOTHING
        if not isinstance(answer, Mapping):
            return unanswered(event, who, f"answered with {type(answer).__name__}, not with an object")
        return read_object(event, cast("Mapping[str, Any]", answer), who)


def _is_beside(hook: Hook | Called) -> bool:
    return isinstance(hook, Hook) and hook.beside


async def _answer_of(function: HookFunction, data: dict[str, Any]) -> Any:
    """Call a function with its own copy of the payload, which it may change freely. Plain functions run in a thread."""
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
        found: Any = function(data)
    else:
        found = await anyio.to_thread.run_sync(function, data, abandon_on_cancel=True)
    return await found if inspect.isawaitable(found) else found
