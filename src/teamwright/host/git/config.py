"""Finds repository settings that make git run a program or look elsewhere, without running git.

A configuration that came with the files (an archive, a share, an image) can make the most harmless command run
anything. An unreadable configuration counts as such a setting.
"""

import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress

from teamwright.core.text import shown
from teamwright.host.git.config_file import Entry, UnreadableError, is_boolean, is_false, parts, read_config
from teamwright.host.git.places import common_of, places, sure_places, text_of

UNREADABLE = "a configuration that cannot be read"
_MOST_FILES = 200  # files that include each other, and nested submodules
_MOST_INDEX = 256 << 20
_GITLINK = 0o160000

# A key with such a name, in any section, tells git or a companion program what to run.
_RUNS = re.compile(
    r".*(command|cmd|program|prog|helper|hook|driver|textconv|editor|pager|browser|askpass|tunnel|filter|gitproxy)"
)
_KEYS = {
    "core": frozenset({"hookspath", "virtualfilesystem"}),
    "diff": frozenset({"external"}),
    "extensions": frozenset({"partialclone"}),  # missing objects are fetched in the middle of a reading command
    "filter": frozenset({"clean", "smudge", "process"}),
    "init": frozenset({"templatedir"}),
    "lfs": frozenset({"clean", "smudge", "path", "standalonetransferagent"}),
    "remote": frozenset({"vcs", "proxy", "uploadpack", "receivepack", "promisor"}),
    "sendemail": frozenset({"smtpserver"}),
}
_SECTIONS = frozenset(
    {
        "alias",
        "browser",
        "difftool",
        "guitool",
        "hook",
        "include",
        "includeif",
        "instaweb",
        "man",
        "mergetool",
        "protocol",
        "web",
    }
)
# With such values a reading command checks signatures, for which git starts gpg.
_MAY_VERIFY = re.compile(r"format\.pretty|pretty\..*|(?:branch|tag)\.sort")
_SIGNATURE = re.compile(r"%[-+ ]?G|signature")
_PLACES = frozenset({"core.worktree", "extensions.worktreeconfig"})
_FETCHED = frozenset({"promisor", "partialclone", "partialclonefilter"})  # objects of a partial clone
_HOOKS = ("post-index-change", "reference-transaction")  # hooks that even a reading command can trigger


def programs(directory: str) -> tuple[str, ...]:
    """The settings that make git run a program or look elsewhere, in the repository that git would find from here.

    Covers its local and worktree configuration, their includes, and its submodules.
    """
    return tuple(dict.fromkeys(_of_places(os.path.abspath(directory), set())))


def local_settings(directory: str) -> tuple[Entry, ...]:
    """All settings that git would read from here besides the person's own. Raises UnreadableError."""
    return tuple(entry for _, git in places(os.path.abspath(directory)) for entry in _settings(git))


def _of_places(directory: str, seen: set[str]) -> Iterator[str]:
    for top, git in places(directory):
        if git in seen:
            continue
        if len(seen) >= _MOST_FILES:
            yield UNREADABLE
            return
        seen.add(git)
        yield from _of_one(top, git)
        try:
            inner = [os.path.join(top, path) for path in submodules(git)]
        except UnreadableError:
            yield UNREADABLE
            continue
        for path in inner:
            if os.path.lexists(os.path.join(path, ".git")):
                yield from (f"{name} (submodule {shown(path, 120)})" for name in _of_places(path, seen))


def _of_one(top: str, git: str) -> Iterator[str]:
    try:
        found = tuple(_settings(git, _notable))
        for name, value in found:
            if name == "core.worktree" and (_is_top(git, value, top) or not _counts(git, found)):
                continue
            if name != "extensions.worktreeconfig":
                yield shown(name, 120)
    except UnreadableError:
        yield UNREADABLE
    hooks = os.path.join(common_of(git) or git, "hooks")
    yield from (f"hooks/{name}" for name in _HOOKS if os.access(os.path.join(hooks, name), os.X_OK))


def obeyed_files(top: str, git: str) -> Iterator[str]:
    """The files of this git directory by which git runs a program or looks elsewhere."""
    common = common_of(git) or git
    for file in (os.path.join(common, "config"), os.path.join(git, "config.worktree")):
        try:
            if any(_leads_away(top, git, name, value) for name, value in _notable(file)):
                yield file
        except UnreadableError:
            yield file
    for folder in ("hooks", "remotes", "branches"):  # the last two name addresses, as configurations did long ago
        with suppress(OSError), os.scandir(os.path.join(common, folder)) as entries:
            yield from (one.path for one in entries if folder != "hooks" or _is_hook(one))


