"""The socket of a tab: the present state, then changes, as fast as the tab reads."""

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import anyio
import msgspec
from aiohttp import WSCloseCode, WSMsgType, web
from anyio import to_thread

from teamwright.core.data.event import Asked, Record, TeamChanged, ToolEnded
from teamwright.core.errors import StoreError, TeamwrightError
from teamwright.core.ids import AgentId, SessionId
from teamwright.store.files.paths import is_session_id
from teamwright.surfaces.web.live.feed import Feed
from teamwright.surfaces.web.reading.pages import Pages
from teamwright.surfaces.web.server.errors import NO_FILES
from teamwright.surfaces.web.server.keys import Link, Links
from teamwright.surfaces.web.server.serve import STATUS, WHO, Server
from teamwright.surfaces.web.sessions.hub import Hub

HELLO = 5.0  # seconds
MOST_TABS = 32
MOST_LOOKS = 8  # conversations that one tab watches
MOST_WAITING = 768 * 1024  # bytes
PACE = 0.04  # seconds between two looks for changes in conversations,
OVERVIEW = 0.1  # and in everything else
CHECK = 0.5  # seconds between two checks of keys and of files
NO_KEY, TOO_MANY = 4401, 4429
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

Json = dict[str, Any]
NOTHING: Json = {"items": [], "more": False, "version": 0}
Place = tuple[str, str]  # a session and an agent in it


