"""Pool of a session's tools by name, and the choice of those that the model sees."""

from collections.abc import Collection, Mapping, Sequence

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

MADE = (AgentTool.traits.name, SkillTool.traits.name)  # made for each toolset: their descriptions depend on the agent
_READ, _BASH, _MONITOR = ReadTool.traits.name, BashTool.traits.name, MonitorTool.traits.name


def built_in_tools(
    env: Mapping[str, str], passed: Collection[str] = (), *, background: bool = False
) -> dict[str, Tool]:
    """`passed` names variables that the person set for tools; `background`: commands may go on there."""
    shell = (BashTool(env, passed, background=background), MonitorTool(env, passed, background=background))
    return {tool.spec.name: tool for tool in (*shell, *FILES, FetchTool(env=env), *SESSION)}


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
