"""All tools of a session by name, and which of them the model is shown."""

from collections.abc import Collection, Mapping, Sequence

from teamwright.core.errors import UsageError
from teamwright.core.message import ToolSpec
from teamwright.core.ports import Tool
from teamwright.tools.ask import AskTool
from teamwright.tools.bash import BashTool
from teamwright.tools.edit import EDIT
from teamwright.tools.notebook import NOTEBOOK_EDIT
from teamwright.tools.read import READ
from teamwright.tools.search import GLOB, GREP
from teamwright.tools.web import FetchTool
from teamwright.tools.write import WRITE

INTERACTIVE = frozenset({"AskUserQuestion"})  # answered everywhere, offered only where a person can answer


def built_in_tools(env: Mapping[str, str]) -> dict[str, Tool]:
    tools: list[Tool] = [BashTool(env), READ, WRITE, EDIT, NOTEBOOK_EDIT, GLOB, GREP, FetchTool(env=env), AskTool()]
    return {tool.spec.name: tool for tool in tools}


def chosen(tools: Mapping[str, Tool], names: Sequence[str] | None, hidden: Collection[str]) -> dict[str, Tool]:
    """The tools that this session has. `names` is `--tools`: None or `default` for all of them."""
    wanted = None if names is None or "default" in names else set(names)
    if wanted is not None and (unknown := sorted(wanted - tools.keys())):
        raise UsageError(f"--tools: there is no tool {', '.join(unknown)}; there are {', '.join(tools)}")
    return {n: t for n, t in tools.items() if n not in hidden and (wanted is None or n in wanted)}


def offered(tools: Mapping[str, Tool], *, interactive: bool) -> tuple[ToolSpec, ...]:
    return tuple(tool.spec for name, tool in tools.items() if interactive or name not in INTERACTIVE)
