"""Team led by Python code, through the same paths and checks as a team that a model leads."""

import os
from collections.abc import Awaitable, Sequence
from typing import TypeVar

import anyio
from msgspec import Struct

from teamwright.core.data.definition import Isolation
from teamwright.core.data.message import Effort, Message, Reply, Usage
from teamwright.core.data.tasks import Done, Draft, Owner, Refusal, Task, TaskId
from teamwright.core.data.team import Member, RequestId, TeamRequest
from teamwright.core.errors import ToolError, UsageError
from teamwright.core.ids import CallId
from teamwright.core.permissions.consent import Mode
from teamwright.core.policies.spawn import Ask
from teamwright.core.ports import ToolContext
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.teams.service import Teamwork

MOST_SUBJECT = 200  # characters of a task's subject
FEW_WORDS = 60  # characters of a text that stand for it where people read
LOOK = 1.0  # seconds until an answer is looked for again, if nothing rang
T = TypeVar("T")


class Gone(Struct, frozen=True):
    """What became of a request to shut down. `reason` are the teammate's own words, if it refused."""

    done: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return self.done


class LedTeam:
    """Made by `Session.team`. Whatever teammates tell their lead reaches the session's main agent.

    What cannot be done is a UsageError that says why.
    """

    def __init__(self, work: Teamwork, lead: Agent, name: str) -> None:
        self._work, self._agent = work, lead
        self.name = name  # as it was made safe for files

    def __repr__(self) -> str:
        return f"LedTeam({self.name!r})"

    @property
    def members(self) -> list[Member]:
        """Those that have not shut down, the lead first."""
        return self._work.roster.members(self.name)

    # --- people

    async def spawn(
        self,
        name: str,
        prompt: str,
        *,
        kind: str | None = None,
        description: str = "",
        model: str | None = None,
        effort: Effort | int | None = None,
        mode: Mode | None = None,
        isolation: Isolation | None = None,
    ) -> Member:
        """Add a teammate, which begins with `prompt` at once. A name that is taken gets a number: see `.name`.

        `mode="plan"` lets it change nothing before the lead has approved its plan; `isolation="worktree"` gives it a
        tree and a branch of its own.
        """
        ask = Ask(
            description=description or _few(prompt) or name,
            prompt=prompt,
            kind=kind,
            model=model,
            effort=effort,
            name=name,
            team=self._lead.team,
            mode=mode,
            isolation=isolation,
        )
        if not name.strip():
            raise UsageError("a teammate needs a name")
        agent = self._agent
        nothing = Reply(Message("assistant", ()), "end_turn", Usage())
        ctx = ToolContext(agent.id, _new_call(), agent.desk, agent.request(), nothing, agent.emit)
        made, _ = await _spoken(self._work.spawn(ask, ctx))
        assert isinstance(made, Member)
        return made

    async def send(self, to: str, text: str, summary: str = "") -> tuple[str, ...]:
        """Tell a teammate something, or all with `*`. It is stored when this returns; the names that it goes to."""
        if not text.strip():
            raise UsageError("the message is empty")
        posted = await _spoken(self._work.mail.say(self._lead, to, text, summary or _few(text), _new_call()))
        return posted.to

    async def idle(self) -> None:
        """Wait until each teammate is idle, has read everything and finds no task that it could take."""
        while not await self._work.rests(self.name):
            await anyio.lowlevel.checkpoint()

    async def shutdown(self, name: str, reason: str = "", *, within: float = 60.0, force: bool = False) -> Gone:
        """Ask a teammate to end, and wait for it: true once it is gone, false if it refuses or is silent too long.

        `force` asks nothing: its turn is cut off, and its tasks go back to the list.
        """
        member = self._find(name)
        if force:
            await _spoken(self._work.stop(self._agent, member.address))
            return Gone(done=True)
        asked = await _spoken(self._work.requests.ask_shutdown(self._lead, member.name, reason, _new_call()))
        with anyio.move_on_after(within):
            return await self._answer(member, asked)
        return Gone(done=False, reason=f"no answer within {within:g} s")

    async def _answer(self, member: Member, asked: RequestId) -> Gone:
        roster, requests = self._work.roster, self._work.tables.requests
        while True:
            if (now := roster.find(self.name, member.agent)) is None or now.state == "shutdown":
                return Gone(done=True)
            request = await requests.by_id(asked)
            if request is not None and (refusal := _refusal(request)) is not None:
                return Gone(done=False, reason=refusal)
            with anyio.move_on_after(LOOK):
                await roster.news()

    # --- tasks

    async def tasks(self) -> list[Task]:
        """The shared list, in the order of its numbers."""
        board = self._work.board
        return list((await board.table.list(self._lead.team)).tasks)

    async def add_task(
        self, subject: str, description: str = "", *, blocked_by: Sequence[int] = (), owner: str | None = None
    ) -> Task:
        """Put a task on the list; an idle teammate takes it once nothing blocks it. `owner` assigns it to one."""
        line = " ".join(subject.split())
        if not line or len(line) > MOST_SUBJECT:
            raise UsageError(f"a task's subject has 1 to {MOST_SUBJECT} characters; details go into the description")
        member = self._find(owner) if owner else None
        draft = Draft(line, description, blocked_by=tuple(TaskId(id) for id in dict.fromkeys(blocked_by)))
        board, agent, team = self._work.board, self._agent.id, self._lead.team
        given = Owner(member.name, member.agent) if member else None
        done = _done(await _spoken(board.create(agent, draft, _new_call(), list=team, owner=given)))
        assert done.task is not None
        return done.task

    # --- the end

    async def delete(self) -> None:
        """End the team with its mail and its tasks. Refused while a teammate works; those that are idle are ended."""
        await _spoken(self._work.delete(self._agent, self._lead.team))

    @property
    def _lead(self) -> Member:
        """In this team, which need not be the current one of its agent."""
        lead = self._work.roster.lead_of(self.name)
        if lead is None or lead.agent != self._agent.id:
            raise UsageError(f"this session does not lead the team {self.name}: it was deleted, or has another lead")
        return lead

    def _find(self, name: str) -> Member:
        lead, member = self._lead, self._work.roster.find(self.name, name)
        if member is None or member.state == "shutdown" or member.agent == lead.agent:
            there = ", ".join(m.name for m in self.members if not m.is_lead)
            raise UsageError(f"there is no teammate {name!r} in the team {self.name}; there are: {there or 'none'}")
        return member


async def lead_team(work: Teamwork, agent: Agent, name: str, description: str) -> LedTeam:
    """The team of this name that the agent leads here, or a new one."""
    for known in work.roster.led_here():
        if known.casefold() == name.casefold():
            return LedTeam(work, agent, known)
    team = await _spoken(work.create(agent, name, description, "", _new_call()))
    return LedTeam(work, agent, team.name)


async def _spoken(work: Awaitable[T]) -> T:
    """Errors for a model become errors for the calling code."""
    try:
        return await work
    except ToolError as error:
        raise UsageError(str(error)) from None


def _done(outcome: Done | Refusal) -> Done:
    if isinstance(outcome, Refusal):
        raise UsageError(outcome.words)
    return outcome


def _refusal(request: TeamRequest) -> str | None:
    answer = request.answer or {}
    return str(answer.get("reason", "")) if request.answer is not None and not answer.get("approve") else None


def _new_call() -> CallId:
    """A call that no model made; the key under which what it does is stored once."""
    return CallId(f"code_{os.urandom(8).hex()}")


def _few(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= FEW_WORDS else line[: FEW_WORDS - 4].rsplit(" ", 1)[0] + " ..."
