"""A session in another process, as the app sees it: the past is read from disk, the rest comes through its door."""

import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from anyio import lowlevel, to_thread

from teamwright.core.data.event import Record
from teamwright.core.data.op import Op, Say
from teamwright.core.errors import UsageError
from teamwright.core.ids import AgentId, LetterId, SessionId
from teamwright.host.ipc.unix_stream import UnixStream
from teamwright.runtime.past.replay import PageReader, Past, read_all
from teamwright.runtime.port import (
    END,
    Crew,
    Live,
    Named,
    RewindPoint,
    RewindPreview,
    SessionFacts,
    SessionStatus,
    StandingRule,
)
from teamwright.store.files.paths import Home
from teamwright.surfaces.port import app_protocol as speech
from teamwright.surfaces.port.app_protocol import ControlBody, Heard, Welcome

if TYPE_CHECKING:
    from teamwright.runtime.extensions.skills import Expanded

ENTER, LIMIT = 30.0, 600.0  # seconds for a welcome, and for other requests
MOST_WAITING = 10_000  # records; then the door waits for us
NOTE = "This session runs in another terminal; quitting here does not end it."
_lines = msgspec.json.Decoder(Heard)


class _Waiter:
    def __init__(self) -> None:
        self.answered = anyio.Event()
        self.answer: speech.ControlAnswer | None = None


