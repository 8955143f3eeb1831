"""Runs a repository's landing queue: one entry at a time, in order, each checked on top of what it lands on.

A kill at any point leaves the target at its old or at its new commit. The next run repairs the rest: it finds entries
that are `trying`, and the commit that was noted before the target moved.
"""

from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path

import anyio
from anyio import to_thread
from msgspec import Struct

from teamwright.core.crashpoint import crashpoint
from teamwright.core.data.landing import LandEntry, LandId
from teamwright.core.errors import ToolError
from teamwright.core.policies.landing import LandOrder, land_order
from teamwright.host.git.landing import (
    Conflict,
    Tried,
    close_left_trees,
    close_tree,
    open_tree,
    put_on,
    require_identity,
    tree_of,
)
from teamwright.host.git.run import Checkout
from teamwright.host.git.target import Blocked, Missed, contains, in_the_way, move_target, target_commit
from teamwright.osfiles.locks import Lock, hold
from teamwright.runtime.landing.plan import Check, Checked, LandEnd, LandPlan, Ring, Tell, repo_key
from teamwright.store.tables.landing import LandTable

CLOSING = 60.0  # seconds to put away the trees of a cancelled run
MOST_MISSES = 5  # times in a row that somebody else moves the target during a check


class BusyError(ToolError):
    """Another process runs the queue."""


@asynccontextmanager
async def queue_lock(place: Checkout) -> AsyncGenerator[Lock]:
    """Held by the one process that runs the queue of a repository. Raises BusyError."""
    path = place.common / "teamwright" / "landing.lock"
    lock = await to_thread.run_sync(hold, path)
    if lock is None:
        raise BusyError("Somebody else lands here at this moment: another session, or a person. Look again later.")
    try:
        yield lock
    finally:
        lock.release()


class _Prepared(Struct, frozen=True):
    entry: LandEntry
    tried: Tried


