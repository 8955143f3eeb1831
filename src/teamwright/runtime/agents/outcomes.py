"""What became of calls that never came to a result of their own: after a crash, and at an interrupt.

What only changes our own store is looked up there by its key; the outcome of everything else is unknown.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from msgspec import Struct

from teamwright.core.data.event import ToolEnded
from teamwright.core.data.history import History
from teamwright.core.data.message import Text, ToolCall
from teamwright.core.data.team import RequestId, split_address
from teamwright.core.errors import DiskError, StoreError
from teamwright.core.ids import AgentId, CallId, LetterId
from teamwright.store.tables.jobs import JobRow
from teamwright.store.tables.mail import MailTable
from teamwright.store.tables.requests import RequestTable
from teamwright.store.tables.tasks import TaskTable
from teamwright.store.tables.teams import TeamTable, call_key

CRASH, INTERRUPT = "the program ended", "the turn was interrupted"
NOT_SENT = "{} before this message was stored: it was not sent. Send it again if it is still needed."
TEAM_LOST = "{} before the team was stored: it was not made. Call it again if it is still needed."
TEAM_STAYS = (
    "{} before the team was deleted: it is still there, though idle teammates may have been shut down. "
    "Call it again if it is still to go."
)
TASK_LOST = "{} before this call was stored, so the task list is unchanged. Call it again if needed."
SCHEDULE_LOST = "{} before this call was stored: nothing is scheduled by it. Call it again if needed."
PLAN_LOST = "{} before the plan was stored: nobody has it. Call it again."
LOOK_LIMIT = 10.0  # seconds to find out at an interrupt; then the outcome counts as unknown

Said = tuple[str, bool]  # the words of a result, and whether it is an error


class Books(Struct, frozen=True, kw_only=True):
    """Where calls of this session leave their traces."""

    mail: MailTable
    requests: RequestTable
    teams: TeamTable
    tasks: TaskTable
    made: Callable[[AgentId, CallId], Awaitable[str | None]] | None = None  # the id of a schedule that a call made
    kept: Callable[[str], Awaitable[bool]] | None = None  # is there still a schedule of this id?


class Outcomes(Struct, frozen=True, kw_only=True):
    """A call's id is unique in its agent's conversation only, so everything is looked up by both."""

    job: Callable[[AgentId, CallId], JobRow | None]  # that the call began
    status: Callable[[str], str]  # of a job by its id; empty if it is not known here
    posted: Callable[[LetterId], Awaitable[bool]]
    books: Books | None  # None: another session made the calls

    async def after_crash(self, agent: AgentId, history: History) -> list[ToolEnded]:
        """Each call that was in flight gets the one result that is true."""
        return [await self._answer(agent, history, u, CRASH) for u in history.unfinished(crashed=True)]

    async def at_interrupt(self, agent: AgentId, history: History) -> list[ToolEnded]:
        """The same for calls of a living process. What was not begun needs no look, but agents are begun unsaid."""
        owed = history.unfinished(crashed=False)
        try:
            with anyio.move_on_after(LOOK_LIMIT):
                return [
                    await self._answer(agent, history, unknown, INTERRUPT)
                    if unknown.call_id in history.begun or history.calls[unknown.call_id].name == "Agent"
                    else unknown
                    for unknown in owed
                ]
        except DiskError:
            raise  # nothing of this agent may go on from here
        except StoreError:
            pass  # what cannot be looked up now is unknown
        return owed

    async def _answer(self, agent: AgentId, history: History, unknown: ToolEnded, when: str) -> ToolEnded:
        call = history.calls[unknown.call_id]
        found = await self._look_up(agent, call, when)
        return unknown if found is None else ToolEnded(call.id, (Text(found[0]),), is_error=found[1])

    async def _look_up(self, agent: AgentId, call: ToolCall, when: str) -> Said | None:
        if (job := self.job(agent, call.id)) is not None:
            return _of_job(job, when)
        match call.name:
            case "SendMessage":
                return await self._message(agent, call, when)
            case "TaskStop":
                return await self._stopped(call.args, when)
            case "TeamCreate" | "Agent" | "TeamDelete" | "ExitPlanMode":
                return await self._team(agent, call, when)
            case "TaskCreate" | "TaskUpdate" | "CronCreate" | "CronDelete":
                return await self._list(agent, call, when)
            case _:
                return None

    # --- each in its words

    async def _message(self, agent: AgentId, call: ToolCall, when: str) -> Said | None:
        key, args, books = f"{agent}-{call.id}", call.args, self.books
        readers = await books.mail.readers_of(key) if books else []
        if readers or await self.posted(LetterId(f"m-{key}")):
            whom = f" (for {', '.join(readers)})" if readers else ""
            return f"The message was stored before {when}{whom}.", False
        if books is None:
            return None
        body: Any = args.get("message")
        id = body.get("request_id") if isinstance(body, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        found = await books.requests.by_id(RequestId(id)) if isinstance(id, str) else None
        if found is not None and found.answerer == agent and found.answer is not None:
            return f"Your answer to {found.id} was stored before {when}.", False
        return _lost(NOT_SENT, when)

    async def _team(self, agent: AgentId, call: ToolCall, when: str) -> Said | None:
        if (books := self.books) is None:
            return None
        if call.name == "ExitPlanMode":
            asked = await books.requests.by_key(call_key(agent, call.id))
            return (f"The plan was stored before {when}; the lead answers it.", False) if asked else None
        if (done := await books.teams.made_by(agent, call.id)) is not None:
            return done.replace(CRASH, when), False
        lost = {"TeamCreate": TEAM_LOST, "TeamDelete": TEAM_STAYS}.get(call.name)
        return _lost(lost, when) if lost else None

    async def _list(self, agent: AgentId, call: ToolCall, when: str) -> Said | None:
        if (books := self.books) is None:
            return None
        if call.name == "CronCreate":
            made = await books.made(agent, call.id) if books.made else None
            words = f"Scheduled as {made} before {when}; CronList shows it."
            return (words, False) if made else _lost(SCHEDULE_LOST, when)
        if call.name == "CronDelete":
            id = str(call.args.get("id", "")).strip()
            if books.kept is not None and await books.kept(id):
                return f"{when.capitalize()} before it was removed: {id} is still there.", True
            return f"There is no schedule {id!r} any more.", False
        done = await books.tasks.applied(agent, call.id)
        return (done.replace(CRASH, when), False) if done else _lost(TASK_LOST, when)

    async def _stopped(self, args: dict[str, Any], when: str) -> Said | None:
        """A stop is told by what it was to stop."""
        id = str(args.get("task_id") or args.get("shell_id") or "")
        name, team = split_address(id)
        if not team or self.books is None:
            status = self.status(id) or ("killed" if when == CRASH else "")
            return (f"{id} is {status}.", status == "running") if status else None
        found = [m for m in await self.books.teams.members(team) if m.name.casefold() == name.casefold()]
        if not found or found[-1].state == "shutdown":
            return f"{id} has shut down.", False
        return f"{when.capitalize()} before {id} was stopped: it is {found[-1].state}. Call it again if needed.", True


def _of_job(job: JobRow, when: str) -> Said:
    if job.status == "running":
        return f"{job.id} ({job.description}) is at work in the background; you are told when it ends.", False
    text = f"{when.capitalize()} while {job.id} ({job.description}) was at work. It is {job.status}"
    text += f"; SendMessage continues it.\nagentId: {job.id}" if job.kind == "agent" else "; it was stopped."
    return text, not job.background


def _lost(words: str, when: str) -> Said:
    return words.format(when.capitalize()), True
