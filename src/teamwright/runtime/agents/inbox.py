"""Inbox of an agent: letters in the store, and a bell that announces them."""

from collections.abc import Awaitable, Callable, Container, Mapping, Sequence

import anyio

from teamwright.core.crashpoint import crashpoint
from teamwright.core.data.letter import Letter, Notice, due, is_idle_notice, is_quiet
from teamwright.core.ids import AgentId, LetterId
from teamwright.runtime.concurrency.latch import Latch
from teamwright.runtime.concurrency.lock import LightLock
from teamwright.store.tables.state import StateStore

GATHER = 0.2  # seconds to wait so that jobs that end together are reported together


class AgentInbox:
    """Reads the store only after the bell has rung. A lost ring delays a letter, but never loses it."""

    def __init__(self, agent: AgentId, store: StateStore, delivered: Container[LetterId]) -> None:
        """`delivered`: the ids in the agent's transcript, which count even if the store disagrees."""
        self._agent = agent
        self._delivered = delivered
        self._store = store
        self._bell = Latch(passed=True)  # letters of an earlier process may be waiting
        self._held: list[Letter] = []
        self._handed: set[LetterId] = set()  # given to the loop; the store may not know yet
        self._read: set[LetterId] = set()  # by code, in the agent's place
        self._rung, self._looking = Latch(), LightLock()
        self.is_aside: Callable[[Letter], bool] | None = None  # what code reads: the agent is neither woken nor told
        self.on_read: Callable[[], None] | None = None  # from then on the store shows what was read
        # what letters speak of holds before they are read: what a record settles, and the work of others
        self.on_letters: Callable[[Sequence[Letter]], Awaitable[None]] | None = None
        self.more_comes: Callable[[], object] | None = None  # do other jobs of the agent still run?
        # what idle notices say that still holds, by id; one that is not in it is read, and not shown
        self.still_true: Callable[[Sequence[Letter]], Awaitable[Mapping[LetterId, Letter]]] | None = None

    def begin(self, letter: Letter) -> None:
        """The first letter of a new agent, stored with it: there is nothing else to look for."""
        self._bell, self._held = Latch(), [letter]

    async def post(self, letter: Letter) -> None:
        """Durable when it returns."""
        await self._store.post(letter)
        self.ring()

    def ring(self) -> None:
        self._bell.set()
        self._rung.set()
        self._rung = Latch()

    async def take(self, *, at_rest: bool) -> list[Letter]:
        await self._look()
        if at_rest:
            await self._gather()
        if due(self._own, at_rest=at_rest):
            await self._drop_untrue()
        now = due(self._own, at_rest=at_rest)
        self._handed.update(letter.id for letter in now)
        self._held = [letter for letter in self._held if letter.id not in self._handed]
        if now and self.on_letters is not None:
            await self.on_letters(now)
        if now:
            crashpoint("letters.taken")
        return now

    async def _drop_untrue(self) -> None:
        notices = [x for x in self._own if is_idle_notice(x)]
        if notices and self.still_true is not None:
            true = await self.still_true(notices)
            self.read([x.id for x in notices if x.id not in true])
            self._held = [true.get(x.id, x) for x in self._held]

    async def _look(self) -> None:
        if not (self._bell.is_set() or self._looking.locked()):
            return
        async with self._looking:
            if not self._bell.is_set():
                return
            self._bell = Latch()  # before reading, so that a letter that lands meanwhile rings again
            stored = await self._store.waiting(self._agent)
            if known := [letter.id for letter in stored if letter.id in self._delivered]:
                self.acknowledge(known)  # in the transcript, but a crash or an interrupt came before the store knew
            gone = self._handed | self._read
            self._held = [x for x in stored if x.id not in gone and x.id not in self._delivered]
            ids = {letter.id for letter in stored}
            self._handed, self._read = self._handed & ids, self._read & ids

    @property
    def rung(self) -> Latch:
        """Set by the next ring. For code that reads what is aside: have it before looking, and nothing is missed."""
        return self._rung

    async def aside(self) -> list[Letter]:
        """Letters for code, in the order they came; `read` removes them."""
        with anyio.CancelScope(shield=True):  # a bell that was heard must be followed by a look
            await self._look()
        return [x for x in self._held if self.is_aside is not None and self.is_aside(x)]

    def read(self, letters: Sequence[LetterId]) -> None:
        """Code has read these. After a crash before the store knows, they come again: no transcript has them."""
        self._read.update(letters)
        self._held = [x for x in self._held if x.id not in self._read]
        self.acknowledge(letters)

    @property
    def _own(self) -> list[Letter]:
        aside = self.is_aside
        return self._held if aside is None else [x for x in self._held if not aside(x)]

    async def _gather(self) -> None:
        """If only notices wait, wait a moment for jobs that end just now; anything else is handed over at once."""
        if not self._may_gather():
            return
        with anyio.move_on_after(GATHER):
            while self._may_gather():
                await self._bell.wait()
                with anyio.CancelScope(shield=True):  # a bell that was heard must be followed by a look
                    await self._look()

    def _may_gather(self) -> bool:
        own = self._own
        if self.more_comes is None or all(map(is_quiet, own)):
            return False
        return all(isinstance(x.body, Notice) or is_quiet(x) for x in own) and bool(self.more_comes())

    def acknowledge(self, letters: Sequence[LetterId]) -> None:
        self._store.delivered_soon(letters)
        if self.on_read is not None:
            self.on_read()

    async def withdraw(self, letter: LetterId) -> bool:
        """Take a letter back for the person. False if the agent already has it."""
        if letter in self._handed or letter in self._delivered:
            return False
        self._handed.add(letter)  # a look at the store in progress must not hand it out
        self.forget(letter)
        return await self._store.withdraw(letter)

    def forget(self, letter: LetterId) -> None:
        """Drop a letter that was withdrawn from the store before it was handed over."""
        self._held = [held for held in self._held if held.id != letter]

    async def unread(self) -> list[Letter]:
        """Letters that wait to be handed over."""
        stored = await self._store.waiting(self._agent)
        gone = self._handed | self._read
        return [x for x in stored if x.id not in gone and x.id not in self._delivered]

    def hand_back(self) -> None:
        """The turn ended before everything that it took was delivered: look at the store again."""
        self._handed.clear()
        self.ring()

    def give_up(self) -> None:
        """The store cannot be used: what was taken stays there until somebody rings."""
        self._handed.clear()
        self._held, self._bell = [], Latch()

    @property
    def quiet(self) -> bool:
        """Whether nothing waits that wakes the agent, and no bell has rung."""
        return not self._loud and not self._bell.is_set()

    @property
    def _loud(self) -> bool:
        return not all(map(is_quiet, self._own))

    async def wait(self) -> None:
        if not self._loud:
            await self._bell.wait()
