"""Acts: changes of the store as data. An act is applied inside a transaction, and its outcome depends only on the rows,
its own fields and the context."""

import sqlite3
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

from msgspec import Struct

from teamwright.core.data.team import ProcessId
from teamwright.core.errors import NotAllowed
from teamwright.core.ids import AgentId
from teamwright.core.policies.authority import Demand, Role, refuse
from teamwright.store.tables.rows.agents import names_of
from teamwright.store.tables.rows.processes import find_lease

Outcome_co = TypeVar("Outcome_co", covariant=True)


class Context(Struct, frozen=True):
    """What an act may know besides the rows; the same for all acts that are committed together."""

    now: int  # milliseconds since 1970
    alive: Callable[[ProcessId], bool]
    role: Role = "lead"  # rights of the acts
    process: ProcessId | None = None  # that asks for them; a lead on one machine need not say
    name: str = ""  # the identity under which an engine let that process in
    # what dead processes hold stays theirs until somebody takes it, because they may come back
    keeps_dead: bool = False


class Act(Protocol[Outcome_co]):
    def apply(self, db: sqlite3.Connection, ctx: Context) -> Outcome_co: ...


@runtime_checkable
class Delegable(Protocol):
    """An act that a worker may ask for, on behalf of agents that it runs. All other acts are a lead's."""

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand | None: ...


def apply(db: sqlite3.Connection, act: Act[Any], ctx: Context) -> Any:
    """Apply an act and return its outcome. Raises NotAllowed for one beyond the rights of the process that asks."""
    if ctx.role != "lead":
        demand = cast("Delegable", act).demand(db, ctx) if _is_delegable(type(act)) else None

        def holds(agent: AgentId) -> bool:
            return runs(db, agent, ctx.process)

        if (why := refuse(demand, holds, partial(names_of, db))) is not None:
            raise NotAllowed(f"{type(act).__name__} was refused: {why}.")
    return act.apply(db, ctx)


@cache
def _is_delegable(kind: type[Act[Any]]) -> bool:
    """Cached by type: checking each act would cost as much as what most of them do."""
    return issubclass(kind, Delegable)


def runs(db: sqlite3.Connection, agent: AgentId, process: ProcessId | None) -> bool:
    """Whether a process runs an agent, by its lease or by that of an agent above it. A lost lease is a lost right."""
    at: AgentId | None = agent
    while at is not None and process is not None:
        if (lease := find_lease(db, at)) is not None:
            return lease.process == process
        row = db.execute("SELECT parent FROM agents WHERE id = ?", (at,)).fetchone()
        at = row[0] if row else None
    return False
