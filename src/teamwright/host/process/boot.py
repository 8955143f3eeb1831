"""Tells one run of a machine, from its start to its end, from every other one, without trusting a clock."""

import hashlib
import os
from functools import cache
from pathlib import Path

from teamwright.host.process.rows import LINUX


@cache
def boot_id() -> str:
    """Empty if the kernel does not say."""
    if not LINUX:
        return _of_macos()
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def run_of_machine(home: Path) -> str:
    """The same for processes that have the same home on the same machine, until that is started anew. Containers may
    share a kernel, so the machine's name and the home count, too. Empty if it is not known."""
    if not boot_id():
        return ""
    parts = (boot_id().encode(), os.uname().nodename.encode(), os.fsencode(home))
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _of_macos() -> str:
    import ctypes  # noqa: PLC0415

    text, size = ctypes.create_string_buffer(64), ctypes.c_size_t(64)
    try:
        failed = ctypes.CDLL(None).sysctlbyname(b"kern.bootsessionuuid", text, ctypes.byref(size), None, 0)
    except (OSError, AttributeError):
        return ""
    return "" if failed else text.value.decode()
