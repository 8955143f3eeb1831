"""Bash: runs one command line in a fresh shell that starts where the previous one ended."""

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from teamwright.core.data.event import ToolProgressed
from teamwright.core.data.message import Text
from teamwright.core.errors import ToolError
from teamwright.core.ports import Desk, Outcome, ToolContext
from teamwright.core.text import shown
from teamwright.host.files.paths import is_directory
from teamwright.runtime.sandbox.use import run_of
from teamwright.runtime.services import services_of
from teamwright.runtime.tool_traits import ToolTraits
from teamwright.tools.bounds import HEAD, TAIL, bounded, visible
from teamwright.tools.define import read_args, spec

if TYPE_CHECKING:
    from teamwright.host.process.capture import Capture
    from teamwright.runtime.jobs.jobs import Job
    from teamwright.tools.shell.sandbox_words import SandboxWords

NAME = "Bash"
DEFAULT_MS = 120_000
MOST_MS = 600_000

DESCRIPTION = f"""Runs a command line in a fresh bash and returns what it printed (stdout and stderr together) and its exit code.

- The working directory is kept between calls; variables, functions and shell options are not.
- Standard input is empty and there is no terminal: use flags that keep programs from asking.
- When the call ends, everything that the command started is stopped, background processes too.
- Long output is cut in the middle; the result names the file that has all of it.
- `timeout` is in milliseconds: {DEFAULT_MS} unless given, {MOST_MS} at most.
- Prefer Read, Edit, Write, Glob and Grep over cat, sed, find and grep. Quote paths that contain spaces."""  # noqa: E501
BACKGROUND = """
- For servers, watchers and long builds use run_in_background, not `&`: it returns at once with an id and an output \
file, runs until it ends or is stopped (`timeout` only if given), and you are told when it ends. Do not wait or poll."""
OFF = "run_in_background was ignored: background jobs are off; the command ran to its end."


class BashArgs(Struct, frozen=True):
    command: Annotated[str, Meta(description="The command line or script to run")]
    description: Annotated[str, Meta(description="What it does, in five to ten words, for the person")] = ""
    timeout: Annotated[int | None, Meta(description="Milliseconds after which it is stopped")] = None
    run_in_background: Annotated[bool | None, Meta(description="Return at once; you are told when it ends")] = None


class BashTool:
    """`env` is the base of the shell's environment (default: ours); `passed` names secrets to let through.

    `background`: commands may run in the background. `sandbox`: how to describe the sandbox to the model.
    """

    traits = ToolTraits(name=NAME, runs=True, texts=("command",), output="stdout")

    def __init__(
        self,
        env: Mapping[str, str] | None = None,
        passed: Collection[str] = (),
        *,
        background: bool = False,
        sandbox: "SandboxWords | None" = None,
    ) -> None:
        self._env, self._passed, self._background = env, passed, background
        words, unseen = (DESCRIPTION + BACKGROUND, ()) if background else (DESCRIPTION, ("run_in_background",))
        self.spec = spec(NAME, words, BashArgs, unseen=unseen)
        if sandbox is not None:
            self.spec = sandbox.tell(self.spec)

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        from teamwright.host.process.bash import encode_script  # noqa: PLC0415  # nothing of it before a first command
        from teamwright.host.process.environment import tool_environment  # noqa: PLC0415

        asked = read_args(BashArgs, args)
        script = encode_script(asked.command)
        before = ctx.desk.cwd
        notes = stand(ctx.desk)
        env = tool_environment(os.environ if self._env is None else self._env, ctx.desk.env, self._passed)
        if asked.run_in_background and self._background:
            from teamwright.runtime.jobs.shell_jobs import Order  # noqa: PLC0415  # most sessions start none

            order = Order(
                kind="shell",
                script=script,
                cwd=ctx.desk.cwd,
                run=run_of(ctx, asked.command, env, lives_on=True),
                description=label(asked.description, asked.command),
                limit=None if asked.timeout is None else max(asked.timeout, 1) / 1000,
            )
            job = await services_of(ctx).shell_jobs.start(order, ctx)
            moved = "" if ctx.desk.cwd == before else str(ctx.desk.cwd)
            return launched(job, "It runs in the background; you are told when it ends.", notes, moved)
        notes += [OFF] if asked.run_in_background else []
        limit = min(max(asked.timeout or DEFAULT_MS, 1), MOST_MS) / 1000
        return await self._run(asked.command, env, limit, notes, before, ctx)

    async def _run(
        self, command: str, env: Mapping[str, str], limit: float, notes: list[str], before: Path, ctx: ToolContext
    ) -> Outcome:
        from teamwright.host.process.bash import describe_end, encode_script, run_script  # noqa: PLC0415
        from teamwright.host.process.capture import Capture, plain  # noqa: PLC0415
        from teamwright.tools.shell.exit_status import meaning  # noqa: PLC0415

        desk = ctx.desk
        capture = Capture(desk.spill / f"bash-{os.urandom(6).hex()}.txt" if desk.spill else None)

        def tell() -> None:
            so_far = visible(capture.text(plain))
            ctx.emit(ToolProgressed(ctx.call_id, visible(capture.last_line()), so_far))

        stood = desk.cwd
        async with run_of(ctx, command, env).place() as place:
            ended, moved_to = await run_script(
                encode_script(command),
                cwd=stood,
                env=place.env,
                limit=limit,
                capture=capture,
                on_output=tell,
                box=place.box,
            )
            refused = place.refused(capture.text(), str(stood))
        notes += [place.notice] if place.notice else []
        notes += _move(desk, moved_to)
        printed = _shown(capture, desk).rstrip("\n")
        words, code = describe_end(ended, limit)
        words += self._advice(limit) if ended.timed_out else ""
        if answer := meaning(command, printed) if code == 1 else "":
            words = f"({answer}; exit code 1)"
        lines = [printed or ("" if answer else "(no output)"), *map(visible, notes), words]
        data: dict[str, Any] = {"exitCode": code, "interrupted": ended.timed_out}
        if refused is not None:
            lines.append(visible(refused.words(place.mode)))
            data["sandbox"] = refused.data()
        text = "\n".join(line for line in lines if line)
        if capture.path:
            data["outputFile"] = str(capture.path)
        moved = "" if desk.cwd == before else str(desk.cwd)
        return Outcome((Text(text),), data, is_error=code != 0 and not answer, cwd=moved)

    def _advice(self, limit: float) -> str:
        """Suggests how a command could run longer."""
        ways = [f"a longer `timeout` (milliseconds, {MOST_MS} at most)"] if limit * 1000 < MOST_MS else []
        ways += ["run_in_background, which has no limit"] if self._background else []
        return f". If it needs more time: {' or '.join(ways)}." if ways else ""


