"""Acts behind POST: ops of the same names at a session's door, and the hub's own acts."""

from collections.abc import Awaitable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import anyio
from anyio import to_thread

from teamwright.core.data.op import (
    AddTask,
    ChangeTask,
    Interrupt,
    Op,
    SendToBackground,
    SetMode,
    SetModel,
    ShutDown,
)
from teamwright.core.errors import UsageError
from teamwright.core.ids import AgentId, JobId, LetterId
from teamwright.core.permissions.consent import MODES
from teamwright.store.files.paths import Home, find_transcript
from teamwright.surfaces.port.remote_session import RemoteSession
from teamwright.surfaces.web.doing import start
from teamwright.surfaces.web.doing.answers import answer
from teamwright.surfaces.web.doing.prompts import LIMIT, take_prompt
from teamwright.surfaces.web.reading import changes
from teamwright.surfaces.web.server.errors import Refused, not_there
from teamwright.surfaces.web.server.keys import MOST_HOURS, Links, Role, is_valid
from teamwright.surfaces.web.server.serve import Call, Server
from teamwright.surfaces.web.sessions.guest import Guest
from teamwright.surfaces.web.sessions.hub import Hub

SEEN = 0.5  # seconds until a posted prompt is among the queued ones
UP = 20.0  # seconds for a new session to come up

Json = dict[str, Any]
Value = TypeVar("Value")


async def within(work: Awaitable[Value]) -> Value:
    with anyio.fail_after(LIMIT):
        return await work


