"""Folds one agent's events into its conversation, with the newest part of it in memory."""

from typing import Any

import msgspec
from msgspec import Struct

from teamwright.core.data.event import (
    Compacted,
    Denied,
    Event,
    LettersTaken,
    Record,
    Replied,
    Streamed,
    ToolEnded,
    ToolProgressed,
    TurnEnded,
)
from teamwright.core.data.message import (
    BlockStarted,
    Content,
    Delta,
    Image,
    ReplyStarted,
    Retrying,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
)
from teamwright.core.data.patch import Hunk
from teamwright.core.ids import CallId
from teamwright.surfaces.view import text as words
from teamwright.surfaces.view.letters import MOST_RESULT, items_of
from teamwright.surfaces.view.sentences import retry_words, to_person
from teamwright.surfaces.view.shapes import Item, Note, Spoken, Step, Talk, Thought
from teamwright.tools.bounds import bounded

MOST_ITEMS = 1_500  # of one conversation in memory
SLACK = 500  # so that dropping is rare

ENDS = {
    "interrupted": "Interrupted. Say what to do instead.",
    "max_turns": "Stopped at the turn limit.",
    "max_budget": "Stopped at the budget limit.",
    "refused": "The model declined to answer.",
    "failed": "The turn failed.",
}


class ResultHunk(Struct):
    oldStart: int
    newStart: int
    lines: list[str]


class TalkFold:
    def __init__(self, *, most: int = MOST_ITEMS) -> None:
        self.talk = Talk()
        self.steps: dict[CallId, Step] = {}  # those that run
        self._most = most
        self._streamed: dict[int, Spoken | Thought] = {}  # of the reply that is being written
        self._retrying: Note | None = None

    def apply(self, record: Record) -> None:
        if self._apply(record.event, record.n, record.at):
            self.talk.version += 1
            self._bound()

    def _apply(self, event: Event, n: int, at: int) -> bool:
        """True if something is to be drawn."""
        match event:
            case Streamed():
                return self._stream(event.delta)
            case LettersTaken():
                self.talk.items += items_of(event.message, n, at)
            case Replied():
                self._replied(event, n, at)
            case ToolProgressed():
                if (step := self.steps.get(event.call_id)) is None:
                    return False
                step.progress = event.text[-MOST_RESULT:]
            case ToolEnded():
                self._tool_ended(event, at)
            case Denied():
                if (step := self.steps.get(event.call_id)) is not None:
                    step.status, step.asked = "denied", False
            case Compacted():
                self.add(
                    Note(
                        "info",
                        f"The conversation was compacted: a summary replaces {words.tokens(event.tokens)} tokens.",
                        n=n,
                        at=at,
                    )
                )
            case TurnEnded():
                self._turn_ended(event, n, at)
            case _:
                return False
        return True

    def add(self, item: Item) -> None:
        self.talk.items.append(item)
        self.talk.version += 1

    # --- a reply

    def _stream(self, delta: Delta) -> bool:
        match delta:
            case ReplyStarted():
                self._settle_stream()
                return False
            case BlockStarted(kind="text"):
                self._open(delta.index, Spoken("agent", "", streaming=True))
            case BlockStarted(kind="thinking"):
                self._open(delta.index, Thought("", streaming=True))
            case TextDelta() | ThinkingDelta():
                item = self._streamed.get(delta.index)
                if item is None:
                    item = Spoken("agent", "") if isinstance(delta, TextDelta) else Thought("")
                    item.streaming = True
                    self._open(delta.index, item)
                item.text += delta.text
            case Retrying():
                self._drop_stream()
                self._retry(delta)
            case _:
                return False
        return True

    def _retry(self, delta: Retrying) -> None:
        """One line, however often it is tried."""
        if self._retrying is not None and self.talk.items and self.talk.items[-1] is self._retrying:
            self.talk.items.pop()
        self._retrying = Note("warning", retry_words(delta))
        self.add(self._retrying)

    def _open(self, index: int, item: Spoken | Thought) -> None:
        self._streamed[index] = item
        self.talk.items.append(item)

    def _drop_stream(self) -> None:
        if not self._streamed:
            return
        void = set(map(id, self._streamed.values()))
        self.talk.items[:] = [item for item in self.talk.items if id(item) not in void]
        self._streamed.clear()

    def _settle_stream(self) -> None:
        """It stays as it is: the turn ended before the reply was whole."""
        for item in self._streamed.values():
            item.streaming = False
        self._streamed.clear()

    def _replied(self, event: Replied, n: int, at: int) -> None:
        """The whole reply takes the place of what was streamed of it; items that are there already stay the same."""
        streamed = [item for _, item in sorted(self._streamed.items())]
        self._drop_stream()
        for block in event.message.blocks:
            match block:
                case Text() if block.text.strip():
                    self.talk.items.append(_reuse(streamed, Spoken("agent", block.text, n=n, at=at)))
                case Thinking() if block.thinking.strip():
                    self.talk.items.append(_reuse(streamed, Thought(block.thinking, n=n, at=at)))
                case _:
                    pass
        for call in event.message.calls:
            args = {} if call.fault else call.args
            step = Step(call.id, call.name, words.title(call.name, args), bounded_args(args), n=n, at=at)
            self.steps[call.id] = step
            self.talk.items.append(step)

    # --- calls

    def _tool_ended(self, event: ToolEnded, at: int) -> None:
        step = self.steps.pop(event.call_id, None)
        if step is None:
            return
        if step.status != "denied":
            step.status = "error" if event.is_error else "ok"
        step.result, step.ended, step.asked, step.progress = _result(event.content), at, False, ""
        step.patch = _patch(event.data)
        if event.args is not None:
            step.args, step.title = bounded_args(event.args), words.title(step.tool, event.args)

    def _turn_ended(self, event: TurnEnded, n: int, at: int) -> None:
        self._settle_stream()
        for step in self.steps.values():  # none is left, unless the program ended in the middle
            step.status = "error"
        self.steps.clear()
        if event.reason == "done":
            return
        said = event.error if event.error and event.reason != "interrupted" else ENDS[event.reason]
        self.add(Note("info" if event.reason == "interrupted" else "error", said, n=n, at=at))

    def _bound(self) -> None:
        items = self.talk.items
        if len(items) > self._most + SLACK:
            extra = len(items) - self._most
            del items[:extra]
            self.talk.dropped += extra


