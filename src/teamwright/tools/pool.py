"""Pool of a session's tools by name, and the choice of those that the model sees."""

from collections.abc import Callable, Collection, Mapping, Sequence

from teamwright.core.errors import UsageError
from teamwright.core.ports import Tool
from teamwright.runtime.agents.spawner import Spawner
from teamwright.runtime.agents.supervisor import Supervisor
from teamwright.runtime.jobs.schedule import Schedules
from teamwright.runtime.jobs.shell_jobs import ShellJobs
from teamwright.runtime.teams.service import Teamwork
from teamwright.runtime.teams.tasks import TaskBoard
from teamwright.runtime.tool_traits import Audience, Need
from teamwright.runtime.worktrees import Worktrees
from teamwright.tools.agents.agent import AgentTool
from teamwright.tools.agents.ask import AskTool
from teamwright.tools.agents.cron import CronCreate, CronDelete, CronList
from teamwright.tools.agents.jobs import TaskOutput, TaskStop
from teamwright.tools.agents.messages import ListAgents, SendMessage
from teamwright.tools.agents.skill import SkillTool
from teamwright.tools.agents.tasks import TaskCreate, TaskGet, TaskList, TaskUpdate
from teamwright.tools.agents.team import TeamCreate, TeamDelete
from teamwright.tools.agents.worktree import EnterWorktree, ExitWorktree
from teamwright.tools.bash import BashTool
from teamwright.tools.catalog import CATALOG
from teamwright.tools.files.edit import EDIT
from teamwright.tools.files.notebook import NOTEBOOK_EDIT
from teamwright.tools.files.read import READ, ReadTool
from teamwright.tools.files.search import GLOB, GREP
from teamwright.tools.files.write import WRITE
from teamwright.tools.monitor import MonitorTool
from teamwright.tools.web import FetchTool

MADE = (AgentTool.traits.name, SkillTool.traits.name)  # made for each kit: their descriptions depend on the agent
_READ, _BASH, _MONITOR = ReadTool.traits.name, BashTool.traits.name, MonitorTool.traits.name


def built_in_tools(
    env: Mapping[str, str], passed: Collection[str] = (), commands: Callable[[], ShellJobs] | None = None
) -> dict[str, Tool]:
    """`passed` names variables that the person set for tools; `commands` is None where background jobs are off."""
    tools: list[Tool] = [
        BashTool(env, passed, commands),
        MonitorTool(env, passed, commands),
        READ,
        WRITE,
        EDIT,
        NOTEBOOK_EDIT,
        GLOB,
        GREP,
        FetchTool(env=env),
        AskTool(),
    ]
    return {tool.spec.name: tool for tool in tools}


def colleague_tools(
    spawner: Callable[[], Spawner],
    supervisor: Callable[[], Supervisor],
    rooms: Callable[[], Worktrees],
    teamwork: Callable[[], Teamwork],
) -> dict[str, Tool]:
    """Tools that deal with other agents and with jobs; `Agent` itself depends on who has it."""
    tools: list[Tool] = [
        SendMessage(spawner, supervisor, teamwork),
        ListAgents(spawner, supervisor, teamwork),
        TaskOutput(supervisor),
        TaskStop(supervisor, teamwork),
        TeamCreate(teamwork),
        TeamDelete(teamwork),
        EnterWorktree(rooms, supervisor),
        ExitWorktree(rooms, supervisor),
    ]
    return {tool.spec.name: tool for tool in tools}


def task_tools(board: Callable[[], TaskBoard]) -> dict[str, Tool]:
    """The shared task list."""
    return {tool.spec.name: tool for tool in (TaskCreate(board), TaskGet(board), TaskList(board), TaskUpdate(board))}


def cron_tools(schedules: Callable[[], Schedules]) -> dict[str, Tool]:
    """Prompts for later; the main agent's alone."""
    return {tool.spec.name: tool for tool in (CronCreate(schedules), CronDelete(schedules), CronList(schedules))}


def needed_by(who: Need) -> tuple[str, ...]:
    return tuple(name for name, traits in CATALOG.items() if who in traits.needed_by)


def only_for(who: Audience) -> frozenset[str]:
    return frozenset(name for name, traits in CATALOG.items() if traits.audience == who)


def unoffered(*, person: bool, background: bool) -> frozenset[str]:
    """Tools that are answered, but not shown: nobody is there, or background jobs are off."""
    unseen = frozenset[str]() if person else only_for("person")
    return unseen if background else unseen | {_MONITOR}


def can_read(tools: Collection[str]) -> bool:
    """Can an agent with these tools read an output file?"""
    return _READ in tools or _BASH in tools


def share_shell(
    tools: Mapping[str, Tool], limits: Mapping[str, tuple[str, ...]]
) -> tuple[dict[str, Tool], dict[str, tuple[str, ...]]]:
    """Monitor is a shell, too: it is there where Bash is, and goes as far."""
    if _BASH not in tools:
        return {name: tool for name, tool in tools.items() if name != _MONITOR}, dict(limits)
    return dict(tools), {**limits, _MONITOR: limits[_BASH]} if _BASH in limits else dict(limits)


def chosen(
    tools: Mapping[str, Tool], names: Collection[str], wanted: Sequence[str] | None, hidden: Collection[str]
) -> dict[str, Tool]:
    """The tools that a session has, of all that there are. `wanted` is `--tools`: None or `default` for all of them."""
    only = None if wanted is None or "default" in wanted else set(wanted)
    if only is not None and (unknown := sorted(only - set(names))):
        raise UsageError(f"--tools: there is no tool {', '.join(unknown)}; there are {', '.join(names)}")
    return {n: t for n, t in tools.items() if n not in hidden and (only is None or n in only)}
