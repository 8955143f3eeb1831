"""Meters what agents use against their limits, and keeps the ledger that survives the process."""

from collections.abc import Callable

from msgspec import Struct

from teamwright.core.data.message import Delta, Reply, ReplyStarted, Request, Retrying, Usage
from teamwright.core.ids import AgentId, SessionId
from teamwright.core.policies.budget import Limits, Reached, Spent, reached, words
from teamwright.core.policies.compaction import size
from teamwright.core.ports import Model, OnDelta
from teamwright.store.tables.state import StateStore

Price = Callable[[str, Usage], float | None]  # model, usage -> US dollars, None if unknown
Clock = Callable[[], float]  # monotonic seconds


class AgentMeter(Struct, eq=False):
    """What an agent and all below it have used. Limits form a tree: a child draws on its parent's, too.

    The main agent's limits are the session's. Turns are an agent's own, and restart with each message of the person.
    """

    limits: Limits
    price: Price
    clock: Clock
    began: float  # by that clock
    parent: "AgentMeter | None" = None
    turns: int = 0
    api_seconds: float = 0.0
    by_model: dict[str, Usage] = {}
    usd_by_model: dict[str, float | None] = {}
    _all_usd: float = 0.0
    _all_tokens: int = 0

    def child(self, limits: Limits) -> "AgentMeter":
        return AgentMeter(limits, self.price, self.clock, self.clock(), self)

    def new_turn(self) -> None:
        self.turns = 0

    def answered(self, model: str, usage: Usage, seconds: float) -> float | None:
        """Add one answered turn; returns what it cost, None where the price is unknown."""
        self.turns += 1
        return self.count(model, usage, seconds)

    def count(self, model: str, usage: Usage, seconds: float = 0.0) -> float | None:
        """Add tokens, also of a call that was lost, here and all the way up."""
        usd = self.price(model, usage)
        meter: AgentMeter | None = self
        while meter is not None:
            meter.add(model, usage, usd, seconds)
            meter = meter.parent
        return usd

    def add(self, model: str, usage: Usage, usd: float | None, seconds: float) -> None:
        self.api_seconds += seconds
        self.by_model[model] = self.by_model.get(model, Usage()) + usage
        before = self.usd_by_model.get(model, 0.0)
        self.usd_by_model[model] = None if before is None or usd is None else before + usd

    @property
    def usage(self) -> Usage:
        return sum(self.by_model.values(), Usage())

    @property
    def usd(self) -> float:
        """The known part of the cost."""
        return sum(x for x in self.usd_by_model.values() if x is not None)

    @property
    def unpriced(self) -> bool:
        """Is there more to it, of a model whose price is not known?"""
        return None in self.usd_by_model.values()

    @property
    def seconds(self) -> float:
        return self.clock() - self.began

    def reached(self, *, turns: bool = True) -> Reached | None:
        """At a limit of its own an agent may report; at one that it shares, only the main agent does.

        Without `turns`, for what is no turn, only money, tokens and time count.
        """
        if limit := reached(self.limits, self._spent(self.turns if turns else 0)):
            return Reached(limit, words(limit, self.limits), may_report=limit != "turns")
        above = self.parent
        while above is not None:
            if limit := reached(above.limits, above._spent(0)):
                return Reached(limit, f"{words(limit, above.limits)} that it shares", may_report=False)
            above = above.parent
        return None

    def others_spent(self, usd: float, tokens: int) -> None:
        """What all processes of the session have used together; this one alone cannot know it."""
        self._all_usd, self._all_tokens = usd, tokens

    def _spent(self, turns: int) -> Spent:
        usd = max(self.usd, self._all_usd) if self.limits.usd is not None else 0.0
        tokens = max(self.usage.total, self._all_tokens) if self.limits.tokens is not None else 0
        return Spent(turns, usd, tokens, self.seconds)


class MeteredModel(Struct, eq=False, kw_only=True):
    """A model whose every call has a row in the ledger before it leaves, settled after it."""

    model: Model
    ledger: StateStore
    meter: AgentMeter
    session: SessionId
    agent: AgentId
    turns: bool = True  # an answer is a turn of the agent, not a question of the runtime's own
    tokens: int = 0  # of its last answer

    async def reply(self, request: Request, on_delta: OnDelta) -> Reply:
        estimate = estimate_input(request, self.tokens)
        row = await self.ledger.open_call(self.session, self.agent, request.model, estimate)
        spoilt = _Spoilt(on_delta)
        try:
            reply = await self.model.reply(request, spoilt.watch)
        except BaseException:  # also an interrupt: what began to answer is billed
            spoilt.give_up()
            usd = self.meter.count(request.model, spoilt.usage) if spoilt.usage.total else 0.0
            self.ledger.settle_soon(row, spoilt.usage, usd, 0, "failed")
            raise
        self.tokens = reply.usage.total
        usage = reply.usage + spoilt.usage
        count = self.meter.answered if self.turns else self.meter.count
        usd = count(request.model, usage, reply.seconds)
        self.ledger.settle_soon(row, usage, usd, round(reply.seconds * 1000), "ok")
        return reply


class _Spoilt:
    """Tokens of attempts that began to answer and were lost: the provider bills them all the same."""

    def __init__(self, on_delta: OnDelta) -> None:
        self._on_delta = on_delta
        self._started = Usage()
        self.usage = Usage()

    def watch(self, delta: Delta) -> None:
        if isinstance(delta, ReplyStarted):
            self._started = delta.usage
        elif isinstance(delta, Retrying):
            self.give_up()
        self._on_delta(delta)

    def give_up(self) -> None:
        self.usage += self._started
        self._started = Usage()


def estimate_input(request: Request, last: int) -> int:
    """Tokens that a request will count, roughly: what the last one had, and four characters a token for what is new."""
    if last:
        return last + sum(size(m) for m in request.messages[request.previous :]) // 4
    prompt = sum(map(len, request.system)) + sum(len(t.description) + 400 for t in request.tools)
    return (prompt + sum(size(m) for m in request.messages)) // 4
