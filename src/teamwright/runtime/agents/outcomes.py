"""Outcomes of calls that have no result, after a crash or an interrupt.

If a tool only changes our own store, its outcome is looked up there by key, as its traits say; every other outcome is
unknown.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.data.conversation.history import History
from teamwright.core.data.event import ToolEnded
from teamwright.core.data.message import Text, ToolCall
from teamwright.core.errors import DiskError, StoreError
from teamwright.core.ids import AgentId, CallId, LetterId, SessionId
from teamwright.runtime.tool_traits import Catalog, Told, find_traits

if TYPE_CHECKING:
    from teamwright.runtime.jobs.jobs import Jobs
    from teamwright.store.tables.jobs import JobRow, JobTable
    from teamwright.store.tables.mail import MailTable
    from teamwright.store.tables.requests import RequestTable
    from teamwright.store.tables.schedules import ScheduleTable
    from teamwright.store.tables.tasks import TaskTable
    from teamwright.store.tables.teams import TeamTable

CRASH, INTERRUPT = "the program ended", "the turn was interrupted"
LOOK_LIMIT = 10.0  # seconds for the lookup at an interrupt; then the outcome counts as unknown


class Books(Struct, frozen=True, kw_only=True):
    """The tables in which calls of this session leave traces."""

    session: SessionId
    mail: "MailTable"
    requests: "RequestTable"
    teams: "TeamTable"
    tasks: "TaskTable"
    schedules: "ScheduleTable | None" = None

    async def made(self, agent: AgentId, call: CallId) -> str | None:
        """The id of the schedule that a call made."""
        found = await self.schedules.made_by(f"{agent}/{call}") if self.schedules else None
        return found.id if found else None

    async def kept(self, id: str) -> bool:
        """Whether a schedule of this id still exists."""
        return self.schedules is not None and any(row.id == id for row in await self.schedules.all(self.session))


class Outcomes(Struct, frozen=True, kw_only=True):
    """Looks up outcomes by agent and call: a call's id is unique only in its agent's conversation."""

    job: Callable[[AgentId, CallId], Awaitable["JobRow | None"]]  # the job that the call began
    status: Callable[[str], str]  # of a job by its id; empty if it is unknown here
    posted: Callable[[LetterId], Awaitable[bool]]
    books: Books | None  # None: another session made the calls
    catalog: Catalog  # says how each tool looks up its outcome

    async def after_crash(self, agent: AgentId, history: History, *, goes_on: bool = False) -> list[ToolEnded]:
        """The one true result for each call that was in flight.

        If the agent goes on by itself, calls that never began have none yet: it runs them, unless they follow upon one
        whose outcome is unknown. One that the store knows of did begin, even if a power cut took the line that says so.
        """
        unfinished = history.unfinished(crashed=True)
        owed = [await self._answer(agent, history, unknown, CRASH) for unknown in unfinished]
        unclear = any(ended in unfinished for ended in owed if ended.call_id in history.begun)
        if not goes_on or unclear or not history.may_go_on:
            return owed
        return [ended for ended in owed if await self._is_over(agent, history, ended)]

    async def _is_over(self, agent: AgentId, history: History, ended: ToolEnded) -> bool:
        """Whether the call had begun, or was denied."""
        known = ended.call_id in history.begun or ended.call_id in history.denied or not ended.is_error
        return known or await self.job(agent, ended.call_id) is not None

    async def at_interrupt(self, agent: AgentId, history: History) -> list[ToolEnded]:
        """The same for calls of a living process. Calls that never began need no lookup, unless their start is not
        recorded."""
        owed = history.unfinished(crashed=False)
        try:
            with anyio.move_on_after(LOOK_LIMIT):
                return [
                    await self._answer(agent, history, unknown, INTERRUPT)
                    if unknown.call_id in history.begun or self._may_have_begun(history.calls[unknown.call_id])
                    else unknown
                    for unknown in owed
                ]
        except DiskError:
            raise  # nothing of this agent may continue from here
        except StoreError:
            pass  # what cannot be looked up now stays unknown
        return owed

    async def _answer(self, agent: AgentId, history: History, unknown: ToolEnded, when: str) -> ToolEnded:
        if unknown.call_id in history.denied:
            return unknown
        call = history.calls[unknown.call_id]
        found = await self._look_up(agent, call, when)
        return unknown if found is None else ToolEnded(call.id, (Text(found[0]),), is_error=found[1])

    def _may_have_begun(self, call: ToolCall) -> bool:
        return find_traits(self.catalog, call.name).unseen_start

    async def _look_up(self, agent: AgentId, call: ToolCall, when: str) -> Told | None:
        if (job := await self.job(agent, call.id)) is not None:
            return _of_job(job, when)
        lookup = find_traits(self.catalog, call.name).outcome
        return None if lookup is None else await lookup(self, agent, call, when)


def outcomes_of(
    jobs: "Jobs", posted: Callable[[LetterId], Awaitable[bool]], books: Books, catalog: Catalog
) -> Outcomes:
    """For the calls of this process."""

    async def job(owner: AgentId, call: CallId) -> "JobRow | None":
        found = jobs.begun_by(owner, call)
        return found.row() if found else None

    def status(id: str) -> str:
        found = jobs.get(id)
        return found.status if found else ""

    return Outcomes(job=job, status=status, posted=posted, books=books, catalog=catalog)


def left_by(outcomes: Outcomes, jobs: "JobTable", *, copied: bool) -> Outcomes:
    """For the calls of a process that is gone, or that has given an agent up. Their jobs ended with that, except those
    on workers.

    A copied session contains calls made under the original's id: no table tells of those.
    """

    async def job(owner: AgentId, call: CallId) -> "JobRow | None":
        found = None if copied else await jobs.begun_by(owner, call)
        ended = found is not None and found.status == "running" and found.kind != "remote"
        return replace(found, status="killed") if found is not None and ended else found

    return replace(outcomes, job=job, books=None if copied else outcomes.books)


async def team_made(found: Outcomes, agent: AgentId, call: ToolCall, when: str, words: str = "") -> Told | None:
    """What a call changed in the team; `words` if it changed nothing."""
    if (books := found.books) is None:
        return None
    if (done := await books.teams.made_by(agent, call.id)) is not None:
        return done.replace(CRASH, when), False
    return lost(words, when) if words else None


def _of_job(job: "JobRow", when: str) -> Told:
    if job.status == "running":
        return f"{job.id} ({job.description}) is at work in the background; you are told when it ends.", False
    text = f"{when.capitalize()} while {job.id} ({job.description}) was at work. It is {job.status}"
    text += f"; SendMessage continues it.\nagentId: {job.id}" if job.kind == "agent" else "; it was stopped."
    return text, not job.background


def lost(words: str, when: str) -> Told:
    """The result of a call that left no trace; `{}` in `words` stands for what came between."""
    return words.format(when.capitalize()), True
