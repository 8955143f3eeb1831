"""Monitor: runs a command beside the agent, which receives its lines as they are printed."""

import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from teamwright.core.data.job import LETTERS
from teamwright.core.errors import ToolError
from teamwright.core.ports import Outcome, ToolContext
from teamwright.runtime.sandbox.use import run_of
from teamwright.runtime.services import services_of
from teamwright.runtime.tool_traits import ToolTraits
from teamwright.tools.bash import label, launched, stand
from teamwright.tools.define import read_args, spec

if TYPE_CHECKING:
    from teamwright.tools.shell.sandbox_words import SandboxWords

NAME = "Monitor"
DEFAULT_MS = 300_000
MOST_MS = 3_600_000

DESCRIPTION = f"""\
Runs a command in the background and tells you the lines that it prints, as they come.

- Returns at once. Each line, or lines that come together, reach you between your own steps; so does its end.
- Print only what you want to know: `tail -n0 -F log | grep --line-buffered ERROR`, or a loop that checks, prints \
when something changed, and sleeps. At most {LETTERS} messages a minute; more lines come together.
- Silence is not success: let the filter match failures and the end, too.
- It keeps the session open: TaskStop ends it when you no longer need it, `timeout_ms` ({DEFAULT_MS} unless given, \
{MOST_MS} at most) in any case.
- For one event, or where lines do not matter, use Bash with run_in_background and a command that ends with it."""
OFF = "Monitor is not available: background jobs are off. Use Bash, which waits for the command's end."


class MonitorArgs(Struct, frozen=True):
    command: Annotated[str, Meta(description="The command line or script whose lines are watched")]
    description: Annotated[str, Meta(description="What is watched, in a few words, for the person")]
    timeout_ms: Annotated[int | None, Meta(description="Milliseconds after which it is stopped")] = None


class MonitorTool:
    """`env` and `passed` make the shell's environment, as for Bash; without `background` the tool is off."""

    traits = ToolTraits(name=NAME, runs=True, texts=("command",))

    def __init__(
        self,
        env: Mapping[str, str] | None = None,
        passed: Collection[str] = (),
        *,
        background: bool = False,
        sandbox: "SandboxWords | None" = None,
    ) -> None:
        self._env, self._passed, self._background = env, passed, background
        self.spec = spec(NAME, DESCRIPTION, MonitorArgs)
        if sandbox is not None:
            self.spec = sandbox.tell(self.spec)

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        if not self._background:
            raise ToolError(OFF)
        from teamwright.host.process.bash import encode_script  # noqa: PLC0415  # nothing of it before a first command
        from teamwright.host.process.environment import tool_environment  # noqa: PLC0415
        from teamwright.runtime.jobs.shell_jobs import Order  # noqa: PLC0415

        asked = read_args(MonitorArgs, args)
        script = encode_script(asked.command)
        before = ctx.desk.cwd
        notes = stand(ctx.desk)
        env = tool_environment(os.environ if self._env is None else self._env, ctx.desk.env, self._passed)
        order = Order(
            kind="monitor",
            script=script,
            cwd=ctx.desk.cwd,
            run=run_of(ctx, asked.command, env, lives_on=True),
            description=label(asked.description, asked.command),
            limit=min(max(asked.timeout_ms or DEFAULT_MS, 1), MOST_MS) / 1000,
        )
        job = await services_of(ctx).shell_jobs.start(order, ctx)
        words = f"It runs for {order.limit:g} s at most; its lines reach you as they come."
        return launched(job, words, notes, "" if ctx.desk.cwd == before else str(ctx.desk.cwd))
