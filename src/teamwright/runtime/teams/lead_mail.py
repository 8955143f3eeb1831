"""Mail of a lead that is code: set aside for it, so that no letter makes a model run."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Literal

import anyio
import msgspec
from msgspec import Struct

from teamwright.core.data.letter import Letter, Said, Signal, SignalKind, has_news, is_idle_notice
from teamwright.core.data.letters.tasks import SYSTEM_SENDER
from teamwright.core.data.team import iso
from teamwright.core.ids import AgentId
from teamwright.runtime.agents.inbox import AgentInbox
from teamwright.runtime.concurrency.latch import Latch
from teamwright.runtime.concurrency.races import first
from teamwright.runtime.teams.roster import Roster


class TeamMessage(Struct, frozen=True):
    """What a teammate told the lead. In an idle notice `text` holds the last words of the turn.

    `error` says why a turn failed; `request` is what `answer_plan` takes. A `notice` is from the program itself.
    """

    sender: str
    text: str
    kind: Literal["message", "notice"] | SignalKind = "message"
    summary: str = ""
    error: str = ""
    request: str = ""

    def __str__(self) -> str:
        return self.text


class LeadMail:
    """The mail of all teams that code leads in this process."""

    def __init__(self, inbox: AgentInbox, roster: Roster) -> None:
        self._inbox, self._roster = inbox, roster
        self.teams: set[str] = set()
        self._mates: dict[AgentId, str] = {}  # everybody who was ever in one of them, with its team
        self._asks: dict[AgentId, anyio.Lock] = {}
        self._told: dict[AgentId, str] = {}  # the first idle notice after this time repeats what `ask` returned
        inbox.is_aside = self._is_aside

    def ask(self, agent: AgentId) -> anyio.Lock:
        """Held during a question: the next question waits, and `messages` leaves out what this teammate says."""
        return self._asks.setdefault(agent, anyio.Lock())

    def answered(self, agent: AgentId, at: int) -> None:
        """The question was answered by the end of the turn, at this time."""
        self._told[agent] = iso(at)

    async def claim(self, id: str) -> TeamMessage | None:
        """Take this letter, or the lead's copy of a letter to all, if it is there."""
        letters = await self._inbox.aside()
        letter = next((x for x in letters if x.id == id or x.id.startswith(f"{id}-")), None)
        if letter is None:
            return None
        self._inbox.read([letter.id])
        return as_team_message(letter)

    async def messages(self, team: str, rest: Callable[[], Awaitable[object]]) -> AsyncIterator[TeamMessage]:
        """Messages as they come, until the team is gone, or `rest` has returned and nothing is left."""
        rested = False
        while True:
            bell = self._inbox.rung
            if (letter := await self._next(team)) is not None:
                yield as_team_message(letter)
                rested = False
            elif rested or team not in self.teams:
                return
            else:
                rested = await self._wait(bell, rest)

    async def _wait(self, bell: Latch, rest: Callable[[], Awaitable[object]]) -> bool:
        rested = False

        async def wait_for_rest() -> None:
            nonlocal rested
            await rest()
            rested = True
            self._inbox.ring()  # a letter stored together with the rest may not have rung yet

        await first(bell.wait, wait_for_rest)
        return rested

    async def _next(self, team: str) -> Letter | None:
        for letter in await self._inbox.aside():
            id = letter.sender.id
            if id is not None and (self._mates.get(id) != team or self._is_asked(id)):
                continue
            self._inbox.read([letter.id])
            if has_news(letter) and not self._is_known(letter):
                return letter
        return None

    def _is_asked(self, agent: AgentId) -> bool:
        return agent in self._asks and self._asks[agent].locked()

    def _is_known(self, letter: Letter) -> bool:
        """Whether the letter repeats an answer. Only one notice does."""
        if not is_idle_notice(letter) or letter.sender.id is None:
            return False
        since = self._told.get(letter.sender.id)
        if since is None or _record(letter).get("timestamp", "") < since:
            return False
        del self._told[letter.sender.id]
        return True

    def _is_aside(self, letter: Letter) -> bool:
        if not isinstance(letter.body, Said | Signal):
            return False
        if letter.sender == SYSTEM_SENDER:
            return bool(self.teams) and self.teams.issuperset(self._roster.led_here())
        self._mates |= {m.agent: team for team in self.teams for m in self._roster.everybody(team) if not m.is_lead}
        return letter.sender.id in self._mates


def as_team_message(letter: Letter) -> TeamMessage:
    body, sender = letter.body, letter.sender
    match body:
        case Signal():
            record = _record(letter)
            words = _first(record, ("lastMessage", "plan", "reason"))
            error = str(record.get("failureReason", ""))
            return TeamMessage(sender.name, words, body.kind, error=error, request=str(record.get("requestId", "")))
        case Said():
            return TeamMessage(sender.name, body.text, "message" if sender.id else "notice", body.summary)
        case _:
            raise TypeError(f"not a message of a teammate: {body!r}")


def _first(record: dict[str, Any], names: Sequence[str]) -> str:
    return next((str(record[name]) for name in names if record.get(name)), "")


def _record(letter: Letter) -> dict[str, Any]:
    assert isinstance(letter.body, Signal)
    return msgspec.json.decode(letter.body.line, type=dict[str, Any])
