"""Fields of an agent definition: how files may spell them, and the values they accept."""

import re
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from typing import Any, cast, get_args

from msgspec import Struct

from teamwright.core.data.definition import Isolation, Scope, Wishes
from teamwright.core.data.message import Effort
from teamwright.core.jsontext import as_object
from teamwright.core.permissions.consent import MODES
from teamwright.core.permissions.rules import Problem, parse_rule, split_rules
from teamwright.core.text import shown

MOST_NAME = 64
RESERVED = "fork"  # the kind that means a fork; never a definition
_YES_NO = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


class Wrong(ValueError):
    """A message that follows the name of a field."""


class Field(Struct, frozen=True):
    """`guards`: it limits the agent, so a definition in which it is unreadable is not used at all. `doubts`: what there
    is to say about a value, as it stands in the file, that is used."""

    name: str  # in AgentDefinition
    read: Callable[[Any], Any]
    guards: bool = False
    doubts: Callable[[Any], Iterable[str]] | None = None


def check_name(name: str) -> str:
    """What is wrong with the name of an agent kind; empty if nothing."""
    if not 0 < len(name) <= MOST_NAME:
        return f"a name has 1 to {MOST_NAME} characters"
    if not name.isprintable():
        return "a name has no control or invisible characters"
    if any(c in "/\\,()" for c in name) or not name.strip(". "):
        return "a name has no slashes, commas or parentheses, and is not made of dots alone"
    return f"`{RESERVED}` is reserved: call the agent something else" if name.lower() == RESERVED else ""


def find_field(key: str) -> Field | None:
    """Finds a field by its name in camelCase, kebab-case or snake_case."""
    return _FIELDS.get(_flat(key))


def _flat(word: str) -> str:
    return re.sub(r"[-_]", "", word).lower()


def text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise Wrong("must be text")
    return str(value).strip()


def _model(value: Any) -> str | None:
    name = text(value)
    return None if name.lower() in ("inherit", "default") else name or None


def _yes_no(value: Any) -> bool:
    known = value if isinstance(value, bool) else _YES_NO.get(value.lower()) if isinstance(value, str) else None
    if known is None:
        raise Wrong("must be true or false")
    return known


def _count(value: Any) -> int:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise Wrong("must be a whole number above 0")
    return value


def _effort(value: Any) -> str | int:
    words = get_args(Effort)
    try:
        return _count(value)
    except Wrong:
        if isinstance(value, str) and value.lower() in words:
            return value.lower()
    raise Wrong(f"must be one of {', '.join(words)}, or a whole number above 0")


def _one_of(words: Iterable[str], value: Any) -> str:
    known = {_flat(word): word for word in words}
    found = known.get(_flat(value)) if isinstance(value, str) else None
    if found is None:
        raise Wrong(f"must be one of {', '.join(known.values())}")
    return found


def _texts(value: Any, cut: Callable[[str], list[str]]) -> tuple[str, ...]:
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    if not all(isinstance(item, str) for item in items):
        raise Wrong("must be a list of names, or names with commas between them")
    return tuple(dict.fromkeys(name for item in items for name in cut(item)))


def _at_commas(words: str) -> list[str]:
    return [name for part in words.split(",") if (name := part.strip())]


def _names(value: Any) -> tuple[str, ...]:
    return _texts(value, _at_commas)


def _tools(value: Any) -> tuple[str, ...]:
    if isinstance(value, dict):  # another program's `{read: true, write: false}`
        value = [name for name, on in cast("dict[str, Any]", value).items() if on is True]
    return () if value is None else _texts(value, split_rules)


def _unread_tools(value: Any) -> Iterable[str]:
    """Files written for other programs name tools that we do not have: such an entry allows nothing."""
    if value is None:
        yield "is empty, so the agent has no tools: write `*` for all"
    for entry in _tools(value):
        problem = None if entry == "*" else parse_rule(entry, "session")
        if isinstance(problem, Problem):
            yield f"`{shown(entry, 80)}`: {problem.reason}"


def _mode(value: Any) -> str | None:
    """None for a mode of another program in which that program decides: the agent has its parent's."""
    return None if value in ("auto", "delegate", "manual") else _one_of(MODES, value)


def _isolation(value: Any) -> str | None:
    return None if value == "none" else _one_of(get_args(Isolation), value)


def _servers(value: Any) -> tuple[str | dict[str, Any], ...]:
    """Names of shared servers, and `{name: configuration}` for the agent's own, one object per server."""
    if isinstance(value, str):
        return _names(value)
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    return tuple(chain.from_iterable(map(_server_entries, items)))


def _server_entries(item: Any) -> list[str | dict[str, Any]]:
    if isinstance(item, str) and item.strip():
        return [item.strip()]
    pairs = as_object(item)
    if not pairs or not all(isinstance(config, dict) for config in pairs.values()):
        raise Wrong("must be a list of names or of `{name: {...}}`")
    return [{name: config} for name, config in pairs.items()]


def _remote(value: Any) -> Wishes:
    """Reads `{labels: {name: value}, fetch: "origin"}`: what the agent needs on a worker."""
    found = _object(value)
    labels, fetch = _object(found.get("labels", {})), found.get("fetch", "")
    if set(found) - {"labels", "fetch"} or not all(isinstance(one, str) for one in (fetch, *labels.values())):
        raise Wrong("must be `{labels: {name: text}, fetch: remote}`")
    if fetch and not _GIT_REMOTE.fullmatch(fetch):
        raise Wrong("`fetch` is the name of a git remote, as `origin`")
    return Wishes(labels, fetch)


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Wrong("must be an object")
    return cast("dict[str, Any]", value)


_GIT_REMOTE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_ALL = (
    Field("name", text),
    Field("description", text),
    Field("prompt", text),
    Field("tools", _tools, guards=True, doubts=_unread_tools),
    Field("disallowed_tools", partial(_texts, cut=split_rules), guards=True, doubts=_unread_tools),
    Field("model", _model),
    Field("effort", _effort),
    Field("permission_mode", _mode, guards=True),
    Field("background", _yes_no),
    Field("isolation", _isolation, guards=True),
    Field("remote", _remote),
    Field("max_turns", _count),
    Field("color", text),
    Field("memory", partial(_one_of, get_args(Scope))),
    Field("required_mcp_servers", _names),
    Field("mcp_servers", _servers),
    Field("hooks", _object, guards=True),
    Field("skills", _names),
    Field("initial_prompt", text),
)
_FIELDS = {field.name.replace("_", ""): field for field in _ALL}
