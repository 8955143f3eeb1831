"""Fires hooks around shared services: worktrees, tasks, idle teammates and compaction."""

from pathlib import Path

from msgspec import Struct

from teamwright.core.data.event import Reminded, Warned, Why
from teamwright.core.data.extensions.hook import Fired
from teamwright.core.data.letters.text import added
from teamwright.core.data.message import Message
from teamwright.core.data.tasks import Actor, Task
from teamwright.core.data.team import Member
from teamwright.core.errors import HookStop, ToolError, UsageError
from teamwright.core.ids import AgentId
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.extensions.hook_points import MOST_ROUNDS, HookPoints
from teamwright.runtime.services import Services


class WorktreeHooks:
    """For version control other than git: a hook makes the directory and prints its path."""

    def __init__(self, services: Services, main: AgentId) -> None:
        self._services, self._main = services, main

    async def make(self, name: str, cwd: Path) -> Path | None:
        points = self._services.points
        hooks = points.hooks
        if hooks is None or not hooks.has("WorktreeCreate"):
            return None
        fired = await points.fire("WorktreeCreate", self._main, cwd=cwd, name=name)
        if fired.blocked is not None or not fired.printed:
            why = fired.blocked or " ".join(fired.messages) or "it printed no path."
            raise ToolError(f"The WorktreeCreate hook made no worktree: {why}")
        return Path(fired.printed[-1].strip())

    async def removed(self, path: Path) -> bool:
        points = self._services.points
        hooks = points.hooks
        if hooks is None or not hooks.has("WorktreeRemove"):
            return False
        return _done(await points.fire("WorktreeRemove", self._main, worktree_path=str(path)))


def _done(fired: Fired) -> bool:
    return fired.blocked is None and not fired.messages


class TeamHooks:
    def __init__(self, points: HookPoints) -> None:
        self._points = points
        self._rounds: dict[AgentId, int] = {}

    @property
    def guards(self) -> bool:
        """Whether hooks must see each task before it is stored."""
        return self._points.has("TaskCreated") or self._points.has("TaskCompleted")

    async def check(self, event: str, task: Task, by: Actor, team: str | None) -> str | None:
        """A refusal in words, or None."""
        fired = await self._points.fire(
            "TaskCreated" if event == "TaskCreated" else "TaskCompleted",
            by.agent,
            task_id=str(task.id),
            task_subject=task.subject,
            task_description=task.description,
            teammate_name=by.name if team else None,
            team_name=team,
        )
        return fired.stop if fired.blocked is None else fired.blocked

    async def before_idle(self, member: Member) -> str | None:
        """Words that keep a teammate at work, at most `MOST_ROUNDS` times in a row."""
        fired = await self._points.fire("TeammateIdle", member.agent, teammate_name=member.name, team_name=member.team)
        rounds = self._rounds.pop(member.agent, 0)
        if fired.stop is not None:
            self._points.tell_stop(member.agent, fired.stop)
            return None
        if fired.blocked is None or rounds >= MOST_ROUNDS:
            return None
        self._rounds[member.agent] = rounds + 1
        return fired.blocked


class CompactHooks(Struct, eq=False):
    _points: HookPoints
    _agent: Agent

    async def before(self, agent: AgentId, why: Why, instructions: str) -> str:
        """Let hooks add instructions. They may refuse a compaction, unless the provider refused the conversation as too
        long."""
        trigger = _trigger(why)
        fired = await self._points.fire(
            "PreCompact", agent, subject=trigger, trigger=trigger, custom_instructions=instructions
        )
        no = fired.stop if fired.blocked is None else fired.blocked
        if no is not None and why != "too_long":
            raise UsageError(f"a hook refused the compaction: {no}")
        return "\n\n".join(filter(None, (instructions, *fired.context)))

    async def after(self, agent: AgentId, why: Why, summary: str) -> None:
        """Let hooks add context. They may end the turn that was shortened: then this raises HookStop."""
        trigger = _trigger(why)
        fired = await self._points.fire("PostCompact", agent, subject=trigger, trigger=trigger, compact_summary=summary)
        if fired.blocked:
            self._agent.emit(Warned(fired.blocked))
        stop = fired.stop
        if self._agent.parent is None:
            begun = await self._points.start(agent, "compact")
            if begun.context:
                self._agent.emit(Reminded(added(Message("user", ()), begun.context)))
            stop = begun.stop if stop is None else stop
        if stop is not None and self._agent.running:
            self._points.ended_by_hook(agent)
            raise HookStop(f"A hook ended the turn: {stop}")


def _trigger(why: Why) -> str:
    return "manual" if why == "manual" else "auto"
