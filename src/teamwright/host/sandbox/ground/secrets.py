"""Finds secrets in a home directory: names that always hold some, and files whose content decides."""

import os
import re
import stat
import time
from collections.abc import Iterator

from msgspec import Struct

from teamwright.host.sandbox.ground.expand import is_inside
from teamwright.host.sandbox.ground.looks import FRESH

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
_MOST_READ = 1 << 16

# where a secret can appear: the home directory, and directories in it that hold secrets
_ABOVE = tuple(dict.fromkeys(["", *(os.path.dirname(name) for name in _SECRETS if "/" in name)]))
_FIRST = frozenset(name.partition("/")[0] for name in (*_MAYBE, *_SHOWN))


class AtHome(Struct, frozen=True):
    """Existing secrets in a home directory, and parts of them that programs need.

    `made_of`: the result holds while none of these changes; empty if a link leads to a place that is not checked.
    """

    hidden: tuple[str, ...]
    shown: tuple[str, ...]
    made_of: tuple[str, ...]


def find_at_home(home: str) -> AtHome:
    there = _at_home(home)
    maybe, shown = (tuple(_present(home, names, there.first)) for names in (_MAYBE, _SHOWN))
    found = [*there.secret, *(os.path.realpath(path) for path in maybe if _holds_secret(path))]
    # A link that leads to a directory above the home would hide everything.
    hidden = dict.fromkeys(path for path in found if os.path.lexists(path) and not is_inside(home, path))
    looked = (*(f"{home}/{name}".rstrip("/") for name in _ABOVE), *maybe, *shown)
    plain = there.plain and all(os.path.realpath(path) == path for path in looked)
    return AtHome(tuple(hidden), tuple(path for path in shown if os.path.lexists(path)), looked if plain else ())


class _There(Struct, frozen=True):
    """What was found by name; kept until one of the directories changes."""

    stamps: tuple[int, ...]
    secret: tuple[str, ...]  # secret whatever they contain
    first: frozenset[str]  # existing names of `_FIRST`: nothing else needs to be looked for
    plain: bool  # none of them is a link


_known: dict[str, _There] = {}


def _at_home(home: str) -> _There:
    stamps = tuple(_changed(f"{home}/{name}") for name in _ABOVE)
    known = _known.get(home)
    if known is not None and known.stamps == stamps:
        return known
    paths = [path for name in _SECRETS if os.path.lexists(path := f"{home}/{name}")]
    secret = [os.path.realpath(path) for path in paths]
    first = frozenset(name for name in _FIRST if os.path.lexists(f"{home}/{name}"))
    found = _There(stamps, tuple(secret), first, plain=secret == paths)
    if found.plain and time.time_ns() - max(stamps) > FRESH:  # a link's target would not be checked again
        _known[home] = found
    return found


def _present(home: str, names: tuple[str, ...], first: frozenset[str]) -> Iterator[str]:
    """Paths that may exist."""
    return (f"{home}/{name}" for name in names if name.partition("/")[0] in first)


def _changed(path: str) -> int:
    try:
        return os.stat(path).st_ctime_ns
    except OSError:
        return -1


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
    """A file that we cannot read cannot be judged, so it counts as a secret."""
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
