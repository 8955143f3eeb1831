"""Transcripts of agents in an engine: files here, as everywhere, whose lines count once the engine has them."""

import os
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread

from teamwright.core.data.event import Durable
from teamwright.core.data.team import ProcessId
from teamwright.core.errors import StoreError
from teamwright.core.ids import AgentId
from teamwright.osfiles.locks import is_held
from teamwright.osfiles.private import create_file, write_all
from teamwright.store.engine.port import EngineError
from teamwright.store.engine.wire.lines import PROMPT, Lines, Place
from teamwright.store.files.paths import SessionFiles
from teamwright.store.files.transcripts import Transcript

_SOON = 0.05  # seconds until lines that nobody waits for are sent


class SharedTranscripts:
    """Makes and opens transcripts for a process. Its `run` must be running."""

    def __init__(self, lines: Lines, process: ProcessId) -> None:
        self.lines, self._process = lines, process
        self.places: dict[AgentId, Place] = {}
        self._prompts: set[str] = set()  # known to be in the engine
        self._unsent: set[SharedTranscript] = set()
        self._wake, self._flushing = anyio.Event(), anyio.Lock()

    def create(self, path: Path) -> "SharedTranscript":
        transcript = SharedTranscript.create(path)
        transcript.home, self.places[AgentId(path.stem)] = self, Place()
        return transcript

    def open(self, path: Path) -> "tuple[SharedTranscript, list[Durable], int]":
        """Call this after `fetch`, when the file holds what the engine has."""
        if AgentId(path.stem) not in self.places:
            raise EngineError(f"The transcript of agent {path.stem} was not fetched from the engine.")
        transcript, events, torn = SharedTranscript.open(path)
        transcript.home = self
        return transcript, events, torn

    async def fetch(self, agent: AgentId, path: Path, prompts: Path) -> bool:
        """Fetch a transcript, with the prompts that it names. False: there is none."""
        named = set[bytes]()
        place = await self.lines.pull(agent, path, lambda data: named.update(PROMPT.findall(data)))
        self.places[agent] = place
        await self._fetch_prompts(named, prompts)
        return place.lines > 0

    async def fetch_prompts_of(self, path: Path, prompts: Path) -> None:
        """Fetch the prompts that a transcript names."""
        named = await anyio.to_thread.run_sync(_prompts_named, path)
        await self._fetch_prompts(named, prompts)

    async def _fetch_prompts(self, named: set[bytes], prompts: Path) -> None:
        for hash in {found.decode() for found in named}:
            if not (prompts / hash).is_file():
                await self.lines.get_prompt(hash, prompts / hash)
            self._prompts.add(hash)

    async def send(self, transcript: "SharedTranscript", rows: list[bytes]) -> None:
        """Send lines. The prompts that they name go first."""
        agent = AgentId(transcript.path.stem)
        for hash in {found.decode() for row in rows for found in PROMPT.findall(row)} - self._prompts:
            await self._send_prompt(hash, transcript.path)
        self.places[agent] = await self.lines.append(agent, self._process, rows, self.places[agent])

    async def _send_prompt(self, hash: str, path: Path) -> None:
        main = path if path.parent.name != "agents" else path.parent.parent.with_suffix(".jsonl")
        file = SessionFiles(main).prompts / hash
        if file.is_file():
            await self.lines.put_prompt(hash, file.read_bytes())
            self._prompts.add(hash)

    # --- lines that nobody waits for

    def note(self, transcript: "SharedTranscript") -> None:
        self._unsent.add(transcript)
        self._wake.set()

    async def run(self) -> None:
        """Sends lines that nobody syncs, so that others see them soon and none stays behind."""
        while True:
            await self._wake.wait()
            self._wake = anyio.Event()
            await anyio.sleep(_SOON)
            await self.flush()

    async def flush(self) -> None:
        """On return all lines are in the engine, also those that somebody else was sending."""
        async with self._flushing:
            while self._unsent:
                transcript = self._unsent.pop()
                try:
                    await transcript.sync()
                except StoreError as error:
                    transcript.give_up(str(error))


class SharedTranscript(Transcript, eq=False):
    home: SharedTranscripts | None = None  # that made it
    _flying: int = 0  # lines that were sent and may be in the engine

    def __post_init__(self) -> None:
        self.started = self.sync  # the next process must know that a call has begun

    def append(self, event: Durable, at: int) -> int:
        n = super().append(event, at)
        if self.home is not None:
            self.home.note(self)
        return n

    async def sync(self) -> None:
        """Return when everything appended so far is in the engine."""
        self.check()
        if not self._unsynced:
            return
        async with self._syncing:
            left = len(self._unsynced)
            while self.home is not None and left > 0:
                # What was given up half-way is sent again unchanged: that shows that the engine's copy is ours.
                self._flying = self._flying or left
                rows = self._unsynced[: self._flying]
                await self.home.send(self, rows)
                del self._unsynced[: len(rows)]
                left, self._flying = left - len(rows), 0
                self._synced = self._size

    def check(self) -> None:
        if self._broken:
            raise EngineError(self._broken)


class TranscriptCopies:
    """Files here of agents that other processes run, as their transcripts grow.

    If a worker of this machine uses the same home, the file is its own, and nothing is written to it.
    """

    def __init__(self, transcripts: SharedTranscripts, run: Path) -> None:
        self._transcripts, self.places, self._run = transcripts, transcripts.places, run
        self._sizes: dict[AgentId, int] = {}  # of files that hold exactly what has come so far

    async def fetch(self, agent: AgentId, path: Path) -> None:
        """Fetch it as it is in the engine now, without prompts, which are needed only to continue it."""
        if self._is_written(agent):
            return
        if not self._is_kept(agent, path):
            self.places[agent] = await self._transcripts.lines.pull(agent, path)
            self._sizes[agent] = _size(path)
            return

        async def take(data: bytes, place: Place) -> None:
            await self._take(agent, path, data, place)

        await self._transcripts.lines.catch_up(agent, self.places[agent], take)

    async def follow(self, agent: AgentId, path: Path, heard: Callable[[], None]) -> None:
        """Runs until it is cancelled."""
        self.places.setdefault(agent, Place())
        await self.fetch(agent, path)
        heard()

        async def take(data: bytes, place: Place) -> None:
            await self._take(agent, path, data, place)
            heard()

        await self._transcripts.lines.follow(agent, self.places[agent], take)

    async def _take(self, agent: AgentId, path: Path, data: bytes, place: Place) -> None:
        if place.seq <= self.places[agent].seq:
            return  # two may take at once: one that follows it, and one that waits for its end
        if self._is_written(agent):
            self._sizes.pop(agent, None)
            self.places[agent] = place
        elif self._is_kept(agent, path):
            _lengthen(path, data)
            self._sizes[agent] += len(data)
            self.places[agent] = place
        else:
            await self.fetch(agent, path)

    def _is_written(self, agent: AgentId) -> bool:
        return is_held(self._run / f"teammate-{agent}.lock")

    def _is_kept(self, agent: AgentId, path: Path) -> bool:
        return self._sizes.get(agent) == _size(path)


def _prompts_named(path: Path) -> set[bytes]:
    found = set[bytes]()
    if path.is_file():
        with path.open("rb") as file:
            for line in file:
                found.update(PROMPT.findall(line))
    return found


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _lengthen(path: Path, data: bytes) -> None:
    fd = create_file(path, os.O_WRONLY | os.O_APPEND)
    try:
        write_all(fd, data)
    finally:
        os.close(fd)
