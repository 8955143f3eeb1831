"""Decides whose lines count in a transcript: those of the identity whose process ran the agent, by the log.

The server lets each identity write under its own name alone, but about any agent. So readers look who wrote: lines of a
worker that never ran the agent, or that has lost it to one whose lines are there already, are passed over.
"""

import sqlite3
from collections.abc import Sequence
from functools import partial

from msgspec import Struct
from nats.aio.msg import Msg

from teamwright.core.data.team import ProcessId
from teamwright.core.ids import AgentId
from teamwright.core.text import shown
from teamwright.store.engine.port import EngineError
from teamwright.store.engine.replica import Replica
from teamwright.store.engine.wire.connection import sequence


class Holding(Struct, frozen=True):
    epoch: int
    process: ProcessId
    role: str
    name: str


def read_history(db: sqlite3.Connection, agent: AgentId) -> tuple[Holding, ...]:
    """Who ran an agent, or the one on a worker that started it. None of them is on a worker: nobody."""
    at: AgentId | None = agent
    while at is not None:
        if db.execute("SELECT 1 FROM remotes WHERE agent = ?", (at,)).fetchone():
            sql = "SELECT epoch, process, role, name FROM holders WHERE agent = ? ORDER BY epoch"
            return tuple(Holding(*row) for row in db.execute(sql, (at,)))
        row = db.execute("SELECT parent FROM agents WHERE id = ?", (at,)).fetchone()
        at = row[0] if row else None
    return ()


class Holders:
    """As the replica of this machine knows them."""

    def __init__(self, replica: Replica) -> None:
        self._replica, self._told = replica, set[tuple[AgentId, str]]()

    async def of(self, agent: AgentId) -> tuple[Holding, ...]:
        return await self._replica.look(partial(read_history, agent=agent))

    async def renew(self) -> None:
        """What was in the log before some line is applied here on return. EngineError if that cannot be: nobody's lines
        are passed over because this machine is behind."""
        if not await self._replica.catch_up():
            raise EngineError(
                f"{self._replica.path} is behind the engine's log: who runs which agent is not known here."
            )

    def passed_over(self, agent: AgentId, name: str) -> None:
        if (agent, name) not in self._told:
            self._told.add((agent, name))
            words = f"Lines of worker {shown(name, 100)} in the transcript of agent {shown(agent, 100)} do not count"
            self._replica.notes.append(f"{words}: it does not run that agent. `teamwright engine status` says more.")


class Mark(Struct, frozen=True):
    """From this message on the lines of a transcript are another writer's."""

    seq: int = 0
    by: tuple[str, str, str] = ("", "", "")  # role, name and process
    epoch: int = 0


class Sieve:
    """For one reader of one transcript. What it says of a message follows from those before it, however often asked."""

    def __init__(self, agent: AgentId, holders: Holders | None) -> None:
        self._agent, self._holders, self._marks = agent, holders, [Mark()]

    async def keep(self, messages: Sequence[Msg]) -> list[Msg]:
        """Those that count. What is not known to count is looked at again once all that the log has is known."""
        kept = await self._sift(messages)
        if len(kept) < len(messages) and self._holders is not None:
            await self._holders.renew()
            kept = await self._sift(messages)
            counts = {id(message) for message in kept}
            for message in messages:
                if id(message) not in counts:
                    self._holders.passed_over(self._agent, writer_of(message)[1])
        return kept

    async def _sift(self, messages: Sequence[Msg]) -> list[Msg]:
        kept, history = list[Msg](), None
        while messages and self._marks[-1].seq >= sequence(messages[0]):
            self._marks.pop()
        for message in messages:
            who, epoch = writer_of(message), self._marks[-1].epoch
            if who != self._marks[-1].by and who[0] != "lead" and self._holders is not None:
                history = await self._holders.of(self._agent) if history is None else history
                epoch = _epoch_of(history, who, epoch)
            if epoch is not None and is_batch(message):
                kept.append(message)
                self._note(sequence(message), who, epoch)
        return kept

    async def wrote(self, seq: int, who: tuple[str, str, str]) -> None:
        """This message is ours: whoever had the agent before has lost it."""
        epoch = self._marks[-1].epoch
        if who != self._marks[-1].by and who[0] != "lead" and self._holders is not None:
            epoch = _epoch_of(await self._holders.of(self._agent), who, epoch) or epoch
        self._note(seq, who, epoch)

    def _note(self, seq: int, who: tuple[str, str, str], epoch: int) -> None:
        if who != self._marks[-1].by:
            self._marks.append(Mark(seq, who, epoch))


def _epoch_of(history: Sequence[Holding], who: tuple[str, str, str], least: int) -> int | None:
    """In which epoch it ran the agent, not before that of the last line that counts; None: its lines do not."""
    for held in history:
        if (held.role, held.name, held.process) == who and held.epoch >= least:
            return held.epoch
    return None


def writer_of(message: Msg) -> tuple[str, str, str]:
    """Role and name as the server says, and the process that the writer names."""
    headers = message.headers or {}
    role, name = headers["Nats-Subject"].split(".")[3:5]
    return role, name, headers.get("Tw-Process", "")


def is_batch(message: Msg) -> bool:
    headers = message.headers or {}
    return headers.get("Tw-Lines", "").isdecimal() and headers.get("Tw-First", "").isdecimal()


def find_strangers(
    db: sqlite3.Connection, written: dict[tuple[str, str, AgentId], int]
) -> list[tuple[str, AgentId, int]]:
    """Of what identities have written into transcripts: workers, and agents that they never ran."""
    found = list[tuple[str, AgentId, int]]()
    for (role, name, agent), many in sorted(written.items()):
        if role == "worker" and all(held.name != name for held in read_history(db, agent)):
            found.append((name, agent, many))
    return found
