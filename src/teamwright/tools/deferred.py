"""MCP tools that are too many to list in every request: ToolSearch finds them, CallTool calls them.

The tools of a request never change, so that the provider's cache stays valid. A call through CallTool is replaced by
the call it means before rules, hooks, transcripts or screens see it.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.structs import replace

from teamwright.core.data.message import ToolCall, ToolSpec
from teamwright.core.errors import ToolError
from teamwright.core.policies.normalize import arguments
from teamwright.core.ports import Indirect, Outcome, Tool, ToolContext, said
from teamwright.core.text import few, shown
from teamwright.runtime.tool_traits import ToolTraits
from teamwright.tools.bounds import bounded
from teamwright.tools.define import read_args, spec

DESCRIPTION = """\
Finds tools of MCP servers. There are {count}, which are not listed here in full: this says what each does and takes, \
then you call it with CallTool.
By server:
{names}"""
CALL_DESCRIPTION = """\
Calls a tool that ToolSearch has shown you. Approval and hooks are those of the tool itself."""

MOST_FOUND = 20
MOST_NAMES = 6_000  # characters of names in the description
MOST_LISTED = 50  # names in an answer without results
_WORD = re.compile(r"[a-z0-9]+")
_SELECT = "select:"


class ToolSearchArgs(Struct):
    query: Annotated[
        str, Meta(description="Words of what you need, as `create issue`; or `select:NAME,NAME` for tools by name.")
    ]
    max_results: Annotated[int, Meta(description=f"5 unless told, at most {MOST_FOUND}.", ge=1)] = 5


class CallToolArgs(Struct):
    name: Annotated[str, Meta(description="The full name of the tool, as `mcp__server__tool`.")]
    arguments: Annotated[dict[str, Any], Meta(description="Its arguments, as its schema wants them.")] = {}


def deferred_tools(served: Mapping[str, Tool]) -> dict[str, Tool]:
    """The two tools that stand for the others."""
    return {tool.spec.name: tool for tool in (ToolSearch(served), CallTool(served))}


class ToolSearch:
    traits = ToolTraits(name="ToolSearch", effects="none", own=True)

    def __init__(self, behind: Mapping[str, Tool]) -> None:
        self._behind = {name: tool.spec for name, tool in behind.items()}
        words = DESCRIPTION.format(count=len(behind), names=_by_server(behind))
        self.spec = replace(spec(self.traits.name, words, ToolSearchArgs, parallel=True), behind=tuple(behind))

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        wanted = read_args(ToolSearchArgs, args)
        found = self._find(wanted.query, min(wanted.max_results, MOST_FOUND))
        if not found:
            known = few(self._behind, MOST_LISTED)
            return said(f"No tool fits. There are: {known}. Use other words, or `select:NAME`.")
        told = [f"{one.name}: {one.description}\narguments: {_json(one.schema)}" for one in found]
        head = f"{len(found)} of {len(self._behind)} tools. Call one with CallTool, by its full name."
        text = bounded("\n\n".join([head, *told]), spill=ctx.desk.spill, name="ToolSearch")
        return said(text, {"matches": [one.name for one in found], "total": len(self._behind)})

    def _find(self, query: str, most: int) -> list[ToolSpec]:
        """Tools by name if names are given, else the best matches; ties stay in the servers' order."""
        if query.startswith(_SELECT):
            names = [name.strip() for name in query.removeprefix(_SELECT).split(",")]
            return [self._behind[name] for name in dict.fromkeys(names) if name in self._behind][:MOST_FOUND]
        if query.strip() in self._behind:
            return [self._behind[query.strip()]]
        words = set(_WORD.findall(query.lower()))
        scored = [(_score(one, words), one) for one in self._behind.values()]
        best = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])
        return [one for _, one in best[:most]]


class CallTool(Indirect):
    """`real` replaces its calls by those they mean; `call` only sees calls that name no tool."""

    spec = spec("CallTool", CALL_DESCRIPTION, CallToolArgs, parallel=True)
    traits = ToolTraits(name=spec.name, effects="none", own=True)

    def __init__(self, behind: Mapping[str, Tool]) -> None:
        self._behind = behind

    def real(self, call: ToolCall) -> ToolCall:
        if call.fault:
            return call
        args = call.args
        name, given = args.get("name"), args.get("arguments", {})
        if not isinstance(name, str) or name not in self._behind:
            return call
        # some models write the object as a string
        input, fault = arguments(given if isinstance(given, str) else msgspec.json.encode(given))
        return ToolCall(call.id, name, Raw(input), fault, via=call.name)

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        wanted = read_args(CallToolArgs, args)
        name = shown(wanted.name, 100)
        if any(one.name == wanted.name for one in ctx.request.tools):
            raise ToolError(f"`{name}` is one of your own tools: call it directly.")
        raise ToolError(f"There is no tool `{name}` to be called so. Find its full name with ToolSearch.")


DEFERRED = (ToolSearch.traits.name, CallTool.traits.name)


def _score(tool: ToolSpec, words: set[str]) -> int:
    """Scores a match: name before description, whole word before part of one."""
    name, text = tool.name.lower(), tool.description.lower()
    in_name, in_text = set(_WORD.findall(name.replace("_", " "))), set(_WORD.findall(text))
    score = 0
    for word in words:
        score += 8 if word in in_name else 4 if len(word) > 2 and word in name else 0
        score += 3 if word in in_text else 1 if len(word) > 3 and word in text else 0
    return score


def _by_server(names: Iterable[str]) -> str:
    """`mcp__github__: create_issue, …`, one line per server, as much as fits."""
    servers: dict[str, list[str]] = {}
    for name in names:
        server, _, tool = name.removeprefix("mcp__").partition("__")
        servers.setdefault(f"mcp__{server}__", []).append(tool)
    room = max(MOST_NAMES // max(len(servers), 1), 40)
    return "\n".join(f"{server}: {_fit(tools, room)}" for server, tools in servers.items())[: MOST_NAMES * 2]


def _fit(names: list[str], room: int) -> str:
    kept = list[str]()
    for name in names:
        if sum(len(one) + 2 for one in kept) + len(name) > room:
            return f"{', '.join(kept)} and {len(names) - len(kept)} more".strip()
        kept.append(name)
    return ", ".join(kept)


def _json(schema: Mapping[str, Any]) -> str:
    return msgspec.json.encode(dict(schema)).decode()
