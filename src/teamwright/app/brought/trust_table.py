"""Table of what would be read of a directory if it were trusted, and what would not, for the person who decides."""

from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from msgspec import Struct

from teamwright.app.agents.registry import AgentRegistry
from teamwright.app.brought.unread import all_unread
from teamwright.app.extensions.service import Configured, read_configured
from teamwright.app.options import Options
from teamwright.app.workspace import Workspace, open_workspace, read_rules
from teamwright.core.data.extensions.hook import HookBook
from teamwright.core.data.extensions.unread import Unread
from teamwright.core.errors import TeamwrightError
from teamwright.core.text import plural, shown
from teamwright.library import instructions
from teamwright.library.trust.decision import Part, own_places

TITLE = "what is read, and what is not used"
MOST_NAMED = 12
_PROJECT = ("project", "local")


class _Row(Struct):
    """One kind of thing: how many are read, and the names of what is not used."""

    what: str
    read: int
    unused: list[str]


def trust_table(workspace: Workspace) -> Part | None:
    """None if there is nothing to tell, or if the directory is the person's own.

    Everything is read as if it were trusted, but nothing of it is run.
    """
    if own_places(workspace.project, user=workspace.user, state=workspace.home.root):
        return None
    try:
        options = Options(cwd=workspace.cwd, env=workspace.env, trust=True)
        seen = open_workspace(options)
        written = read_configured(options, seen)
        registry = AgentRegistry(options, seen, read_rules(options, seen)[0], written)
    except TeamwrightError:  # the start itself reports what is wrong
        return None
    lines = _lines(_rows(seen, written, registry))
    return Part(TITLE, tuple(lines)) if lines else None


def _rows(seen: Workspace, written: Configured, registry: AgentRegistry) -> list[_Row]:
    unread = [one for one in all_unread(seen, written, registry) if _is_inside(one.file, seen.project)]
    layers = [layer for layer in seen.settings.layers if layer.source in _PROJECT]
    permissions = [layer.values.get("permissions", {}) for layer in layers]
    rules = sum(len(part.get(kind, ())) for part in permissions for kind in ("allow", "ask", "deny"))
    hooks = [hook for hooks in (written.hooks or HookBook()).hooks.values() for hook in hooks]
    agents = [kind for kind in registry.kinds().values() if kind.source == "project"]
    skills = [skill for skill in written.skills.all if skill.source == "project"]
    servers = [server for server in written.servers.values() if _is_inside(server.file, seen.project)]
    names = [name for layer in layers for name in layer.values if name not in ("permissions", "hooks", "mcp")]
    told = instructions.collect(
        seen.cwd, seen.project, home=seen.user, state=seen.home.root, trusted=True, sources=("project", "local")
    )
    return [
        _Row("instruction files", sum(_is_inside(str(file.path), seen.project) for file in told.files), []),
        _Row("agents", len(agents), _fields(unread, "agent file")),
        _Row("skills and commands", len(skills), _fields(unread, "skill", "command")),
        _Row("hooks", sum(_is_inside(hook.source, seen.project) for hook in hooks), _named(unread, "hook")),
        _Row("MCP servers", len(servers), []),
        _Row("permission rules", rules, []),
        _Row("other settings", len(set(names)), _named(unread, "setting")),
        _Row("plugins", 0, _named(unread, "plugin")),
    ]


def _is_inside(file: str, project: Path) -> bool:
    return bool(file) and Path(file).is_relative_to(project)


def _fields(unread: Iterable[Unread], *kinds: str) -> list[str]:
    """Each field, and the number of files with it."""
    files: dict[str, set[str]] = {}
    for one in unread:
        if one.kind in kinds:
            files.setdefault(one.name, set()).add(one.file)
    return [f"field `{shown(name, 40)}` of {plural(len(found), 'file')}" for name, found in files.items()]


def _named(unread: Iterable[Unread], kind: str) -> list[str]:
    found = (one for one in unread if one.kind.startswith(kind))
    return list(
        dict.fromkeys(f"{one.kind.removeprefix(kind).strip()} `{shown(one.name, 60)}`".strip() for one in found)
    )


def _lines(rows: Sequence[_Row]) -> list[str]:
    told = [row for row in rows if row.read or row.unused]
    if not told:
        return []
    cells = [("", "read", "not used"), *((row.what, str(row.read or "-"), _few(row.unused)) for row in told)]
    widths = [max(len(cell) for cell in column) for column in list(zip(*cells, strict=True))[:2]]
    return [f"{_led(a, widths[0])}  {b.rjust(widths[1])}  {c}".rstrip() for a, b, c in cells]


def _led(name: str, width: int) -> str:
    """Dots lead to the next column: a long run of blanks would be shown as a count, as in any text from others."""
    return f"{name} {'·' * (width - len(name))}".ljust(width + 1) if name else " " * (width + 1)


def _few(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(chain(names[:MOST_NAMED], [f"{more} more"] if more > 0 else []))
