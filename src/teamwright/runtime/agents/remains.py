"""What agents of a process that is gone have left: in their transcripts, and in their worktrees."""

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from teamwright.core.data.conversation.history import History
from teamwright.core.data.event import AgentEnded, AgentStarted, Replied, ToolEnded
from teamwright.core.data.job import JobResult
from teamwright.core.data.letter import Figures
from teamwright.core.data.message import Usage
from teamwright.core.errors import ToolError
from teamwright.core.ids import AgentId, CallId
from teamwright.host.files.paths import is_directory
from teamwright.store.files import transcripts
from teamwright.store.files.paths import SessionFiles


class RemainsOnDisk(Struct, frozen=True):
    files_of: Callable[[AgentId], SessionFiles]
    main: AgentId | None = None
    history: History | None = None  # of the main agent, which is open already

    def answered(self, agent: AgentId, call: CallId) -> bool:
        if self.history is not None and agent == self.main:
            return call in self.history.used and call not in {c.id for c in self.history.open_calls}
        path = self.files_of(agent).agent(agent)
        if not path.is_file():
            return False
        lines = transcripts.read(path)
        return any(isinstance(line.event, ToolEnded) and line.event.call_id == call for _, line in lines)

    def result(self, agent: AgentId) -> JobResult:
        path = self.files_of(agent).agent(agent)
        said, usage, uses, began, last = "", Usage(), 0, 0, 0
        for _, line in transcripts.read(path) if path.is_file() else ():
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

    async def kept(self, agent: AgentId) -> str:
        from teamwright.host.git.worktrees.worktree import KeptTree, find_one  # noqa: PLC0415  # few agents have one

        tree = self._tree_of(agent)
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

    def _tree_of(self, agent: AgentId) -> str:
        path = self.files_of(agent).agent(agent)
        lines = transcripts.read(path) if path.is_file() else ()
        return next((line.event.worktree for _, line in lines if isinstance(line.event, AgentStarted)), "")
