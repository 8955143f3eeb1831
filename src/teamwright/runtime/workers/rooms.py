"""Files of an agent on a worker: saved after each call that may have changed some, sent back as a branch."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import anyio
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.data.code import BranchBack, SavedTree, TreeSaved
from teamwright.core.data.message import Text
from teamwright.core.data.team import Member
from teamwright.core.ids import AgentId
from teamwright.core.ports import Keeper, Outcome, ToolContext
from teamwright.runtime.tool_traits import Catalog, find_traits
from teamwright.store.tables.remotes import RemoteTable


class Room(Protocol):
    """A clone, as far as it is used here."""

    path: Path
    branch: str
    notes: tuple[str, ...]

    async def save(self, path: Path | None = None) -> SavedTree | None: ...
    async def back(self) -> BranchBack | None: ...
    async def team(self, branches: Mapping[str, BranchBack]) -> None: ...
    async def close(self) -> None: ...


Run = Callable[[Mapping[str, Any], ToolContext], Awaitable[Outcome]]


class SavingKeeper(Struct, frozen=True):
    """Saves the tree before the result of a call counts, so that the next worker finds what finished calls did.
    Publishes it before a call that tells others: who hears that something is done must find it.

    `emit` belongs to the agent that was given to this worker: those that it starts work in the same tree.
    """

    room: Room
    catalog: Catalog
    emit: Callable[[TreeSaved], None]
    inner: Keeper | None = None
    publish: Callable[[], Awaitable[None]] | None = None
    busy: anyio.Lock = msgspec.field(default_factory=partial(anyio.Lock, fast_acquire=True))

    async def around(self, tool: str, args: Mapping[str, Any], ctx: ToolContext, run: Run) -> Outcome:
        traits = find_traits(self.catalog, tool)
        if traits.effects == "stored" and self.publish is not None:
            await self.publish()
        outcome = await (run(args, ctx) if self.inner is None else self.inner.around(tool, args, ctx, run))
        if traits.effects != "local":
            return outcome
        named = next(iter(ctx.paths.values()), None) if traits.path is not None else None
        async with self.busy:
            saved = await self.room.save(Path(named) if named else None)
            if saved is None:
                return outcome
            self.emit(TreeSaved(saved))
        return replace(outcome, content=(*outcome.content, *map(Text, saved.notes)))


_SHARED = (
    "You work on the machine {machine}, in a clone of the repository: {path}, on the branch {branch}. The others get "
    "that branch whenever you complete a task, write to them or end your turn. Their work is here as team/NAME, as it "
    "was with the last message that you got: `git merge team/ada`, for example. Nothing else of their machines is here."
)


class SharedRoom(Struct, frozen=True):
    """A teammate's room: others find its branch up to date, and it sees those of the others."""

    agent: AgentId
    machine: str
    room: Room
    table: RemoteTable
    roster: Callable[[str], list[Member]]

    @property
    def words(self) -> str:
        room = self.room
        told = _SHARED.format(machine=self.machine, path=room.path, branch=room.branch)
        return "\n".join([told, *room.notes])

    async def refresh(self, member: Member) -> None:
        found = {row.agent: row for row in await self.table.of_team(member.team) if row.branch}
        named = {m.agent: m.name for m in self.roster(member.team) if m.agent in found and m.agent != member.agent}
        backs = {name: msgspec.json.decode(found[id].branch, type=BranchBack) for id, name in named.items()}
        await self.room.team(backs)

    async def publish(self) -> None:
        if (back := await self.room.back()) is not None:
            await self.table.saved(self.agent, write_back(back))


def write_back(back: BranchBack | None) -> str:
    return "" if back is None else msgspec.json.encode(back).decode()