def label(description: str, command: str) -> str:
    """The label for people: the description, else the beginning of the command."""
    return shown(" ".join((description.strip() or command).split()), 100)


def launched(job: "Job", words: str, notes: Sequence[str], moved: str) -> Outcome:
    """The immediate result of a background command. `moved`: the new directory if its own was gone."""
    lines = [words, f"id: {job.id}", f"output file: {job.output}", *map(visible, notes)]
    data = {"backgroundTaskId": job.id, "outputFile": str(job.output)}
    return Outcome((Text("\n".join(lines)),), data, cwd=moved)


def stand(desk: Desk) -> list[str]:
    """Makes sure that the working directory exists; returns a note if it had to change."""
    if is_directory(desk.cwd):
        return []
    gone, desk.cwd = desk.cwd, desk.roots[0]
    if not is_directory(desk.cwd):
        raise ToolError(f"Nothing was run: the project's directory {desk.cwd} does not exist any more.")
    return [f"The working directory {gone} was gone; the command ran in {desk.cwd}."]


def _move(desk: Desk, reported: str | None) -> list[str]:
    """Follows the shell to its last directory, but not outside the working directories."""
    if reported is None:
        return []
    place = Path(reported)
    if not reported or not is_directory(place):
        why = "the directory in which the command ended is gone"
    elif os.path.realpath(place) != reported:  # only a shell resolves it: the command itself wrote where that reports
        why = f"{place} leads elsewhere"
    elif not any(place.is_relative_to(root) for root in desk.roots):
        why = f"{place} is outside the working directories"
    elif any("\ud800" <= letter <= "\udfff" for letter in reported):
        why = f"the name of {place} is not UTF-8"
    else:
        desk.cwd = place
        return []
    desk.cwd = desk.roots[0]
    return [f"The working directory is {desk.cwd} again: {why}."]


# --- the result


def _shown(capture: "Capture", desk: Desk) -> str:
    from teamwright.host.process.capture import HEAD as FULL  # noqa: PLC0415
    from teamwright.host.process.capture import plain  # noqa: PLC0415

    if not capture.shortened:
        return bounded(visible(plain(capture.text())), spill=desk.spill, name="bash")
    sizes = (HEAD, TAIL) if capture.path else (FULL, FULL)
    # Escapes make binary output longer: bound each side, so that the line between them stays.
    each = iter(sizes)
    return capture.text(lambda part: bounded(visible(plain(part)), most=next(each)), sizes=sizes)
