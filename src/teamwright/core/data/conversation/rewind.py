"""Points in a conversation that a person can go back to, and what going back changes."""

from collections.abc import Iterable, Sequence
from typing import Literal, TypeVar

from msgspec import Struct

from teamwright.core.data.conversation.history import History, fold
from teamwright.core.data.event import Durable, LettersTaken, Line, Rewound, ToolEnded, Words
from teamwright.core.data.letter import said_in

Value = TypeVar("Value")


class Point(Struct, frozen=True):
    """The state before this line of the transcript. For a rewind, `at` is when it began and `to` where it led."""

    line: int
    at: int
    kind: Literal["prompt", "rewind"]
    text: str = ""
    to: int = 0


def points_of(lines: Iterable[tuple[int, Line]]) -> list[Point]:
    """The points of the conversation as it stands, oldest first. What a rewind left is reachable through that
    rewind."""
    live: list[Point] = []
    left: dict[int, list[Point]] = {}  # the points that were live before each rewind
    for n, line in lines:
        match line.event:
            case LettersTaken(letters=letters, message=message) if letters and (said := said_in(message)):
                live.append(Point(n, line.at, "prompt", "\n".join(said)))
            case Rewound() as event:
                left[n] = live
                if event.talk:
                    live = left.get(event.to) or [point for point in live if point.line < event.to]
                live = [*live, Point(n, event.began, "rewind", to=event.to)]
            case _:
                pass
    return live


def went_back(now: History, then: History, to: int, began: int, files: tuple[str, ...]) -> Rewound:
    """The event that takes a history back to its state before line `to` of the transcript."""
    keep = _common(now.messages, then.messages)
    return Rewound(
        to,
        began,
        talk=True,
        files=files,
        keep=keep,
        messages=tuple(then.messages[keep:]),
        prompts=_words(now.prompts, then.prompts),
        heard=_words(now.heard, then.heard),
        forgets=tuple(path for path, seen in now.seen.items() if then.seen.get(path) != seen),
        cwd=then.cwd,
        asked=min(then.asked, len(then.messages)),
        tokens=then.tokens,
        stop=then.stop,
    )


def before(events: Sequence[Durable], to: int) -> History:
    """The history before a line. Calls in flight there get the results that they received later."""
    history, after = fold(events[: to - 1]), events[to - 1 :]
    came = {event.call_id: event for event in after if isinstance(event, ToolEnded)}
    for unknown in history.unfinished(crashed=True):
        history.apply(came.get(unknown.call_id, unknown))
    return history


def _words(now: Sequence[str], then: Sequence[str]) -> Words:
    keep = _common(now, then)
    return Words(keep, tuple(then[keep:]))


def _common(now: Sequence[Value], then: Sequence[Value]) -> int:
    """The length of the common beginning."""
    both = zip(now, then, strict=False)
    return next((n for n, (a, b) in enumerate(both) if a != b), min(len(now), len(then)))
