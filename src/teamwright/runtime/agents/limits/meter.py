"""Meters what agents use, checks it against their limits, and keeps the ledger that survives the process."""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.data.message import (
    Delta,
    InputDelta,
    Reply,
    ReplyStarted,
    Request,
    Retrying,
    TextDelta,
    ThinkingDelta,
    Usage,
)
from teamwright.core.errors import ModelError
from teamwright.core.ids import AgentId, SessionId
from teamwright.core.policies.budget import Limits, Reached, Spent, reached, words
from teamwright.core.policies.compaction import size
from teamwright.core.ports import Model, OnDelta
from teamwright.store.tables.state import StateStore

Price = Callable[[str, Usage], float | None]  # model, usage -> US dollars, None if unknown
Clock = Callable[[], float]  # monotonic seconds


class AgentMeter(Struct, eq=False):
    """What an agent and all below it have used. Limits form a tree: a child also draws on its parent's.

    The main agent's limits are the session's. Turns count per agent, and restart with each message from the person.
    """

    limits: Limits
    price: Price
    clock: Clock
    began: float  # by `clock`
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
        """Add one answered turn; returns its cost, None if the price is unknown."""
        self.turns += 1
        return self.count(model, usage, seconds)

    def count(self, model: str, usage: Usage, seconds: float = 0.0) -> float | None:
        """Add tokens, also of a lost call, here and in all parents."""
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
        """Whether some usage has no known price."""
        return None in self.usd_by_model.values()

    @property
    def seconds(self) -> float:
        return self.clock() - self.began

    def reached(self, *, turns: bool = True) -> Reached | None:
        """The limit that is reached, if any. At its own limits, other than turns, an agent may still report.

        `turns=False` is for requests that are no turns: only money, tokens and time count.
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
        """Note what all processes of the session have used together, which this one alone cannot know."""
        self._all_usd, self._all_tokens = usd, tokens

    def _spent(self, turns: int) -> Spent:
        usd = max(self.usd, self._all_usd) if self.limits.usd is not None else 0.0
        tokens = max(self.usage.total, self._all_tokens) if self.limits.tokens is not None else 0
        return Spent(turns, usd, tokens, self.seconds)


class MeteredModel(Struct, eq=False, kw_only=True):
    """A model that writes each call to the ledger before sending it, and settles the row afterwards."""

    model: Model
    ledger: StateStore
    meter: AgentMeter
    session: SessionId
    agent: AgentId
    turns: bool = True  # an answer counts as a turn; False for the runtime's own questions
    tokens: int = 0  # of its last answer

    async def reply(self, request: Request, on_delta: OnDelta) -> Reply:
        estimate = estimate_input(request, self.tokens)
        row = await self.ledger.open_call(self.session, self.agent, request.model, estimate)
        spoilt = _Spoilt(on_delta, estimate)
        try:
            reply = await self.model.reply(request, spoilt.watch)
        except BaseException as error:  # also an interrupt: an answer that began is billed
            spoilt.give_up(lost=isinstance(error, ModelError) and error.lost)
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
    """Counts tokens of attempts that began to answer or were lost: the provider bills them too, with or without
    figures."""

    def __init__(self, on_delta: OnDelta, estimate: int) -> None:
        self._on_delta, self._estimate = on_delta, estimate
        self._started: Usage | None = None
        self._said = 0  # characters
        self.usage = Usage()

    def watch(self, delta: Delta) -> None:
        match delta:
            case ReplyStarted():
                self._started = delta.usage
            case TextDelta() | ThinkingDelta():
                self._said += len(delta.text)
            case InputDelta():
                self._said += len(delta.json)
            case Retrying():
                self.give_up(lost=delta.lost)
            case _:
                pass
        self._on_delta(delta)

    def give_up(self, *, lost: bool) -> None:
        if self._started is not None or lost:
            known = self._started or Usage()
            known = known if known.total else Usage(self._estimate)
            self.usage += replace(known, output=max(known.output, self._said // 4))
        self._started, self._said = None, 0


def estimate_input(request: Request, last: int) -> int:
    """Estimate the tokens of a request: those of the last one, and one for every four new characters."""
    if last:
        return last + sum(size(m) for m in request.messages[request.previous :]) // 4
    prompt = sum(map(len, request.system)) + sum(len(t.description) + 400 for t in request.tools)
    return (prompt + sum(size(m) for m in request.messages)) // 4