class Acts:
    def __init__(self, hub: Hub, links: Links) -> None:
        self._hub, self._links = hub, links
        self._starting: dict[str, anyio.Lock] = {}  # one for each session that was started again

    def add_to(self, server: Server) -> None:
        one = "/api/sessions/{id}"
        for path, handler in (
            ("/api/logout", self.logout),
            ("/api/links", self.link),
            ("/api/links/{link}/revoke", self.revoke),
            ("/api/sessions", self.begin),
            (f"{one}/say", self.say),
            (f"{one}/withdraw", self.withdraw),
            (f"{one}/interrupt", self.interrupt),
            (f"{one}/stop", self.stop),
            (f"{one}/shutdown", self.shut_down),
            (f"{one}/background", self.background),
            (f"{one}/mode", self.mode),
            (f"{one}/model", self.model),
            (f"{one}/resume", self.resume),
            (f"{one}/questions/{{question}}", self.answer),
            (f"{one}/tasks", self.add_task),
            (f"{one}/tasks/{{task}}", self.change_task),
            (f"{one}/changes/{{name}}/merge", self.merge),
            (f"{one}/changes/{{name}}/remove", self.remove),
        ):
            server.add("POST", path, handler)

    # --- links

    async def logout(self, call: Call) -> Json:
        return {"ok": await to_thread.run_sync(self._links.revoke, call.link.id)}

    async def link(self, call: Call) -> Json:
        read, hours = call.body.get("read_only", False), call.body.get("hours", 0)
        session = call.text("session", "", 100)
        if not isinstance(read, bool):
            raise Refused(400, "`read_only` must be true or false")
        if isinstance(hours, bool) or not isinstance(hours, int | float) or not is_valid(hours):
            raise Refused(400, f"`hours` must be a number of hours up to {MOST_HOURS:,}; 0: no end")
        if session:
            session = (await self._path(session)).stem
        role: Role = "read" if read else "full"
        make = partial(self._links.create, role=role, session=session, hours=hours, latest=call.link.until)
        link, token = await to_thread.run_sync(make)
        place = f"/s/{session}/a/{session}" if session else "/"
        return {"url": f"{call.base}{place}#t={token}", "id": link.id, "expires": link.expires}

    async def revoke(self, call: Call) -> Json:
        if not await to_thread.run_sync(self._links.revoke, call.names["link"]):
            raise not_there("such link")
        return {"ok": True}

    # --- sessions

    async def begin(self, call: Call) -> Json:
        prompt, model, mode = call.text("prompt"), call.text("model", ""), call.text("mode", "")
        if not prompt.strip():
            raise Refused(400, "a session begins with a prompt")
        cwd = await self._place(call.text("cwd", ""))
        await start.settle_trust(self._hub.env, cwd, call.body.get("trust"))
        session = await start.begin(self._hub.home, self._hub.env, cwd, prompt, model, mode)
        await self._come_up(session)
        return {"id": session.id}

    async def _place(self, wanted: str) -> Path:
        """The hub's own directory, or one that has had a session."""
        if not wanted:
            return Path.cwd()
        known = {session["cwd"] for session in await self._hub.listing()}
        if wanted != str(Path.cwd()) and wanted not in known:
            raise Refused(403, "a session can be started in a directory that had one, or in that of `teamwright web`")
        return await _directory(wanted)

    async def _come_up(self, session: start.StartingSession, told: int = 0) -> None:
        """Wait until we are in, or until it has come and gone: then its transcript has grown."""
        with anyio.move_on_after(UP):
            while await self._hub.enter(session.id) is None:
                if session.process.poll() is not None:
                    if await to_thread.run_sync(_told, self._hub.home, session.id) == told:
                        raise Refused(409, f"the session did not start: {session.why_not() or 'it said nothing'}")
                    return
                await anyio.sleep(0.1)

    async def resume(self, call: Call) -> Json:
        text = call.text("text", "") or "Continue where you left off."
        await self._path(call.names["id"])
        async with self._start_lock(call):
            if await self._hub.enter(call.names["id"]) is not None:
                raise Refused(409, "this session runs already")
            return await self._go_on(await self._ended(call), text)

    def _start_lock(self, call: Call) -> anyio.Lock:
        """Two tabs may want to start a session again: the second one finds it running."""
        return self._starting.setdefault(call.names["id"].lower(), anyio.Lock())

    async def _ended(self, call: Call) -> Json:
        """The session, if nobody runs it."""
        found = await self._hub.session((await self._path(call.names["id"])).stem)
        if found is None or found["state"] not in ("ended", "gone"):
            raise Refused(409, "it runs without a door: start it with --listen to take part")
        return found

    async def _go_on(self, session: Json, text: str) -> Json:
        id, cwd = session["id"], await _directory(session["cwd"])
        told = await to_thread.run_sync(_told, self._hub.home, id)
        await self._come_up(await start.resume(self._hub.home, self._hub.env, cwd, id, text), told)
        return {"id": id}

    async def say(self, call: Call) -> Json:
        text, agent = call.text("text"), call.text("agent", "", 200)
        if not text.strip():
            raise Refused(400, "there is nothing to say")
        path = await self._path(call.names["id"])
        async with self._start_lock(call):
            guest = await self._hub.enter(path.stem)
            if guest is None:
                session = await self._ended(call)
                if agent not in ("", path.stem):
                    raise Refused(409, "its program has ended: resume the session, or write to its main agent")
                return await self._go_on(session, text)
        port = _port(guest)
        to = None if agent in ("", port.main) else AgentId(agent)
        told = await take_prompt(port, text.strip(), to)
        if letter := told["letter"]:
            with anyio.move_on_after(SEEN):
                await guest.until(lambda: guest.fold.knows(letter))
        return told

    async def withdraw(self, call: Call) -> Json:
        guest, letter = await self._guest(call), LetterId(call.text("letter", None, 200))
        queued = next((q for q in guest.fold.queue if q.letter == letter), None)
        if not await within(_port(guest).withdraw(letter, queued.agent if queued else None)):
            raise Refused(409, "it was read already")
        return {"ok": True}

    async def interrupt(self, call: Call) -> Json:
        agent = call.text("agent", "", 200)
        guest = await self._guest(call)
        main = agent in ("", _port(guest).main)
        return await self._submit(call, Interrupt(None if main else AgentId(agent)))

    async def stop(self, call: Call) -> Json:
        guest, agent = await self._guest(call), call.text("agent", "", 200)
        if not agent and call.body.get("all") is not True:
            raise Refused(400, "say which `agent`, or `all`")
        await within(_port(guest).stop(AgentId(agent) if agent else None))
        return {"ok": True}

    async def shut_down(self, call: Call) -> Json:
        return await self._submit(call, ShutDown(AgentId(call.text("agent", None, 200))))

    async def background(self, call: Call) -> Json:
        agent = call.text("agent", "", 200)
        return await self._submit(call, SendToBackground(JobId(agent) if agent else None))

    async def mode(self, call: Call) -> Json:
        mode = call.text("mode", None, 40)
        if mode not in MODES:
            raise Refused(400, f"no permission mode {mode!r}; there are {', '.join(MODES)}")
        return await self._submit(call, SetMode(mode))

    async def model(self, call: Call) -> Json:
        return await self._submit(call, SetModel(call.text("model", None, 200) or None))

    async def answer(self, call: Call) -> Json:
        return await answer(await self._guest(call), call)

    # --- tasks and changes

    async def add_task(self, call: Call) -> Json:
        blocked = _numbers(call.body.get("blockedBy", []))
        op = AddTask(
            call.text("subject", None, 2_000), call.text("description", ""), blocked, call.text("owner", "", 200)
        )
        return await self._submit(call, op)

    async def change_task(self, call: Call) -> Json:
        number, body = call.names["task"], call.body
        if not number.isdecimal() or len(number) > 12:
            raise not_there("such task")
        texts = {name: call.text(name, "", 100_000) for name in ("subject", "description", "owner") if name in body}
        status = call.text("status", "", 20) or None
        if status not in (None, "pending", "in_progress", "completed", "deleted"):
            raise Refused(400, "`status` must be pending, in_progress, completed or deleted")
        op = ChangeTask(
            int(number),
            texts.get("subject"),
            texts.get("description"),
            status,
            texts.get("owner"),
            _numbers(body.get("blockedBy", [])),
        )
        return await self._submit(call, op)

    async def merge(self, call: Call) -> Json:
        return await changes.bring_home(await self._cwd(call), call.link.session, call.names["name"])

    async def remove(self, call: Call) -> Json:
        return await changes.take_away(await self._cwd(call), call.link.session, call.names["name"])

    # --- targets

    async def _submit(self, call: Call, op: Op) -> Json:
        await within(_port(await self._guest(call)).submit(op))
        return {"ok": True}

    async def _guest(self, call: Call) -> Guest:
        await self._path(call.names["id"])
        guest = await self._hub.enter(call.names["id"])
        if guest is None:
            found = await self._hub.session(call.names["id"])
            gone = found is not None and found["state"] in ("ended", "gone")
            raise Refused(409, "its program has ended" if gone else "it runs without a door: start it with --listen")
        return guest

    async def _path(self, id: str) -> Path:
        path = await to_thread.run_sync(find_transcript, self._hub.home, id)
        if path is None:
            raise not_there("such session")
        return path

    async def _cwd(self, call: Call) -> Path:
        found = await self._hub.session((await self._path(call.names["id"])).stem)
        return await _directory(found["cwd"] if found is not None else "")


async def _directory(path: str) -> Path:
    if not path or not await anyio.Path(path).is_dir():
        raise Refused(409, "the directory of this session is gone")
    return Path(path)


def _told(home: Home, id: str) -> int:
    """The size of its transcript; 0 if there is none. Blocks."""
    path = find_transcript(home, id)
    return path.stat().st_size if path is not None else 0


def _port(guest: Guest) -> RemoteSession:
    if guest.port is None:
        raise UsageError("the session has ended")
    return guest.port


def _numbers(value: object) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise Refused(400, "`blockedBy` must be a list of numbers")
    found = [str(one) for one in cast("list[object]", value)]
    if not all(one.isdecimal() and len(one) <= 12 for one in found):
        raise Refused(400, "`blockedBy` must be a list of numbers")
    return tuple(map(int, found))
