"""Lists every path in any commit of a repository, so that path rules can be applied to its history."""

import os
import select
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from teamwright.host.git.run import quiet_command

_SECONDS = 3.0
_MOST_BYTES = 32 << 20


def paths_ever(directory: str, revisions: Sequence[str] = ()) -> list[str] | None:
    """Paths, from the top of the tree, in all commits reachable from branches, tags, stashes, reflogs and `revisions`.
    None if that takes too long or is too much, or if a revision names no commit."""
    tips = [part for one in revisions for part in _ends(one)]
    words = ["rev-list", "--objects", "--all", "--reflog", *(f"{tip}^{{commit}}" for tip in tips), "--"]
    told = _output(words, directory)
    if told is None:
        return None
    lines = (line.partition(b" ")[2] for line in told.split(b"\n"))
    return [os.fsdecode(path) for path in dict.fromkeys(lines) if path]


def _ends(revision: str) -> list[str]:
    """Both ends of a range."""
    return [end for end in revision.removeprefix("^").replace("...", "..").split("..") if end]


def _output(words: Sequence[str], directory: str) -> bytes | None:
    argv, env = quiet_command(words, Path(directory))
    until, out = time.monotonic() + _SECONDS, bytearray()
    try:
        with subprocess.Popen(
            argv, cwd=directory, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as child:
            assert child.stdout
            whole = _read_all(child.stdout.fileno(), out, until)
            if not whole:
                child.kill()
    except OSError:
        return None
    return bytes(out) if whole and child.returncode == 0 else None


def _read_all(stream: int, out: bytearray, until: float) -> bool:
    """Returns whether everything was read in time."""
    while len(out) <= _MOST_BYTES:
        ready, _, _ = select.select([stream], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            return False
        piece = os.read(stream, 1 << 16)
        if not piece:
            return True
        out += piece
    return False
