"""Finds the directories of agent definitions, lowest source first, and lists their files."""

import os
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from pathlib import Path

from teamwright.core.text import shown
from teamwright.library.agents.definition_file import DefinitionFolder

MANAGED = Path("/etc/teamwright/agents")
MOST_FILES = 1000  # per place
MOST_FOLDERS = 500
MOST_ENTRIES = 10_000  # per folder: a repository may hold a million files there
DEEPEST = 8  # levels of folders below a place
HOMES = (".claude", ".teamwright")  # the second wins
SKILL_HOMES = (".agents", *HOMES)  # the first, which many programs read, has nothing but skills

Signature = tuple[int, ...]  # empty for a dangling link
Sighting = tuple[str, Signature]
Listing = list[tuple[list[Sighting], list[str]]]  # per place: its files and its problems


def find_places(
    *,
    cwd: Path,
    project: Path,
    home: Path,
    state: Path,
    trusted: bool,
    sources: Collection[str] = ("user", "project"),
    plugins: Sequence[tuple[str, Path]] = (),
    managed: Path = MANAGED,
) -> tuple[DefinitionFolder, ...]:
    """All directories that may hold definitions, whether they exist or not; later ones win.

    `state` is TEAMWRIGHT_HOME, `plugins` are namespaces with their directories. Untrusted projects are skipped.
    """
    found = [DefinitionFolder("plugin", folder, namespace) for namespace, folder in plugins]
    own = (home / ".claude" / "agents", state / "agents")
    if "user" in sources:
        found += [DefinitionFolder("user", folder) for folder in own]
    if "project" in sources and trusted:
        within = tuple(Path(os.path.realpath(folder)) for folder in (project, *own))
        found += [
            DefinitionFolder("project", folder / name / "agents", within=within)
            for folder in way_down(cwd, project)
            for name in HOMES
        ]
    found.append(DefinitionFolder("managed", managed))
    unique: dict[str, DefinitionFolder] = {}  # in the home directory, project and user folder are the same
    for place in found:
        unique.setdefault(os.path.realpath(place.folder), place)
    return tuple(unique.values())


def way_down(cwd: Path, project: Path) -> list[Path]:
    """The directories from the project down to `cwd`; later ones win."""
    cwd, project = cwd.resolve(), project.resolve()
    between = [folder for folder in (cwd, *cwd.parents) if folder.is_relative_to(project)]
    return between[::-1] or [project]


def scan(place: DefinitionFolder) -> tuple[list[Sighting], list[str]]:
    """The definition files of a place in a fixed order, each with a signature that reveals changes; and problems."""
    problems: list[str] = []
    found: list[Sighting] = []
    try:
        os.stat(place.folder)  # noqa: PTH116  # of most places there is nothing
    except FileNotFoundError:
        return found, problems
    except OSError:  # reported by the walk below
        pass
    for sighting in _walk(str(place.folder), 0, set(), problems):
        if len(found) == MOST_FILES:
            problems.append(f"{shown(str(place.folder))}: more than {MOST_FILES:,} files; the others are left out")
            break
        found.append(sighting)
    return found, problems


def _walk(folder: str, depth: int, seen: set[tuple[int, int]], problems: list[str]) -> Iterator[Sighting]:
    """Walks subfolders too, each once, because links may form cycles. Skips dot files and READMEs."""
    for entry in _listing(folder, seen, problems):
        if entry.name.startswith("."):
            continue
        if entry.name.endswith(".md"):
            if entry.name.lower() != "readme.md":
                yield entry.path, _signature(entry)
        elif depth < DEEPEST and _is_folder(entry):
            yield from _walk(entry.path, depth + 1, seen, problems)


def _listing(folder: str, seen: set[tuple[int, int]], problems: list[str]) -> list["os.DirEntry[str]"]:
    try:
        here = os.stat(folder)  # noqa: PTH116  # in a hot path, as text
        if (here.st_dev, here.st_ino) in seen or len(seen) == MOST_FOLDERS:
            return []
        seen.add((here.st_dev, here.st_ino))
        with os.scandir(folder) as entries:
            return sorted(islice(entries, MOST_ENTRIES), key=attrgetter("name"))
    except FileNotFoundError:
        return []
    except OSError as error:
        problems.append(f"{shown(folder)}: cannot be listed: {error.strerror}")
        return []


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _signature(entry: "os.DirEntry[str]") -> Signature:
    try:
        found = entry.stat()
    except OSError:
        return ()
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode)


def changed_at(signature: Signature) -> int:
    """Nanoseconds since 1970, by the kernel's clock."""
    return signature[3] if signature else 0
