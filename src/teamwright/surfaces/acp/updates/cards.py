"""Agents and teammates as cards: what each does while it works, and its report at the end."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from teamwright.core.data.event import (
    AgentEnded,
    AgentStarted,
    Event,
    JobStarted,
    Record,
    Replied,
    TeamChanged,
    TurnStarted,
)
from teamwright.core.ids import AgentId, CallId
from teamwright.surfaces.acp.updates.content import MOST_OUTPUT, text_content
from teamwright.surfaces.acp.updates.speech import Tell
from teamwright.surfaces.view.shapes import Item, Note, Spoken, Step
from teamwright.surfaces.view.text import one_line, safe
from teamwright.surfaces.view.view import SessionFold
from teamwright.tools.bounds import bounded
from teamwright.tools.catalog import traits_of

EVERY = 0.25  # seconds between two updates of one card
MOST_LINES = 8  # the last things that an agent did
_MARKS = {"running": "…", "ok": "✓", "error": "✗", "denied": "✗"}


class Card(Struct):
    agent: AgentId
    call: CallId  # its id in the editor
    status: str = ""  # as last reported
    wanted: str = "in_progress"
    report: str = ""  # of an agent that has ended
    version: int = -1  # version of the conversation that was reported
    due: float = 0.0
    mate: bool = False
    own: bool = False  # no running call of the main agent belongs to it: its end is reported here
    new: bool = False  # the editor does not know it yet


class Cards:
    """Cards of agents that the main agent started, and of all members of its teams."""

    def __init__(self, view: SessionFold, tell: Tell, *, steps: bool = True) -> None:
        """`steps`: cards show what is done; otherwise that is shown elsewhere."""
        self._view, self._tell, self._steps = view, tell, steps
        self.cards: dict[AgentId, Card] = {}
        self._calls: dict[CallId, AgentId] = {}
        self._named: dict[str, CallId] = {}  # calls that were to start a teammate, by its name

    def keeps(self, call: CallId) -> bool:
        """Whether an agent that this call started has not ended."""
        card = self._of(call)
        return card is not None and (card.wanted == "in_progress" or card.mate)

    def _of(self, call: CallId) -> Card | None:
        return self.cards.get(self._calls.get(call, AgentId("")))

    def called(self, call: CallId, args: Mapping[str, Any]) -> None:
        if isinstance(name := args.get("name"), str) and name:
            self._named[name] = call

    def replied(self, event: Replied) -> None:
        """Take in an earlier reply of the main agent."""
        for call in event.message.calls:
            if traits_of(call.name).delegates and not call.fault:
                self.called(call.id, call.args)

    def take_over(self, call: CallId) -> None:
        if (card := self._of(call)) is not None:
            card.own = True

    def settled(self, call: CallId, status: str) -> None:
        if (card := self._of(call)) is not None:
            self.close(card, status)

    def hear(self, record: Record) -> None:
        """Called after the fold has heard the record."""
        event, id = record.event, record.agent
        match event:
            case AgentStarted() if event.parent == self._view.main or event.team:
                self._make(id, event.call_id or self._named.get(event.name), mate=bool(event.team))
            case JobStarted(kind="agent", job=job, call_id=call) if record.agent == self._view.main:
                self._make(AgentId(job), call)
            case TeamChanged() if id != self._view.main:
                self._team(id, event)
            case _:
                if (card := self.cards.get(id)) is not None:
                    self._turn(card, event)

    def _make(self, id: AgentId, call: CallId | None, *, mate: bool = False) -> Card:
        card = self.cards.get(id)
        if card is None:
            known = call is not None and call not in self._calls
            card = self.cards[id] = Card(
                id, call if known and call else CallId(id), mate=mate, own=not known, new=not known
            )
            self._calls[card.call] = id
        card.wanted, card.mate = "in_progress", card.mate or mate
        return card

    def _team(self, id: AgentId, event: TeamChanged) -> None:
        name = event.agent.partition("@")[0]
        card = self.cards.get(id) or self._make(id, self._named.get(name), mate=True)
        card.mate = True
        if event.kind == "died":
            card.wanted = "failed"
        elif event.kind in ("idle", "shutdown"):
            card.wanted = "completed"
        elif event.kind in ("wake", "spawn", "claim"):
            card.wanted = "in_progress"

    def _turn(self, card: Card, event: Event) -> None:
        match event:
            case TurnStarted():
                card.wanted, card.report = "in_progress", ""
            case AgentEnded():
                card.wanted = "completed" if event.status == "completed" else "failed"
                card.report = event.text or event.error
            case _:
                pass

    def close(self, card: Card, status: str) -> None:
        """The editor knows how it ended."""
        card.status = card.wanted = status
        card.own, card.version = True, self._view.talk(card.agent).version

    def close_all(self, *, told: bool) -> None:
        """Close earlier cards. `told`: the editor already knows them."""
        for card in self.cards.values():
            self.close(card, "completed")
            card.new = not told

    def end_all(self) -> None:
        """The session is closed, and everybody in it has stopped; a teammate can be woken again."""
        for card in self.cards.values():
            card.own = True
            if card.wanted == "in_progress":
                card.wanted = "completed" if card.mate else "failed"
        self.tell_all()

    # --- output

    def tell_due(self, *, now: float | None = None) -> float | None:
        """Report changes that are due; returns the seconds until more is due, None if nothing waits."""
        at = time.monotonic() if now is None else now
        waits = [self._tell_one(card, at) for card in self.cards.values()]
        return min((wait for wait in waits if wait is not None), default=None)

    def tell_all(self) -> None:
        self.tell_due(now=float("inf"))

    def _tell_one(self, card: Card, now: float) -> float | None:
        talk = self._view.talk(card.agent)
        ends = card.own and card.status != card.wanted
        same = card.version == talk.version or not self._steps
        if not ends and (same or not (card.own or card.wanted == "in_progress")):
            return None
        if not ends and now < card.due:
            return card.due - now
        content = self._content(card, talk.items)
        if not ends and not content:
            return None
        if card.new:
            start = {"sessionUpdate": "tool_call", "toolCallId": card.call, "kind": "think", "status": "pending"}
            self._tell(start | {"title": self._title(card)})
        card.version, card.due, card.new = talk.version, time.monotonic() + EVERY, False
        update: dict[str, Any] = {"sessionUpdate": "tool_call_update", "toolCallId": card.call}
        if card.own or card.wanted == "in_progress":
            update["status"] = card.status = card.wanted
        if content:
            update["content"] = [text_content(content)]
        self._tell(update)
        return None

    def _title(self, card: Card) -> str:
        agent = self._view.agent(card.agent)
        about = f": {one_line(agent.description, 120)}" if agent.description else ""
        return f"{one_line(agent.name, 60)} ({one_line(agent.kind, 40)}){about}"

    def _content(self, card: Card, items: Sequence[Item]) -> str:
        lines = [line for item in items[-3 * MOST_LINES :] if (line := _line(item))][-MOST_LINES:]
        if card.report:
            return safe(bounded(card.report, most=MOST_OUTPUT))
        return "\n\n".join(lines) if self._steps else ""


def _line(item: Item) -> str:
    """A step or words as a line; empty if the card leaves it out."""
    match item:
        case Step():
            if traits_of(item.tool).talks and isinstance(words := item.args.get("message"), str):
                return f"→ {one_line(str(item.args.get('to', '')), 60)}: {safe(bounded(words, most=2_000))}"
            return f"{_MARKS[item.status]} {one_line(item.tool, 40)} {item.title}"
        case Spoken(role="agent") if item.text.strip():
            return safe(bounded(item.text, most=2_000))
        case Note(kind="message"):
            return f"{one_line(item.who, 60)}: {one_line(item.text, 300)}"
        case _:
            return ""
