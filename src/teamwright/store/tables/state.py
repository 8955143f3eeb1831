"""Letters, agents, sessions and the ledger in `state.db`, shared by several processes."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct

from teamwright.core.data.letter import Letter
from teamwright.core.data.message import Usage
from teamwright.core.ids import AgentId, LetterId, SessionId
from teamwright.store.acts.ledger import FAILED, LOST, OK, BeginCall, SettleCall
from teamwright.store.acts.sessions import (
    DeleteSession,
    MarkDelivered,
    PostLetter,
    RegisterAgent,
    RegisterSession,
    SetLetterAside,
    WithdrawLetter,
)
from teamwright.store.db.clock import now_ms
from teamwright.store.db.database import Database, open_database
from teamwright.store.db.statements import fetch_all, fetch_one

Price = Callable[[str, Usage], float | None]
Outcome = Literal["ok", "failed"]

_letters = msgspec.json.Decoder(Letter)

_SUMS = """
    coalesce(sum(input), 0), coalesce(sum(output), 0), coalesce(sum(cache_read), 0), coalesce(sum(cache_write), 0),
    coalesce(sum(usd), 0.0), coalesce(sum(usd IS NULL), 0)
"""


class Spending(NamedTuple):
    usage: Usage
    usd: float  # the known part
    unknown_cost: bool


class Cost(Struct, frozen=True):
    """What one agent spent on one model in one session. `turns` counts answered calls."""

    session: SessionId
    agent: AgentId
    name: str
    parent: AgentId | None
    model: str
    usage: Usage
    usd: float
    unknown_cost: bool
    seconds: float
    turns: int
    kind: str = ""  # of the agent


class SpentPoint(Struct, frozen=True):
    """What a session spent in a stretch of time that begins at `at`. Input includes what the cache served."""

    at: int
    usd: float
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    agents: dict[AgentId, float]  # money spent by each


class LeftBehind(NamedTuple):
    """What an earlier process left of a session."""

    team: bool  # its main agent is in a team
    tasks: bool
    schedules: bool


NOTHING_LEFT = LeftBehind(team=False, tasks=False, schedules=False)


class StateStore(Struct, eq=False):
    """The store's port: small and async; every change is one transaction. Made by `StateStore.open`."""

    database: Database  # for the tables that have files of their own
    # called for a letter that cannot be read: (reader, reason)
    heed_set_aside: Callable[[AgentId, str], None] | None = None

    @classmethod
    async def open(cls, path: Path, now: Callable[[], int] = now_ms) -> "StateStore":
        return cls(await open_database(path, now=now))

    @property
    def notes(self) -> list[str]:
        """What the person should know: a file that was set aside, a queued write that failed."""
        return self.database.notes

    async def flush(self) -> None:
        """Write what the `..._soon` methods queued. Otherwise that happens at the next call, or at `close`."""
        await self.database.flush()

    async def close(self) -> None:
        await self.database.close()

    # --- sessions and agents

    async def register_session(self, id: SessionId, cwd: str, created: int) -> None:
        """A known session does not change."""
        await self.database.write(RegisterSession(id, cwd, created))

    async def begin_session(self, id: SessionId, cwd: str, created: int) -> None:
        """Register a session and its main agent in one transaction. A known session does not change."""
        self.database.write_soon(RegisterSession(id, cwd, created))
        await self.database.write(RegisterAgent(AgentId(id), id, None, "main", "main", 0))

    async def register_agent(
        self, id: AgentId, session: SessionId, parent: AgentId | None, kind: str, name: str, depth: int
    ) -> None:
        """A known agent does not change."""
        await self.database.write(RegisterAgent(id, session, parent, kind, name, depth))

    async def delete_session(self, id: SessionId) -> bool:
        """Delete a session with its agents, letters and ledger. False if there was none."""
        return await self.database.write(DeleteSession(id))

    async def forget_unused(self, id: SessionId) -> bool:
        """Delete a session that has nothing but its main agent. False: it has more, or is not there."""
        return await self.database.write(DeleteSession(id, unused=True))

    async def left_by(self, id: SessionId) -> LeftBehind:
        """Parts of a session that an earlier process may have left: a resume opens only those."""
        sql = """
            SELECT EXISTS (SELECT 1 FROM members JOIN agents ON agents.n = members.agent WHERE agents.id = :id),
                EXISTS (SELECT 1 FROM task_lists WHERE origin = :id),
                EXISTS (SELECT 1 FROM schedules WHERE session = (SELECT n FROM sessions WHERE id = :id))
        """
        return LeftBehind(*map(bool, await self.database.read(fetch_one(sql, {"id": id}))))

    # --- letters

    async def post(self, letter: Letter) -> None:
        """Durable on return. A letter with a known id is the same letter: it is not stored twice."""
        await self.database.write(PostLetter(letter))

    async def waiting(self, agent: AgentId) -> list[Letter]:
        """Letters not yet delivered, in the order in which they came. One that cannot be read is set aside."""
        sql = """
            SELECT id, letter FROM letters WHERE agent = (SELECT n FROM agents WHERE id = ?) AND delivered_at IS NULL
            ORDER BY n
        """
        rows = await self.database.read(fetch_all(sql, (agent,)))
        letters: list[Letter] = []
        for id, data in rows:
            try:
                letters.append(_letters.decode(data))
            except msgspec.DecodeError as error:
                why = f"what is stored of it cannot be read ({error})"
                await self.database.write(SetLetterAside(id, why))
                self.database.notes.append(f"a letter for {agent} was set aside: {why}")
                if self.heed_set_aside is not None:
                    self.heed_set_aside(agent, why)
        return letters

    async def withdraw(self, id: LetterId) -> bool:
        """Its sender takes a letter back. False if it is not there, or was delivered."""
        return await self.database.write(WithdrawLetter(id))

    async def has_letter(self, id: LetterId) -> bool:
        sql = "SELECT 1 FROM letters WHERE id = ?"
        return await self.database.read(fetch_one(sql, (id,))) is not None

    async def delivered(self, letters: Sequence[LetterId]) -> None:
        """The letters are in their reader's transcript, synced. The first time counts."""
        await self.database.write(MarkDelivered(tuple(letters)))

    def delivered_soon(self, letters: Sequence[LetterId]) -> None:
        """Queued: a crash may lose it, but then the transcript tells that they were read."""
        self.database.write_soon(MarkDelivered(tuple(letters)))

    # --- the ledger

    async def open_call(self, session: SessionId, agent: AgentId, model: str, estimated_input: int) -> int:
        """Add a row for a call that is about to leave; durable on return."""
        return await self.database.write(BeginCall(session, agent, model, estimated_input))

    def settle_soon(self, row: int, usage: Usage, usd: float | None, ms: int, outcome: Outcome) -> None:
        """Queued. A row is settled once; what comes later is ignored."""
        self.database.write_soon(SettleCall(row, usage, usd, ms, OK if outcome == "ok" else FAILED))

    async def settle_orphans(self, session: SessionId, price: Price | None = None) -> int:
        """Settle at their estimate the calls that a dead process left open, and return their number. Only for the
        process that runs the session."""
        sql = """
            SELECT ledger.n, models.name, estimate FROM ledger JOIN models ON models.n = model
            WHERE session = (SELECT n FROM sessions WHERE id = ?) AND outcome IS NULL
        """
        rows = await self.database.read(fetch_all(sql, (session,)))
        for row, model, estimate in rows:
            usage = Usage(input=estimate)
            usd = None if price is None else price(model, usage)
            self.database.write_soon(SettleCall(row, usage, usd, 0, LOST))
        await self.database.flush()
        return len(rows)

    async def spent(self, session: SessionId, since: int = 0) -> Spending:
        """The sum of all settled calls of the session, from all its processes."""
        sql = f"""
            SELECT {_SUMS} FROM ledger WHERE session = (SELECT n FROM sessions WHERE id = ?) AND outcome IS NOT NULL
                AND at >= ?
        """  # noqa: S608
        row = await self.database.read(fetch_one(sql, (session, since)))
        return Spending(_usage(row), row[4], row[5] > 0)

    async def costs(self, session: SessionId | None = None) -> list[Cost]:
        """Settled calls, summed by agent and model; agents in the order of their start."""
        sql = f"""
            SELECT {_SUMS}, coalesce(sum(ms), 0), sum(outcome = {OK}),
                sessions.id, coalesce(agents.id, ''), coalesce(agents.name, ''), agents.parent, models.name,
                coalesce(agents.kind, '')
            FROM ledger JOIN sessions ON sessions.n = ledger.session JOIN models ON models.n = ledger.model
                LEFT JOIN agents ON agents.n = ledger.agent
            WHERE outcome IS NOT NULL AND (:session IS NULL OR sessions.id = :session)
            GROUP BY ledger.session, ledger.agent, ledger.model ORDER BY ledger.session, ledger.agent, ledger.model
        """  # noqa: S608
        rows = await self.database.read(fetch_all(sql, {"session": session}))
        return [
            Cost(id, agent, name, parent, model, _usage(row), row[4], row[5] > 0, ms / 1000, turns, kind)
            for row in rows
            for ms, turns, id, agent, name, parent, model, kind in [row[6:]]
        ]

    async def spent_over_time(self, session: SessionId, buckets: int) -> list[SpentPoint]:
        """Settled calls of a session in at most `buckets` stretches of equal length; empty ones are left out."""
        sql = """
            SELECT at, coalesce(agents.id, ''), coalesce(usd, 0.0), input, output, cache_read, cache_write
            FROM ledger LEFT JOIN agents ON agents.n = ledger.agent
            WHERE ledger.session = (SELECT n FROM sessions WHERE id = ?) AND outcome IS NOT NULL ORDER BY at
        """
        rows = await self.database.read(fetch_all(sql, (session,)))
        if not rows:
            return []
        first, last = rows[0][0], rows[-1][0]
        width = max(1, (last - first) // buckets + 1)
        points: dict[int, SpentPoint] = {}
        for at, agent, usd, input, output, read, write in rows:
            place = first + (at - first) // width * width
            old = points.get(place) or SpentPoint(place, 0.0, 0, 0, 0, {})
            points[place] = SpentPoint(
                place,
                old.usd + usd,
                old.input_tokens + input + read + write,
                old.cached_tokens + read,
                old.output_tokens + output,
                old.agents | {agent: old.agents.get(agent, 0.0) + usd},
            )
        return list(points.values())


def _usage(row: Sequence[int]) -> Usage:
    return Usage(*row[:4])
