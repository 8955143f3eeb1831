"""Writes parts of an agent's repository without git: an empty repository, a commit of an existing tree, a ref.

These are small files in a fixed format (gitrepository-layout), and starting git takes longer than writing them.
Settings that depend on the disk come from git itself.
"""

import hashlib
import os
import time
import zlib
from pathlib import Path

import anyio.to_thread
from msgspec import Struct

from teamwright.core.data.code import Author
from teamwright.host.git.travel.objects import draft
from teamwright.host.git.travel.repo import init, ours
from teamwright.osfiles.private import make_dir

_configs: dict[tuple[Path, int], str] = {}  # by folder and length of a commit id


class StartingPoint(Struct, frozen=True):
    """Where an agent's repository starts."""

    branch: str
    base: str
    author: Author  # the name on its commits
    objects: Path  # the cache's object directory, shared


class Commit(Struct, frozen=True):
    tree: str
    parents: tuple[str, ...]
    author: Author
    words: str


async def plain_config(folder: Path, like: str) -> str:
    """The configuration that git gives a new repository below this folder; it is asked once."""
    key = (folder, len(like))
    if key not in _configs:
        async with draft(folder / "tmp") as path:
            await anyio.to_thread.run_sync(make_dir, path)
            await init(ours(path / ".git", path), like)
            _configs[key] = await anyio.to_thread.run_sync((path / ".git" / "config").read_text)
    return _configs[key]


def write_repository(git_dir: Path, config: str, start: StartingPoint) -> None:
    """HEAD is on the branch, at the base, and no other branch is left; an index is not made. Raises OSError."""
    for name in ("objects/info", "objects/pack", "refs/heads", "refs/tags"):
        (git_dir / name).mkdir(parents=True, exist_ok=True)
    for ref in (git_dir / "refs" / "heads").iterdir():
        ref.unlink()
    named = f"\tname = {_quoted(start.author.name)}\n\temail = {_quoted(start.author.email)}\n"
    (git_dir / "config").write_text(f"{config}[gc]\n\tauto = 0\n[user]\n{named}")
    (git_dir / "objects" / "info" / "alternates").write_text(f"{start.objects}\n")
    (git_dir / "refs" / "heads" / start.branch).write_text(f"{start.base}\n")
    (git_dir / "HEAD").write_text(f"ref: refs/heads/{start.branch}\n")


def _quoted(text: str) -> str:
    """A quoted configuration value. Characters that could end it, such as line breaks, are dropped."""
    plain = "".join(c for c in text if c.isprintable())
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'


def write_commit(git_dir: Path, commit: Commit, ref: str) -> str:
    """Writes a commit, points the ref to it, and returns its id. Raises OSError."""
    name, email = _named(commit.author.name) or "nobody", _named(commit.author.email)
    signed = f"{name} <{email}> {int(time.time())} +0000"
    lines = [f"tree {commit.tree}", *(f"parent {parent}" for parent in commit.parents)]
    text = "\n".join([*lines, f"author {signed}", f"committer {signed}", "", commit.words, ""])
    id = write_object(git_dir, "commit", text.encode("utf-8", "replace"), len(commit.tree) // 2)
    write_ref(git_dir, ref, id)
    return id


def name_object(kind: str, data: bytes, width: int) -> tuple[str, bytes]:
    """The id of an object, and all that is stored of it."""
    data = b"%b %d\0%b" % (kind.encode(), len(data), data)
    return (hashlib.sha256 if width == 32 else hashlib.sha1)(data).hexdigest(), data


def write_object(git_dir: Path, kind: str, data: bytes, width: int) -> str:
    """Writes a loose object; its id, of `width` bytes. Raises OSError."""
    id, data = name_object(kind, data, width)
    place = git_dir / "objects" / id[:2] / id[2:]
    if not place.exists():
        _replace(place, zlib.compress(data, 1))
        place.chmod(0o444)
    return id


def write_ref(git_dir: Path, ref: str, commit: str) -> None:
    _replace(git_dir / ref, f"{commit}\n".encode())


def _replace(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.urandom(4).hex()}")
    draft.write_bytes(data)
    draft.replace(path)


def _named(text: str) -> str:
    """Fits an author line, which git splits at `<` and `>`."""
    return "".join(c for c in text if c.isprintable() and c not in "<>").strip()
