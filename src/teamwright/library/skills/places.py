"""Finds the directories of skills and commands, lowest source first, and lists their files."""

import os
from collections.abc import Collection, Sequence
from itertools import islice
from pathlib import Path

from teamwright.core.data.definition import DefinitionSource
from teamwright.core.text import shown
from teamwright.library.agents.definition_file import DefinitionFolder
from teamwright.library.agents.places import MOST_ENTRIES, MOST_FILES, SKILL_HOMES, Sighting, scan, way_down
from teamwright.library.plugins import Plugin
from teamwright.library.skills.file import Kind, Shelf

MANAGED = Path("/etc/teamwright")
_KINDS: tuple[tuple[Kind, str], ...] = (("command", "commands"), ("skill", "skills"))  # in one folder, skills win


def find_shelves(
    *,
    cwd: Path,
    project: Path,
    home: Path,
    state: Path,
    trusted: bool,
    sources: Collection[str] = ("user", "project"),
    plugins: Sequence[Plugin] = (),
    managed: Path = MANAGED,
) -> tuple[Shelf, ...]:
    """All directories that may hold skills or commands, whether they exist yet or not; the later wins.

    `state` is TEAMWRIGHT_HOME. Untrusted projects are skipped.
    """
    found = [shelf for plugin in plugins for shelf in _of_plugin(plugin)]
    own = (home / ".agents", home / ".claude", state)
    if "user" in sources:
        found += [shelf for folder in own for shelf in _pair("user", folder)]
    if "project" in sources and trusted:
        found += _of_project(cwd, project, own)
    found += _pair("managed", managed)
    unique: dict[str, Shelf] = {}  # in the home directory, project and user folder are the same
    for shelf in found:
        unique.setdefault(os.path.realpath(shelf.place.folder), shelf)
    return tuple(unique.values())


def _pair(source: DefinitionSource, folder: Path, within: tuple[Path, ...] | None = None) -> list[Shelf]:
    kinds = _KINDS[1:] if folder.name == ".agents" else _KINDS
    return [Shelf(kind, DefinitionFolder(source, folder / name, within=within)) for kind, name in kinds]


def _of_project(cwd: Path, project: Path, own: Sequence[Path]) -> list[Shelf]:
    within = tuple(Path(os.path.realpath(folder)) for folder in (project, *own))
    folders = [folder / name for folder in way_down(cwd, project) for name in SKILL_HOMES]
    return [shelf for folder in folders for shelf in _pair("project", folder, within)]


def _of_plugin(plugin: Plugin) -> list[Shelf]:
    within = (plugin.root,)
    kinds: tuple[tuple[Kind, Sequence[Path]], ...] = (("command", plugin.commands), ("skill", plugin.skills))
    return [
        Shelf(kind, DefinitionFolder("plugin", folder, plugin.name, within), str(plugin.root))
        for kind, folders in kinds
        for folder in folders
    ]


def readable_folders(shelves: Sequence[Shelf]) -> tuple[Path, ...]:
    """Directories of skill files outside the project: an agent that follows a skill may read them."""
    return tuple(s.place.folder for s in shelves if s.kind == "skill" and s.place.source != "project")


def scan_shelf(shelf: Shelf) -> tuple[list[Sighting], list[str]]:
    """The files of a shelf in a fixed order, each with a signature that reveals changes; and problems."""
    return scan(shelf.place) if shelf.kind == "command" else _scan_skills(str(shelf.place.folder))


def _scan_skills(folder: str) -> tuple[list[Sighting], list[str]]:
    """Lists `NAME/SKILL.md`, one level down."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in islice(entries, MOST_ENTRIES) if not entry.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return [], []
    except OSError as error:
        return [], [f"{shown(folder)}: cannot be listed: {error.strerror}"]
    found: list[Sighting] = []
    for name in names:
        path = f"{folder}/{name}/SKILL.md"
        try:
            seen = os.stat(path)  # noqa: PTH116  # in a hot path, as text
        except OSError:
            continue
        if len(found) == MOST_FILES:
            return found, [f"{shown(folder)}: more than {MOST_FILES:,} skills; the others are left out"]
        found.append((path, (seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_mode)))
    return found, []