class LandRunner:
    """Runs the queue. Its user must hold `queue_lock`."""

    def __init__(self, table: LandTable, plan: LandPlan, check: Check, tell: Tell, ring: Ring) -> None:
        self._table, self._plan, self._check, self._tell, self._ring = table, plan, check, tell, ring
        self._chain: list[_Prepared] = []  # each on top of the one before; the first is being checked
        self._done: list[LandEntry] = []
        self._misses, self._numbers = 0, count(1)
        self._used: list[Path] = []  # trees that are no longer needed

    async def run(self, only: Collection[LandId] | None = None) -> LandEnd:
        """Land until nothing is left that can. Raises ToolError if git cannot work at all."""
        place, target = self._plan.place, self._plan.target
        await require_identity(place)
        await self._recover()
        try:
            while True:
                order = await self._order(only)
                if not self._chain and not order.ready:
                    return LandEnd(tuple(self._done), held=dict(order.held))
                if not self._chain and (why := await in_the_way(place, target)):
                    return await self._stop(why, order)
                if why := await self._step(order):
                    return await self._stop(why, await self._order(only))
        finally:
            with anyio.move_on_after(CLOSING, shield=True):
                await self._drop_chain("")
                await self._clear_away()

    async def _order(self, only: Collection[LandId] | None) -> LandOrder:
        plan = self._plan
        entries, blockers = await self._table.blocking(repo_key(plan.place.common), plan.target)
        return land_order(entries, blockers, only)

    async def _stop(self, why: str, order: LandOrder) -> LandEnd:
        await self._drop_chain(why)
        for entry in order.ready[:1]:
            if entry.reason != why and (noted := await self._table.change(entry.id, "waiting", "waiting", why)):
                self._tell(noted)
        return LandEnd(tuple(self._done), why, dict(order.held))

    async def _recover(self) -> None:
        """Clean up after a killed process: trees, and entries that are still marked as tried."""
        place, target = self._plan.place, self._plan.target
        await close_left_trees(place)
        for entry in await self._table.entries(repo_key(place.common), 0):
            if entry.state == "trying" and entry.draft.target == target:
                if entry.commit and await contains(place, target, entry.commit):
                    await self._landed(entry, "it had landed before the program ended")
                else:
                    await self._back(entry, "the program ended while it was tried")

    # --- one step: check the first, prepare the next, decide

    async def _step(self, order: LandOrder) -> str:
        """Why the queue cannot go on; empty if it can."""
        waiting = list(order.ready)
        if not self._chain:
            onto = await target_commit(self._plan.place, self._plan.target)
            if not waiting or (first := await self._prepare(waiting.pop(0), onto, sure=True)) is None:
                return ""
            self._chain.append(first)
        first, found = self._chain[0], list[Checked | ToolError]()

        async def check() -> None:
            try:
                found.append(await self._check(first.tried.tree, first.entry))
            except ToolError as error:  # it could not even start, which is not the entry's fault
                found.append(error)

        async with anyio.create_task_group() as group:
            group.start_soon(check)
            group.start_soon(self._prepare_ahead, waiting)
            group.start_soon(self._clear_away)
        crashpoint("land.checked")
        if isinstance(found[0], ToolError):
            raise found[0]
        return await self._decide(first, found[0])

    async def _prepare_ahead(self, waiting: list[LandEntry]) -> None:
        known = {one.entry.id for one in self._chain}
        rest = [entry for entry in waiting if entry.id not in known]
        while rest and len(self._chain) <= self._plan.ahead:
            before = self._chain[-1].tried.commit
            try:
                ready = await self._prepare(rest.pop(0), before, sure=False)
            except ToolError:
                return  # if the fault lasts, it is reported when the entry is first
            if ready is None:
                return  # the order stays: nothing may pass this entry
            self._chain.append(ready)

    async def _prepare(self, entry: LandEntry, onto: str, *, sure: bool) -> _Prepared | None:
        """None: it is already decided, or, if `onto` is not `sure` to become the target, it is left for later."""
        begun = await self._table.change(entry.id, "waiting", "trying")
        if begun is None:
            return None  # its owner or a person was faster
        self._tell(begun)
        crashpoint("land.begun")
        plan, draft = self._plan, entry.draft
        tree = tree_of(plan.place, next(self._numbers))
        words = f"Merge branch '{draft.branch}'" + ("" if plan.target in ("main", "master") else f" into {plan.target}")
        kept = False
        self._claim(tree)
        try:
            await open_tree(plan.place, tree, onto, plan.links)
            found = await put_on(tree, onto, draft.tip, method=plan.method, words=words)
            if isinstance(found, Conflict):
                await (self._send_back(begun, found.words, found.text) if sure else self._back(begun, ""))
                return None
            noted = await self._table.change(entry.id, "trying", "trying", "", found.commit)
            kept = noted is not None and found.commit != onto
            if noted is not None and not kept:
                await (self._landed(noted, f"{plan.target} has all of it") if sure else self._back(noted, ""))
            return _Prepared(noted, found) if kept and noted is not None else None
        except (ToolError, anyio.get_cancelled_exc_class()) as error:
            with anyio.move_on_after(CLOSING, shield=True):
                await self._back(begun, str(error) if isinstance(error, ToolError) else "")
            raise
        finally:
            if not kept:
                self._used.append(tree)

    async def _decide(self, first: _Prepared, found: Checked) -> str:
        plan, entry = self._plan, first.entry
        if found.fault:
            await self._send_back(entry, found.fault, found.output)
            self._put_away(first)
            await self._drop_chain("")
            return ""
        words = f"teamwright land: {entry.draft.branch}"
        moved = await move_target(plan.place, plan.target, first.tried.commit, first.tried.onto, words)
        if isinstance(moved, Missed):
            self._misses += 1
            await self._drop_chain("the target was moved by somebody else")
            often = self._misses >= MOST_MISSES
            return f"{plan.target} was moved by somebody else {self._misses} times in a row" if often else ""
        self._misses = 0
        if isinstance(moved, Blocked):
            return moved.why
        await self._landed(entry, "")
        self._put_away(first)
        return ""

    # --- the fate of an entry

    async def _landed(self, entry: LandEntry, reason: str) -> None:
        if done := await self._table.change(entry.id, "trying", "landed", reason, entry.commit):
            crashpoint("land.landed")
            self._done.append(done)
            self._tell(done)

    async def _send_back(self, entry: LandEntry, reason: str, output: str) -> None:
        if (sent := await self._table.send_back(entry.id, reason, output)) is not None:
            crashpoint("land.sent_back")
            self._done.append(sent.entry)
            self._tell(sent.entry)
            await self._ring(sent)

    async def _back(self, entry: LandEntry, why: str) -> None:
        if waits := await self._table.change(entry.id, "trying", "waiting", why):
            self._tell(waits)

    def _put_away(self, one: _Prepared) -> None:
        self._chain.remove(one)
        self._used.append(one.tried.tree)

    async def _clear_away(self) -> None:
        while self._used:
            tree = self._used[-1]
            with suppress(ToolError):  # the next run clears what is left
                await close_tree(self._plan.place, tree)
            self._used.remove(tree)  # only now: if cancelled before this, it is closed at the end
            self._claim(tree, release=True)

    def _claim(self, tree: Path, *, release: bool = False) -> None:
        """Keep the guards of commands in the sandbox away from it."""
        if not self._plan.claims:
            return
        from teamwright.host.sandbox.guard.claims import Claims  # noqa: PLC0415

        claims, names = Claims(self._plan.claims), (str(tree), str(self._plan.place.common / "worktrees" / tree.name))
        with suppress(OSError):  # then a guard may move it to its quarantine, and the branch is tried again
            (claims.release if release else claims.take)(*names)

    async def _drop_chain(self, why: str) -> None:
        """Let all prepared entries wait again: what they were merged onto is not what they would land on."""
        while self._chain:
            one = self._chain[-1]
            self._put_away(one)
            await self._back(one.entry, why)
