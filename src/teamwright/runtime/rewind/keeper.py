"""Keeps files before the calls of agents change them, and notes what each call left."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from teamwright.core.errors import StoreError, ToolError
from teamwright.core.permissions.facts import Facts, Runs
from teamwright.core.permissions.rules import Rules
from teamwright.core.ports import Outcome, ToolContext
from teamwright.runtime.tool_traits import Catalog, find_traits
from teamwright.store.tables.state import now_ms

if TYPE_CHECKING:
    from teamwright.host.files.snapshot import FileState
    from teamwright.runtime.permissions.call_facts import FactReader
    from teamwright.runtime.rewind.commands import CommandWatch, Watched
    from teamwright.store.files.checkpoints import Checkpoints

Run = Callable[[Mapping[str, Any], ToolContext], Awaitable[Outcome]]
NOT_KEPT = "What agents change now cannot be brought back by /rewind: {}"
AFTERWARDS = 10.0  # seconds for the note about a call that was interrupted


class FileKeeper:
    """Never holds work up: the person is told what could not be kept.

    `roots` are the session's working directories. Files in an agent's own worktree are not kept.
    """

    def __init__(
        self,
        checkpoints: "Checkpoints",
        catalog: Catalog,
        facts: "Callable[[], FactReader]",
        *,
        roots: Callable[[], Collection[Path]],
        warn: Callable[[str], None],
        commands: "Callable[[], CommandWatch]",
    ) -> None:
        """`facts` and `commands` are called when the first command is run."""
        self._checkpoints, self._catalog, self._facts = checkpoints, catalog, facts
        self._roots, self._warn, self._watch = roots, warn, commands
        self._commands: CommandWatch | None = None

    async def around(self, tool: str, args: Mapping[str, Any], ctx: ToolContext, run: Run) -> Outcome:
        """Run the call, so that what it changes can be brought back."""
        traits = find_traits(self._catalog, tool)
        home = ctx.desk.roots[0]
        apart = home not in self._roots()
        if traits.path is not None and traits.path.access == "write":
            paths = [path for path in ctx.paths.values() if not (apart and Path(path).is_relative_to(home))]
            return await self._around_edit(paths, args, ctx, run)
        if traits.runs and not apart and await self._may_change(tool, args, ctx):
            return await self._around_command(args, ctx, run)
        return await run(args, ctx)

    # --- files that a tool names

    async def _around_edit(self, paths: Sequence[str], args: Mapping[str, Any], ctx: ToolContext, run: Run) -> Outcome:
        if not paths:
            return await run(args, ctx)
        before = await self._kept(self._keep, paths)
        try:
            return await run(args, ctx)
        finally:
            if before is not None:
                await self._finish(partial(self._note, before))

    def _keep(self, paths: Sequence[str]) -> "dict[str, FileState]":
        from teamwright.host.files.snapshot import look_at  # noqa: PLC0415  # nothing of it before a first change
        from teamwright.runtime.rewind.entries import entry_of, is_storable  # noqa: PLC0415
        from teamwright.store.files.checkpoints import MOST_BYTES  # noqa: PLC0415

        found = {path: look_at(path, MOST_BYTES) for path in filter(is_storable, paths)}
        self._checkpoints.append(entry_of(self._checkpoints, path, state, now_ms()) for path, state in found.items())
        return found

    async def _note(self, before: "dict[str, FileState]") -> None:
        await anyio.to_thread.run_sync(self._append_left, before)

    def _append_left(self, before: "dict[str, FileState]") -> None:
        from teamwright.host.files.snapshot import look_at  # noqa: PLC0415
        from teamwright.runtime.rewind.entries import after_of  # noqa: PLC0415
        from teamwright.store.files.checkpoints import MOST_BYTES  # noqa: PLC0415

        at = now_ms()
        self._checkpoints.append(after_of(path, was, look_at(path, MOST_BYTES), at) for path, was in before.items())

    # --- commands

    async def _may_change(self, tool: str, args: Mapping[str, Any], ctx: ToolContext) -> bool:
        try:
            facts = (await self._facts().read(tool, args, ctx.desk, Rules())).facts
        except ToolError:
            return True
        return not only_reads(facts)

    async def _around_command(self, args: Mapping[str, Any], ctx: ToolContext, run: Run) -> Outcome:
        watch, watched = await self._begin(ctx)
        outcome: Outcome | None = None
        try:
            outcome = await run(args, ctx)
            return outcome
        finally:
            background = outcome is not None and bool((outcome.data or {}).get("backgroundTaskId"))
            if watched is not None:
                await self._finish(partial(watch.end, watched, background=background))

    async def _begin(self, ctx: ToolContext) -> "tuple[CommandWatch, Watched | None]":
        watch = self._commands
        if watch is None:
            watch = self._commands = self._watch()
            await anyio.to_thread.run_sync(watch.clear)
        try:
            return watch, await watch.begin(ctx.call_id, ctx.desk.cwd)
        except StoreError as error:
            self._warn(NOT_KEPT.format(error))
            return watch, None

    # --- failures

    async def _kept(
        self, keep: "Callable[[Sequence[str]], dict[str, FileState]]", paths: Sequence[str]
    ) -> "dict[str, FileState] | None":
        try:
            return await anyio.to_thread.run_sync(keep, paths)
        except StoreError as error:
            self._warn(NOT_KEPT.format(error))
            return None

    async def _finish(self, note: Callable[[], Awaitable[object]]) -> None:
        """Do this even after an interrupt."""
        with anyio.CancelScope(shield=True), anyio.move_on_after(AFTERWARDS):
            try:
                await note()
            except StoreError as error:
                self._warn(NOT_KEPT.format(error))


def only_reads(facts: Facts | None) -> bool:
    """Whether a command is known to change nothing."""
    if not isinstance(facts, Runs) or facts.broken or facts.writes or not facts.commands:
        return False
    return all(command.harmless or command.shadow for command in facts.commands)
