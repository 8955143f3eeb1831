"""Questions from code to the main agent: asked one at a time, each answered in the turn that took it."""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import anyio
from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.data.content.picture import MOST_DATA, BadPicture, examine
from teamwright.core.data.event import (
    Event,
    LettersTaken,
    Reminded,
    Replied,
    Streamed,
    ToolEnded,
    TurnEnded,
    TurnStarted,
)
from teamwright.core.data.message import Content, Image, Text, TextDelta
from teamwright.core.data.op import Say
from teamwright.core.errors import UsageError
from teamwright.core.ids import LetterId, new_letter_id
from teamwright.runtime.agents.agent import current_agent
from teamwright.runtime.bus import Watch

if TYPE_CHECKING:
    from teamwright.runtime.session import Session

LOOK = 1.0  # seconds between checks whether the previous question is still open
CLOSED = "the session is closed: use it inside its `async with`"
PromptInput = str | Sequence[str | Path | Image]  # a path names a picture
GAP = "\n\n"  # between the words before and after a tool call


class AskedTurn(Struct):
    """Finds the end of a question among the events of the main agent, in their order. Each reader has its own: what one
    has heard already, another may not have reached."""

    letter: LetterId
    taken: bool = False
    _cut: str = ""  # words that were cut off at the output limit, and that the next reply continues
    _answer: TurnEnded | None = None  # what it said without asking for more, until something sends it on

    def hear(self, event: Event) -> TurnEnded | None:
        """Note an event; the end, if this is it: of the turn, or of its answer, where mail or a notice goes on with
        the turn."""
        match event:
            case LettersTaken() if not self.taken:
                self.taken = self.letter in event.letters
            case LettersTaken():
                return self._answer
            case Replied(message, stop) if self.taken:
                done = bool(message.blocks) and not message.calls and stop not in ("max_tokens", "pause")
                words = self._cut + message.text
                self._answer = TurnEnded("done", words, stop=stop) if done else None
                goes_on = stop == "max_tokens" and not message.calls
                self._cut = words if goes_on or not message.blocks else ""
            case Reminded():
                self._answer = None
            case TurnEnded() if self.taken:
                return event
            case _:
                pass
        return None


class OpenAsk:
    """A question from posting to the end of its turn, even if nobody waits for it any more."""

    def __init__(self) -> None:
        self.turn = AskedTurn(new_letter_id())
        self.over, self.posted = anyio.Event(), False


class Asking:
    """Runs a session's questions one after the other: two in one turn would get the same answer."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._last: OpenAsk | None = None
        self.data: dict[str, Any] | None = None  # the last turn's answer, if it is data
        session.main.listen(self._heard)

    def _heard(self, event: Event) -> None:
        self.data = None if isinstance(event, TurnStarted) else data_in(event) or self.data
        if self._last is not None and self._last.turn.hear(event):
            self._last.over.set()

    async def begin(self) -> OpenAsk:
        """Open a question, once the previous one has its answer."""
        main = self._session.main
        if current_agent.get(None) == main.id:
            raise UsageError("the main agent cannot be asked by one of its own tools: its turn would wait for itself")
        while (before := self._last) is not None and not before.over.is_set():
            with anyio.move_on_after(LOOK):
                await before.over.wait()
            still = before is self._last and not before.over.is_set()  # False if another of several waiters went first
            if main.closing or main.halted is not None or (still and before.posted and main.resting):
                break  # it was withdrawn, or its end could not be recorded
        if main.closing:
            raise UsageError(CLOSED)
        self._last = asked = OpenAsk()
        return asked


class TextStream:
    """The words of an answer as they come: an async iterator over pieces of text.

    `end` is what `ask` would have returned; it is set after the last piece. A reader that stops early stops nothing:
    the turn goes on, and the next question waits for it.
    """

    def __init__(self, session: "Session", prompt: PromptInput, *, deltas: bool = True) -> None:
        self.end: TurnEnded | None = None
        self._data: dict[str, Any] | None = None
        self._session, self._prompt, self._deltas = session, prompt, deltas
        self._watch: Watch | None = None
        self._asked = OpenAsk()
        self._turn = self._asked.turn
        self._said, self._waiting = "", list[str]()  # words of this reply so far; pieces not yet given out
        self._gap = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        if self._watch is None:
            self._watch = await self._begin()
        while not self._waiting:
            if self.end is not None:
                raise StopAsyncIteration
            await self._read(self._watch)
        return self._waiting.pop(0)

    async def _begin(self) -> Watch:
        session = self._session
        content = await anyio.to_thread.run_sync(content_of, self._prompt, session.cwd)
        self._asked = asked = await session.asking.begin()
        self._turn = AskedTurn(asked.turn.letter)
        watch = session.watch(deltas=self._deltas)
        try:
            await session.say(Say(content), id=self._turn.letter)
        except BaseException as error:
            watch.close()
            # a cancelled `say` may have stored the letter: then the end of its turn ends the question
            if isinstance(error, Exception):
                asked.over.set()
            raise
        finally:
            asked.posted = True
        return watch

    async def _read(self, watch: Watch) -> None:
        """Handle the next event."""
        record = await anext(watch, None)
        if record is None:
            raise UsageError("the session was closed before it answered")
        event = record.event
        if record.agent != self._session.main.id:
            return
        end = self._turn.hear(event)
        if end is None and isinstance(event, TurnEnded) and not record.n:
            end = event  # the disk refused to record it: no other will come
        if end is not None:
            self.end = replace(end, data=self._data)
            self._asked.over.set()
            watch.close()
            if self._session.raised:
                raise self._session.raised.pop(0)
        elif self._turn.taken:
            self._take(event)

    def _take(self, event: Event) -> None:
        self._data = data_in(event) or self._data
        match event:
            case Streamed(delta=TextDelta(text=text)) if text:
                self._put(text)
            case Replied(message):
                if message.text.startswith(self._said) and (rest := message.text[len(self._said) :]):
                    self._put(rest)  # the model does not stream, or this reader fell behind
                self._gap, self._said = self._gap or bool(self._said), ""
            case _:
                pass

    def _put(self, text: str) -> None:
        if self._gap and not self._said:
            self._waiting.append(GAP)
        self._said += text
        self._waiting.append(text)


async def ask(session: "Session", prompt: PromptInput) -> TurnEnded:
    """Ask, and wait for the end of the turn that answers."""
    stream = TextStream(session, prompt, deltas=False)
    async for _ in stream:
        pass
    assert stream.end is not None
    return stream.end


def data_in(event: Event) -> dict[str, Any] | None:
    """The structured answer, if this event holds one."""
    return event.data.get("structured_output") if isinstance(event, ToolEnded) and event.data else None


def content_of(prompt: PromptInput, cwd: Path) -> tuple[Content, ...]:
    """Turn a prompt into texts and pictures, in order. Reads files."""
    parts = [prompt] if isinstance(prompt, str) else list(prompt)
    return tuple(_content(part, cwd) for part in parts)


def _content(part: Any, cwd: Path) -> Content:
    match part:
        case str():
            return Text(part)
        case Image():
            return part
        case Path():
            return read_picture(cwd / part)
        case _:
            raise UsageError(f"a prompt is a text, or a list of texts, Images and Paths of pictures; not {part!r}")


def read_picture(path: Path) -> Image:
    """Read a picture. Blocks. Raises UsageError if models do not take it."""
    try:
        with path.open("rb") as file:
            raw = file.read(MOST_DATA + 1)
        return Image(examine(raw).media_type, base64.b64encode(raw).decode())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
    except BadPicture as error:
        raise UsageError(f"{path} {str(error).rstrip('.')}") from None
