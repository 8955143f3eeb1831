"""Notes where a session in an engine is: on which machine, in which repository. The note is kept where workers cannot
write, because a resume tells the model what it says."""

import platform
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from teamwright.core.data.event import Reminded
from teamwright.core.data.message import Message, Text, user
from teamwright.core.errors import ToolError, UsageError
from teamwright.core.ids import SessionId
from teamwright.core.text import shown
from teamwright.host.git.guard import refuse_elsewhere
from teamwright.host.git.places import top_of
from teamwright.host.git.run import git
from teamwright.runtime.agents.agent import Agent
from teamwright.store.engine.space import Space

_LIMIT = 20.0  # seconds to find a repository's first commit
MOVED = (
    "[This session continues on another machine, {host}, in {cwd}; before, it was on {was_host}, in {was_cwd}. Paths "
    "below {was_cwd} are below {cwd} here. What was not committed there, worktrees of agents, their running programs "
    "and long outputs stayed on the other disk.]"
)
_START = MOVED[: MOVED.index("{")]


class Place(Struct, frozen=True):
    host: str
    home: str
    cwd: str
    project: str = ""  # the repository's first commit; empty: none


async def settle_place(space: Space, session: SessionId, cwd: Path, main: Agent, *, resumes: bool) -> None:
    """Tell the model if the session has moved to another machine, and only then note where it is: a kill in between
    must not leave it untold. Raises UsageError in another repository."""
    now = Place(platform.node(), str(space.home.root), str(cwd), await _first_commit(cwd))
    before = await _read(space, session) if resumes else None
    if before == now:
        return
    if before is not None and before.project and before.project != now.project:
        raise UsageError(
            f"session {session} is about another repository than the one in {shown(str(cwd))}: it was in "
            f"{shown(before.cwd)} on {shown(before.host)}. Resume it in a clone of that one."
        )
    if before is not None and (before.host, before.home) != (now.host, now.home):
        words = MOVED.format(
            host=shown(now.host), cwd=shown(now.cwd), was_host=shown(before.host), was_cwd=shown(before.cwd)
        )
        if _last_told(main.history.messages) != words:
            main.emit(Reminded(user(words)))
            await main.sync()
    await space.put_record(f"place/{session}", msgspec.json.encode(now))


def _last_told(messages: Sequence[Message]) -> str:
    """What it was last told of a move, perhaps by a process that was killed before it noted the place."""
    texts = (block.text for message in reversed(messages) for block in message.blocks if isinstance(block, Text))
    return next((text for text in texts if text.startswith(_START)), "")


async def _read(space: Space, session: SessionId) -> Place | None:
    data = await space.get_record(f"place/{session}")
    with suppress(msgspec.DecodeError):
        return None if data is None else msgspec.json.decode(data, type=Place)
    return None


async def _first_commit(cwd: Path) -> str:
    if not top_of(str(cwd)):
        return ""
    with suppress(ToolError):
        refuse_elsewhere(cwd)
        ran = await git("rev-list", "--max-parents=0", "HEAD", cwd=cwd, limit=_LIMIT)
        return ran.out.split()[-1] if ran.status == 0 and ran.out.split() else ""
    return ""
