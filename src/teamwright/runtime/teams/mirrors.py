"""JSON copies of teams for people: they follow the store, and a failed write breaks nothing else."""

from collections.abc import Awaitable, Callable

import anyio

from teamwright.core.errors import StoreError
from teamwright.core.ids import AgentId
from teamwright.runtime.agents.supervisor import Supervisor
from teamwright.runtime.concurrency.later import Later
from teamwright.runtime.teams.roster import Roster
from teamwright.store.mirrors.team import TeamMirror

MIRROR_LIMIT = 10.0  # seconds to write the copies
MIRROR_DELAY = 0.1  # seconds by which they follow changes that no tool made: many changes make one copy
READERS_FIRST = 0.005  # seconds: mirror writes are delayed so that the reader's request goes first
ROSTER = ""  # instead of a member's name: the copy of the team itself


class Mirrors:
    def __init__(self, mirror: TeamMirror, roster: Roster, supervisor: Supervisor, log: Callable[[str], None]) -> None:
        self._mirror, self._roster, self._log = mirror, roster, log
        self._stale: dict[str, set[str]] = {}  # by team: members whose inbox copies are behind, or ROSTER
        self._copying = Later(MIRROR_DELAY, self.catch_up, supervisor.trouble)

    async def run(self) -> None:
        """Write what `behind` names, as long as this process knows a team."""
        await self._copying.run()

    def config_file(self, team: str) -> str:
        return str(self._mirror.path(team) / "config.json")

    # --- at once; each returns whether it worked

    async def write_team(self, team: str) -> bool:
        return await self._copy(self._mirror.write_team, team)

    async def write_config(self, team: str) -> bool:
        return await self._copy(self._mirror.write_config, team)

    async def write_inboxes(self, team: str, *names: str) -> bool:
        return await self._copy(self._mirror.write_inbox, team, *names)

    async def remove(self, team: str) -> bool:
        return await self._copy(self._mirror.remove, team)

    async def _copy(self, write: Callable[..., Awaitable[None]], *names: str) -> bool:
        with anyio.CancelScope(shield=True), anyio.move_on_after(MIRROR_LIMIT):
            try:
                await write(*names)
            except StoreError as error:
                self._log(f"the copies of team {names[0]} are behind: {error}")
                return False
        return True

    async def rebuild(self) -> None:
        """Bring all copies up to date when a process begins to lead teams."""
        for note in await self._mirror.rebuild():
            self._log(f"teams/{note} is not a team's directory")

    # --- a moment later

    async def copy_inboxes(self, team: str, *names: str) -> None:
        """Write inbox copies after the readers were woken, but before the tool that wrote to them returns."""
        try:
            await anyio.sleep(READERS_FIRST)
        finally:
            if not await self.write_inboxes(team, *names):
                self._stale.setdefault(team, set()).update(names)  # written with the next ones

    def read_by(self, agent: AgentId) -> None:
        """The agent has taken letters."""
        for member in self._roster.memberships(agent):
            self.behind(member.team, member.name)

    def behind(self, team: str, *names: str) -> None:
        """Have the copies of these inboxes, or of the ROSTER, written when there is time."""
        self._stale.setdefault(team, set()).update(names)
        self._copying.ring()

    async def catch_up(self) -> None:
        """Write the copies that are behind; also at the end, which would leave them so.

        What cannot be written now is tried again with the next change.
        """
        stale, self._stale = self._stale, {}
        for team, names in stale.items():
            inboxes = names - {ROSTER}
            done = ROSTER not in names or await self.write_config(team)
            if not (not inboxes or await self.write_inboxes(team, *inboxes)) or not done:
                self._stale.setdefault(team, set()).update(names)
