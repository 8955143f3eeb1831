"""Looks at the machine before a program starts in the sandbox: what is secret, protected, shared, and what is missing.

It is done before every command, so it is some fifty looks at names; what takes longer is kept until a directory on the
way has changed.
"""

import os
import re
import stat
import time
from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct

from teamwright.core.sandbox.policy import Name, Repository, Terrain
from teamwright.core.sandbox.rules import SandboxRules
from teamwright.host.sandbox.ground.expand import existing, is_inside, name_in, opening, protected, real_path
from teamwright.host.sandbox.ground.layout import git_directory_of, layout_of

PROTECTED = (".claude", ".teamwright", ".mcp.json", ".vscode", ".idea")
# Of a home that is itself worked in: what shells, desktops, git and package managers obey by themselves.
_AT_HOME = tuple(
    """
    .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin .zlogout
    .kshrc .cshrc .tcshrc .login .logout .inputrc .pam_environment .xprofile .xsession .xsessionrc .xinitrc .gitconfig
    .npmrc .yarnrc .yarnrc.yml .pip .pydistutils.cfg .vimrc .vim .exrc .nvimrc .emacs .emacs.d .gdbinit .lldbinit
    .tmux.conf .screenrc .direnvrc .cargo/config .cargo/config.toml .config/git .config/fish .config/nvim
    .config/autostart .config/systemd .config/environment.d .config/direnv .config/pip .config/tmux .config/Code/User
    .local/share/systemd .local/bin bin
    """.split()
)
_SECRETS = tuple(
    """
    .ssh .gnupg .aws .azure .kube .docker .config/gcloud .config/gh .config/hub .config/op .config/git/credentials
    .config/google-chrome .config/chromium .config/BraveSoftware .netrc .git-credentials .password-store
    .local/share/keyrings .mozilla .thunderbird .codex .gemini .vault-token .pgpass .my.cnf .databrickscfg
    .terraform.d .bash_history .zsh_history .python_history .node_repl_history .claude .claude.json
    """.split()
)
_MAYBE = (
    ".npmrc", ".pypirc", ".cargo/credentials", ".cargo/credentials.toml", ".config/pip/pip.conf", ".pip/pip.conf",
    ".yarnrc.yml", ".gem/credentials",
)  # fmt: skip
_HOLDS_SECRET = re.compile(rb"(?i)_auth|token|password|rubygems_api_key|://[^\s/@]+:[^\s@]+@")
_SHOWN = tuple(f".claude/{name}" for name in ("skills", "plugins", "agents", "commands", "CLAUDE.md"))
_SHARED = ("/tmp", "/var/tmp")
_SOCKET = re.compile(rb"(?:\S+ ){6} *\d+ (/.*)")
_MOST_SOCKETS = 200
_MOST_SECRETS = 500  # paths of denied reads; where there are more in one directory, that is hidden as a whole
_CROWD = 20
_MOST_READ = 1 << 16


class Ground(Struct, frozen=True):
    """Whose programs these are. Paths are absolute; they need not be resolved."""

    roots: tuple[str, ...]
    project: str
    home: str
    state: str  # TEAMWRIGHT_HOME
    tmp: str
    cache: str = ""  # none: no cache of its own
    path: str = ""  # PATH of the program
    runtime: str = ""  # XDG_RUNTIME_DIR
    outputs: str = ""  # where this session keeps what commands printed
    programs: tuple[str, ...] = ()  # files that a server is made of
    busy: tuple[str, ...] = ()  # trees in which other agents work
    masked: bool = True  # the tier can hide sockets of the machine one by one


