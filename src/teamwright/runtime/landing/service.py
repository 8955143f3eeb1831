"""The landing queue for sessions, commands and code: listing it, adding to it, and running it."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.data.landing import LandDraft, LandEntry, LandId
from teamwright.core.errors import ToolError
from teamwright.core.ids import AgentId
from teamwright.host.git.landing import Method
from teamwright.host.git.places import repository_of
from teamwright.host.git.run import locate
from teamwright.runtime.landing.plan import LandEnd, LandPlan, Ring, Tell, repo_key
from teamwright.store.tables.landing import LandTable

if TYPE_CHECKING:
    from teamwright.runtime.sandbox.fence import SessionFence

NO_CHECK = (
    "No check is set, so nothing can say whether a branch is fit to land. Set `teamwright.land.check` in your settings "
    "to the command that tests the project, for example `make test`, run `teamwright land --check COMMAND` once, or "
    "name it in this call (Land, `check`)."
)


class LandChoices(Struct, frozen=True):
    """What settings and flags say. `check` is the project's command line; None: never set; empty: no check.

    An empty `target` stands for the branch checked out in the main tree.
    """

    check: str | None
    seconds: float
    target: str = ""
    method: Method = "merge"
    ahead: int = 1
    links: tuple[str, ...] = ()


class LandDeps(Struct, frozen=True):
    """`fence` gives the sandbox if it is on; checks have the rights of `agent` there."""

    table: LandTable
    env: Mapping[str, str]
    agent: AgentId
    clean: Callable[[str], str]
    ring: Ring
    fence: Callable[[], "SessionFence | None"]
    claims: str = ""  # where the sandboxes of all processes see which trees are ours


class Landing:
    """The landing queue of the repository around `cwd`."""

    def __init__(self, deps: LandDeps, choices: LandChoices, cwd: Path) -> None:
        self._deps, self.choices, self._cwd = deps, choices, cwd

    async def entries(self) -> list[LandEntry]:
        """The newest entry comes last. Empty outside of a repository."""
        repo = repository_of(str(self._cwd))
        return await self._deps.table.entries(repo_key(repo)) if repo else []

    async def ready(self, branch: str, *, priority: int = 0) -> LandEntry:
        """Queue a branch without an owner: nobody is told if it comes back. Raises ToolError if it is not ready."""
        return await self.queue(LandDraft("", "", branch, "", "", priority=priority))

    async def queue(self, draft: LandDraft, *, told: bool = True) -> LandEntry:
        """Queue the branch that `draft` names; its commits are looked up. Raises ToolError if it is not ready.

        `told`: the lead of its owner's team hears of it.
        """
        from teamwright.runtime.landing.queueing import choose_target, queue_branch  # noqa: PLC0415

        place = await locate(self._cwd)
        target = await choose_target(place, draft.target or self.choices.target)
        return await queue_branch(self._deps.table, place, replace(draft, target=target), told=told)

    async def give_up(self, id: LandId, why: str = "") -> LandEntry:
        """Take an entry out of the queue. Raises ToolError if it is too late."""
        table = self._deps.table
        for state in ("waiting", "sent_back"):
            if (done := await table.change(id, state, "given_up", why)) is not None:
                return done
        entry = await table.get(id)
        if entry is None:
            raise ToolError(f"There is no number {id} in the landing queue.")
        what = "is being tried at this moment" if entry.state == "trying" else f"is {entry.state.replace('_', ' ')}"
        raise ToolError(f"{entry.draft.branch} {what}, so it cannot be given up.")

    async def run(
        self, tell: Tell | None = None, only: Collection[LandId] | None = None, *, check: str | None = None
    ) -> LandEnd:
        """Land until nothing more can. `tell` is called for every change of an entry; `check` counts if no other is
        set.

        Raises ToolError if it cannot even begin, BusyError if somebody else runs the queue.
        """
        from teamwright.runtime.landing.check import CheckRun  # noqa: PLC0415
        from teamwright.runtime.landing.queueing import choose_target  # noqa: PLC0415
        from teamwright.runtime.landing.runner import LandRunner, queue_lock  # noqa: PLC0415

        deps, chosen = self._deps, self.choices
        command = check if chosen.check is None else chosen.check
        if command is None:
            raise ToolError(NO_CHECK)
        place = await locate(self._cwd)
        target = await choose_target(place, chosen.target)
        checked = CheckRun(command, deps.env, deps.fence(), deps.agent, deps.clean, chosen.seconds)
        plan = LandPlan(place, target, chosen.method, chosen.ahead, chosen.links, deps.claims)
        async with queue_lock(place):
            return await LandRunner(deps.table, plan, checked, tell or _unheard, deps.ring).run(only)


def _unheard(_: LandEntry) -> None:
    return None
