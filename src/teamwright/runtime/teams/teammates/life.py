"""Life policy of a teammate: handle letters, go idle and report it once, claim a task or wait, until a shutdown."""

import re
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from teamwright.core.data.event import TurnEnded
from teamwright.core.data.letter import Letter, Signal
from teamwright.core.data.tasks import Actor, Task
from teamwright.core.data.team import Mail, iso
from teamwright.core.ids import LetterId
from teamwright.runtime.agents.life import turn_in_slot
from teamwright.runtime.teams.teammates.state import TeammateDeps, TeammateState
from teamwright.store.acts.mail import ATTEMPTS
from teamwright.store.tables.state import now_ms

LAST_WORDS = 4_000  # characters of its last words in an idle notice
KNOWN_WORDS = 400  # the same, if it wrote to the lead in that turn
_ASKS = re.compile(r"[?？](?!\S)")
Reason = Literal["available", "interrupted", "failed"]


class TeammateLife:
    """The life policy of one teammate."""

    def __init__(self, state: TeammateState, deps: TeammateDeps) -> None:
        self._state, self._agent, self._deps = state, state.agent, deps
        self._tables, self._roster, self._mail, self._supervisor = deps.tables, deps.roster, deps.mail, deps.supervisor
        self.finished: list[Task] = []  # named in its next idle notice
        self._waited = 0.0  # seconds since its last turn for which only commands kept it from being idle
        self._reminded: set[LetterId] = set()  # reminders given by this process
        self._tries: dict[LetterId, int] = {}  # failed attempts at letters that could not even be read

    async def begin(self) -> None:
        """Handle first what an earlier process has left."""
        state, agent = self._state, self._agent
        if self._under_way and not agent.history.over and await self._tables.requests.interrupts_of(agent.id):
            await agent.end_interrupted()  # the process that it was meant for did not live to obey
            if agent.halted is not None:
                raise agent.halted
        await state.show_arrival()
        await state.heed_interrupts()
        await state.apply_answers()
        if state.member.state == "created":
            await state.set_running()
        if self._under_way and not self.over:
            if self._deps.room is not None:
                await self._deps.room.refresh(state.member)
            await state.set_running()  # before letters are marked as read: others see either, but never nothing
            await self.turn(await agent.inbox.take(at_rest=agent.history.over))

    @property
    def _under_way(self) -> bool:
        """Whether an earlier process began a turn whose end is not recorded."""
        history = self._agent.history
        return bool(history.messages) and history.ended is None

    @property
    def over(self) -> bool:
        return self._state.leaving is not None

    async def take(self) -> Sequence[Letter]:
        return await self._agent.inbox.take(at_rest=True)

    async def turn(self, letters: Sequence[Letter]) -> None:
        agent = self._agent
        await self._state.set_running()
        end = await turn_in_slot(agent, letters)
        if agent.halted is not None:
            raise agent.halted
        if end.reason == "failed" and (left := [x.id for x in letters if x.id not in agent.history.letters]):
            await self._failed(left, end.error)
        await self._state.apply_answers()
        if not self.over and not self._supervisor.jobs.unfinished(agent.id):
            await self._go_idle()
        self._waited = 0.0

    async def wait_for_jobs(self) -> bool:
        """It is not idle while its jobs run."""
        waited = await self._supervisor.wait_while_jobs_run(self._agent, self._waited)
        self._waited += waited or 0.0
        return waited is not None

    async def rest(self) -> None:
        if self._state.member.state == "running" and self._agent.history.ended is not None:
            await self._go_idle()
        elif not await self._claim():
            self._roster.announce()
            await self._agent.inbox.wait()

    async def _failed(self, letters: Sequence[LetterId], why: str) -> None:
        """Letters could not even be read: after the third time each is set aside and reported."""
        member = self._state.member
        await self._tables.mail.failed(letters, why)
        await self._mail.tell_of_failures(member.team)
        for id in letters:  # for what is no members' mail (a person's words, a task) only this process counts
            self._tries[id] = self._tries.get(id, 0) + 1
        dead = [id for id in letters if self._tries[id] >= ATTEMPTS]
        lead = self._roster.lead_of(member.team)
        for id in await self._tables.mail.drop_letters(dead) if dead else ():
            words = f"Something that waited for {member.name} could not be handled {ATTEMPTS} times and is set aside"
            self._roster.warn(member.agent, f"{words}: {why}")
            if lead is not None:
                await self._mail.notify(lead, f"{words}: {why}", f"u-{id}-lead")

    async def _go_idle(self) -> None:
        """Report it once for each turn, whatever waits already."""
        end = self._agent.history.ended
        if self._deps.room is not None:
            await self._deps.room.publish()
        await self._mail.tell_of_failures(self._state.member.team)
        if back := await self._deps.hooks.before_idle(self._state.member):
            await self._mail.notify(self._state.member, back)
        elif end is not None and not await self._remind(end):
            reason, notice = await self._idle_notice(end)
            await self._state.set_idle(notice, reason)
            self.finished = []
            if self._roster.leads(self._state.member.team):
                await self._mail.tell_of_rounds(self._state.member.team)

    async def _remind(self, end: TurnEnded) -> bool:
        """If something is open that only it can end, tell it how before it goes idle, once for each."""
        if idle_reason(end) != "available":
            return False
        member, agent = self._state.member, self._agent
        for id, words in await self._deps.requests.reminders(member, planning=agent.mode == "plan"):
            if id not in agent.history.letters and id not in self._reminded:  # also one that it could not read
                self._reminded.add(id)
                await self._mail.notify(member, words, id)
                return True
        return False

    def _takes_tasks(self) -> bool:
        """Whether it takes tasks: not while it plans, nor after a turn that went wrong."""
        end = self._agent.history.ended
        return self._agent.mode != "plan" and (end is None or idle_reason(end) == "available")

    async def _claim(self) -> bool:
        """Claim the first free task; the letter about it is stored with the claim."""
        team, agent = self._state.member.team, self._agent
        if not self._takes_tasks():
            return False
        by = Actor(agent.id, self._state.member.name)
        task = await self._deps.board.claim_first(team, by)
        if task is not None:
            agent.inbox.ring()
        return task is not None

    async def _idle_notice(self, end: TurnEnded) -> tuple[Reason, Mail | None]:
        """Wakes the lead at once if the turn went wrong or its last words ask for something, and when everybody rests
        if it reports what was asked for. Not for what the lead was told in the turn."""
        member, reason = self._state.member, idle_reason(end)
        lead = self._roster.lead_of(member.team)
        if lead is None:
            return reason, None
        told = await self._tables.mail.exchanged(member, lead.agent)
        body = {"type": "idle_notification", "from": member.name, "timestamp": iso(now_ms()), "idleReason": reason}
        body |= _news(end, self.finished, KNOWN_WORDS if told.wrote else LAST_WORDS)
        if self._takes_tasks() and (task := await self._next_task()):
            body["summary"] = f"takes task #{task.id} next"  # so that nobody assigns it another one
        urgent = reason != "available" or (not told.wrote and _ASKS.search(end.text) is not None)
        report = not told.wrote and bool(self.finished or (told.asked and end.text.strip()))
        line = msgspec.json.encode(body).decode()
        signal = Signal("idle_notification", line, quiet=not (urgent or report), held=not urgent)
        # With the number of the turn it is the same notice after a crash.
        id = f"i-{self._agent.id}-{self._agent.history.ends}"
        return reason, self._mail.draft(member, lead, signal, id=id)

    async def _next_task(self) -> Task | None:
        member, tasks = self._state.member, self._deps.board.table
        return await tasks.first_free(member.team, Actor(member.agent, member.name))


def _news(end: TurnEnded, finished: Sequence[Task], most: int) -> dict[str, Any]:
    """Its last words, the tasks that it completed, and what went wrong."""
    said, tasks = end.text.strip(), list(dict.fromkeys(str(task.id) for task in finished))
    body: dict[str, Any] = {}
    if said:
        body["lastMessage"] = said if len(said) <= most else f"{said[:most]} [...]"
    if tasks:
        body |= {"completedTaskId": ", ".join(tasks), "completedStatus": "resolved"}
    if end.error:
        body["failureReason"] = end.error
    return body


def idle_reason(end: TurnEnded) -> Reason:
    """After reaching a limit it has not done what was asked, so it fails and takes no further task by itself."""
    match end.reason:
        case "done":
            return "available"
        case "interrupted":
            return "interrupted"
        case "failed" | "refused" | "max_turns" | "max_budget":
            return "failed"