def read_terrain(ground: Ground, rules: SandboxRules) -> Terrain:
    home, state, project = real_path(ground.home), real_path(ground.state), real_path(ground.project)
    roots = tuple(project if root == ground.project else real_path(root) for root in ground.roots)
    there = _at_home(home)
    shared = _directories(_SHARED)
    runtime = _directories(("/run", "/var/run", ground.runtime))
    hidden = (*_secrets(home, there), state)
    layouts = [layout_of(root, project, home, roots) for root in roots]
    repositories: dict[str, Repository] = {}
    for layout in layouts:  # a nested one of a root may be the own one of another
        for one in layout.repositories:
            if one.directory not in repositories or repositories[one.directory].nested:
                repositories[one.directory] = one
    names = [name_in(root, name) for root in roots for name in PROTECTED]
    names += [name_in(home, name) for name in _AT_HOME] if any(is_inside(home, root) for root in roots) else []
    covered = (*hidden, *shared, *runtime)
    return Terrain(
        project=project,
        home=home,
        state=state,
        hidden=hidden[:-1],
        shared=shared,
        runtime=runtime,
        shown=tuple(dict.fromkeys(_shown(ground, _present(home, _SHOWN, there.first), covered))),
        names=tuple(dict.fromkeys((*names, *(mark for layout in layouts for mark in layout.marks)))),
        repositories=tuple(repositories.values()),
        unseen=tuple(path for layout in layouts for path in layout.unseen if path not in roots),
        busy=tuple(_busy(ground.busy, roots)),
        sockets=() if rules.all_sockets or not ground.masked else tuple(_sockets(covered)),
        opened=existing(rules.sockets),
        allow_write=opening(rules.allow_write),
        deny_write=_outside(protected(rules.deny_write)),
        deny_read=_gathered(existing(rules.deny_read), (*roots, home, project)),
        allow_read=opening(rules.allow_read),
        tmp=real_path(ground.tmp) if ground.tmp else "",
        cache=real_path(ground.cache) if ground.cache else "",
    )


