"""What a send costs after few and after many read messages: `python bench/mail.py [MANY]`.

Real sends into a real store, each durable on return. The two inboxes take turns, so that other load on the machine hits
both.
"""

import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
from rows import Row, ms, table

from teamwright.core.data.letter import Letter, Said, Sender
from teamwright.core.data.team import LEAD_NAME, Mail, Member
from teamwright.core.ids import AgentId, LetterId, SessionId
from teamwright.store.mirrors.team import TeamMirror
from teamwright.store.tables.mail import MailTable
from teamwright.store.tables.mail_insert import MailLimits, Stored
from teamwright.store.tables.processes import ProcessTable
from teamwright.store.tables.state import StateStore
from teamwright.store.tables.teams import TeamTable

FEW, ROUNDS, CHUNK = 10, 300, 500
S = SessionId("00000000-0000-4000-8000-000000000001")
LIMITS = MailLimits(unread=10**9)


class Clock:
    """Set by hand."""

    now = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now


class Inbox:
    """A store of its own with one reader, who has read the given number of messages."""

    async def fill(self, root: Path, read: int) -> None:
        self.clock = Clock()
        self.state = await StateStore.open(root / "state.db", self.clock)
        await self.state.register_session(S, "/", 1)
        for id in (S, "a1"):
            await self.state.register_agent(AgentId(id), S, None, "x", "x", 0)
        processes = ProcessTable(self.state.database, root / "run")
        me = await processes.register(S)
        teams = TeamTable(self.state.database)
        self.mail = MailTable(self.state.database, LIMITS)
        self.mirror = TeamMirror(root, teams, self.mail)
        self.sent = 0
        await teams.create_team("crew", "", Member(AgentId(S), LEAD_NAME, "", "team-lead"), me.id)
        await teams.add_member(Member(AgentId("a1"), "ada", "crew", "x"))
        while self.sent < read:
            notes = [self.note() for _ in range(min(CHUNK, read - self.sent))]
            await self.mail.post_all(notes)
            self.clock.now += 60_000
            await self.state.delivered([note.letter.id for note in notes])

    def note(self) -> Mail:
        self.sent += 1
        text = f"message {self.sent}: " + "words " * 20
        letter = Letter(LetterId(f"l{self.sent}"), AgentId("a1"), Sender("agent", LEAD_NAME, AgentId(S)), Said(text))
        return Mail(letter, "crew", LEAD_NAME, "ada", text, "a summary")

    async def send(self) -> None:
        """Send as if 500 were sent in a minute: close to the limit, so that the rate check has work to do."""
        self.clock.now += 120
        assert isinstance(await self.mail.post_mail(self.note()), Stored)

    async def copy(self) -> None:
        await self.mirror.write_inbox("crew", "ada")


async def timed(work: Callable[[], Awaitable[None]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


async def measure(many: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as root:
        few, full = Inbox(), Inbox()
        await few.fill(Path(root) / "few", FEW)
        await full.fill(Path(root) / "full", many)
        sends: dict[Inbox, list[float]] = {few: [], full: []}
        copies: dict[Inbox, list[float]] = {few: [], full: []}
        for _ in range(ROUNDS):
            for inbox in (few, full):
                sends[inbox].append(await timed(inbox.send))
                await inbox.state.delivered([LetterId(f"l{inbox.sent}")])
        for _ in range(20):  # by now both have read more messages than the file shows
            for inbox in (few, full):
                copies[inbox].append(await timed(inbox.copy))
        for inbox in (few, full):
            await inbox.state.close()
    name = f"a send, {many:,} read before : {FEW} read before"
    rows = [Row(name, ms(sends[full]), ms(sends[few]), unit="ms wall", most_ratio=1.3)]
    return [*rows, Row("  its inbox file", ms(copies[full]), ms(copies[few]), unit="ms wall", most_ratio=1.3)]


if __name__ == "__main__":
    print(table(anyio.run(measure, int(sys.argv[1]) if sys.argv[1:] else 100_000)))
