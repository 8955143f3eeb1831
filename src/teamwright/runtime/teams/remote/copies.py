"""JSON copies of what members on workers change: those machines have their own, but people look at the lead's."""

from teamwright.runtime.agents.supervisor import Supervisor
from teamwright.runtime.concurrency.later import Later
from teamwright.runtime.teams.mirrors import MIRROR_DELAY, Mirrors
from teamwright.runtime.teams.roster import Roster
from teamwright.runtime.teams.tasks.board import TaskBoard


class FarCopies:
    def __init__(self, roster: Roster, mirrors: Mirrors, board: TaskBoard, supervisor: Supervisor) -> None:
        self._roster, self._mirrors, self._board, self._supervisor = roster, mirrors, board, supervisor
        self._later: Later | None = None

    def ring(self) -> None:
        """The store has changed."""
        if not self._teams():
            return
        if self._later is None:
            self._later = Later(MIRROR_DELAY, self.write, self._supervisor.trouble)
            self._supervisor.launch(self._later.run)
        self._later.ring()

    async def write(self) -> None:
        for team in self._teams():
            await self._mirrors.write_team(team)
            await self._board.rebuild(team)

    def _teams(self) -> list[str]:
        """Teams that are led here and have members elsewhere."""
        led = self._roster.led_here()
        return [team for team in led if any(member.backend == "remote" for member in self._roster.everybody(team))]
