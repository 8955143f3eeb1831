"""Door of a running session: a private Unix socket that speaks headless mode's stream-json.

A client gets the last lines of every agent, then everything that happens, and can prompt, answer and stop like the
person.
"""

import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from typing import Any

import anyio
import msgspec
from anyio.abc import TaskGroup, TaskStatus

from teamwright.core.data.event import AgentStarted, Answered, LettersTaken, Record, Warned
from teamwright.core.data.letter import said_in
from teamwright.core.errors import StoreError, TeamwrightError
from teamwright.host.ipc.unix_stream import UnixStream, open_listener
from teamwright.osfiles.private import write_file
from teamwright.runtime.driven_session import DrivenSession
from teamwright.runtime.session import Session
from teamwright.store.files.paths import Home
from teamwright.surfaces.headless import control, lines
from teamwright.surfaces.headless.printer import Printer
from teamwright.surfaces.port.app_host import AppGuest
from teamwright.surfaces.port.app_protocol import PREFIX
from teamwright.surfaces.port.doors import address_file

AGAIN = 400  # lines of each agent shown to a newcomer
LONGEST = 64 * 1024 * 1024  # bytes of one line
MOST_GUESTS = 16
HELLO = 0.1  # seconds for a guest to say that it is an app
PATIENCE = 60.0  # seconds that a guest may leave a line unread


async def keep_door(
    session: Session,
    home: Home,
    env: Mapping[str, str],
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Listen until cancelled. A session that cannot have a door continues without one, and says so.

    `TaskGroup.start` returns once the door is open, or cannot be opened.
    """
    here = DrivenSession(session, home)
    try:
        await _listen(here, env, task_status)
    except (OSError, StoreError) as error:
        here.warn(f"`teamwright attach` cannot connect: {error}")
        with contextlib.suppress(RuntimeError):  # fails if the door was already open
            task_status.started()


async def _listen(session: DrivenSession, env: Mapping[str, str], task_status: TaskStatus[None]) -> None:
    """The address is next to the session's lock; one that a killed process left is replaced."""
    listener = open_listener(env)
    note = address_file(session.home, session.id)
    seats = anyio.Semaphore(MOST_GUESTS)

    async def receive(wire: UnixStream) -> None:
        async with wire, seats:
            if wire.confined:  # nobody inside the sandbox may answer for the person
                await _turn_away(wire)
            else:
                await _host(session, wire)

    try:
        await anyio.to_thread.run_sync(write_file, note, os.fsencode(listener.path))
        task_status.started()
        await listener.serve(receive)
    finally:
        listener.close()
        with contextlib.suppress(OSError):
            note.unlink(missing_ok=True)


async def _turn_away(wire: UnixStream) -> None:
    words = "programs in a sandbox cannot attach to a session: run `teamwright attach` outside of it"
    with contextlib.suppress(OSError), anyio.move_on_after(PATIENCE):
        await wire.send(msgspec.json.encode(_refused(words)) + b"\n")


class _DoorReply:
    """Lines to one guest. A guest that does not read for long is disconnected: it can come again."""

    def __init__(self, wire: UnixStream) -> None:
        self._wire, self._one_at_a_time = wire, anyio.Lock()

    async def write(self, data: bytes) -> None:
        try:
            with anyio.fail_after(PATIENCE):
                async with self._one_at_a_time:
                    await self._wire.send(data)
        except TimeoutError:
            raise BrokenPipeError from None


async def _host(session: DrivenSession, wire: UnixStream) -> None:
    reply = _DoorReply(wire)
    printer = Printer(session, reply, format="stream-json", partial=False)
    try:
        async with anyio.create_task_group() as group:
            guest = AppGuest(session, reply.write, group)
            spoken = anyio.Event()
            group.start_soon(_show, session, printer, guest, spoken, group)
            async for line in _lines_of(wire, printer):
                await _take(session, line, printer, guest)
                spoken.set()
            group.cancel_scope.cancel()
    except* BrokenPipeError:
        pass  # gone


async def _show(
    session: DrivenSession, printer: Printer, guest: AppGuest, spoken: anyio.Event, group: TaskGroup
) -> None:
    with anyio.move_on_after(HELLO):  # an app says so at once, and is then spared lines that are not for it
        await spoken.wait()
    if guest.watching:
        return
    watch = session.watch(session.recent(AGAIN), deltas=False)
    try:
        await printer.line(_greeted(session))
        for question in session.snapshot().questions:
            await printer.line(lines.question_of(question, session.main))
        async for record in watch:
            if guest.watching:
                return
            if line := _told(record):
                await printer.line(line)
            if line is None or isinstance(record.event, AgentStarted):
                await printer.show(record)
    finally:
        watch.close()
    group.cancel_scope.cancel()  # the session has ended


def _greeted(session: DrivenSession) -> dict[str, Any]:
    view = session.snapshot()
    return {
        "type": "system",
        "subtype": "attached",
        "cwd": view.cwd,
        "model": view.model,
        "permissionMode": view.mode,
        "running": view.running,
        "agents": session.agents(),
    }


def _told(record: Record) -> dict[str, Any] | None:
    """Events that headless mode shows in other ways: warnings, others' prompts, questions that somebody else
    answered."""
    match record.event:
        case Warned() as event:
            return {"type": "system", "subtype": "warning", "text": event.text, "agent_id": record.agent}
        case AgentStarted() as event if event.parent is not None:
            named = {"agent_id": record.agent, "name": event.name, "kind": event.kind, "team": event.team}
            return {"type": "system", "subtype": "agent_started"} | named
        case Answered() as event:
            return lines.cancel_of(event.question)
        case LettersTaken() as event:
            said = "\n".join(said_in(event.message))
            message = {"role": "user", "content": said}
            return {"type": "user", "message": message, "isReplay": True, "agent_id": record.agent} if said else None
        case _:
            return None


# --- lines from a guest


async def _lines_of(wire: UnixStream, printer: Printer) -> AsyncIterator[bytes]:
    waiting: list[bytes] = []
    while chunk := await wire.receive():
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            line, waiting = b"".join([*waiting, part]), []
            if line.strip():
                yield line
        waiting.append(rest)
        if sum(map(len, waiting)) > LONGEST:
            await printer.line(_refused(f"a line is longer than {LONGEST // 1024 // 1024} MiB"))
            return


async def _take(session: DrivenSession, line: bytes, printer: Printer, guest: AppGuest) -> None:
    """A request that fails is reported only to its sender."""
    try:
        match control.read_line(line):
            case control.UserLine() as said:
                await _say(session, said)
            case control.ControlRequest(request_id=id, request=body) if _is_for_apps(body):
                await guest.take(id, body)
            case control.ControlRequest() as request:
                await printer.line(await control.answer_request(session, request))
            case control.ControlResponse() as answer:
                await control.take_answer(session, answer.response)
            case control.ControlCancel():
                pass
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TeamwrightError) as error:
        await printer.line(_refused(str(error)))


def _is_for_apps(body: dict[str, Any]) -> bool:
    return str(body.get("subtype")).startswith(PREFIX)


def _refused(words: str) -> dict[str, Any]:
    return {"type": "system", "subtype": "refused", "text": words}


async def _say(session: DrivenSession, line: control.UserLine) -> None:
    say = control.prompt_for(session, line)
    if line.client_composed or say.agent is not None:
        await session.submit(say)
    else:
        await session.take(say)
