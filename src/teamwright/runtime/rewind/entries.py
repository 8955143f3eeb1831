"""Converts states of files to and from lines of the index of checkpoints."""

from teamwright.core.errors import StoreError
from teamwright.host.files.snapshot import FileState, count_lines, file_mark
from teamwright.store.files.checkpoints import CheckpointEntry, Checkpoints


def entry_of(checkpoints: Checkpoints, path: str, state: FileState, at: int, by: str = "") -> CheckpointEntry:
    """A file before a change, with its content stored. Blocks. If that fails, the entry says that the content is
    lost."""
    match state.kind:
        case "file":
            try:
                return CheckpointEntry(at, path, checkpoints.put(state.data, synced=by == "rewind"), state.mode, by=by)
            except StoreError as error:
                return CheckpointEntry(at, path, lost=True, why=str(error), by=by)
        case "link" if not is_storable(state.link):
            return CheckpointEntry(at, path, lost=True, why="it is a link whose target is no UTF-8", by=by)
        case "link":
            return CheckpointEntry(at, path, link=state.link, by=by)
        case "absent":
            return CheckpointEntry(at, path, by=by)
        case "folder":
            return CheckpointEntry(at, path, lost=True, why="it was a directory", by=by)
        case "lost":
            return CheckpointEntry(at, path, lost=True, why=state.why, by=by)


def after_of(path: str, before: FileState, after: FileState, at: int, by: str = "") -> CheckpointEntry:
    """A file after a change."""
    plus, minus = count_lines(before, after)
    return CheckpointEntry(at, path, mark=after.mark, plus=plus, minus=minus, by=by)


def state_of(checkpoints: Checkpoints, entry: CheckpointEntry) -> FileState:
    """The file as it was. Blocks; raises StoreError if its copy is gone."""
    if entry.lost:
        return FileState("lost", why=entry.why or "it was too large, or could not be read")
    if entry.link:
        return FileState("link", link=entry.link)
    if not entry.copy:
        return FileState("absent")
    return FileState("file", checkpoints.get(entry.copy), entry.mode)


def mark_of(checkpoints: Checkpoints, entry: CheckpointEntry) -> str:
    """The mark of the file as it was. Blocks; raises StoreError if it needs a copy that is gone."""
    if checkpoints.names_hash(entry.copy):
        return file_mark(entry.copy, entry.mode)
    return state_of(checkpoints, entry).mark


def is_storable(text: str) -> bool:
    """Whether the index can hold this text: a file's name need not be UTF-8."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)
