"""An agent's repository before anything is checked out in it: a handful of small files, written without git.

They are as `git init` leaves them (gitrepository-layout describes them); what depends on the disk, git itself has said.
"""

from pathlib import Path

import anyio.to_thread
from msgspec import Struct

from teamwright.core.data.code import Author
from teamwright.host.git.travel.objects import draft
from teamwright.host.git.travel.repo import init, ours
from teamwright.osfiles.private import make_dir

_configs: dict[tuple[Path, int], str] = {}  # by folder and length of a commit's name


class Start(Struct, frozen=True):
    """Where it begins."""

    branch: str
    base: str
    author: Author  # whose name its commits carry
    objects: Path  # of the cache, shared


async def plain_config(folder: Path, like: str) -> str:
    """The configuration that git gives a new repository below this folder; it is asked once."""
    key = (folder, len(like))
    if key not in _configs:
        async with draft(folder / "tmp") as path:
            await anyio.to_thread.run_sync(make_dir, path)
            await init(ours(path / ".git", path), like)
            _configs[key] = await anyio.to_thread.run_sync((path / ".git" / "config").read_text)
    return _configs[key]


def write_repository(git_dir: Path, config: str, start: Start) -> None:
    """HEAD is on the branch, at the base; there is no index yet. Raises OSError."""
    for name in ("objects/info", "objects/pack", "refs/heads", "refs/tags"):
        (git_dir / name).mkdir(parents=True)
    named = f"\tname = {_quoted(start.author.name)}\n\temail = {_quoted(start.author.email)}\n"
    (git_dir / "config").write_text(f"{config}[gc]\n\tauto = 0\n[user]\n{named}")
    (git_dir / "objects" / "info" / "alternates").write_text(f"{start.objects}\n")
    (git_dir / "refs" / "heads" / start.branch).write_text(f"{start.base}\n")
    (git_dir / "HEAD").write_text(f"ref: refs/heads/{start.branch}\n")


def _quoted(text: str) -> str:
    """A value as git's configuration has it. What could end it, a line break above all, is left out."""
    plain = "".join(c for c in text if c.isprintable())
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'
