"""Timeline of a team's mail and of what its members did: joined, claimed, went idle, left."""

import time
from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct
from textual.content import Content

from teamwright.core.data.team import split_address
from teamwright.store.tables.mail import MailEntry
from teamwright.surfaces.terminal.render.themes import Palette, agent_style
from teamwright.surfaces.terminal.widgets.rows import Piece, row
from teamwright.surfaces.terminal.widgets.unfolding import UnfoldingList
from teamwright.surfaces.view.diff import DiffRow
from teamwright.surfaces.view.shapes import TeamEvent
from teamwright.surfaces.view.text import one_line, safe

MOST = 1_000  # newest rows
_DID = {
    "spawn": "joined",
    "idle": "went idle",
    "wake": "woke up",
    "claim": "took task",
    "completed": "completed",
    "shutdown": "has shut down",
    "died": "was lost",
}
_FATES = {
    "stored": "unread",
    "delivered": "",
    "refused": "refused",
    "undeliverable": "undeliverable",
    "dead": "could not be handled",
}


class Happening(Struct, frozen=True):
    """One row: a message, or something that a member did."""

    key: str
    at: int
    who: str
    to: str
    text: str  # in short
    whole: str = ""
    fate: str = ""
    message: bool = False


def happenings(mail: Iterable[MailEntry], events: Iterable[TeamEvent]) -> list[Happening]:
    """In order of time, each thing once: messages come from the mail itself, idleness from its event."""
    found = [item for entry in mail if (item := _of_mail(entry)) is not None]
    found += [_of_event(n, event) for n, event in enumerate(events) if event.kind != "message"]
    return sorted(found, key=lambda happening: happening.at)[-MOST:]


class SignalRow(Struct):
    """A record between members, as the mail contains it."""

    type: str
    reason: str = ""
    plan: str = ""
    subject: str = ""
    feedback: str = ""
    approve: bool | None = None


def _signal(entry: MailEntry) -> SignalRow | None:
    try:
        return msgspec.json.decode(entry.text, type=SignalRow) if entry.text.startswith('{"type":') else None
    except (msgspec.DecodeError, RecursionError):
        return None


def _in_words(signal: SignalRow) -> str:
    verdict = "" if signal.approve is None else " (yes)" if signal.approve else " (no)"
    about = signal.plan or signal.subject or signal.feedback or signal.reason
    return f"{signal.type.replace('_', ' ')}{verdict}" + (f": {about}" if about else "")


def _of_mail(entry: MailEntry) -> Happening | None:
    signal = _signal(entry)
    if signal is not None and signal.type == "idle_notification":
        return None
    fate = _FATES.get(entry.state, entry.state)
    fate = f"{fate}: {entry.reason}" if fate and entry.reason else fate
    short = _in_words(signal) if signal is not None else entry.summary or entry.text
    return Happening(
        f"m{entry.n}", entry.sent_at, entry.from_name, entry.to_name, short, entry.text, fate, message=True
    )


def _of_event(n: int, event: TeamEvent) -> Happening:
    words = _DID.get(event.kind, event.kind)
    words += f" #{event.task}" if event.task else ""
    words += f": {event.text}" if event.text not in ("", "available") else ""
    return Happening(f"e{event.at}-{n}-{event.agent}", event.at, split_address(event.agent)[0], "", words)


def happening_row(item: Happening, width: int, palette: Palette, colors: Mapping[str, str]) -> Content:
    clock = time.strftime("%H:%M:%S " if width >= 60 else "%H:%M ", time.localtime(item.at / 1000))
    left: list[Piece] = [(clock, palette.dim), (one_line(item.who, 24), agent_style(colors.get(item.who, ""), palette))]
    if item.message:
        left += [(" → ", palette.dim), (one_line(item.to, 24), agent_style(colors.get(item.to, ""), palette))]
    left += [(f"  {one_line(item.text, 200)}", palette.text if item.message else palette.dim)]
    right = [(f"  {one_line(item.fate, 40)}", palette.warn)] if item.fate else []
    return row(left, right, width)


def detail_rows(item: Happening) -> list[DiffRow]:
    head = f"{item.who} → {item.to}" if item.message else item.who
    facts = [DiffRow("strong", safe(head))] + ([DiffRow("dim", safe(item.fate))] if item.fate else [])
    return [*facts, *(DiffRow("plain", line) for line in safe(item.whole or item.text).split("\n"))]


class MailTimeline(UnfoldingList[Happening]):
    """Newest at the bottom; Enter shows the whole message."""

    def __init__(self, *, id: str) -> None:
        keys, nothing = "Enter shows the whole message", "no messages yet"
        super().__init__(happening_row, detail_rows, id=id, keys=keys, nothing=nothing, follow="end")

    def show(self, mail: Iterable[MailEntry], events: Iterable[TeamEvent], colors: Mapping[str, str]) -> None:
        self.put({item.key: item for item in happenings(mail, events)}, colors)
