"""Rewinding: lists the points that a person can go back to, and goes back in the conversation, the files or both."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from teamwright.core.data.conversation.history import History
from teamwright.core.data.conversation.rewind import Point, before, points_of, went_back
from teamwright.core.data.event import Event, FilesRestored, Line, Reminded, Rewound
from teamwright.core.data.message import user
from teamwright.core.data.op import Rewind
from teamwright.core.errors import UsageError
from teamwright.core.ids import line_uuid
from teamwright.core.text import few, plural, shown
from teamwright.host.files.paths import is_directory
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.port import RewindPoint, RewindPreview
from teamwright.runtime.rewind.plan import RestorePlan, changed_unkept, count_points, plan_restore
from teamwright.runtime.rewind.restore import Restored, restore
from teamwright.store.files import transcripts
from teamwright.store.files.checkpoints import Checkpoints
from teamwright.store.tables.state import now_ms

if TYPE_CHECKING:
    from teamwright.runtime.services import Services

WORKS = "the agent is working: interrupt it first, then rewind"
NO_POINT = (
    "there is no prompt at line {} of this conversation to go back to: it may have been left by a rewind meanwhile"
)
NOT_KEPT = "in this kind of session no files are kept: only the conversation can go back"
RESTORED = (
    "[The person has put files back to what they were before an earlier prompt: {}. What you know of them is out of "
    "date: read them again before you rely on it.]"
)
BACK = "[The conversation went back to this point. {} Do not wait for or rely on what you no longer know of.]"
SETTLE = 2.0  # seconds
UNKEPT = "{}: it was changed in a run that kept nothing"
MOST_NAMED = 20  # files in a sentence


class Rewinding:
    """`transcript` is the main agent's. `keeps`: whether files are kept before they are changed."""

    def __init__(self, services: "Services", checkpoints: Checkpoints, transcript: Path, *, keeps: bool) -> None:
        self._services, self._checkpoints, self._transcript = services, checkpoints, transcript
        self._keeps = keeps

    @property
    def _main(self) -> Agent:
        return self._services.supervisor.main

    # --- points

    async def points(self) -> list[RewindPoint]:
        return await to_thread.run_sync(self._points)

    def _points(self) -> list[RewindPoint]:
        found = points_of(transcripts.read(self._transcript))
        return count_points(found, self._checkpoints.read())

    async def preview(self, line: int) -> RewindPreview:
        return await to_thread.run_sync(self._preview, line)

    def _preview(self, line: int) -> RewindPreview:
        lines = self._read()
        point = _find(points_of(lines), line)
        if not self._keeps:
            return RewindPreview(notes=(NOT_KEPT,))
        plan = plan_restore(self._checkpoints, point.at)
        unkept = changed_unkept(lines, line, plan.known)
        return RewindPreview(
            restores=tuple(file.path for file in plan.due if not file.removes),
            removes=tuple(file.path for file in plan.due if file.removes),
            others=tuple(file.path for file in plan.by_others),
            left=(*_lines(plan), *map(UNKEPT.format, unkept)),
            notes=(*(f"not covered: {gap}" for gap in plan.gaps), *self._at_work()),
        )

    def _at_work(self) -> list[str]:
        """Note agents that may change files again."""
        main = self._main
        running = [agent for agent in self._services.supervisor.agents if agent is not main and agent.running]
        return [f"{plural(len(running), 'other agent')} still at work, and may change files again"] if running else []

    # --- going back

    async def rewind(self, op: Rewind) -> None:
        """Returns when it is done. Raises UsageError if it is refused; then nothing has changed."""
        if not (op.conversation or op.files):
            raise UsageError("a rewind needs the conversation, the files, or both")
        if op.files and not self._keeps:
            raise UsageError(NOT_KEPT)
        main = self._main
        with anyio.move_on_after(0 if main.running else SETTLE):  # a turn that has just ended is still being recorded
            await main.at_rest()
        if not await main.rewind(partial(self._go_back, op)):
            raise UsageError(WORKS)
        main.desk.seen = dict(main.history.seen)

    async def _go_back(self, op: Rewind) -> Sequence[Event]:
        lines = await to_thread.run_sync(self._read)
        point = _find(points_of(lines), op.line)
        began, done = now_ms(), Restored([], [], [])
        if op.files:
            plan = await to_thread.run_sync(plan_restore, self._checkpoints, point.at)
            _require_consent(plan, op)
            began, done = await to_thread.run_sync(self._restore, plan, lines)
            done.left += _lines(plan)
        files = (*done.files, *done.removed)
        told = FilesRestored(tuple(done.files), tuple(done.removed), tuple(done.left))
        files_told: list[Event] = [told] if op.files else []
        if not op.conversation:
            stale = [Reminded(user(RESTORED.format(_named(files))))] if files else []
            return [Rewound(op.line, began, files=files, forgets=files), *files_told, *stale]
        main, then = self._main, before([line.event for _, line in lines], op.line)
        stays = await self._describe_what_stays(then)
        rewound = went_back(main.history, then, op.line, began, files)
        return [rewound, *files_told, *([Reminded(user(BACK.format(" ".join(stays))))] if stays else [])]

    def _read(self) -> list[tuple[int, Line]]:
        return list(transcripts.read(self._transcript))

    def _restore(self, plan: RestorePlan, lines: Sequence[tuple[int, Line]]) -> tuple[int, Restored]:
        """Restore, and return when that began: with a rewind that was cut off before, if nothing else was changed
        since."""
        ended = max((line.at for _, line in lines if isinstance(line.event, Rewound)), default=0)
        began = now_ms()
        for entry in reversed(self._checkpoints.read()):
            if entry.by != "rewind" or entry.at <= ended:
                break
            began = min(began, entry.at)
        return began, restore(self._checkpoints, plan.due, began)

    async def _describe_what_stays(self, then: History) -> list[str]:
        """Facts that the conversation will no longer know of; the working directory goes back if it can."""
        main, place = self._main, Path(then.cwd)
        if is_directory(place) and any(place.is_relative_to(root) for root in main.desk.roots):
            main.desk.cwd = place
        facts = [] if place == main.desk.cwd else [f"Your working directory is {main.desk.cwd} now."]
        if then.mode != main.history.mode:
            facts.append(f"The permission mode is {main.history.mode} now.")
        return facts + [f"{fact}." for fact in await self._services.agents.facts(main.id)]

    # --- for a program that drives the session

    async def restore_files(self, message: str, *, dry: bool) -> Restored:
        """Restore only the files, over any change since the line with this id; `dry`: only report."""
        if not self._keeps:
            raise UsageError(NOT_KEPT)
        await self._main.sync()
        return await to_thread.run_sync(partial(self._restore_files, message, dry=dry))

    def _restore_files(self, message: str, *, dry: bool) -> Restored:
        lines = transcripts.read(self._transcript)
        since = next((line.at for n, line in lines if line_uuid(self._main.id, n) == message), None)
        if since is None:
            raise UsageError(f"there is no message {message} in this session; --replay-user-messages prints their ids")
        plan = plan_restore(self._checkpoints, since)
        if lost := [file.path for file in plan.files if file.why]:
            raise UsageError(f"no copy was kept of {', '.join(lost)}; nothing was changed")
        done = restore(self._checkpoints, plan.due, now_ms(), dry=dry)
        if done.left:
            raise UsageError(f"not every file could be brought back: {'; '.join(done.left)}")
        return done


def _find(points: Sequence[Point], line: int) -> Point:
    found = next((point for point in points if point.line == line), None)
    if found is None:
        raise UsageError(NO_POINT.format(line))
    return found


def _lines(plan: RestorePlan) -> list[str]:
    return [f"{file.path}: {file.why}" for file in plan.files if file.why]


def _require_consent(plan: RestorePlan, op: Rewind) -> None:
    if plan.by_others and not op.force:
        named = _named([file.path for file in plan.by_others])
        raise UsageError(
            f"changed by somebody else since: {named}; nothing was done. Rewind with `force` to go over it"
        )


def _named(paths: Sequence[str]) -> str:
    return few([shown(path, 200) for path in paths], MOST_NAMED)