def bounded_args(args: dict[str, Any]) -> dict[str, Any]:
    """What stays in memory of a call: a file of a megabyte is not kept for a line on the screen."""
    return {name[:200]: _bounded(value) for name, value in args.items()}


def _bounded(value: Any) -> Any:
    if isinstance(value, str):
        return bounded(value, most=MOST_RESULT)
    if value is None or isinstance(value, bool | int | float):
        return value
    data = msgspec.json.encode(value)
    return value if len(data) <= MOST_RESULT else bounded(data.decode(), most=MOST_RESULT)


def _patch(data: dict[str, Any] | None) -> tuple[Hunk, ...]:
    """The hunks of a result; a tool that somebody else brought may have written anything there."""
    try:
        hunks = msgspec.convert((data or {}).get("structuredPatch") or [], list[ResultHunk])
    except msgspec.ValidationError:
        return ()
    return tuple(Hunk(hunk.oldStart, hunk.newStart, tuple(hunk.lines)) for hunk in hunks if all(hunk.lines))


def _reuse(streamed: list[Spoken | Thought], whole: Spoken | Thought) -> Item:
    for place, item in enumerate(streamed):
        if type(item) is type(whole):
            del streamed[: place + 1]
            item.text, item.streaming, item.n, item.at = whole.text, False, whole.n, whole.at
            return item
    return whole


def _result(content: tuple[Content, ...]) -> str:
    parts = [f"[image, {c.media_type}]" if isinstance(c, Image) else c.text for c in content]
    return to_person(bounded("\n".join(parts), most=MOST_RESULT))
