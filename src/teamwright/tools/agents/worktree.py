"""EnterWorktree and ExitWorktree: move the calling agent into a git worktree, and back."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct

from teamwright.core.data.message import Text
from teamwright.core.errors import ToolError
from teamwright.core.ports import Outcome, ToolContext
from teamwright.runtime.services import services_of
from teamwright.runtime.tool_traits import Args, ToolTraits
from teamwright.tools.bounds import visible
from teamwright.tools.define import read_args, spec

if TYPE_CHECKING:
    from teamwright.runtime.agents.supervisor import Supervisor
    from teamwright.runtime.worktrees import EnteredTree, ExitedTree

DISCARD = "discard"


class EnterArgs(Struct, frozen=True):
    name: Annotated[
        str, Meta(description="Letters, digits, `.`, `_`, `-`, and `/` between parts; made up if left out")
    ] = ""


class ExitArgs(Struct, frozen=True):
    action: Annotated[Literal["keep", "remove"], Meta(description="What to do with the worktree and its branch")]
    discard_changes: Annotated[bool, Meta(description="With remove: even if it holds work")] = False


class EnterWorktree:
    spec = spec(
        "EnterWorktree",
        "Moves you into a git worktree of the project, where one was asked for: a directory and a branch of its own, "
        "from the current commit. Your tools then work there, and the project's own files stay as they are. A worktree "
        "that already has this name is used again. It stays until ExitWorktree removes it.",
        EnterArgs,
    )
    traits = ToolTraits(name=spec.name, own=True)

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        asked = read_args(EnterArgs, args)
        services = services_of(ctx)
        job, worktrees = services.supervisor.job_of(ctx.agent), services.worktrees
        if job is not None and job.tree is not None and worktrees.stay_of(ctx.agent) is None:
            raise ToolError(f"You work in a worktree of your own already, {job.tree.path}: stay there.")
        stay = await worktrees.enter(ctx.agent, ctx.desk, asked.name)
        if job is not None:
            job.tree = stay.tree  # so that the job's end releases and reports it
        return _entered(stay)


def _fate(args: Args) -> str:
    if args.get("action") != "remove":
        return "keep"
    return DISCARD if args.get("discard_changes") else "remove"


def _throws_away(fate: str) -> bool:
    return fate == DISCARD


class ExitWorktree:
    spec = spec(
        "ExitWorktree",
        "Takes you back to where you called EnterWorktree. `keep` leaves the worktree and its branch as they are; `remove` "  # noqa: E501
        "deletes both, but refuses if work would be lost, unless discard_changes is set.",
        ExitArgs,
    )
    traits = ToolTraits(name=spec.name, detail=_fate, own=True, weighty=_throws_away)

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        asked = read_args(ExitArgs, args)
        services = services_of(ctx)
        supervisor, worktrees = services.supervisor, services.worktrees
        job, stay = supervisor.job_of(ctx.agent), worktrees.stay_of(ctx.agent)
        if stay is None and job is not None and job.tree is not None:
            raise ToolError("Your worktree was given to you for the whole run: it is looked at when you end.")
        if stay is not None and asked.action == "remove":
            _refuse_over_others(supervisor, ctx, stay.tree.path)
        discard = asked.discard_changes if asked.action == "remove" else None
        left = await worktrees.leave(ctx.agent, ctx.desk, discard=discard)
        if job is not None:
            job.tree = None
        return _left(left, str(ctx.desk.cwd))


def _refuse_over_others(supervisor: "Supervisor", ctx: ToolContext, path: Path) -> None:
    others = [a.name for a in supervisor.agents if a.id != ctx.agent and a.desk.roots[0] == path]
    if others:
        names = ", ".join(others)
        raise ToolError(f"The worktree was not removed: {names} works in it. Wait for its end, or leave with `keep`.")


def _entered(stay: "EnteredTree") -> Outcome:
    tree = stay.tree
    lines = [f"You are in the worktree {tree.name} now: {tree.path}"]
    if tree.kind == "hook":
        lines.append("It was made by a hook.")
    elif tree.made:
        lines.append(f"Its branch {tree.branch} begins at commit {tree.base[:12]}; what was not committed is not here.")
    else:
        lines.append(f"It was there already, on the branch {tree.branch}: look at what it holds before you go on.")
    lines += ["Paths of the project as you knew them lie outside now: read files here before you edit them."]
    lines += tree.warnings
    data = {
        "worktreeName": tree.name,
        "worktreePath": str(tree.path),
        "worktreeBranch": tree.branch,
        "created": tree.made,
    }
    return Outcome((Text(visible("\n".join(lines))),), data, cwd=str(tree.path))


def _left(left: "ExitedTree", cwd: str) -> Outcome:
    tree, kept = left.stay.tree, left.kept
    lines = [f"You are back in {cwd}."]
    if left.gone:
        lines.append(f"The worktree {tree.name} was there no more: somebody had deleted {tree.path}.")
    if kept and left.gone:
        lines += [f"Its branch {tree.branch} has commits and was kept. {kept.note}".rstrip()]
    elif kept:
        branch = f" (branch {kept.branch})" if kept.branch else ""
        lines += [f"The worktree {tree.name} was kept: {kept.path}{branch}", kept.summary, kept.note]
    elif not left.gone:
        lines.append(f"The worktree {tree.name} was removed.")
    if left.ref:
        lines.append(f"What it held is kept as {left.ref}; `git log {left.ref}` shows it.")
    data = {
        "worktreeName": tree.name,
        "worktreePath": str(tree.path),
        "worktreeBranch": tree.branch,
        "removed": kept is None,
        "keptRef": left.ref or None,
    }
    return Outcome((Text(visible("\n".join(line for line in lines if line))),), data, cwd=cwd)
