"""The hub knows every session of a home: it visits living ones at their doors, and reads the files of others."""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from teamwright.core.data.event import Record, Streamed
from teamwright.core.ids import QuestionId, SessionId
from teamwright.core.permissions.consent import Question
from teamwright.store.files.paths import Home, find_transcript, list_sessions, read_entry
from teamwright.store.tables.state import now_ms
from teamwright.surfaces.port.doors import open_doors
from teamwright.surfaces.web.sessions import shown
from teamwright.surfaces.web.sessions.disk import DiskSession, has_ended
from teamwright.surfaces.web.sessions.fold import PageFold
from teamwright.surfaces.web.sessions.guest import Guest
from teamwright.surfaces.web.sessions.living import living
from teamwright.surfaces.web.sessions.stores import Stores
from teamwright.surfaces.web.sessions.talks import Talks
from teamwright.tools.bounds import visible

EVERY = 0.3  # seconds between two looks for living sessions
LINGER = 60.0  # seconds after the last request until the doors are left
HEADS = 2.0  # seconds between two readings of living sessions' heads
SHORTLY = 1.0  # seconds that an overview waits for sessions that are letting us in
ENTER = 5.0  # seconds that a request waits for a session to let us in
MOST_READ = 16  # sessions whose files stay folded

Json = dict[str, Any]