class RemoteSession:
    """Usable only after `enter`, which needs `listen` to run."""

    elsewhere = True

    def __init__(self, wire: UnixStream, home: Home, *, every_ms: int = 0) -> None:
        """`every_ms`: text that is being written may come in pieces of so many milliseconds."""
        self._wire, self._home, self._every_ms = wire, home, every_ms
        self._sending = anyio.Lock()
        self._ids = itertools.count(1)
        self._waiting: dict[str, _Waiter] = {}
        self._put, self._records = anyio.create_memory_object_stream[Record](MOST_WAITING)
        self._welcome: Welcome | None = None
        self._gone = False
        self._pages: PageReader | None = None
        self._facts: SessionFacts | None = None
        self.notes: Sequence[str] = (NOTE,)

    async def enter(self) -> None:
        with anyio.move_on_after(ENTER):
            self._welcome = await self._ask(speech.AskWatch(self._every_ms), Welcome)
        if self._welcome is None:
            raise UsageError(f"the session did not answer within {ENTER:.0f} s: is its program stopped or very busy?")
        self._facts = self._facts or self._welcome.facts

    # --- state

    @property
    def _known(self) -> Welcome:
        assert self._welcome is not None
        return self._welcome

    @property
    def id(self) -> SessionId:
        return self._known.session

    @property
    def main(self) -> AgentId:
        return self._known.main

    @property
    def cwd(self) -> Path:
        return Path(self._known.cwd)

    @property
    def model_names(self) -> Sequence[str]:
        return self._known.models

    @property
    def facts(self) -> SessionFacts:
        return self._facts or self._known.facts

    def color(self, agent: AgentId, kind: str) -> str:
        return self.facts.colors.get(agent) or self._known.kind_colors.get(kind, "")

    async def begin(self, newest: int = END) -> tuple[Past, Live]:
        welcome = self._known
        past, elsewhere = await to_thread.run_sync(read_all, self._home, self.id, welcome.cursor, newest)
        for agent in elsewhere:
            past.records += [record for record in await self.past(agent) if record.n <= welcome.cursor[agent]]
        past.records += welcome.now
        return past, self._records

    async def past(self, agent: AgentId, before: int = END, newest: int = END) -> list[Record]:
        if self._pages is None:
            self._pages = PageReader(self._home, self.id)
        found = await to_thread.run_sync(self._pages.read, agent, before, newest, abandon_on_cancel=True)
        return await self._ask(speech.AskPast(agent), list[Record]) if found is None else found

    # --- requests

    async def submit(self, op: Op) -> None:
        await self._ask(speech.AskSubmit(op))

    async def say(self, op: Say) -> LetterId:
        return LetterId(await self._ask(speech.AskSay(op), str))

    async def withdraw(self, letter: LetterId, agent: AgentId | None) -> bool:
        return await self._ask(speech.AskWithdraw(letter, agent), bool)

    async def stop(self, agent: AgentId | None) -> None:
        await self._ask(speech.AskStop(agent))

    async def expand(self, text: str) -> "Expanded | None":
        from teamwright.runtime.extensions.skills import Expanded  # noqa: PLC0415  # it knows how agents are run

        return await self._ask(speech.AskExpand(text), Expanded | None)

    async def skills(self) -> list[Named]:
        return await self._ask(speech.AskSkills(), list[Named])

    async def rules(self) -> list[StandingRule]:
        return await self._ask(speech.AskRules(), list[StandingRule])

    async def settled(self) -> dict[AgentId, int]:
        while (found := await self._ask(speech.AskSettled(), dict[AgentId, int] | None)) is None:
            pass
        return found

    async def crew(self) -> Crew:
        return await self._ask(speech.AskCrew(), Crew)

    async def status(self) -> SessionStatus:
        return await self._ask(speech.AskStatus(), SessionStatus)

    async def points(self) -> list[RewindPoint]:
        return await self._ask(speech.AskPoints(), list[RewindPoint])

    async def preview(self, line: int) -> RewindPreview:
        return await self._ask(speech.AskPreview(line), RewindPreview)

    async def _ask(self, wanted: ControlBody, kind: Any = None) -> Any:
        id, waiter = str(next(self._ids)), _Waiter()
        self._waiting[id] = waiter
        try:
            with anyio.move_on_after(LIMIT):
                await self._send({"type": "control_request", "request_id": id, "request": wanted})
                await waiter.answered.wait()
        finally:
            del self._waiting[id]
        answer = waiter.answer
        if answer is None:
            raise UsageError("the session has ended" if self._gone else f"no answer within {LIMIT:.0f} s")
        if answer.subtype != "success":
            raise UsageError(answer.error or "the session refused it without a reason")
        try:
            return msgspec.json.decode(answer.response, type=kind)
        except msgspec.DecodeError as error:
            raise UsageError(
                f"the session's answer was not understood ({error}): is it another version? Try `attach --plain`"
            ) from None

    async def _send(self, value: object) -> None:
        try:
            async with self._sending:
                await self._wire.send(msgspec.json.encode(value) + b"\n")
        except BrokenPipeError:
            raise UsageError("the session has ended") from None

    def leave(self) -> None:
        """Stop listening to records; does nothing if that never began."""
        self._records.close()

    # --- incoming lines

    async def listen(self) -> None:
        """Runs until the other side has gone."""
        try:
            async for line in _split(self._wire):
                await self._hear(line)
        finally:
            self._gone = True
            self._put.close()
            for waiter in self._waiting.values():
                waiter.answered.set()

    async def _hear(self, line: bytes) -> None:
        try:
            heard = _lines.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return  # not ours: lines for other guests may come before the welcome
        match heard:
            case Heard(record=Record() as record):
                with suppress(anyio.BrokenResourceError):  # the app is being left, and nobody looks any more
                    await self._put.send(record)
            case Heard(facts=SessionFacts() as facts):
                self._facts = facts
            case Heard(response=speech.ControlAnswer() as answer):
                if (waiter := self._waiting.get(answer.request_id)) is not None:
                    waiter.answer = answer
                    waiter.answered.set()
            case _:
                pass


async def _split(wire: UnixStream) -> AsyncIterator[bytes]:
    waiting: list[bytes] = []
    while chunk := await wire.receive():
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            yield b"".join([*waiting, part])
            waiting = []
        waiting.append(rest)
        await lowlevel.checkpoint()  # keys must be read however much comes
