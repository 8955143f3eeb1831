"""Where worktrees have their copies of a repository's files."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from teamwright.host.git import PLACE


def copies_of(path: str) -> Iterator[str]:
    """What stands for this absolute path in each worktree of a repository around it, whether it is there or not."""
    for top in Path(path).parents:
        with suppress(OSError):
            yield from (f"{tree}/{path[len(str(top)) :].lstrip('/')}" for tree in top.joinpath(*PLACE).iterdir())
