"""Keeps our keys from other processes of the same person, such as commands run by an agent.

Imports hardly anything, because it runs before every start except `--version`.
"""

import os
import sys

_WORDS = ("KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "COOKIE", "HEADERS", "AUTH")
_PLACES = ("SOCK", "FILE", "PATH", "DIR", "ASKPASS", "XAUTHORITY")  # these name where a secret is, not the secret
_PACKED = "TEAMWRIGHT_TEAMMATE"
_DUMPABLE = 4  # PR_SET_DUMPABLE


_kept: "set[str]" = set()


def keep_secrets() -> None:
    """Call at the start of a process that is ours alone, not in a program that uses the library.

    From then on only root can read our memory, environment or open files; programs that we start are readable again.
    """
    if sys.platform != "linux":
        return
    forget()  # first, because afterwards even we are shut out, unless we are root
    _kept.add(_PACKED)
    try:
        from _ctypes import call_function, dlopen, dlsym  # noqa: PLC0415  # a fifth of what `ctypes` costs

        ours = dlopen(None, 0)  # pyright: ignore[reportArgumentType]  # this process itself, as `ctypes.CDLL(None)`
        call_function(dlsym(ours, "prctl"), (_DUMPABLE, 0, 0, 0, 0))
    except (ImportError, OSError, TypeError):
        import ctypes  # noqa: PLC0415

        ctypes.CDLL(None).prctl(_DUMPABLE, 0, 0, 0, 0)


def keep_also(names: "tuple[str, ...]") -> None:
    """Adds variables that later turn out to hold keys; only effective after `keep_secrets`."""
    if _kept and not _kept.issuperset(names):
        _kept.update(names)
        forget(names)


def forget(names: "tuple[str, ...]" = ()) -> None:
    """Overwrites keys in our initial environment, which `/proc/PID/environ` shows even to root.

    `os.environ` is a copy and keeps them. `names` are variables with keys whose names do not look like it.
    """
    try:
        with open("/proc/self/environ", "rb") as file:  # noqa: PTH123
            block = file.read()
        hidden = _secrets(block, names)
        if not hidden:
            return
        with open("/proc/self/stat", "rb") as file:  # noqa: PTH123
            start, end = (int(field) for field in file.read().rpartition(b")")[2].split()[47:49])
        if end - start != len(block):
            return  # somebody has moved it, so it is not ours to overwrite
        with open("/proc/self/mem", "r+b", buffering=0) as memory:  # noqa: PTH123
            for at, size in hidden:
                memory.seek(start + at)
                memory.write(b"\0" * size)
    except (OSError, ValueError, IndexError):
        pass  # no /proc, or no access: then the kernel keeps others out too


def _secrets(block: bytes, names: "tuple[str, ...]") -> "list[tuple[int, int]]":
    """(offset, size) of each value to be hidden."""
    found: list[tuple[int, int]] = []
    at = 0
    for entry in block.split(b"\0"):
        name, mark, value = entry.partition(b"=")
        if mark and value and (os.fsdecode(name) in names or _is_secret(os.fsdecode(name), value)):
            found.append((at + len(name) + 1, len(value)))
        at += len(entry) + 1
    return found


def _is_secret(name: str, value: bytes) -> bool:
    said = name.upper()
    words = f"{said}_".replace("AUTHOR_", "")  # git's GIT_AUTHOR_NAME is no key, and programs that we start need it
    if name == _PACKED or (any(word in words for word in _WORDS) and not said.endswith(_PLACES)):
        return True
    address = value.partition(b"://")[2]  # may contain a user name and password
    query = os.fsdecode(address.partition(b"?")[2]).upper()
    return b"@" in address.partition(b"/")[0] or any(word in query for word in _WORDS)
