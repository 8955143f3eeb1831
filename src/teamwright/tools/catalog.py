"""Catalog of the built-in tools: the traits of each by name."""

from teamwright.runtime.tool_traits import Catalog, ToolTraits, find_traits, make_catalog
from teamwright.tools.agents.agent import AgentTool
from teamwright.tools.agents.ask import AskTool
from teamwright.tools.agents.cron import CronCreate, CronDelete, CronList
from teamwright.tools.agents.jobs import TaskOutput, TaskStop
from teamwright.tools.agents.messages import ListAgents, SendMessage
from teamwright.tools.agents.plan import EnterPlanMode, ExitPlanMode
from teamwright.tools.agents.skill import SkillTool
from teamwright.tools.agents.tasks import TaskCreate, TaskGet, TaskList, TaskUpdate
from teamwright.tools.agents.team import TeamCreate, TeamDelete
from teamwright.tools.agents.worktree import EnterWorktree, ExitWorktree
from teamwright.tools.bash import BashTool
from teamwright.tools.deferred import CallTool, ToolSearch
from teamwright.tools.files.edit import EditTool
from teamwright.tools.files.notebook import NotebookEditTool
from teamwright.tools.files.read import ReadTool
from teamwright.tools.files.search import GlobTool, GrepTool
from teamwright.tools.files.write import WriteTool
from teamwright.tools.monitor import MonitorTool
from teamwright.tools.structured import StructuredOutput
from teamwright.tools.web import FetchTool
from teamwright.tools.web_search import WebSearchTool

_FILES = (ReadTool, WriteTool, EditTool, NotebookEditTool, GlobTool, GrepTool)
_SHELL_AND_WEB = (BashTool, MonitorTool, FetchTool, WebSearchTool)
_AGENTS = (AgentTool, SendMessage, ListAgents, TaskOutput, TaskStop, TeamCreate, TeamDelete, SkillTool)
_TASKS = (TaskCreate, TaskGet, TaskList, TaskUpdate)
_MODES = (EnterPlanMode, ExitPlanMode, EnterWorktree, ExitWorktree, AskTool)
_MAIN = (CronCreate, CronDelete, CronList, StructuredOutput)
_DEFERRED = (ToolSearch, CallTool)

CATALOG: Catalog = make_catalog(
    tool.traits for tool in (*_FILES, *_SHELL_AND_WEB, *_AGENTS, *_TASKS, *_MODES, *_MAIN, *_DEFERRED)
)


def traits_of(name: str) -> ToolTraits:
    """Of a tool by its name; of one that somebody else brought, the defaults."""
    return find_traits(CATALOG, name)