def _leads_away(top: str, git: str, name: str, value: str | None) -> bool:
    if name == "core.worktree":
        return not _is_top(git, value, top)
    return name not in _PLACES and parts(name)[2] not in _FETCHED


def _is_hook(entry: "os.DirEntry[str]") -> bool:
    return not entry.name.endswith(".sample") and bool(entry.stat(follow_symlinks=False).st_mode & 0o111)


_judged: dict[str, tuple[tuple[Entry, ...], tuple[Entry, ...]]] = {}


def _notable(path: str) -> tuple[Entry, ...]:
    """The settings in a file that matter; cached, because a file may have thousands."""
    entries = read_config(path)
    known = _judged.get(path)
    if not known or known[0] is not entries:
        if len(_judged) > 256:
            _judged.clear()
        counts = tuple(one for one in entries if one[0] in _PLACES or is_program(*one))
        _judged[path] = known = (entries, counts)
    return known[1]


def is_program(name: str, value: str | None) -> bool:
    """Does this setting name something that git runs?"""
    section, sub, key = parts(name)
    if name == "core.fsmonitor" or section == "pager":
        return not is_boolean(value)
    if name == "log.showsignature":
        return not is_false(value)
    if _MAY_VERIFY.fullmatch(name) and _SIGNATURE.search(value or ""):
        return True
    if section in _SECTIONS or key in _KEYS.get(section, ()) or _RUNS.fullmatch(key):
        return True
    if section == "submodule" and key == "update":
        return (value or "").lstrip().startswith("!")
    return "::" in _address(section, sub, value or "")  # `ext::sh -c …` names a program to run


def _address(section: str, sub: str, value: str) -> str:
    if section == "url":
        return sub
    return value if section in ("remote", "submodule") else ""


def _counts(git: str, found: tuple[Entry, ...]) -> bool:
    """Does `core.worktree` apply? Git ignores it in a linked worktree, unless each worktree has its own settings."""
    return not common_of(git) or any(name == "extensions.worktreeconfig" for name, _ in found)


def _is_top(git: str, value: str | None, top: str) -> bool:
    """Is it the repository's own tree? A submodule's configuration names that."""
    return os.path.realpath(os.path.join(git, value or "")) == os.path.realpath(top)


# --- what lies elsewhere, and would be shown


_FILES = frozenset(
    {"blame.ignorerevsfile", "core.excludesfile", "core.attributesfile", "diff.orderfile", "mailmap.file"}
)


def read_elsewhere(directory: str) -> tuple[str, ...]:
    """Real paths outside of the repository from which git would show something here: another repository that a `.git`
    names, objects of others, links in the git directory, files that its settings name."""
    found = dict[str, None]()
    for top, git in sure_places(directory):
        real = os.path.realpath(git)
        common = os.path.realpath(common_of(git) or git)
        own = _own_directories(top, real, common)
        paths = [real, common, *_links_in(real), *_links_in(common), *_alternates(common), *_named_files(top, git)]
        for path in map(os.path.realpath, paths):
            if not any(path == one or path.startswith(f"{one}/") for one in own):
                found[path] = None
    return tuple(found)


def _own_directories(top: str, git: str, common: str) -> list[str]:
    """The git directories that are this tree's without doubt. A `.git` that is a file or a link may name any, so the
    directory must name this tree as well."""
    mark = os.path.join(top, ".git")
    if git == os.path.join(os.path.realpath(top), ".git") and not os.path.islink(mark):
        return [git]
    back = text_of(os.path.join(git, "gitdir"))
    if back and os.path.realpath(os.path.join(git, back)) == os.path.join(os.path.realpath(top), ".git"):
        return [git, common] if os.path.dirname(git) == f"{common}/worktrees" else [git]
    try:
        named = [value for name, value in _settings(git) if name == "core.worktree"]
    except UnreadableError:
        return []
    return [git] if named and _is_top(git, named[-1], top) else []


def _links_in(git: str) -> Iterator[str]:
    """Links in it, except to hooks, and in the directories in it."""
    below = (f"{git}/{name}" for name in ("objects/pack", "objects/info"))
    for folder in (git, *_folders(git), *below):
        yield from (entry.path for entry in _entries(folder) if entry.is_symlink() and entry.name != "hooks")


def _folders(git: str) -> Iterator[str]:
    return (entry.path for entry in _entries(git) if entry.is_dir(follow_symlinks=False) and entry.name != "hooks")


def _entries(folder: str) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []


def _alternates(common: str) -> Iterator[str]:
    told = text_of(f"{common}/objects/info/alternates")
    return (os.path.join(common, "objects", line) for line in told.splitlines() if line and not line.startswith("#"))


