"""Tells at once when a name appears in a directory."""

import ctypes
import functools
import os
import sys
from collections.abc import Iterable
from contextlib import suppress

import anyio

_CREATE, _MOVED_TO, _ONLYDIR, _DONT_FOLLOW = 0x100, 0x80, 0x01000000, 0x02000000
_MOST = 64  # directories
_KEPT = 8  # handles

_free: list[int] = []  # closing one takes the kernel ten milliseconds, so they are used again


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


class NameWatch:
    """Watches directories from its making to its close; without the kernel's help it never tells anything."""

    def __init__(self, directories: Iterable[str]) -> None:
        self._handle = -1
        self._watches: list[int] = []
        wanted = list(directories)[:_MOST]
        if sys.platform != "linux" or not wanted:
            return
        self._libc = _libc()
        self._handle = _free.pop() if _free else self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._handle >= 0:
            flags = _CREATE | _MOVED_TO | _ONLYDIR | _DONT_FOLLOW
            added = [self._libc.inotify_add_watch(self._handle, os.fsencode(path), flags) for path in wanted]
            self._watches = [watch for watch in added if watch >= 0]

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
        for watch in self._watches:
            self._libc.inotify_rm_watch(handle, watch)
        _drain(handle)
        if len(_free) < _KEPT:
            _free.append(handle)
        else:
            os.close(handle)


def _drain(handle: int) -> None:
    with suppress(OSError):
        while os.read(handle, 1 << 16):
            pass
