"""`teamwright agents`: lists agent definitions with their sources, what each shadows, and broken files."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from teamwright.app import Options, open_workspace
from teamwright.app.extensions.plugins import find_all_plugins
from teamwright.library.agents.book import BookEntry, Definitions, load_definitions
from teamwright.library.agents.places import find_places
from teamwright.surfaces.commands.tables import print_json
from teamwright.tools.bounds import visible

WIDE = 160  # characters of a line if there is no terminal to measure
NARROW = 60


def show_agents(*, flag: str | None, trust: bool, as_json: bool) -> int:
    """`teamwright agents`. Problems go to standard error, and do not make the listing fail."""
    options = Options(cwd=Path.cwd(), trust=trust)
    ground = open_workspace(options)
    plugins = find_all_plugins(options, ground)
    places = find_places(
        cwd=ground.cwd,
        project=ground.project,
        home=ground.user,
        state=ground.home.root,
        trusted=ground.trusted,
        plugins=plugins.agent_places if plugins else (),
    )
    found = load_definitions(places, flag=flag, cwd=ground.cwd)
    if as_json:
        print_json([_record(entry) for entry in found.entries])
    else:
        _print_table(found, {str(ground.project): "", str(ground.user): "~"})
    for note in (*ground.notes, *found.problems, *(one.text for one in found.unread)):
        sys.stderr.write(f"teamwright: {visible(note)}\n")
    return 0


def _record(entry: BookEntry) -> dict[str, Any]:
    record: dict[str, Any] = {
        "name": entry.name,
        "description": entry.description,
        "source": entry.source,
        "path": entry.path or None,
    }
    return record | {k: v for k in ("shadowed_by", "error") if (v := getattr(entry, k)) is not None}


def _print_table(found: Definitions, roots: Mapping[str, str]) -> None:
    """A definition in effect comes before those that it shadows."""
    order = sorted(found.entries, key=lambda e: (e.name.lower(), e.shadowed_by is not None, e.error is not None))
    rows = [["NAME", "FROM", "DESCRIPTION"], *(_row(entry, found.entries, roots) for entry in order)]
    shown = [[visible(cell).replace("\n", " ").replace("\t", " ") for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    room = max(_width() - widths[0] - widths[1] - 4, NARROW)
    for name, origin, words in shown:
        cut = words if len(words) <= room else words[: room - 1] + "…"
        sys.stdout.write(f"{name.ljust(widths[0])}  {origin.ljust(widths[1])}  {cut}".rstrip() + "\n")


def _width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDE


def _row(entry: BookEntry, entries: Sequence[BookEntry], roots: Mapping[str, str]) -> list[str]:
    words = " ".join(entry.description.split())
    if entry.error is not None:
        words = f"broken: {entry.error}"
    elif entry.shadowed_by is not None:
        words = f"shadowed by {_short(entry.shadowed_by, roots)}"
    else:
        below = [e.source for e in entries if e.shadowed_by and e.name.lower() == entry.name.lower()]
        words = f"[shadows {', '.join(dict.fromkeys(below))}] {words}" if below else words
    return [entry.name, f"{entry.source} {_short(entry.path, roots)}".rstrip(), words]


def _short(path: str, roots: Mapping[str, str]) -> str:
    """The path relative to the project or the home directory."""
    for root, sign in roots.items():
        if path.startswith(root + os.sep):
            return os.path.join(sign, path[len(root) + 1 :])  # noqa: PTH118  # only text, not a file
    return path
