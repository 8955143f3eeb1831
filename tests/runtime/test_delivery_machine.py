"""Delivery under any order of sends, dropped or doubled rings, interrupts and kills: each letter once, none lost.

Writers and reader have separate connections, as processes have. A kill leaves only what is on disk.
"""

import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from teamwright.core.data.conversation.history import fold
from teamwright.core.data.event import AgentStarted, LettersTaken
from teamwright.core.data.letter import Letter, Said, Sender
from teamwright.core.data.letters.text import as_message
from teamwright.core.data.team import LEAD_NAME, Mail, Member
from teamwright.core.ids import AgentId, LetterId, SessionId
from teamwright.runtime.agents.inbox import AgentInbox
from teamwright.store.files.transcripts import Transcript
from teamwright.store.tables.mail import MailTable
from teamwright.store.tables.mail_insert import Stored
from teamwright.store.tables.processes import ProcessTable
from teamwright.store.tables.state import StateStore
from teamwright.store.tables.teams import TeamTable

S = SessionId("00000000-0000-4000-8000-000000000001")
LEAD, ADA = AgentId(S), AgentId("ada1")
WRITERS = 2


class Delivery(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.dir = Path(tempfile.mkdtemp())
        self.sent = 0
        self.accepted: set[str] = set()

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(work, 20))

    @initialize()
    def build(self) -> None:
        self.do(self._build())
        self.transcript = Transcript.create(self.dir / "ada.jsonl")
        self.transcript.append(AgentStarted(S, "/", "0", name="ada"), 1)
        self.transcript.close()
        self.begin()

    async def _build(self) -> None:
        self.writers = [await StateStore.open(self.dir / "state.db") for _ in range(WRITERS)]
        state = self.writers[0]
        await state.register_session(S, "/", 1)
        for id in (LEAD, ADA):
            await state.register_agent(id, S, None, "x", id, 0)
        processes = ProcessTable(state.database, self.dir / "run")
        me = await processes.register(S)
        teams = TeamTable(state.database)
        await teams.create_team("crew", "", Member(LEAD, LEAD_NAME, "", "lead"), me.id)
        await teams.add_member(Member(ADA, "ada", "crew", "x"))
        await processes.leave(me.id)

    def begin(self) -> None:
        """A process continues the reader from its transcript."""
        self.reader: StateStore = self.do(StateStore.open(self.dir / "state.db"))
        self.transcript, events, _ = Transcript.open(self.dir / "ada.jsonl")
        self.history = fold(events)
        self.inbox = AgentInbox(ADA, self.reader, self.history.letters)
        self.version = self.do(self.reader.database.data_version())
        self.hand: list[Letter] = []
        self.recorded: list[LetterId] = []

    # --- writers

    def post(self, writer: int, n: int) -> None:
        id = LetterId(f"m-{n}")
        letter = Letter(
            id, ADA, Sender("agent", LEAD_NAME, LEAD), Said(f"letter {n}"), "later" if n % 3 == 0 else "next"
        )
        mail = Mail(letter, "crew", LEAD_NAME, "ada", f"letter {n}", control=True)
        assert self.do(MailTable(self.writers[writer].database).post_mail(mail)) == Stored(id)
        self.accepted.add(id)

    @rule(writer=st.integers(0, WRITERS - 1), many=st.integers(1, 3), rung=st.booleans())
    def send(self, writer: int, many: int, rung: bool) -> None:
        for _ in range(many):
            self.sent += 1
            self.post(writer, self.sent)
        if rung:  # otherwise the bell was dropped
            self.inbox.ring()

    @rule(writer=st.integers(0, WRITERS - 1), n=st.integers(1, 8))
    def send_again(self, writer: int, n: int) -> None:
        """Resend, as a sender does that was killed before it knew the outcome."""
        if n <= self.sent:
            self.post(writer, n)

    # --- bells: a send may ring or not, and some rings are for nothing

    @rule(times=st.integers(1, 3))
    def ring(self, times: int) -> None:
        for _ in range(times):
            self.inbox.ring()

    @rule()
    def poll(self) -> None:
        """The safety net: read one number."""
        if (now := self.do(self.reader.database.data_version())) != self.version:
            self.version = now
            self.inbox.ring()

    # --- the reader

    @rule(steps=st.sampled_from(["k", "rk", "rak", "rafk", "i", "ri", "ra", "raf"]))
    def turn(self, steps: str) -> None:
        """A turn that gets as far as this: recorded, acknowledged, flushed, interrupted, killed."""
        self.take(at_rest=True)
        known = {"r": self.record, "a": self.acknowledge, "f": self.write_what_is_queued, "i": self.interrupt}
        for step in steps:
            (known | {"k": self.kill})[step]()

    @rule(at_rest=st.booleans())
    def take(self, at_rest: bool) -> None:
        taken = self.do(self.inbox.take(at_rest=at_rest))
        assert not {x.id for x in taken} & ({x.id for x in self.hand} | self.history.letters)
        self.hand += taken

    @rule()
    def record(self) -> None:
        if self.hand:
            event = LettersTaken(tuple(x.id for x in self.hand), as_message(self.hand))
            self.transcript.append(event, 1)
            self.history.apply(event)
            self.recorded += [x.id for x in self.hand]
            self.hand = []

    @rule()
    def acknowledge(self) -> None:
        if self.recorded:
            self.do(self.transcript.sync())
            self.inbox.acknowledge(self.recorded)
            self.recorded = []

    @rule()
    def write_what_is_queued(self) -> None:
        self.do(self.reader.flush())

    @rule()
    def interrupt(self) -> None:
        """The turn ends with letters in hand that it has not delivered."""
        self.hand = []
        self.inbox.hand_back()

    @rule()
    def kill(self) -> None:
        """Lose what was queued for the store, and everything that the process knew."""
        assert self.reader.database._connection is not None
        self.reader.database._connection.close()
        self.transcript.close()
        self.begin()

    # --- invariants

    @invariant()
    def none_is_read_twice_and_none_that_was_not_sent(self) -> None:
        _, events, _ = found = Transcript.open(self.dir / "ada.jsonl")
        found[0].close()
        read = Counter(id for event in events if isinstance(event, LettersTaken) for id in event.letters)
        assert set(read) <= self.accepted and all(many == 1 for many in read.values()), read

    def teardown(self) -> None:
        try:
            if hasattr(self, "inbox"):
                self.none_is_lost()
        finally:
            self.transcript.close()
            for state in (self.reader, *self.writers):
                self.do(state.close())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()
            shutil.rmtree(self.dir)

    def none_is_lost(self) -> None:
        """Whatever was dropped, one poll finds it."""
        self.record()
        self.poll()
        for _ in range(2):
            self.take(at_rest=True)
            self.record()
            self.acknowledge()
        assert self.history.letters == self.accepted, self.accepted - self.history.letters
        self.do(self.reader.flush())
        assert self.do(self.reader.waiting(ADA)) == []


Delivery.TestCase.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestDelivery = pytest.mark.spec("X2", "X3", "X5", "Q5")(Delivery.TestCase)
