"""Claims protected names while file tools write them, as they do outside of the sandbox: otherwise the guard of a
running command would take the files for something that the command planted."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import anyio.to_thread

from teamwright.core.ports import Keeper, Outcome, ToolContext
from teamwright.host.sandbox.guard.claims import Claims
from teamwright.runtime.sandbox.fence import SessionFence
from teamwright.runtime.tool_traits import Catalog, find_traits

Run = Callable[[Mapping[str, Any], ToolContext], Awaitable[Outcome]]


class ClaimingKeeper:
    """Wraps `inner`, which keeps files as they were; None: nobody wants them kept."""

    def __init__(self, inner: Keeper | None, catalog: Catalog, fence: SessionFence) -> None:
        self._inner, self._catalog, self._fence = inner, catalog, fence

    async def around(self, tool: str, args: Mapping[str, Any], ctx: ToolContext, run: Run) -> Outcome:
        traits = find_traits(self._catalog, tool)
        if traits.path is None or traits.path.access != "write":
            return await self._run(tool, args, ctx, run)
        guarded = await anyio.to_thread.run_sync(self._fence.guarded, ctx.agent, ctx.desk, tuple(ctx.paths.values()))
        claims = Claims(self._fence.plan.fence.made)
        with suppress(OSError):  # then a guard may move it to its quarantine, where nothing is lost
            claims.take(*guarded)
        try:
            return await self._run(tool, args, ctx, run)
        finally:
            with suppress(OSError):
                claims.release(*guarded)

    async def _run(self, tool: str, args: Mapping[str, Any], ctx: ToolContext, run: Run) -> Outcome:
        return await (run(args, ctx) if self._inner is None else self._inner.around(tool, args, ctx, run))
