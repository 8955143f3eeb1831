"""What agents of a process that is gone have left: in their transcripts, and in their worktrees."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from teamwright.core.data.conversation.history import History
from teamwright.core.data.event import AgentEnded, AgentStarted, Replied, ToolEnded
from teamwright.core.data.job import JobResult
from teamwright.core.data.letter import Figures
from teamwright.core.data.message import Usage
from teamwright.core.errors import ToolError
from teamwright.core.ids import AgentId, SessionId
from teamwright.host.files.paths import is_directory
from teamwright.store.files import transcripts
from teamwright.store.files.paths import SessionFiles, find_transcript
from teamwright.store.files.transcripts import Line
from teamwright.store.tables.jobs import JobRow

if TYPE_CHECKING:
    from teamwright.runtime.agents.factory import AgentFactory


class RemainsOnDisk(Struct, frozen=True):
    agents: "AgentFactory"
    main: AgentId | None = None
    history: History | None = None  # of the main agent, which is open already

    async def answered(self, row: JobRow) -> bool:
        if self.history is not None and row.owner == self.main:
            return row.claim in self.history.used and row.claim not in {c.id for c in self.history.open_calls}
        lines = await self._lines(row.owner, row.home)
        return any(isinstance(line.event, ToolEnded) and line.event.call_id == row.claim for line in lines)

    async def result(self, row: JobRow) -> JobResult:
        said, usage, uses, began, last = "", Usage(), 0, 0, 0
        for line in await self._lines(AgentId(row.id), row.session):
            began, last = began or line.at, line.at
            match line.event:
                case Replied() as event:
                    said, usage = event.message.text or said, usage + event.usage
                case ToolEnded():
                    uses += 1
                case AgentEnded():
                    said, began = "", 0
                case _:
                    pass
        return JobResult(said, usage=Figures(usage.total, uses, last - (began or last)))

    async def kept(self, row: JobRow) -> str:
        from teamwright.host.git.worktrees.worktree import KeptTree, find_one  # noqa: PLC0415  # few agents have one

        tree = await self._tree_of(row)
        path = Path(tree)
        if not tree or not is_directory(path):
            return ""
        try:
            found = await find_one(path, path.name)
        except ToolError as error:
            return KeptTree(path, "", "", note=str(error)).words
        if found is None or found.worktree.path != path:  # made by a hook
            return KeptTree(path, "", "").words
        return KeptTree(path, found.worktree.branch, found.state.summary).words

    async def _tree_of(self, row: JobRow) -> str:
        lines = await self._lines(AgentId(row.id), row.session)
        return next((line.event.worktree for line in lines if isinstance(line.event, AgentStarted)), "")

    def output(self, row: JobRow) -> Path:
        return self._files_in(row.session).jobs / f"{row.id}.output"

    async def _lines(self, agent: AgentId, session: SessionId | None) -> Iterator[Line]:
        """What an agent has recorded, here or on another machine."""
        files = self._files_in(session)
        if self.agents.fetch is not None:
            await self.agents.fetch(agent, files)
        path = files.agent(agent)
        return (line for _, line in transcripts.read(path)) if path.is_file() else iter(())

    def _files_in(self, session: SessionId | None) -> SessionFiles:
        """Files of the session at hand, or of one that another lead of the same team had."""
        agents = self.agents
        path = None if session in (None, agents.session) else find_transcript(agents.home, session)
        return agents.files if path is None else SessionFiles(path)
