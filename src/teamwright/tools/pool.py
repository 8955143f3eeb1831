"""All tools of a session by name, and which of them the model is shown."""

from collections.abc import Callable, Collection, Mapping, Sequence

from teamwright.core.errors import UsageError
from teamwright.core.ports import Tool
from teamwright.runtime.agents.spawner import Spawner
from teamwright.runtime.agents.supervisor import Supervisor
from teamwright.runtime.jobs.schedule import Schedules
from teamwright.runtime.jobs.shell_jobs import ShellJobs
from teamwright.runtime.teams.service import Teamwork
from teamwright.runtime.teams.tasks import TaskBoard
from teamwright.runtime.worktrees import Worktrees
from teamwright.tools.agents.ask import AskTool
from teamwright.tools.agents.cron import CronCreate, CronDelete, CronList
from teamwright.tools.agents.jobs import TaskOutput, TaskStop
from teamwright.tools.agents.messages import ListAgents, SendMessage
from teamwright.tools.agents.tasks import TaskCreate, TaskGet, TaskList, TaskUpdate
from teamwright.tools.agents.team import TeamCreate, TeamDelete
from teamwright.tools.agents.worktree import EnterWorktree, ExitWorktree
from teamwright.tools.bash import BashTool
from teamwright.tools.files.edit import EDIT
from teamwright.tools.files.notebook import NOTEBOOK_EDIT
from teamwright.tools.files.read import READ
from teamwright.tools.files.search import GLOB, GREP
from teamwright.tools.files.write import WRITE
from teamwright.tools.monitor import MonitorTool
from teamwright.tools.web import FetchTool

INTERACTIVE = frozenset({"AskUserQuestion"})  # answered everywhere, offered only where a person can answer


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


def chosen(
    tools: Mapping[str, Tool], names: Collection[str], wanted: Sequence[str] | None, hidden: Collection[str]
) -> dict[str, Tool]:
    """The tools that a session has, of all that there are. `wanted` is `--tools`: None or `default` for all of them."""
    only = None if wanted is None or "default" in wanted else set(wanted)
    if only is not None and (unknown := sorted(only - set(names))):
        raise UsageError(f"--tools: there is no tool {', '.join(unknown)}; there are {', '.join(names)}")
    return {n: t for n, t in tools.items() if n not in hidden and (only is None or n in only)}