class Tab:
    """Messages that wait for one browser. If too many wait they are dropped, and sent afresh once it reads again."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.looks: set[Place] = set()
        self.lagging: set[Place] = set()
        self.told: dict[str, bytes] = {}  # what it knows of sessions and questions
        self._waiting: deque[tuple[Place | None, bytes]] = deque()
        self._size = 0
        self.bell = anyio.Event()

    def put(self, message: Json, place: Place | None = None) -> None:
        if place is not None and place in self.lagging:
            return
        data = msgspec.json.encode(message)
        if place is None and (None, data) in self._waiting:
            return  # otherwise it would be sent twice
        if place is not None and self._size + len(data) > MOST_WAITING:
            self._lag(place)
            return
        self._waiting.append((place, data))
        self._size += len(data)
        self.bell.set()

    @property
    def behind(self) -> bool:
        """So much waits that the overview is sent only after it has read."""
        return self._size > MOST_WAITING // 2

    def _lag(self, place: Place) -> None:
        self.lagging.add(place)
        self._waiting = deque((whose, data) for whose, data in self._waiting if whose != place)
        self._size = sum(len(data) for _, data in self._waiting)
        session, agent = place
        self.put({"type": "lag", "session": session, "agent": agent})

    def take(self) -> bytes | None:
        if not self._waiting:
            self.bell = anyio.Event()
            return None
        _, data = self._waiting.popleft()
        self._size -= len(data)
        return data


class LiveTabs:
    def __init__(self, hub: Hub, pages: Pages, links: Links) -> None:
        self._hub, self._pages, self._links = hub, pages, links
        self._tabs: set[Tab] = set()
        self._feeds: dict[Place, Feed] = {}
        self._news: set[tuple[str, str]] = set()  # changed kinds of lists, with their sessions
        self._moved, self._due = anyio.Event(), 0.0
        hub.heard.append(self._hear)

    def add_to(self, server: Server) -> None:
        self._server = server
        server.live = self.attend

    def _hear(self, session: SessionId, record: Record) -> None:
        match record.event:
            case TeamChanged():
                self._news |= {("mail", session), ("board", session)}
            case ToolEnded():
                self._news |= {("board", session), ("changes", session)}
            case Asked():
                self._due = 0.0  # somebody waits for this, so tell it at once
            case _:
                pass
        self._moved.set()

    # --- one tab

    async def attend(self, request: web.Request, socket: web.WebSocketResponse) -> None:
        link = await self._greeted(socket)
        if link is None:
            request[STATUS] = 401
            await socket.close(code=NO_KEY)
            return
        request[WHO] = link.id
        if len(self._tabs) >= MOST_TABS:
            request[STATUS] = 429
            await socket.close(code=TOO_MANY)
            return
        tab = Tab(link)
        self._tabs.add(tab)
        self._hub.pages += 1
        try:
            await self._hub.wake()
            tab.put({"type": "welcome", "version": 1, "role": link.role, "session": link.session})
            tell_now(tab, await self._hub.now(link.session), self._hub.answered)
            async with anyio.create_task_group() as group:
                group.start_soon(self._send, socket, tab)
                await self._listen(socket, tab)
                group.cancel_scope.cancel()
        finally:
            self._tabs.discard(tab)
            self._hub.pages -= 1
            self._forget_feeds()

    async def _greeted(self, socket: web.WebSocketResponse) -> Link | None:
        try:
            with anyio.fail_after(HELLO):  # the limit of `receive` begins again with every ping
                hello = msgspec.json.decode((await socket.receive()).data)
            key = hello["key"] if hello["type"] == "hello" else None
            return self._server.link_of(key) if isinstance(key, str) else None
        except (TimeoutError, *UNREADABLE, KeyError, TypeError):
            return None

    async def _send(self, socket: web.WebSocketResponse, tab: Tab) -> None:
        while True:
            if not await self._may_stay(socket, tab):
                return
            data = tab.take()
            if data is None and tab.lagging:
                await self._catch_up(tab)
                continue
            if data is None:
                with anyio.move_on_after(CHECK):
                    await tab.bell.wait()
                continue
            try:
                await socket.send_str(data.decode())
            except (ConnectionError, RuntimeError):
                return

    async def _may_stay(self, socket: web.WebSocketResponse, tab: Tab) -> bool:
        try:
            if self._links.holds(tab.link.id):
                return True
            await socket.close(code=NO_KEY, message=b"revoked")
        except StoreError:  # told when its page comes back
            await socket.close(code=WSCloseCode.INTERNAL_ERROR)
        return False

    async def _catch_up(self, tab: Tab) -> None:
        for place in list(tab.lagging):
            tab.lagging.discard(place)
            if place in tab.looks:
                await self._tell_talk(tab, place)

    async def _listen(self, socket: web.WebSocketResponse, tab: Tab) -> None:
        async for message in socket:
            if message.type != WSMsgType.TEXT:
                continue
            try:
                said = msgspec.json.decode(message.data)
                kind, place = said["type"], (str(said["session"]), str(said["agent"]))
            except (*UNREADABLE, KeyError, TypeError):
                continue  # a client may send what we do not know
            if kind == "look" and self._may_look(tab, place):
                tab.looks.add(place)
                await self._tell_talk(tab, place)
            elif kind == "leave":
                tab.looks.discard(place)
                self._forget_feeds()

    def _may_look(self, tab: Tab, place: Place) -> bool:
        only = tab.link.session
        return is_session_id(place[0]) and only in ("", place[0]) and len(tab.looks) < MOST_LOOKS

    async def _tell_talk(self, tab: Tab, place: Place) -> None:
        session, agent = place
        base = {"type": "talk", "session": session, "agent": agent}
        try:
            tab.put(base | await self._talk(session, AgentId(agent)))
        except (TeamwrightError, OSError):
            tab.put(base | NOTHING | {"error": NO_FILES})

    async def _talk(self, session: str, agent: AgentId) -> Json:
        path = await to_thread.run_sync(self._hub.talks.path, SessionId(session), agent)
        if path is None:
            return NOTHING
        if (session, agent) not in self._feeds:
            self._feeds[session, agent] = feed = Feed(self._hub, session, agent, path)
            await feed.begin()
        return await self._pages.talk(path, session)

    def _forget_feeds(self) -> None:
        looked = {place for tab in self._tabs for place in tab.looks}
        self._feeds = {place: feed for place, feed in self._feeds.items() if place in looked}

    # --- all tabs

    async def run(self) -> None:
        """Sends changes until it is cancelled."""
        checked = 0.0
        while True:
            waits = bool(self._tabs) and self._hub.news.is_set()
            with anyio.move_on_after(pause_for(news=waits, due=self._due, now=anyio.current_time())):
                await self._moved.wait()
            self._moved = anyio.Event()
            if self._tabs:
                due = anyio.current_time() >= checked
                with suppress(TeamwrightError, OSError):  # files that cannot be read now are read again later
                    await self._tell_all(files=due)
                checked = anyio.current_time() + CHECK if due else checked
            await anyio.sleep(PACE)

    async def _tell_all(self, *, files: bool) -> None:
        for place, feed in list(self._feeds.items()):
            with suppress(TeamwrightError, OSError):  # the others are told
                for message in await feed.changes(files=files):
                    self._spread(message, place)
        if files or (self._hub.news.is_set() and anyio.current_time() >= self._due):
            self._hub.news = anyio.Event()
            self._due = anyio.current_time() + OVERVIEW
            scopes: dict[str, Json] = {}
            for session in {tab.link.session for tab in self._tabs}:  # tabs may come and go meanwhile
                scopes[session] = await self._hub.now(session)
            for tab in list(self._tabs):
                if tab.link.session in scopes:
                    tell_now(tab, scopes[tab.link.session], self._hub.answered)
        if files:
            news, self._news = self._news, set()
            for kind, session in news:
                self._spread_to(session, {"type": kind, "session": session})

    def _spread(self, message: Json, place: Place) -> None:
        for tab in self._tabs:
            if place in tab.looks:
                tab.put(message, place)

    def _spread_to(self, session: str, message: Json) -> None:
        for tab in self._tabs:
            if tab.link.session in ("", session):
                tab.put(message)


def pause_for(*, news: bool, due: float, now: float) -> float:
    """News that come too early after the last ones are sent when their time comes, even if nothing else happens."""
    return max(0.0, min(CHECK, due - now)) if news else CHECK


def tell_now(tab: Tab, now: Json, answered: Callable[[str], Json | None]) -> None:
    """Send everything the first time, then only changes, and how questions that vanished were answered."""
    if tab.behind:
        return  # what it has is remembered, so the next time sends all changes since
    first = not tab.told
    sessions, questions = _changed(tab.told, now["sessions"]), _changed(tab.told, now["questions"])
    there = {"now"} | {one["id"] for one in (*now["sessions"], *now["questions"])}
    gone = [id for id in tab.told if id not in there]
    for id in gone:
        del tab.told[id]
    tab.told["now"] = b""
    if first or sessions or questions or gone:
        answers = {id: how for id in gone if (how := answered(id)) is not None}
        told = {"sessions": sessions, "questions": questions, "gone": gone, "answered": answers}
        tab.put({"type": "now", "at": now["at"], "whole": first} | told)


def _changed(told: dict[str, bytes], found: Iterable[Json]) -> list[Json]:
    out: list[Json] = []
    for one in found:
        data = msgspec.json.encode(one)
        if told.get(one["id"]) != data:
            told[one["id"]] = data
            out.append(one)
    return out
