"""A session's tools by name, and the choice of those that the model sees."""

from collections.abc import Collection, Mapping, Set
from typing import TYPE_CHECKING

from teamwright.core.errors import UsageError
from teamwright.core.ports import Tool
from teamwright.runtime.tool_traits import Audience, Need
from teamwright.tools.agents.agent import AgentTool
from teamwright.tools.agents.skill import SkillTool
from teamwright.tools.bash import BashTool
from teamwright.tools.catalog import CATALOG, FILES, SESSION
from teamwright.tools.files.read import ReadTool
from teamwright.tools.monitor import MonitorTool
from teamwright.tools.web import FetchTool

if TYPE_CHECKING:
    from teamwright.tools.shell.sandbox_words import SandboxWords

MADE = (AgentTool.traits.name, SkillTool.traits.name)  # made for each toolset: their descriptions depend on the agent
_READ, _BASH, _MONITOR = ReadTool.traits.name, BashTool.traits.name, MonitorTool.traits.name


# Tools that answer but are not shown: if nobody is there, and if background jobs are off.
ALONE = frozenset(name for name, traits in CATALOG.items() if traits.audience == "person")
WITHOUT_JOBS = frozenset({_MONITOR})


def built_in_tools(
    env: Mapping[str, str],
    passed: Collection[str] = (),
    *,
    background: bool = False,
    sandbox: "SandboxWords | None" = None,
) -> dict[str, Tool]:
    """`passed` names variables that the person set for tools; `background`: commands may run in the background."""
    shell = (
        BashTool(env, passed, background=background, sandbox=sandbox),
        MonitorTool(env, passed, background=background, sandbox=sandbox),
    )
    return {tool.spec.name: tool for tool in (*shell, *FILES, FetchTool(env=env), *SESSION)}


def needed_by(who: Need) -> tuple[str, ...]:
    return tuple(name for name, traits in CATALOG.items() if who in traits.needed_by)


def only_for(who: Audience) -> frozenset[str]:
    return frozenset(name for name, traits in CATALOG.items() if traits.audience == who)


def can_read(tools: Collection[str]) -> bool:
    """Can an agent with these tools read an output file?"""
    return _READ in tools or _BASH in tools


def share_shell(
    tools: Mapping[str, Tool], limits: Mapping[str, tuple[str, ...]]
) -> tuple[dict[str, Tool], dict[str, tuple[str, ...]]]:
    """Monitor is a shell too: it exists where Bash does, with the same limits."""
    if _BASH not in tools:
        return {name: tool for name, tool in tools.items() if name != _MONITOR}, dict(limits)
    return dict(tools), {**limits, _MONITOR: limits[_BASH]} if _BASH in limits else dict(limits)


def chosen(
    tools: Mapping[str, Tool], names: Collection[str], only: Set[str] | None, hidden: Collection[str]
) -> dict[str, Tool]:
    """The tools of a session. `only` are those in `--tools`; None: all of them."""
    if only is not None and (unknown := sorted(only - set(names))):
        raise UsageError(f"--tools: there is no tool {', '.join(unknown)}; there are {', '.join(names)}")
    return {n: t for n, t in tools.items() if n not in hidden and (only is None or n in only)}
