"""Catalog of the built-in tools: those that need nothing but a session, and the traits of all."""

from teamwright.core.ports import Tool
from teamwright.runtime.tool_traits import Catalog, ToolTraits, find_traits
from teamwright.tools.agents.agent import AgentTool
from teamwright.tools.agents.ask import AskTool
from teamwright.tools.agents.cron import CronCreate, CronDelete, CronList
from teamwright.tools.agents.jobs import TaskOutput, TaskStop
from teamwright.tools.agents.land import LandTool
from teamwright.tools.agents.messages import ListAgents, SendMessage
from teamwright.tools.agents.plan import EnterPlanMode, ExitPlanMode
from teamwright.tools.agents.skill import SkillTool
from teamwright.tools.agents.tasks import TaskCreate, TaskGet, TaskList, TaskUpdate
from teamwright.tools.agents.team import TeamCreate, TeamDelete
from teamwright.tools.agents.worktree import EnterWorktree, ExitWorktree
from teamwright.tools.bash import BashTool
from teamwright.tools.deferred import CallTool, ToolSearch
from teamwright.tools.files.edit import EDIT
from teamwright.tools.files.notebook import NOTEBOOK_EDIT
from teamwright.tools.files.read import READ
from teamwright.tools.files.search import GLOB, GREP
from teamwright.tools.files.write import WRITE
from teamwright.tools.monitor import MonitorTool
from teamwright.tools.structured import StructuredOutput
from teamwright.tools.web import FetchTool
from teamwright.tools.web_search import WebSearchTool

FILES = (READ, WRITE, EDIT, NOTEBOOK_EDIT, GLOB, GREP)
_COLLEAGUES = (SendMessage(), ListAgents(), TaskOutput(), TaskStop(), TeamCreate(), TeamDelete())
_TASKS = (TaskCreate(), TaskGet(), TaskList(), TaskUpdate())
_MAIN = (CronCreate(), CronDelete(), CronList(), EnterPlanMode(), ExitPlanMode())
_SESSION = (AskTool(), *_COLLEAGUES, EnterWorktree(), ExitWorktree(), *_TASKS, *_MAIN)
_MADE = (BashTool, MonitorTool, FetchTool, AgentTool, SkillTool, StructuredOutput)  # created per session or toolset
_CONFIGURED = (WebSearchTool, LandTool, ToolSearch, CallTool)  # created if settings or many servers require them

SESSION: tuple[Tool, ...] = _SESSION
CATALOG: Catalog = {tool.traits.name: tool.traits for tool in (*FILES, *_MADE, *_CONFIGURED, *_SESSION)}


def traits_of(name: str) -> ToolTraits:
    """A tool's traits by name; defaults for third-party tools."""
    return find_traits(CATALOG, name)
