"""Puts files back as they were. What is there now is kept first, so that this can be undone like any other change."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from teamwright.core.errors import StoreError
from teamwright.host.files.snapshot import ABSENT, CHANGED, FileState, NotRestored, look_at, put_back
from teamwright.runtime.rewind.entries import after_of, entry_of, state_of
from teamwright.runtime.rewind.plan import PlannedFile
from teamwright.store.files.checkpoints import MOST_BYTES, CheckpointEntry, Checkpoints


class Restored(Struct):
    """`left` has one line for each file that stays as it is; `plus` and `minus` count lines."""

    files: list[str]
    removed: list[str]
    left: list[str]
    plus: int = 0
    minus: int = 0


def restore(checkpoints: Checkpoints, due: Sequence[PlannedFile], began: int, *, dry: bool = False) -> Restored:
    """Restore file by file, each wholly or not at all; removed ones first, so that folders can come back. Blocks.

    All are kept before the first is changed; raises StoreError if that fails. After a kill it can be run again, and
    skips what is already back. `dry`: only report.
    """
    done = Restored([], [], [])
    kept: list[CheckpointEntry] = []
    fit: list[PlannedFile] = []
    for file in sorted(due, key=_order):
        try:
            kept += _kept(checkpoints, file, began, dry=dry)
            fit.append(file)
        except (NotRestored, StoreError) as error:
            done.left.append(f"{file.path}: {error}")
    done.plus, done.minus = sum(entry.plus for entry in kept), sum(entry.minus for entry in kept)
    if kept and not dry:
        checkpoints.append(kept, synced=True)
    _put_all_back(checkpoints, fit, done, dry=dry)
    return done


def _kept(checkpoints: Checkpoints, file: PlannedFile, began: int, *, dry: bool) -> Iterable[CheckpointEntry]:
    """The file as it is now, and the mark of what it will be, which tells our change from somebody else's."""
    now, then = look_at(file.path, MOST_BYTES), state_of(checkpoints, file.then)
    if now.mark != file.now:
        raise NotRestored(CHANGED)
    if now.kind == "folder":  # no content of its own; one with files that are not ours is refused later
        now = FileState("absent")
    after = after_of(file.path, now, then, began, by="rewind")
    if dry:
        return [after]
    entry = entry_of(checkpoints, file.path, now, began, by="rewind")
    if entry.lost:
        raise NotRestored(f"it could not be kept as it is now: {entry.why}")
    return [entry, after]


def _put_all_back(checkpoints: Checkpoints, files: Sequence[PlannedFile], done: Restored, *, dry: bool) -> None:
    for file in files:
        try:
            if not dry:
                put_back(Path(file.path), state_of(checkpoints, file.then), _expected(file), MOST_BYTES)
        except (NotRestored, StoreError) as error:
            done.left.append(f"{file.path}: {error}")
        else:
            (done.removed if file.removes else done.files).append(file.path)


def _expected(file: PlannedFile) -> str:
    """What is there when its turn comes: a folder may have gone with files removed before."""
    gone = file.now == FileState("folder").mark and not Path(file.path).exists()
    return ABSENT if gone else file.now


def _order(file: PlannedFile) -> tuple[bool, int]:
    """Removals first, the deepest first; then files that come back, the highest first."""
    depth = file.path.count("/")
    return (not file.removes, -depth if file.removes else depth)
