"""Runs a call's program, in a box if there is a sandbox and the call was judged to run inside."""

import os
import shutil
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from teamwright.core.ids import AgentId, CallId
from teamwright.core.permissions.consent import Fence, Mode
from teamwright.core.ports import Desk, ToolContext
from teamwright.runtime.services import Services, SessionContext

if TYPE_CHECKING:
    from teamwright.host.sandbox.box import Box
    from teamwright.runtime.sandbox.fence import FencedProgram, SessionFence
    from teamwright.runtime.sandbox.refusals import Refusals


class RunPlace(Struct, frozen=True):
    """Where a program runs, and its environment. Outside of the sandbox `box` is None, and nothing is refused."""

    env: Mapping[str, str]
    box: "Box | None" = None
    notice: str = ""  # for the result
    fence: "SessionFence | None" = None
    fenced: "FencedProgram | None" = None
    call: CallId = CallId("")
    mode: Mode = "default"

    def refused(self, printed: str, cwd: str) -> "Refusals | None":
        """What was refused. Call it when the program has ended and the place is still open."""
        if self.fence is None or self.fenced is None:
            return None
        return self.fence.refused(self.fenced, self.call, printed, cwd)

    def hint(self, printed: str, cwd: str) -> str:
        """Words for the model on what a program that still runs says it was refused; empty if it says nothing."""
        if self.fence is None or self.fenced is None:
            return ""
        return self.fence.complaints(self.fenced, printed, cwd).words(self.mode)


class ProgramRun(Struct, frozen=True):
    """A program that a call starts, as the gate allowed it. `lives_on`: it outlives the call."""

    services: Services | None
    agent: AgentId
    call: CallId
    desk: Desk
    fence: Fence
    command: str
    env: Mapping[str, str]
    lives_on: bool = False

    @asynccontextmanager
    async def place(self) -> AsyncGenerator[RunPlace]:
        sandbox = self.services.sandbox if self.services is not None else None
        if self.services is None or sandbox is None:
            yield RunPlace(self.env)
            return
        if self.fence in ("outside", "leaving"):
            sandbox.note_outside(self.call, "the settings exclude it" if self.fence == "outside" else "a person agreed")
            yield RunPlace(self.env)
            return
        from teamwright.runtime.sandbox.hosts import Caller  # noqa: PLC0415

        known = self.services.supervisor.agent(self.agent)
        caller = Caller(self.agent, known.name if known else "main", self.call, self.command)
        mode = self.services.mode_of(self.agent)
        async with sandbox.box(caller, self.desk, mode, self.env, lives_on=self.lives_on) as fenced:
            yield RunPlace(fenced.env, fenced.box, fenced.notice, sandbox, fenced, self.call, mode)


def run_of(ctx: ToolContext, command: str, env: Mapping[str, str], *, lives_on: bool = False) -> ProgramRun:
    """The program of a tool's call."""
    services = ctx.session if isinstance(ctx, SessionContext) else None
    if services is not None and (trace := services.trace_env(ctx.agent, ctx.call_id)):
        env = {**env, **trace}
    return ProgramRun(services, ctx.agent, ctx.call_id, ctx.desk, ctx.fence, command, env, lives_on)


Program = tuple[Mapping[str, str], "Box | None"]  # the environment, and the box that it runs in


@asynccontextmanager
async def brought_place(
    services: Services, project: Path, source: str, env: Mapping[str, str], argv: Sequence[str] = (), *, server: bool
) -> AsyncGenerator[Program]:
    """Where a hook or a server runs: in the sandbox as settings say, by default if the project brought it.

    `source` is the file that names it; `argv` is a server's command.
    """
    sandbox = services.sandbox
    where = "none" if sandbox is None else sandbox.plan.servers if server else sandbox.plan.hooks
    theirs = not source or any(Path(source).is_relative_to(one) for one in (sandbox.plan.brought if sandbox else ()))
    if sandbox is None or where == "none" or (where == "project" and not theirs):
        yield env, None
        return
    from teamwright.runtime.sandbox.hosts import Caller  # noqa: PLC0415

    supervisor = services.supervisor
    main = AgentId(supervisor.main.id)
    caller = Caller(main, "main", CallId(f"{'server' if server else 'hook'}-{os.urandom(6).hex()}"), Path(source).name)
    desk = Desk(project, (project,))
    named = tuple(_named(argv, env, project)) if argv else ()
    async with sandbox.box(caller, desk, services.mode_of(main), env, lives_on=True, programs=named) as fenced:
        yield fenced.env, fenced.box


def _named(argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> Iterator[str]:
    program, *args = argv
    yield str(cwd / program) if "/" in program else shutil.which(program, path=env.get("PATH")) or ""
    yield from (arg for arg in args if arg.startswith("/"))