@lru_cache(maxsize=8)
def _directories(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Of the machine itself: they do not move."""
    found = (os.path.realpath(path) for path in paths if path)
    return tuple(dict.fromkeys(path for path in found if path != "/" and os.path.isdir(path)))


def _outside(names: tuple[Name, ...]) -> tuple[Name, ...]:
    """`/` cannot be protected as a name: then nothing could be written at all, tmp included."""
    return tuple(name for name in names if name.path != "/")


# --- secrets


# Where a secret can appear: the home, and directories in it that hold some.
_ABOVE = tuple(dict.fromkeys(["", *(os.path.dirname(name) for name in _SECRETS if "/" in name)]))
_FRESH = 50_000_000  # nanoseconds: what changed just now may change once more without another time of change
_FIRST = frozenset(name.partition("/")[0] for name in (*_MAYBE, *_SHOWN))


class _AtHome(Struct, frozen=True):
    """What was found in a home; kept until a directory on the way has changed."""

    stamps: tuple[int, ...]
    secret: tuple[str, ...]  # whatever they hold
    first: frozenset[str]  # of `_FIRST`, what is there: nothing else need be looked for


_known: dict[str, _AtHome] = {}


def _at_home(home: str) -> _AtHome:
    stamps = tuple(_changed(f"{home}/{name}") for name in _ABOVE)
    known = _known.get(home)
    if known is not None and known.stamps == stamps:
        return known
    paths = [path for name in _SECRETS if os.path.lexists(path := f"{home}/{name}")]
    secret = [os.path.realpath(path) for path in paths]
    first = frozenset(name for name in _FIRST if os.path.lexists(f"{home}/{name}"))
    found = _AtHome(stamps, tuple(secret), first)
    if secret == paths and time.time_ns() - max(stamps) > _FRESH:  # a link leads where nobody looks again
        _known[home] = found
    return found


def _present(home: str, names: tuple[str, ...], first: frozenset[str]) -> Iterator[str]:
    """Paths that may be there."""
    return (f"{home}/{name}" for name in names if name.partition("/")[0] in first)


def _changed(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return -1


def _secrets(home: str, there: _AtHome) -> tuple[str, ...]:
    found = [*there.secret]
    found += [os.path.realpath(path) for path in _present(home, _MAYBE, there.first) if _holds_secret(path)]
    # A link that leads to a directory above the home would hide everything.
    return tuple(dict.fromkeys(path for path in found if os.path.lexists(path) and not is_inside(home, path)))


_judged: dict[str, tuple[tuple[int, ...], bool]] = {}


def _holds_secret(path: str) -> bool:
    try:
        found = os.stat(path)
    except OSError:
        return False
    if not stat.S_ISREG(found.st_mode):
        return False
    stamp = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    known = _judged.get(path)
    if known is None or known[0] != stamp:
        _judged[path] = known = (stamp, _tells_secret(path))
    return known[1]


def _tells_secret(path: str) -> bool:
    """What cannot be read by us cannot be judged, and counts as one."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return True
    try:
        return bool(_HOLDS_SECRET.search(os.read(handle, _MOST_READ)))
    except OSError:
        return True
    finally:
        os.close(handle)


def _gathered(paths: tuple[str, ...], kept: tuple[str, ...]) -> tuple[str, ...]:
    """Each hidden path costs a mount. Where thousands are named, their directories are hidden instead."""
    if len(paths) <= _MOST_SECRETS:
        return paths
    above: dict[str, list[str]] = {}
    for path in paths:
        above.setdefault(os.path.dirname(path), []).append(path)
    found: list[str] = []
    for directory, inner in above.items():
        crowded = len(inner) >= _CROWD and not any(is_inside(one, directory) for one in kept)
        found += [directory] if crowded else inner
    return tuple(found)


# --- what is shown again, what is masked, what is left alone


def _shown(ground: Ground, ours: Iterator[str], covered: tuple[str, ...]) -> Iterator[str]:
    for path in ours:
        if os.path.lexists(path):
            yield os.path.realpath(path)
    if ground.outputs and os.path.isdir(ground.outputs):
        yield os.path.realpath(ground.outputs)
    programs = ":".join(map(os.path.dirname, ground.programs))
    for place in (*_hidden_places(ground.path, covered), *_hidden_places(programs, covered)):
        if not os.path.isdir(place):
            continue
        prefix = os.path.dirname(place)
        wide = any(is_inside(one, prefix) for one in covered)  # it would show more than a program's own files
        yield place if wide else prefix
    yield from (os.path.realpath(one) for one in ground.programs if os.path.exists(one))


@lru_cache(maxsize=16)
def _hidden_places(path: str, covered: tuple[str, ...]) -> tuple[str, ...]:
    """Directories of a PATH that are hidden. Remembered: programs do not move while a session lasts."""
    found = dict.fromkeys(os.path.realpath(one) for one in path.split(":") if one.startswith("/"))
    return tuple(place for place in found if any(is_inside(place, one) for one in covered))


def _sockets(covered: tuple[str, ...]) -> Iterator[str]:
    """Sockets of the machine by path. Those of other mount namespaces are listed too, and are not there for us."""
    try:
        with open("/proc/net/unix", "rb") as file:
            lines = file.read(1 << 20).splitlines()[1:]
    except OSError:
        return
    found: set[str] = set()
    for line in lines:
        named = _SOCKET.fullmatch(line)
        path = os.fsdecode(named[1]) if named else ""
        if not path or any(is_inside(path, one) for one in covered):
            continue
        try:
            real = os.path.realpath(path)
            if stat.S_ISSOCK(os.stat(real).st_mode) and not any(is_inside(real, one) for one in covered):
                found.add(real)
        except (OSError, ValueError):
            continue
    yield from sorted(found)[:_MOST_SOCKETS]


def _busy(trees: tuple[str, ...], roots: tuple[str, ...]) -> Iterator[str]:
    for tree in map(os.path.realpath, trees):
        if tree not in roots:
            yield tree
            if git := git_directory_of(tree):
                yield git
