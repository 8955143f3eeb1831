"""A store with a session, a lead and teammates, for tests of teams, mail and requests."""

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

from msgspec import Struct

from journal import journaled
from store_kit import Chosen
from teamwright.core.data.letter import Letter, Said, Sender
from teamwright.core.data.team import LEAD_NAME, Mail, Member, Team
from teamwright.core.ids import AgentId, LetterId, SessionId, new_agent_id, new_session_id
from teamwright.store.db.database import Database, open_database
from teamwright.store.mirrors.team import TeamMirror
from teamwright.store.tables.jobs import NewAgent
from teamwright.store.tables.mail import MailTable
from teamwright.store.tables.mail_insert import LIMITS, MailLimits
from teamwright.store.tables.processes import Process, ProcessTable
from teamwright.store.tables.requests import RequestTable
from teamwright.store.tables.state import StateStore
from teamwright.store.tables.teams import TeamTable

START = 1_700_000_000_000


class Clock:
    def __init__(self, now: int = START) -> None:
        self.now = now

    def __call__(self) -> int:
        self.now += 1
        return self.now


class House(Struct):
    root: Path
    state: StateStore
    clock: Clock
    session: SessionId
    lead: AgentId
    process: Process
    processes: ProcessTable
    teams: TeamTable
    mail: MailTable
    requests: RequestTable
    mirror: TeamMirror
    numbers: Any

    def lead_member(self, agent: AgentId | None = None) -> Member:
        return Member(agent or self.lead, LEAD_NAME, "", "team-lead", cwd="/w", session=self.session)

    async def create(self, name: str = "crew", **more: Any) -> Team:
        team = await self.teams.create_team(name, "a crew", self.lead_member(), self.process.id, **more)
        assert isinstance(team, Team), team
        return team

    async def join(self, name: str, team: str = "crew", **more: Any) -> Member:
        id = new_agent_id()
        draft = Member(id, name, team, "general-purpose", "m", f"prompt of {name}", cwd="/w", session=self.session)
        agent = NewAgent(id, self.session, self.lead, "general-purpose", name, 1)
        member = await self.teams.add_member(draft, agent=agent, **more)
        assert isinstance(member, Member), member
        return member

    async def another_session(self) -> AgentId:
        """The main agent of another session."""
        session = new_session_id()
        await self.state.register_session(session, "/", 1)
        await self.state.register_agent(AgentId(session), session, None, "main", "main", 0)
        return AgentId(session)

    def note(self, sender: Member | AgentId, to: Member, text: str = "hello", **more: Any) -> Mail:
        """One message with its own id."""
        name, id = (sender.name, sender.agent) if isinstance(sender, Member) else (LEAD_NAME, sender)
        letter_id = LetterId(more.pop("id", None) or f"l{next(self.numbers)}")
        color = sender.color if isinstance(sender, Member) else "blue"
        said = Said(text, "a note", color)
        letter = Letter(letter_id, to.agent, Sender("agent", name, id), said)
        return Mail(letter, to.team, name, to.name, text, "a note", color, **more)


@asynccontextmanager
async def open_house(root: Path, limits: MailLimits = LIMITS) -> AsyncIterator[House]:
    """Everything that a test does here is recorded, and replayed into an empty store."""
    clock = Clock()
    async with _open_store(root, clock) as database:
        house = await _furnish(root, StateStore(database), clock, limits)
        try:
            yield house
        finally:
            await house.processes.leave(house.process.id)


@asynccontextmanager
async def _open_store(root: Path, clock: Clock) -> AsyncIterator[Database]:
    if Chosen.engine:
        from engine_kit import open_replicated  # it needs the engine's client

        async with open_replicated(root) as host:
            yield host.database
        return
    database = await open_database(root / "state.db", now=clock)
    try:
        async with journaled(database) as journal:
            yield journal.database
    finally:
        await database.close()


async def _furnish(root: Path, state: StateStore, clock: Clock, limits: MailLimits) -> House:
    session = new_session_id()
    lead = AgentId(session)
    await state.register_session(session, "/", 1)
    await state.register_agent(lead, session, None, "main", "main", 0)
    processes, teams = ProcessTable(state.database, root / "run"), TeamTable(state.database)
    mail, requests = MailTable(state.database, limits), RequestTable(state.database)
    process = await processes.register(session, bell="/nowhere")
    mirror = TeamMirror(root, teams, mail)
    return House(root, state, clock, session, lead, process, processes, teams, mail, requests, mirror, count(1))


def start(code: str, *args: str) -> subprocess.Popen[str]:
    """A real process that talks over its pipes."""
    command = [sys.executable, "-c", code, *args]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str], *, kill: bool = False) -> str:
    if kill:
        process.kill()
    out, _ = process.communicate(timeout=60)
    return out
