"""Notes that the sessions of a project leave for the next, in one private file with one writer at a time."""

import os
from pathlib import Path

from teamwright.core.errors import StoreError
from teamwright.core.policies import notes
from teamwright.osfiles.locks import Lock, hold
from teamwright.osfiles.private import fault, open_file, write_file
from teamwright.store.files.paths import Home, slug

MOST_READ = 256 * 1024  # bytes: a person may have written more than we would
LOCK_WAIT = 5.0  # seconds


class Notebook:
    """`memory/projects/SLUG/MEMORY.md`. Its methods touch the disk and may wait for a lock: call them in a thread."""

    def __init__(self, home: Home, project: Path, *, patience: float = LOCK_WAIT) -> None:
        name = slug(project)
        self.file = home.memory / "projects" / name / "MEMORY.md"
        self.before = self.file.with_name("MEMORY.md.before")  # as it was before its last rewrite
        self._lock, self._patience = home.run / f"memory-{name}.lock", patience

    def read(self) -> str:
        """The whole text; empty if there is none."""
        if not self.file.is_file():
            return ""
        fd = open_file(self.file, os.O_RDONLY | os.O_NONBLOCK)
        try:
            data = bytearray()
            while len(data) <= MOST_READ and (chunk := os.read(fd, MOST_READ + 1)):
                data += chunk
        except OSError as error:
            raise fault("read", self.file, error) from error
        finally:
            os.close(fd)
        if len(data) > MOST_READ:
            raise StoreError(f"{self.file} is longer than {MOST_READ // 1024} KiB. Shorten it, or move it away.")
        return data.decode("utf-8", errors="replace")

    def add(self, answer: str, date: str) -> int:
        """Add a model's notes to those that are there now; returns how many were new. The oldest go if there is no
        room."""
        fresh = notes.read_answer(answer, date)
        if not fresh:
            return 0
        lock = self._hold()
        try:
            sections, count = notes.joined(notes.read(self.read()), fresh)
            if count:
                self._write(sections)
            return count
        finally:
            lock.release()

    def rewrite(self, answer: str, seen: str, date: str) -> bool:
        """Replace `seen` by a shorter text, and keep the original beside it. Notes added meanwhile stay.

        False if the answer is empty or not shorter.
        """
        shorter = notes.read_answer(answer, date, notes.MOST_KEPT)
        if not shorter or len(notes.render(shorter).encode()) >= len(seen.encode()):
            return False
        lock = self._hold()
        try:
            now = self.read()
            sections, _ = notes.joined(shorter, notes.since(seen, now))
            write_file(self.before, now.encode(errors="replace"))
            self._write(sections)
            os.utime(self.before)  # newer than the file: nothing was added since
            return True
        finally:
            lock.release()

    def is_fresh(self) -> bool:
        """Whether nothing was added since the last rewrite."""
        try:
            return self.before.stat().st_mtime_ns >= self.file.stat().st_mtime_ns
        except FileNotFoundError:
            return False

    def _write(self, sections: list[notes.Section]) -> None:
        data = notes.render(notes.fitted(sections, notes.MOST)).encode(errors="replace")
        if len(data) > notes.MOST:
            raise StoreError(f"{self.file} is full: it holds {notes.MOST // 1024} KiB at most. Shorten what is there.")
        write_file(self.file, data)

    def _hold(self) -> Lock:
        lock = hold(self._lock, self._patience)
        if lock is None:
            raise StoreError(
                f"Another session has kept {self.file} locked for {self._patience:g} s: nothing was noted."
            )
        return lock
