"""Folds one agent's events into its conversation, keeping the newest part of it in memory."""

from collections.abc import Sequence
from typing import Any

import msgspec

from teamwright.core.data.content.patch import patch_of
from teamwright.core.data.event import (
    AgentStarted,
    Compacted,
    Denied,
    Event,
    FilesRestored,
    LettersTaken,
    Record,
    Replied,
    Rewound,
    Streamed,
    ToolEnded,
    ToolProgressed,
    ToolStarted,
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
from teamwright.core.ids import CallId
from teamwright.surfaces.view import text as words
from teamwright.surfaces.view.letters import MOST_RESULT, items_of
from teamwright.surfaces.view.sentences import restored_words, retry_words, rewind_words, to_person
from teamwright.surfaces.view.shapes import Item, Note, Spoken, Step, Talk, Thought
from teamwright.tools.bounds import bounded

MOST_REWINDS = 20  # rewinds that can be undone with what was on the screen
MOST_ITEMS = 1_500  # items of one conversation in memory
SLACK = 500  # extra items, so that dropping is rare

ENDS = {
    "interrupted": "Interrupted. Say what to do instead.",
    "max_turns": "Stopped at the turn limit.",
    "max_budget": "Stopped at the budget limit.",
    "refused": "The model declined to answer.",
    "failed": "The turn failed.",
}


class TalkFold:
    def __init__(self, *, most: int = MOST_ITEMS) -> None:
        self.talk = Talk()
        self.steps: dict[CallId, Step] = {}  # running calls
        self._most, self._cwd = most, ""  # where the agent works
        self._streamed: dict[int, Spoken | Thought] = {}  # parts of the reply that is being written
        self._retrying: Note | None = None
        self._before: dict[int, list[Item]] = {}  # the items before each rewind, by its line
        self._told: set[str] = set()  # jobs whose end is shown, though the agent has not read of it yet

    def apply(self, record: Record) -> None:
        if self._apply(record.event, record.n, record.at):
            self.talk.version += 1
            self._bound()

    def _apply(self, event: Event, n: int, at: int) -> bool:  # noqa: C901 one case for each kind
        """True if something must be drawn."""
        match event:
            case Streamed():
                return self._stream(event.delta)
            case AgentStarted():
                self._cwd = event.worktree or event.cwd
                return False
            case LettersTaken():
                items = items_of(event.message, n, at, self._cwd)
                self.talk.items += [item for item in items if not self._is_told(item)]
            case Replied():
                self._replied(event, n, at)
            case ToolStarted() | ToolProgressed():
                return self._tool_runs(event, at)
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
            case Rewound():
                self._rewound(event, n, at)
            case FilesRestored():
                self.add(Note("warning" if event.left else "info", restored_words(event), at=at))
            case _:
                return False
        return True

    def add(self, item: Item) -> None:
        self.talk.items.append(item)
        self.talk.version += 1

    def end_job(self, note: Note) -> None:
        """Shown when it happens; the letter about it, which the agent reads later, adds no second line."""
        self._told.add(note.job)
        self.add(note)

    def _is_told(self, item: Item) -> bool:
        if not isinstance(item, Note) or item.job not in self._told:
            return False
        self._told.remove(item.job)
        return True

    # --- a reply

    def _stream(self, delta: Delta) -> bool:
        match delta:
            case ReplyStarted():
                self._settle_stream()
                return self._drop_retry()
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
                self._drop_retry()
                self._retrying = Note("warning", retry_words(delta))
                self.add(self._retrying)
            case _:
                return False
        return True

    def _drop_retry(self) -> bool:
        """Remove the retry line, when an answer comes or another attempt begins. False if there is none."""
        gone, self._retrying = self._retrying, None
        if gone is None:
            return False
        self.talk.items[:] = [item for item in self.talk.items if item is not gone]
        return True

    def _open(self, index: int, item: Spoken | Thought) -> None:
        self._drop_retry()
        self._streamed[index] = item
        self.talk.items.append(item)

    def _drop_stream(self) -> None:
        if not self._streamed:
            return
        void = set(map(id, self._streamed.values()))
        self.talk.items[:] = [item for item in self.talk.items if id(item) not in void]
        self._streamed.clear()

    def _settle_stream(self) -> None:
        """Leave it as it is: the turn ended before the reply was whole."""
        for item in self._streamed.values():
            item.streaming = False
        self._streamed.clear()

    def _replied(self, event: Replied, n: int, at: int) -> None:
        """Replace what was streamed by the whole reply; items that exist already stay the same objects."""
        streamed = [item for _, item in sorted(self._streamed.items())]
        self._drop_stream()
        self._drop_retry()
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
            step = Step(call.id, call.name, words.title(call.name, args, self._cwd), bounded_args(args), n=n, at=at)
            self.steps[call.id] = step
            self.talk.items.append(step)

    # --- calls

    def _tool_runs(self, event: ToolStarted | ToolProgressed, at: int) -> bool:
        if (step := self.steps.get(event.call_id)) is None:
            return False
        if isinstance(event, ToolStarted):
            step.begun = at
        else:
            step.progress = event.text[-MOST_RESULT:]
        return True

    def _tool_ended(self, event: ToolEnded, at: int) -> None:
        step = self.steps.pop(event.call_id, None)
        if step is None:
            return
        if step.status != "denied":
            step.status = "error" if event.is_error else "ok"
        step.result, step.ended, step.asked, step.progress = _result(event.content), at, False, ""
        step.patch = patch_of(event.data)
        step.answers = _answers(event.data) if words.is_question(step.tool) else ()
        if event.args is not None:
            step.args, step.title = bounded_args(event.args), words.title(step.tool, event.args, self._cwd)

    def _turn_ended(self, event: TurnEnded, n: int, at: int) -> None:
        self._settle_stream()
        self._drop_retry()
        for step in self.steps.values():  # none is left, unless the program ended in between
            step.status = "error"
        self.steps.clear()
        if event.reason == "done":
            return
        said = event.error if event.error and event.reason != "interrupted" else ENDS[event.reason]
        self.add(Note("info" if event.reason == "interrupted" else "error", said, n=n, at=at))

    def _rewound(self, event: Rewound, n: int, at: int) -> None:
        """Remove what was said since; going back to before a rewind brings it back."""
        self._before[n] = self.talk.items[:]
        if len(self._before) > MOST_REWINDS:
            del self._before[min(self._before)]
        if event.talk:
            known = self._before.get(event.to)
            self.talk.items[:] = known if known is not None else before(self.talk.items, event.to)
            self.talk.cuts += 1
        self.add(Note("info", rewind_words(event), n=n, at=at))

    def _bound(self) -> None:
        items = self.talk.items
        if len(items) > self._most + SLACK:
            extra = first_of_newest(items, self._most)
            del items[:extra]
            self.talk.dropped += extra


def before(items: Sequence[Item], line: int) -> list[Item]:
    """Items before a line of the transcript. The surface's own lines have no number."""
    end = next((place for place, item in enumerate(items) if item.n >= line), len(items))
    return list(items[:end])


def first_of_newest(items: Sequence[Item], most: int) -> int:
    """Index of the first of the newest items. A line's items are all included or all left out: earlier lines are read
    again."""
    first = max(0, len(items) - most)
    while 0 < first < len(items) and 0 < items[first].n == items[first - 1].n:
        first -= 1
    return first


def bounded_args(args: dict[str, Any]) -> dict[str, Any]:
    """The arguments to keep in memory: a megabyte of file is not kept for one line on the screen."""
    return {name[:200]: _bounded(value) for name, value in args.items()}


def _bounded(value: Any) -> Any:
    if isinstance(value, str):
        return bounded(value, most=MOST_RESULT)
    if value is None or isinstance(value, bool | int | float):
        return value
    data = msgspec.json.encode(value)
    return value if len(data) <= MOST_RESULT else bounded(data.decode(), most=MOST_RESULT)


def _answers(data: dict[str, Any] | None) -> tuple[tuple[str, str], ...]:
    """The questions with the person's answers."""
    try:
        answers = msgspec.convert((data or {}).get("answers") or {}, dict[str, str])
    except msgspec.ValidationError:
        return ()
    return tuple((bounded(asked), bounded(said)) for asked, said in answers.items())


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
