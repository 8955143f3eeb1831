"""Traits of tools, for everybody but the model: effects, audience, and how a person sees the calls."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from teamwright.core.data.content.patch import Hunk
from teamwright.core.data.message import ToolCall
from teamwright.core.errors import UsageError
from teamwright.core.ids import AgentId
from teamwright.core.ports import Desk, Tool

if TYPE_CHECKING:
    from teamwright.runtime.agents.outcomes import Outcomes

Args = Mapping[str, Any]
Effects = Literal["none", "local", "stored"]  # `stored`: rows of our own store
Audience = Literal["all", "lead", "main", "person"]  # `lead`: no teammate; `person`: where a person can answer
Need = Literal["coordinator", "teammate", "memory"]
_TELLING = ("command", "file_path", "notebook_path", "pattern", "url", "query", "skill", "task_id", "taskId", "to")
Told = tuple[str, bool]  # the words of a result, and whether it is an error
Preview = Callable[[Args, Desk, Mapping[str, str]], tuple[Hunk, ...]]  # with the judged paths, as in Allow
Lookup = Callable[["Outcomes", AgentId, ToolCall, str], Awaitable[Told | None]]


class PathArgument(Struct, frozen=True):
    """The argument that names a file; for a search a directory, by default the working directory."""

    name: str
    access: Literal["read", "search", "write"]
    pattern: str = ""  # argument with a pattern of names, which may lead out of that directory


class FileChange(Struct, frozen=True):
    """The arguments that hold the text before and after; without `old` the whole file is replaced."""

    new: str
    old: str = ""


def first_text(args: Args) -> str:
    """The argument that says most, or else the first text."""
    named = [args[name] for name in _TELLING if isinstance(args.get(name), str)]
    return next((value for value in [*named, *args.values()] if isinstance(value, str)), "")


def _no_detail(_: Args) -> str:
    return ""


def _never(_: str) -> bool:
    return False


class ToolTraits(Struct, frozen=True, kw_only=True):
    """Traits of one tool; the defaults are for a tool that somebody else brought."""

    name: str
    effects: Effects = "local"
    outcome: Lookup | None = None  # looks up by key in the store what became of a call without a result

    audience: Audience = "all"
    needed_by: frozenset[Need] = frozenset()  # roles that always have it; some have nothing else
    unseen_start: bool = False  # a call may have begun even if the transcript does not say so

    path: PathArgument | None = None
    runs: bool = False  # the argument `command` is a command line
    fetches: bool = False  # the argument `url` is fetched
    detail: Callable[[Args], str] = _no_detail  # the part that rules about it match: `Agent(kind)`
    own: bool = False  # touches only our own store, or starts agents: needs no approval,
    weighty: Callable[[str], bool] = _never  # unless this is true of its detail

    talks: bool = False  # counts as talk, not as work
    lists: bool = False  # changes the task list
    told: bool = False  # an event of the team reports it
    delegates: bool = False  # its result is the report of an agent, whose words are already shown as they come
    asks: Literal["", "plan", "questions"] = ""  # what it asks a person
    subject: Callable[[Args], str] = first_text  # what a call is about, in one line for a person
    texts: tuple[str, ...] = ()  # arguments shown to a person as separate texts, in this order
    change: FileChange | None = None
    preview: Preview | None = None  # what a call would change now; blocks; raises ToolError if it would fail
    output: str = "content"  # the key under which hooks find its words


Catalog = Mapping[str, ToolTraits]


def find_traits(catalog: Catalog, name: str) -> ToolTraits:
    """The traits of a tool by its name; the defaults if it is unknown."""
    return catalog.get(name) or ToolTraits(name=name)


def told_by(tool: Tool | None) -> ToolTraits | None:
    """The traits that the tool itself declares, if any."""
    found = getattr(tool, "traits", None)
    return found if isinstance(found, ToolTraits) else None


def make_catalog(traits: Iterable[ToolTraits]) -> dict[str, ToolTraits]:
    """Traits by name. Raises UsageError for a tool that stores but cannot tell after a crash what it stored."""
    found = {one.name: one for one in traits}
    for one in found.values():
        if one.effects == "stored" and one.outcome is None:
            raise _no_outcome(one.name)
    return found


def register(catalog: Catalog, tools: Iterable[Tool]) -> dict[str, ToolTraits]:
    """The catalog, plus the traits that these tools declare. Raises UsageError as `make_catalog` does."""
    brought = list(tools)
    found = {**catalog, **make_catalog(one for tool in brought if (one := told_by(tool)))}
    for tool in brought:
        if tool.spec.stores and find_traits(found, tool.spec.name).outcome is None:
            raise _no_outcome(tool.spec.name)
    return found


def _no_outcome(name: str) -> UsageError:
    return UsageError(
        f"the tool {name} stores what it does, and its traits have no `outcome`: after a crash nobody could say what "
        "became of a call; give it one, or do not mark it as storing"
    )
