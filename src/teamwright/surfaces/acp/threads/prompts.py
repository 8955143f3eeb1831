"""The editor's prompts without an answer: whether they were read, and when each is over."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

import anyio
from msgspec import Struct, field

from teamwright.core.data.event import LettersTaken, PromptPosted, TurnEnded
from teamwright.core.data.op import Interrupt, Say
from teamwright.core.errors import TeamwrightError, UsageError
from teamwright.core.ids import AgentId, LetterId
from teamwright.runtime.port import SessionPort
from teamwright.surfaces.acp.protocol.wire import INTERNAL, RpcError

CANCEL_SECONDS = 1.8  # for a turn to end after a cancel; then the prompt is answered anyway
MOST_UNKNOWN = 500  # letters that may still turn out to be ours
STOPS = {
    "max_turns": "max_turn_requests",
    "max_budget": "max_turn_requests",
    "refused": "refusal",
    "interrupted": "cancelled",
}


def stop_of(end: TurnEnded) -> str:
    if end.reason == "done":
        return "max_tokens" if end.stop == "max_tokens" else "end_turn"
    return STOPS.get(end.reason, "end_turn")


def failure_of(end: TurnEnded) -> RpcError:
    data = {"status": end.status} if end.status is not None else None
    return RpcError(INTERNAL, end.error or "the turn failed", data)


class Pending(Struct, eq=False):
    """One prompt without an answer."""

    text: str
    letter: LetterId | None = None
    taken: bool = False
    cancelled: bool = False
    ends_at_once: bool = False  # at a cancel, because no turn answers it
    stop: str = ""
    failure: RpcError | None = None
    over: anyio.Event = field(default_factory=anyio.Event)

    def end(self, stop: str = "", failure: RpcError | None = None) -> None:
        if not self.over.is_set():
            self.stop, self.failure = stop, failure
            self.over.set()


class Prompts:
    """Tells our prompts from those of others, who may talk to the same session elsewhere."""

    def __init__(self) -> None:
        self.pending: list[Pending] = []
        self._taken: set[LetterId] = set()  # read by the agent, but not known to be ours
        self._posted: dict[LetterId, str] = {}  # posted by others, not yet read

    def begin(self, text: str) -> Pending:
        pending = Pending(text)
        self.pending.append(pending)
        return pending

    def done(self, pending: Pending) -> None:
        if pending in self.pending:
            self.pending.remove(pending)

    async def say(self, port: SessionPort, say: Say, pending: Pending) -> None:
        """Post a prompt; take it back if it was cancelled meanwhile."""
        pending.letter = letter = await port.say(say)
        self._posted.pop(letter, None)
        if letter in self._taken:
            self._taken.discard(letter)
            pending.taken = True
        if pending.cancelled:
            await self.cancel(port)

    def posted(self, event: PromptPosted) -> str:
        """What somebody else said and the agent has already read; empty if it is ours, or still waits."""
        if any(p.letter == event.letter or (p.letter is None and p.text == event.text) for p in self.pending):
            return ""
        if event.letter in self._taken:
            self._taken.discard(event.letter)
            return event.text
        self._posted[event.letter] = event.text
        return ""

    def took(self, event: LettersTaken) -> tuple[list[str], bool]:
        """Others' prompts that the agent reads now, and whether it reads one that was cancelled."""
        others: list[str] = []
        unwanted = False
        for letter in event.letters:
            ours = next((p for p in self.pending if p.letter == letter), None)
            if ours is not None:
                ours.taken, unwanted = True, unwanted or ours.cancelled
            elif letter in self._posted:
                others.append(self._posted.pop(letter))
            else:
                self._taken = {*list(self._taken)[-MOST_UNKNOWN:], letter}
        return others, unwanted

    @property
    def taken(self) -> list[Pending]:
        return [p for p in self.pending if p.taken]

    def end_taken(self, stop: str = "", failure: RpcError | None = None) -> None:
        for pending in self.taken:
            pending.end(stop, failure)

    def end_all(self, failure: RpcError) -> None:
        for pending in self.pending:
            pending.end(failure=failure)

    async def cancel(self, port: SessionPort) -> None:
        """End the main agent's turn, and take back what it has not read."""
        for pending in self.pending:
            pending.cancelled = True
            if pending.letter is not None and not pending.taken and await _withdrawn(port, pending.letter):
                pending.end("cancelled")
        await interrupt(port)
        with anyio.move_on_after(CANCEL_SECONDS):
            for pending in list(self.pending):
                if pending.letter is not None:
                    await pending.over.wait()


async def _withdrawn(port: SessionPort, letter: LetterId) -> bool:
    try:
        return await port.withdraw(letter, None)
    except TeamwrightError:
        return False


async def interrupt(port: SessionPort) -> None:
    with suppress(UsageError):  # it has just ended
        await port.submit(Interrupt())


def reached(seen: Mapping[AgentId, int], wanted: Mapping[AgentId, int], agents: Sequence[AgentId]) -> bool:
    """Whether everything up to these lines was heard."""
    return all(seen.get(agent, 0) >= wanted.get(agent, 0) for agent in agents)
