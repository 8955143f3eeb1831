"""Decides whose lines count in a transcript: those of the identity whose process ran the agent, by the log.

The server lets each identity write only under its own name, but about any agent. So readers check the writer, and skip
lines of a worker that never ran the agent, or that has lost it to one whose lines are already there.
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
    """Who ran an agent, or the nearest agent on a worker above it; empty if there is none."""
    at: AgentId | None = agent
    while at is not None:
        if db.execute("SELECT 1 FROM remotes WHERE agent = ?", (at,)).fetchone():
            sql = "SELECT epoch, process, role, name FROM holders WHERE agent = ? ORDER BY epoch"
            return tuple(Holding(*row) for row in db.execute(sql, (at,)))
        row = db.execute("SELECT parent FROM agents WHERE id = ?", (at,)).fetchone()
        at = row[0] if row else None
    return ()


class Holders:
    """The holders that the replica of this machine knows."""

    def __init__(self, replica: Replica) -> None:
        self._replica, self._told = replica, set[tuple[AgentId, str]]()

    async def of(self, agent: AgentId) -> tuple[Holding, ...]:
        return await self._replica.look(partial(read_history, agent=agent))

    async def renew(self) -> None:
        """Apply all that the log has now. Raises EngineError if that cannot be: nobody's lines are skipped because this
        machine is behind."""
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
    """From this message on another writer's lines are in the transcript."""

    seq: int = 0
    by: tuple[str, str, str] = ("", "", "")  # role, name and process
    epoch: int = 0


class Sieve:
    """For one reader of one transcript. What it says of a message depends only on those before it, however often it is
    asked."""

    def __init__(self, agent: AgentId, holders: Holders | None) -> None:
        self._agent, self._holders, self._marks = agent, holders, [Mark()]

    async def keep(self, messages: Sequence[Msg]) -> list[Msg]:
        """The messages that count. Those not known to count are checked again with all that the log has."""
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
        """This message is ours: an earlier holder has lost the agent."""
        epoch = self._marks[-1].epoch
        if who != self._marks[-1].by and who[0] != "lead" and self._holders is not None:
            epoch = _epoch_of(await self._holders.of(self._agent), who, epoch) or epoch
        self._note(seq, who, epoch)

    def _note(self, seq: int, who: tuple[str, str, str], epoch: int) -> None:
        if who != self._marks[-1].by:
            self._marks.append(Mark(seq, who, epoch))


def _epoch_of(history: Sequence[Holding], who: tuple[str, str, str], least: int) -> int | None:
    """The epoch in which it ran the agent, not before that of the last line that counts; None: its lines do not
    count."""
    for held in history:
        if (held.role, held.name, held.process) == who and held.epoch >= least:
            return held.epoch
    return None


def writer_of(message: Msg) -> tuple[str, str, str]:
    """Role and name as the server states them, and the process as the writer does."""
    headers = message.headers or {}
    role, name = headers["Nats-Subject"].split(".")[3:5]
    return role, name, headers.get("Tw-Process", "")


def is_batch(message: Msg) -> bool:
    headers = message.headers or {}
    return headers.get("Tw-Lines", "").isdecimal() and headers.get("Tw-First", "").isdecimal()


def find_strangers(
    db: sqlite3.Connection, written: dict[tuple[str, str, AgentId], int]
) -> list[tuple[str, AgentId, int]]:
    """Workers that wrote into transcripts of agents that they never ran, with the number of messages."""
    found = list[tuple[str, AgentId, int]]()
    for (role, name, agent), many in sorted(written.items()):
        if role == "worker" and all(held.name != name for held in read_history(db, agent)):
            found.append((name, agent, many))
    return found