class Hub:
    def __init__(self, home: Home, env: Mapping[str, str], *, linger: float = LINGER) -> None:
        self.home, self.env, self._linger = home, env, linger
        self.talks, self.stores = Talks(home), Stores(home)
        self.guests: dict[SessionId, Guest] = {}
        self.news = anyio.Event()  # set when something changed; its listener replaces it
        self.heard: list[Callable[[SessionId, Record], None]] = []
        self.pages = 0  # number of open pages
        self._wanted = 0.0
        self._alive: set[SessionId] = set()
        self._read: OrderedDict[SessionId, DiskSession] = OrderedDict()
        self._asked: dict[str, Json] = {}
        self._heads: dict[Path, tuple[str, str, int]] = {}
        self._reread = 0.0  # when names and times of living sessions are read again
        self._looking, self._reading = anyio.Lock(), anyio.Lock()
        self._group: TaskGroup | None = None

    async def run(self) -> None:
        """Runs until it is cancelled."""
        try:
            async with anyio.create_task_group() as group:
                self._group = group
                while True:
                    if self.pages or time.monotonic() < self._wanted:
                        await self.look()
                    else:
                        self._leave_all()
                    await anyio.sleep(EVERY)
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(2):
                await self.stores.close()

    async def wake(self) -> None:
        """Somebody wants to know: from now on answers are fresh."""
        asleep = time.monotonic() >= self._wanted and not self.pages
        self._wanted = time.monotonic() + self._linger
        if asleep:
            await self.look()

    def _leave_all(self) -> None:
        for guest in self.guests.values():
            guest.leave()
        self.guests.clear()

    # --- living sessions

    async def look(self) -> None:
        """Visit sessions whose doors have opened, and note those that are gone."""
        async with self._looking:
            doors, alive = await to_thread.run_sync(self._look)
            gone = [id for id, guest in self.guests.items() if guest.over.is_set()]
            for id in gone:
                del self.guests[id]
            for id in doors & alive:
                if id not in self.guests and self._group is not None:
                    self.guests[id] = guest = Guest(self.home, id, self._hear)
                    self._group.start_soon(guest.stay)
            if gone or alive != self._alive:
                self._alive = alive
                self.news.set()

    def _look(self) -> tuple[set[SessionId], set[SessionId]]:
        return open_doors(self.home), living(self.home)

    def _hear(self, session: SessionId, record: Record) -> None:
        for hear in self.heard:
            hear(session, record)
        if not isinstance(record.event, Streamed):
            self.news.set()

    def inside(self, id: str) -> Guest | None:
        """The guest in a session, if it is in."""
        guest = self.guests.get(SessionId(id.lower()))
        return guest if guest is not None and guest.inside else None

    def _has_door(self, id: str) -> bool:
        """Whether a door was found. Requests to a session wait while its guest is on the way in."""
        guest = self.guests.get(SessionId(id.lower()))
        return guest is not None and not guest.over.is_set()

    async def enter(self, id: str) -> Guest | None:
        """Like `inside`, but waits for a guest that is on the way in."""
        await self.wake()
        guest = self.guests.get(SessionId(id.lower()))
        if guest is None:
            await self.look()
            guest = self.guests.get(SessionId(id.lower()))
        if guest is not None:
            with anyio.move_on_after(ENTER):
                await guest.settled()
        return self.inside(id)

    async def _settle_in(self) -> None:
        await self.look()
        with anyio.move_on_after(SHORTLY):  # report a session that is about to let us in as it will be
            for guest in list(self.guests.values()):
                await guest.settled()

    # --- answers

    async def now(self, only: str = "") -> Json:
        """Sessions with a living process, and every waiting question."""
        only = only.lower()
        await self.wake()
        await self._settle_in()
        found = {id: await self.session(id) for id in sorted(self._alive) if only in ("", id)}
        blind = [id for id, told in found.items() if told is not None and not told["steerable"]]
        if blind:  # its door may have opened after we looked, but before we saw that it works
            await self._settle_in()
            found |= {id: await self.session(id) for id in blind if self._has_door(id)}
        sessions = [told for told in found.values() if told is not None]
        questions = [
            question for id, told in found.items() if told is not None for question in await self.questions(id)
        ]
        if time.monotonic() >= self._reread:
            self._reread = time.monotonic() + HEADS
        sessions.sort(key=_freshest)
        questions.sort(key=_oldest)
        return {"at": now_ms(), "sessions": sessions, "questions": questions}

    async def session(self, id: str) -> Json | None:
        """None if there is no such session."""
        path = await to_thread.run_sync(find_transcript, self.home, id)
        if path is None:
            return None
        alive = path.stem.lower() in self._alive
        guest = self.inside(path.stem)
        fold = guest.fold if guest is not None and alive else await self._from_disk(path)
        fold.price_all()
        title, cwd, updated = self._heads.get(path, ("", "", 0))
        if not title or guest is None or time.monotonic() >= self._reread:
            title, cwd, updated = self._heads[path] = await to_thread.run_sync(self._head, path)
        state = shown.state_of(fold) if alive else await to_thread.run_sync(self._ending, path)
        tasks = await self.stores.tasks(path.stem)
        agents = [shown.agent(agent, tasks, fold.worktrees) for agent in fold.agents.values()]
        facts = guest.port.facts if guest is not None and guest.port is not None and alive else None
        if facts is None:
            _settle(agents, alive=alive)
        queue = [
            {"letter": queued.letter, "agent": queued.agent or path.stem, "text": visible(queued.text)}
            for queued in (fold.queue if facts is not None else ())
        ]
        return {
            "id": path.stem,
            "title": title,
            "cwd": cwd,
            "state": state,
            "steerable": alive and self._has_door(path.stem),
            "model": facts.model if facts else fold.agent(fold.main).model,
            "mode": facts.mode if facts else fold.mode,
            "team": next((a["team"] for a in agents if a["team"]), ""),
            "usd": facts.usd if facts else sum(a["usd"] or 0.0 for a in agents),
            "budget_left": facts.left if facts else "",
            "updated": updated,
            "agents": agents,
            "queue": queue,
            "models": list(guest.port.model_names) if guest is not None and guest.port is not None else [],
        }

    def _ending(self, path: Path) -> shown.State:
        left_open = path.stem.lower() in open_doors(self.home)  # a program that ends properly closes its door
        return "gone" if left_open or not has_ended(path) else "ended"

    def _head(self, path: Path) -> tuple[str, str, int]:
        entry = read_entry(path)
        if entry is None:
            return "", "", 0
        return visible(entry.name or entry.prompt), visible(entry.cwd), entry.modified

    async def _from_disk(self, path: Path) -> PageFold:
        id = SessionId(path.stem)
        async with self._reading:
            found = self._read.get(id)
            if found is None:
                found = self._read[id] = DiskSession(path)
            self._read.move_to_end(id)
            while len(self._read) > MOST_READ:
                self._read.popitem(last=False)
            await to_thread.run_sync(found.refresh)
        return found.fold

    async def questions(self, id: str) -> list[Json]:
        guest = self.inside(id)
        if guest is None:
            return []
        fold = guest.fold
        return [await self._question(guest.id, q, fold.asked.get(q.id, 0)) for q in list(fold.questions)]

    async def _question(self, session: SessionId, question: Question, at: int) -> Json:
        if (known := self._asked.get(question.id)) is None:
            known = await shown.asked(question, session, at)
            self._asked = {id: q for id, q in self._asked.items() if self._waits(id)} | {question.id: known}
        return known

    def answered(self, id: str) -> Json | None:
        """How a question was answered recently, and on which surface; None if unknown."""
        for guest in self.guests.values():
            decision = guest.fold.answered.get(QuestionId(id))
            if decision is not None and (consent := decision.consent) is not None:
                return {"verdict": consent.verdict, "by": consent.by, "via": consent.via}
        return None

    def _waits(self, id: str) -> bool:
        return any(question.id == id for guest in self.guests.values() for question in guest.fold.questions)

    async def listing(self, only: str = "") -> list[Json]:
        """All sessions, the newest first; for those that have ended only the heads are read."""
        await self.wake()
        await self.look()
        entries = await to_thread.run_sync(list_sessions, self.home)
        out: list[Json] = []
        for entry in entries:
            if (only and entry.id.lower() != only.lower()) or not entry.said:
                continue
            if entry.id.lower() in self._alive and (found := await self.session(entry.id)) is not None:
                out.append(found)
            else:
                out.append(shown.listed(entry, await to_thread.run_sync(self._ending, entry.path)))
        return out


def _settle(agents: list[Json], *, alive: bool) -> None:
    """In a session without a process nobody works."""
    for agent in agents:
        if not alive and agent["state"] in ("running", "waiting"):
            agent["state"], agent["doing"], agent["waiting_for"] = "stopped", "", ""


def _freshest(session: Json) -> tuple[int, int]:
    order = {"waiting": 0, "running": 1, "idle": 2}
    return order.get(session["state"], 3), -session["updated"]


def _oldest(question: Json) -> int:
    return question["asked"]
