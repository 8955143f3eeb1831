"""Reports immediately when a name appears in a directory."""

import ctypes
import functools
import os
import sys
from collections.abc import Iterable
from contextlib import suppress

import anyio

_CREATE, _MOVED_TO, _ONLYDIR, _DONT_FOLLOW = 0x100, 0x80, 0x01000000, 0x02000000
_MOST = 64  # directories
_KEPT = 8  # unused handles that are kept

# Unused handles by what they watch, kept because closing one takes the kernel ten milliseconds. Events that arrive in
# between wait in the kernel, as far as there is room, and are discarded before the next use.
_free: list[tuple[tuple[str, ...], int]] = []


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


class NameWatch:
    """Watches directories until closed; without the kernel's support it never reports anything."""

    def __init__(self, directories: Iterable[str]) -> None:
        self._handle = -1
        self._wanted = tuple(directories)[:_MOST]
        if sys.platform != "linux" or not self._wanted:
            return
        self._handle = _known(self._wanted)
        if self._handle < 0:
            self._handle = _libc().inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._handle >= 0:
            flags = _CREATE | _MOVED_TO | _ONLYDIR | _DONT_FOLLOW
            for path in self._wanted:  # also for a kept handle, since the directory may have been replaced
                _libc().inotify_add_watch(self._handle, os.fsencode(path), flags)
            _drain(self._handle)

    async def changed(self) -> None:
        """Returns when something has appeared; for ever if it cannot know."""
        if self._handle < 0:
            await anyio.sleep_forever()
        await anyio.wait_readable(self._handle)
        _drain(self._handle)

    def close(self) -> None:
        handle, self._handle = self._handle, -1
        if handle < 0:
            return
        _free.append((self._wanted, handle))
        if len(_free) > _KEPT:
            os.close(_free.pop(0)[1])


def _known(wanted: tuple[str, ...]) -> int:
    for index, (watched, handle) in enumerate(_free):
        if watched == wanted:
            del _free[index]
            return handle
    return -1


def _drain(handle: int) -> None:
    with suppress(OSError):
        while os.read(handle, 1 << 16):
            pass