def _named_files(top: str, git: str) -> Iterator[str]:
    try:
        told = [value for name, value in _settings(git) if name in _FILES and value]
    except UnreadableError:
        return iter(())  # nothing runs unasked then
    return (os.path.join(top, os.path.expanduser(value)) for value in told)


def _settings(git: str, read: Callable[[str], tuple[Entry, ...]] = read_config) -> Iterator[Entry]:
    seen: set[str] = set()
    yield from _all(os.path.join(common_of(git) or git, "config"), seen, read)
    yield from _all(os.path.join(git, "config.worktree"), seen, read)


def _all(file: str, seen: set[str], read: Callable[[str], tuple[Entry, ...]]) -> Iterator[Entry]:
    """The settings in a file and in every file it may include, whatever the condition."""
    if file in seen:
        return
    if len(seen) >= _MOST_FILES:
        raise UnreadableError(file)
    seen.add(file)
    for name, value in read(file):
        yield name, value
        if name == "include.path" or (name.startswith("includeif.") and name.endswith(".path")):
            told = os.path.expanduser(value or "")
            yield from _all(os.path.join(os.path.dirname(file), told), seen, read)


# --- submodules: git starts another git there, which reads its own configuration


_links: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {}


def submodules(git: str) -> tuple[str, ...]:
    """Paths that the index lists as submodules."""
    path = os.path.join(git, "index")
    try:
        found = os.stat(path)
        stamp = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        known = _links.get(path)
        if not known or known[0] != stamp:
            known = (stamp, tuple(_gitlinks(path, found, _width(git))))
            if len(_links) > 64:
                _links.clear()
            _links[path] = known
        return known[1]
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except (OSError, ValueError, IndexError) as error:
        raise UnreadableError(path) from error


def has_submodules(directory: str) -> bool:
    """Does the repository contain submodules? Also True if it cannot be told."""
    try:
        return any(submodules(git) for _, git in sure_places(directory))
    except UnreadableError:
        return True


def _width(git: str) -> int:
    """Bytes of an object id."""
    formats = [value for name, value in _settings(git) if name == "extensions.objectformat"]
    return 32 if formats[-1:] == ["sha256"] else 20


def _gitlinks(path: str, found: os.stat_result, width: int) -> Iterator[str]:
    if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_INDEX:
        raise UnreadableError(path)
    with open(path, "rb") as file:
        data = file.read(_MOST_INDEX)
    if data[:4] != b"DIRC":
        raise UnreadableError(path)
    if b"link" in data[-64_000:] and not os.path.basename(path).startswith("shared"):  # split: part is in another file
        folder = os.path.dirname(path)
        for name in os.listdir(folder):
            if name.startswith("sharedindex."):
                beside = os.path.join(folder, name)
                yield from _gitlinks(beside, os.stat(beside), width)
    if _GITLINK.to_bytes(4) in data:
        yield from (os.fsdecode(name) for mode, name in _walk_index(data, width) if mode == _GITLINK)


def index_paths(directory: str, most: int) -> list[str] | None:
    """The tracked paths, from the top of the tree; None if they cannot be told or there are more than `most`."""
    git = next((git for _, git in sure_places(directory)), "")
    path = os.path.join(git, "index")
    try:
        if not os.path.exists(path):
            return []
        with open(path, "rb") as file:
            data = file.read(most * 400)
        if data[:4] != b"DIRC" or int.from_bytes(data[8:12]) > most or b"link" in data[-64_000:]:
            return None
        return [os.fsdecode(name) for _, name in _walk_index(data, _width(git))]
    except (OSError, ValueError, IndexError, UnreadableError):
        return None


def _walk_index(data: bytes, width: int) -> Iterator[tuple[int, bytes]]:
    """Mode and path of each entry, as described in `gitformat-index`."""
    version, count = int.from_bytes(data[4:8]), int.from_bytes(data[8:12])
    at, last = 12, b""
    for _ in range(count):
        behind = at + 40 + width
        mode, flags = int.from_bytes(data[at + 24 : at + 28]), int.from_bytes(data[behind : behind + 2])
        start = behind + (4 if flags & 0x4000 else 2)
        cut = 0
        if version == 4:
            cut, start = _offset(data, start)
        end = data.index(b"\0", start)
        last = last[: len(last) - cut] + data[start:end] if version == 4 else data[start:end]
        at = end + 1 if version == 4 else at + ((end - at + 8) & ~7)
        yield mode, last


def _offset(data: bytes, at: int) -> tuple[int, int]:
    """A variable-width number as used in packs, and where it ends."""
    byte = data[at]
    value = byte & 127
    while byte & 128:
        at += 1
        byte = data[at]
        value = ((value + 1) << 7) | (byte & 127)
    return value, at + 1
