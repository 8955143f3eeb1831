"""Pages behind GET: sessions, conversations, tasks, mail, changes, cost and the past."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from msgspec.structs import asdict

from teamwright.core.ids import AgentId, SessionId
from teamwright.store.files.paths import find_transcript
from teamwright.surfaces.view.shapes import JobView
from teamwright.surfaces.view.talk import TalkFold
from teamwright.surfaces.web.reading import changes
from teamwright.surfaces.web.reading.replay import Replay
from teamwright.surfaces.web.server.errors import Refused, not_there
from teamwright.surfaces.web.server.keys import Link, Links
from teamwright.surfaces.web.server.serve import Call, Server
from teamwright.surfaces.web.sessions import shown
from teamwright.surfaces.web.sessions.fold import numbered
from teamwright.surfaces.web.sessions.hub import Hub
from teamwright.surfaces.web.sessions.talks import MOST_PAGE, PAGE, NoSuchItem
from teamwright.tools.bounds import visible

SESSIONS = 60  # in one page of the listing
MOST_MAIL = 1_000
LIVE = 50  # newest items searched for those that are in no transcript
LATEST = 10**15

Json = dict[str, Any]


class Pages:
    def __init__(self, hub: Hub, links: Links) -> None:
        self._hub, self._links = hub, links
        self._replay = Replay()
        self._turn = anyio.Lock()  # one thread at a time folds transcripts

    def add_to(self, server: Server) -> None:
        one = "/api/sessions/{id}"
        for path, handler in (
            ("/api/now", self.now),
            ("/api/sessions", self.sessions),
            (one, self.session),
            (f"{one}/agents/{{agent}}/items", self.items),
            (f"{one}/agents/{{agent}}/items/{{item}}", self.item),
            (f"{one}/tasks", self.tasks),
            (f"{one}/mail", self.mail),
            (f"{one}/team", self.team),
            (f"{one}/changes", self.changes),
            (f"{one}/changes/{{name}}", self.change),
            (f"{one}/changes/{{name}}/diff", self.diff),
            (f"{one}/changes/{{name}}/preview", self.preview),
            (f"{one}/cost", self.cost),
            (f"{one}/moments", self.moments),
            (f"{one}/at", self.at),
            ("/api/links", self.links),
            ("/api/places", self.places),
        ):
            server.add("GET", path, handler)

    # --- sessions

    async def now(self, call: Call) -> Json:
        return await self._hub.now(call.link.session) | {"role": call.link.role}

    async def sessions(self, call: Call) -> Json:
        start = call.number("cursor", 0, 0, LATEST)
        found = await self._hub.listing(call.link.session)
        following = start + SESSIONS
        return {"sessions": found[start:following], "next": following if len(found) > following else None}

    async def session(self, call: Call) -> Json:
        id = self._allowed(call)
        await self._hub.wake()
        found = await self._hub.session(id)
        if found is None:
            raise not_there("such session")
        guest = self._hub.inside(id)
        jobs = list(guest.fold.jobs.values()) if guest is not None else []
        return found | {
            "questions": await self._hub.questions(id),
            "jobs": [_job(job) for job in jobs],
            "role": call.link.role,
        }

    def _allowed(self, call: Call) -> SessionId:
        """A link for one session reveals nothing about others, not even whether they exist."""
        return allowed(call.link, call.names["id"])

    async def _path(self, call: Call) -> Path:
        path = await to_thread.run_sync(find_transcript, self._hub.home, self._allowed(call))
        if path is None:
            raise not_there("such session")
        return path

    # --- conversations

    async def items(self, call: Call) -> Json:
        path = await self._talk(call)
        limit, until = call.number("limit", PAGE, 1, MOST_PAGE), call.number("until", 0, 0, LATEST)
        before = call.query.get("before", "")
        if before and not re.fullmatch(r"\d{1,12}\.\d{1,6}", before):
            raise Refused(400, "`before` must be the id of an item")
        return await self.talk(path, call.names["id"], before=before, limit=limit, until=until)

    async def talk(self, path: Path, session: str, *, before: str = "", limit: int = PAGE, until: int = 0) -> Json:
        """A page from the transcript; the last one also contains what is being written."""

        def read() -> Json:
            return self._hub.talks.page(path, before=before, limit=limit, until=until)

        page = await self._read(read)
        guest = self._hub.inside(session)
        if guest is not None and not before and not until:
            fold = guest.fold.folds.get(AgentId(path.stem))
            page["items"] = [_as_it_runs(item, fold) for item in page["items"]]
            tail = fold.talk.items[-LIVE:] if fold is not None else []
            page["items"] += [shown.item(id, item) for id, item in numbered(tail) if not item.n]
        return page

    async def item(self, call: Call) -> Json:
        path, wanted = await self._talk(call), call.names["item"]
        if not re.fullmatch(r"\d{1,12}\.\d{1,6}", wanted):
            raise Refused(400, "that is not the id of an item")
        return await self._read(lambda: self._hub.talks.whole(path, wanted))

    async def _read(self, read: Callable[[], Json]) -> Json:
        try:
            async with self._turn:
                return await to_thread.run_sync(read)
        except NoSuchItem:
            raise not_there("such item") from None

    async def _talk(self, call: Call) -> Path:
        """Only agents that the session names have a conversation here."""
        session, agent = await self._path(call), call.names["agent"]
        path = await to_thread.run_sync(self._hub.talks.path, SessionId(session.stem), agent)
        if path is None:
            raise not_there("such agent")
        return path

    # --- tasks, mail and cost

    async def tasks(self, call: Call) -> Json:
        path = await self._path(call)
        team = call.query.get("team", "")
        if team and team not in await self._hub.stores.lists(path.stem):
            raise not_there("such list")
        return await self._hub.stores.board(path.stem, team, call.query.get("chosen", ""))

    async def mail(self, call: Call) -> Json:
        path = await self._path(call)
        before, limit = call.number("before", 0, 0, LATEST), call.number("limit", 200, 1, MOST_MAIL)
        return await self._hub.stores.mail(path.stem, before, limit)

    async def team(self, call: Call) -> Json:
        path = await self._path(call)
        return {"members": await self._hub.stores.members(path.stem)}

    async def cost(self, call: Call) -> Json:
        return await self._hub.stores.cost((await self._path(call)).stem)

    # --- changes on branches

    async def changes(self, call: Call) -> Json:
        cwd, only = await self._cwd(call), call.link.session
        return await changes.listing(cwd, only) | {"landing": await self._hub.stores.landing(cwd, only)}

    async def change(self, call: Call) -> Json:
        return await changes.one(await self._cwd(call), call.link.session, call.names["name"])

    async def diff(self, call: Call) -> Json:
        cwd, path = await self._cwd(call), call.query.get("path", "")
        return await changes.diff(cwd, call.link.session, call.names["name"], path)

    async def preview(self, call: Call) -> Json:
        return await changes.preview(await self._cwd(call), call.link.session, call.names["name"])

    async def _cwd(self, call: Call) -> Path:
        found = await self._hub.session((await self._path(call)).stem)
        cwd = Path(found["cwd"]) if found is not None else None
        if cwd is None or not await anyio.Path(cwd).is_dir():
            raise Refused(409, "the directory of this session is gone")
        return cwd

    # --- the past

    async def moments(self, call: Call) -> Json:
        path = await self._path(call)
        async with self._turn:
            return await to_thread.run_sync(self._replay.moments, path)

    async def at(self, call: Call) -> Json:
        path, ms = await self._path(call), call.number("ms", 0, 0, LATEST)
        async with self._turn:
            return await to_thread.run_sync(self._replay.at, path, ms)

    # --- the hub itself

    async def links(self, call: Call) -> Json:
        _keeps_all(call.link)
        return {"links": [told(link) | {"current": link.id == call.link.id} for link in self._links.all()]}

    async def places(self, call: Call) -> Json:
        """Directories in which a session can be started: the hub's own, and those that had one."""
        _keeps_all(call.link)
        found = await self._hub.listing()
        known = dict.fromkeys([str(Path.cwd()), *(s["cwd"] for s in found if s["cwd"])])
        return {"places": [cwd for cwd in known if await anyio.Path(cwd).is_dir()][:50]}


def _as_it_runs(item: Json, fold: TalkFold | None) -> Json:
    """A running call, with its state that no transcript has yet: whether it waits for an answer, and how far it is."""
    step = fold.steps.get(item["call"]) if fold is not None and item["type"] == "step" else None
    return item if step is None else shown.item(item["id"], step)


def allowed(link: Link, id: str) -> SessionId:
    if link.session and link.session.lower() != id.lower():
        raise not_there("such session")
    return SessionId(id)


def _keeps_all(link: Link) -> None:
    """Links and directories are shown to full links for all sessions only."""
    if link.role != "full":
        raise Refused(403, "this link can only read")
    if link.session:
        raise Refused(403, "this link is for one session")


def told(link: Link) -> Json:
    shown_link = {name: value for name, value in asdict(link).items() if name not in ("opens", "key", "until")}
    return shown_link | {"expires": link.expires, "opened": not link.opens}


def _job(job: JobView) -> Json:
    return {
        "id": job.id,
        "kind": job.kind,
        "description": visible(job.description),
        "owner": job.owner,
        "status": job.status,
        "background": job.background,
        "started": job.started,
        "ended": job.ended,
    }
