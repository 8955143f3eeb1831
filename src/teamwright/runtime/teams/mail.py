"""Mail between members: stored first, then announced by a wake-up. A message that cannot be stored is an error."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.data.letter import Letter, Priority, Said, Sender, Signal
from teamwright.core.data.letters.tasks import SYSTEM_SENDER
from teamwright.core.data.team import Mail, Member, Refused
from teamwright.core.errors import DiskError, StoreError, ToolError
from teamwright.core.ids import AgentId, CallId, LetterId, new_letter_id
from teamwright.runtime.concurrency.unbroken import following, unbroken
from teamwright.runtime.teams.mirrors import Mirrors
from teamwright.runtime.teams.roster import Roster
from teamwright.runtime.teams.wakeups import Wakeups
from teamwright.store.tables.mail import MailTable
from teamwright.store.tables.mail_insert import Stored
from teamwright.store.tables.state import StateStore


class Posted(Struct, frozen=True):
    to: tuple[str, ...]
    refused: tuple[str, ...] = ()


class TeamMail:
    def __init__(
        self,
        table: MailTable,
        letters: StateStore,
        roster: Roster,
        wakeups: Wakeups,
        mirrors: Mirrors,
        hosted: AgentId | None = None,
    ) -> None:
        """`hosted`: the agent that a worker runs. A worker may not speak for the program, so notices come from its
        agent."""
        self._hosted = hosted
        self.limits = table.limits
        self._table, self._letters = table, letters
        self._roster, self._wakeups, self._mirrors = roster, wakeups, mirrors

    async def say(self, sender: Member, to: str, text: str, summary: str, call: CallId) -> Posted:
        """Send to a member of the sender's current team, or to all but the sender with `*`. Durable when it returns."""
        readers = self._readers(sender, to)
        body, key = Said(text, summary, sender.color), f"{sender.agent}-{call}"
        mails = [self._draft(sender, reader, body, key=key, part=n) for n, reader in enumerate(readers)]
        outcomes = await unbroken(self._table.post_all(mails))
        refused = [r.reason for r in outcomes if isinstance(r, Refused)]
        if len(refused) == len(readers):
            raise ToolError(refused[0])
        with following():
            for reader, outcome in zip(readers, outcomes, strict=True):
                if isinstance(outcome, Stored):
                    self._roster.tell(sender, "message", summary, to=reader.address, message=text)
                    await self._check_volley(sender, reader, outcome)
                    await self._wakeups.ring(reader)
        await self._mirrors.copy_inboxes(sender.team, *(r.name for r in readers))
        reached = [r.name for r, o in zip(readers, outcomes, strict=True) if isinstance(o, Stored)]
        return Posted(tuple(reached), tuple(refused))

    def _readers(self, sender: Member, to: str) -> Sequence[Member]:
        team = sender.team
        if to == "*":
            readers = [m for m in self._roster.members(team) if m.agent != sender.agent]
            if not readers:
                raise ToolError(f"There is nobody else in the team {team}.")
            return readers
        reader = self._roster.find(team, to)
        if reader is None:
            there = ", ".join(m.name for m in self._roster.members(team) if m.agent != sender.agent)
            raise ToolError(f"There is no {to!r} in the team {team}. There are: {there or 'no others'}.")
        if reader.agent == sender.agent:
            raise ToolError("That is you: a message to oneself goes nowhere.")
        return [reader]

    async def _check_volley(self, sender: Member, reader: Member, stored: Stored) -> None:
        """Two that only answer each other are stopped: tell the lead, once for each such exchange."""
        if stored.volley != self.limits.answers:
            return
        words = (
            f"{sender.name} and {reader.name} have answered each other {stored.volley} times without any work in "
            "between. Further answers are refused until one of them has worked."
        )
        if lead := self._roster.lead_of(sender.team):
            await self.notify(lead, words)

    async def post_to_session(self, session: str, letter: Letter) -> bool:
        """Send plain text to the main agent of another session. True if a process of it is there to hear the bell."""
        if session == self._roster.session:
            raise ToolError("That is this session itself.")
        try:
            await self._letters.post(replace(letter, to=AgentId(session)))
        except DiskError:
            raise
        except StoreError as error:
            raise ToolError(f"Session {session!r}: {error} `teamwright sessions --all` lists them.") from None
        return await self._wakeups.ring_session(session)

    def worked(self, agent: AgentId, *, effect: bool = True) -> None:
        """The agent has done something, or was told something new: an answer to it is no idle chatter.

        With an `effect`, or a person's words, its whole team may wake each other again.
        """
        if self._roster.member_of(agent) is not None:
            self._table.worked_soon(agent)
            if effect:
                self._table.progressed_soon(agent)

    async def tell_of_rounds(self, team: str) -> None:
        """Tell lead and person that members who only wake each other are stopped, once until something is done."""
        lead = self._roster.lead_of(team)
        if lead is None or not (rounds := await self._table.untold_rounds(team)):
            return
        words = (
            f"The members of {team} have woken each other {rounds} times without any effect (no file changed, no task "
            "made or completed, no word of the person), so messages and tasks wake nobody until there is one"
        )
        self._roster.warn(lead.agent, f"{words}.")
        await self.notify(lead, f"{words}: do the next step yourself, or end your turn and say what is missing.")

    # --- messages of the program itself

    def draft(self, sender: Member, reader: Member, body: Signal | Said, *, id: str) -> Mail:
        """A record or a first message. Neither the sender's rate nor a full inbox stops it."""
        text = body.line if isinstance(body, Signal) else body.text
        priority: Priority = "later" if isinstance(body, Signal) and body.held else "next"
        letter = Letter(LetterId(id), reader.agent, Sender("agent", sender.name, sender.agent), body, priority)
        return Mail(letter, reader.team, sender.name, reader.name, text, color=sender.color, control=True)

    async def signal(self, sender: Member, reader: Member, body: Signal | Said, *, id: str) -> bool:
        """False if the reader is gone."""
        stored = await self.store(self.draft(sender, reader, body, id=id))
        if isinstance(stored, Refused):
            return False
        await self.arrived(reader)
        return True

    async def store(self, mail: Mail) -> Stored | Refused:
        """Only store it: `arrived` wakes the reader."""
        return await self._table.post_mail(mail)

    async def arrived(self, reader: Member) -> None:
        """Wake the reader of a letter that was stored together with something else."""
        await self._wakeups.ring(reader)
        await self._mirrors.copy_inboxes(reader.team, reader.name)

    async def notify(self, reader: Member, words: str, id: str | None = None) -> None:
        """Tell a member something in the program's name."""
        await self.store(self.notice(reader, words, id))
        await self.arrived(reader)

    def notice(self, reader: Member, words: str, id: str | None = None) -> Mail:
        """The letter of `notify`, to be stored together with what it reports."""
        own = self._roster.member_of(self._hosted) if self._hosted else None
        sender = SYSTEM_SENDER if own is None or own.agent == reader.agent else Sender("agent", own.name, own.agent)
        letter = Letter(LetterId(id) if id else new_letter_id(), reader.agent, sender, Said(words))
        return Mail(letter, reader.team, sender.name, reader.name, words, control=True)

    def _draft(self, sender: Member, reader: Member, body: Said, *, key: str, part: int) -> Mail:
        id = LetterId(f"m-{key}" if not part else f"m-{key}-{part}")
        letter = Letter(id, reader.agent, Sender("agent", sender.name, sender.agent), body)
        return Mail(letter, sender.team, sender.name, reader.name, body.text, body.summary, sender.color, part)

    async def tell_of_failures(self, team: str) -> None:
        """Tell senders and the lead, once, about letters that reached nobody. Not on a worker."""
        if self._hosted:
            return
        untold = await self._table.untold(team)
        lead = self._roster.lead_of(team)
        for entry in untold:
            what = f"Your message to {entry.to_name} ({entry.summary or 'no summary'})"
            words = f"{what} was not delivered: {entry.reason}"
            sender = next((m for m in self._roster.members(team) if m.agent == entry.sender), None)
            if sender is not None:
                await self.notify(sender, words, f"u-{entry.id}")
            if lead is not None and lead.agent != entry.sender:
                await self.notify(lead, f"{entry.from_name} wrote: {words}", f"u-{entry.id}-lead")
        await self._table.told([entry.id for entry in untold])
