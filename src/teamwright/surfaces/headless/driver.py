"""Talks to the program that drives us over pipes: acts on its lines, and asks it what only it can answer."""

import re
import sys
from collections.abc import Mapping
from itertools import count
from typing import Any

import anyio
import msgspec
from anyio.abc import TaskGroup

from teamwright.app import Options
from teamwright.app.options import KEEPING
from teamwright.core.data.extensions.hook import DEFAULT_SECONDS, EVENTS, HookEvent
from teamwright.core.data.op import Say
from teamwright.core.errors import TeamwrightError, UsageError
from teamwright.runtime.driven_session import DrivenSession
from teamwright.surfaces.headless import control
from teamwright.surfaces.headless.greeting import greeting_of
from teamwright.surfaces.headless.printer import Printer
from teamwright.tools.bounds import visible

SLOW = ("mcp_reconnect", "mcp_toggle")  # these may need answers from the driver themselves
MOST_WAITING = 10_000  # prompts that wait to be taken
_EVENTS: dict[str, HookEvent] = {event: event for event in EVENTS}


class _Exchanged(msgspec.Struct):
    mcp_response: dict[str, Any] | None = None


class _Slot:
    def __init__(self) -> None:
        self.answered = anyio.Event()
        self.response: control.Response | None = None


class Driver:
    def __init__(self, session: DrivenSession, printer: Printer, options: Options) -> None:
        self._session, self._printer, self._options = session, printer, options
        self._slots: dict[str, _Slot] = {}
        self._ids = count(1)
        self._gone = False
        self.asked = False  # whether a result is owed for anything
        self.refused = False  # whether its `initialize` was: a guard may be missing, so nothing more is taken
        self._send, self._said = anyio.create_memory_object_stream[tuple[int, Say, bool]](MOST_WAITING)
        session.use_driver(self.exchange)

    # --- lines from the driver

    async def take(self, number: int, line: bytes, tasks: TaskGroup) -> None:
        """An unreadable line is reported and skipped; nothing else is lost."""
        asked, self.asked = self.asked, True  # even by a line that cannot be read
        with told(number):
            match await self._read(line):
                case control.UserLine() as said:
                    asked = True
                    # One after the other, in a task of their own: a command may itself need the next lines.
                    await self._send.send((number, control.prompt_for(self._session, said), said.client_composed))
                case control.ControlRequest() as request:
                    if request.request.get("subtype") in SLOW:
                        tasks.start_soon(self._answer, request)
                    else:
                        await self._answer(request)
                case control.ControlResponse() as answer:
                    await self._take_answer(answer.response)
                case control.ControlCancel():
                    pass
            self.asked = asked

    async def _read(self, line: bytes) -> control.InputLine:
        try:
            return control.read_line(line)
        except control.UNREADABLE as error:
            kind, id = control.named_in(line)
            if kind == "request":
                self.refused = self.refused or b'"initialize"' in line
                await self._printer.line(control.refusal(id, f"not understood: {error}"))
            elif kind == "response":
                await self._take_answer(control.Response(id, "error", error=f"it cannot be read: {error}"))
            raise

    async def take_prompts(self) -> None:
        """Take prompts until there are no more."""
        async with self._said:
            async for number, say, composed in self._said:
                with told(number):
                    await (self._session.submit(say) if composed or say.agent else self._session.take(say))

    def end(self) -> None:
        """No more lines come: nothing that waits for an answer will get one."""
        self._gone = True
        self._send.close()
        for slot in self._slots.values():
            slot.answered.set()

    async def _answer(self, request: control.ControlRequest) -> None:
        match request.request.get("subtype"):
            case "initialize":
                answer = await control.respond(request, self._greet(request))
            case "rewind_files":
                answer = await control.respond(request, self._rewind(request.request))
            case _:
                answer = await control.answer_request(self._session, request)
        await self._printer.line(answer)

    async def _greet(self, request: control.ControlRequest) -> dict[str, Any]:
        try:
            self._initialize(request.request)
        except UsageError as error:
            self.refused = True
            sys.stderr.write(f"teamwright: initialize: {visible(str(error))}; the session ends\n")
            raise
        return greeting_of(self._session)

    async def _rewind(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Restore files as they were before the agents acted on a prompt; the conversation stays as it is."""
        if self._options.env.get(KEEPING) not in ("1", "true"):
            raise UsageError(f"no copies of files were made: start the session with {KEEPING}=true")
        dry = request.get("dry_run") is True
        done = await self._session.restore_files(str(request.get("user_message_id")), dry=dry)
        counts = {"insertions": done.plus, "deletions": done.minus}
        return {"canRewind": True, "filesChanged": [*done.files, *done.removed], **counts}

    async def _take_answer(self, response: control.Response) -> None:
        slot = self._slots.get(response.request_id)
        if slot is None:
            await control.take_answer(self._session, response, self._options)
            return
        if slot.response is None:  # the first answer counts
            slot.response = response
            slot.answered.set()

    # --- requests to the driver

    async def ask(self, subtype: str, **fields: Any) -> Any:
        """The answer, usually an object. Raises UsageError if it is an error or never comes; the caller sets the time
        limit."""
        if self._gone:
            raise UsageError("the driving program has closed its input")
        id = f"t{next(self._ids)}"
        slot = self._slots[id] = _Slot()
        body = {"type": "control_request", "request_id": id, "request": {"subtype": subtype, **fields}}
        try:
            await self._printer.line(body)
            await slot.answered.wait()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True), anyio.move_on_after(1):
                await self._printer.line({"type": "control_cancel_request", "request_id": id})
            raise
        finally:
            del self._slots[id]
        if slot.response is None:
            raise UsageError("the driving program has closed its input")
        if slot.response.subtype != "success":
            raise UsageError(f"the driving program answered with an error: {slot.response.error}")
        return {} if slot.response.response is None else slot.response.response

    async def exchange(self, server: str, message: dict[str, Any]) -> dict[str, Any] | None:
        """Pass one message to a server that the driver hosts, and return that server's answer."""
        answer = await self.ask("mcp_message", server_name=server, message=message)
        try:
            return msgspec.convert(answer, _Exchanged).mcp_response
        except msgspec.ValidationError as error:
            raise UsageError(f"the driving program's answer is not understood: {error}") from None

    def _initialize(self, request: Mapping[str, Any]) -> None:
        asked = control.read_initialize(request)
        if asked.agents:
            self._session.add_agents(asked.agents)
        if isinstance(asked.skills, list):
            self._session.only_skills(asked.skills)
        for event, entries in (asked.hooks or {}).items():
            known = _EVENTS.get(event)
            if known is None:
                sys.stderr.write(f"teamwright: initialize: there is no hook event {visible(event)}\n")
                continue
            for entry in entries:
                for callback in entry.hookCallbackIds:
                    self._add_hook(known, entry, callback)

    def _add_hook(self, event: HookEvent, entry: control.HookEntry, callback: str) -> None:
        async def call(payload: dict[str, Any]) -> Any:
            used = payload.get("tool_use_id")
            return await self.ask("hook_callback", callback_id=callback, input=payload, tool_use_id=used)

        try:
            self._session.add_hook(
                event,
                entry.matcher or "",
                call,
                seconds=entry.timeout or DEFAULT_SECONDS,
                blocks=entry.onFailure == "block",
                name="a hook of the driving program",
            )
        except re.error as error:
            raise UsageError(f"the matcher {entry.matcher!r} of {event} is not a valid expression: {error}") from None


class told:
    """Reports an error in a line of standard input, with the line's number."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, (*control.UNREADABLE, TeamwrightError)):
            return False
        sys.stderr.write(f"teamwright: line {self._number} of standard input: {visible(str(error))}\n")
        return True
