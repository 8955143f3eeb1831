"""Adds up what sessions and their agents have used, for people and programs."""

from collections.abc import Sequence

from msgspec import Struct

from teamwright.core.policies.spawn import FORK
from teamwright.models.prices import saved_by_cache
from teamwright.store.tables.state import Cost


class AgentCost(Struct):
    """One row of `cost`. Input includes what the cache served."""

    id: str
    name: str
    parent: str | None
    session: str
    models: list[str] = []
    usd: float = 0.0
    unknown_cost: bool = False
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    turns: int = 0

    def add(self, c: Cost) -> None:
        self.models = [*dict.fromkeys([*self.models, c.model])]
        self.usd += c.usd
        self.unknown_cost |= c.unknown_cost
        self.input_tokens += c.usage.input + c.usage.cache_read + c.usage.cache_write
        self.cached_tokens += c.usage.cache_read
        self.output_tokens += c.usage.output
        self.seconds += c.seconds
        self.turns += c.turns


class CostReport(Struct, frozen=True):
    """The report as `cost --json` prints it."""

    total_usd: float
    unknown_cost: bool
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    saved_by_cache_usd: float
    saved_by_forks_usd: float
    agents: list[AgentCost]

    @property
    def total(self) -> AgentCost:
        """The last row of the table."""
        every = AgentCost("all", "", None, "", [], self.total_usd, self.unknown_cost, self.input_tokens)
        every.cached_tokens, every.output_tokens = self.cached_tokens, self.output_tokens
        every.seconds, every.turns = sum(a.seconds for a in self.agents), sum(a.turns for a in self.agents)
        return every


def cost_of(costs: Sequence[Cost]) -> CostReport:
    agents: dict[tuple[str, str], AgentCost] = {}
    total = AgentCost("all", "", None, "")
    for c in costs:
        agents.setdefault((c.session, c.agent), AgentCost(c.agent, c.name, c.parent, c.session)).add(c)
        total.add(c)
    return CostReport(
        total.usd,
        total.unknown_cost,
        total.input_tokens,
        total.cached_tokens,
        total.output_tokens,
        _saved(costs),
        _saved([c for c in costs if c.kind == FORK]),
        list(agents.values()),
    )


def _saved(costs: Sequence[Cost]) -> float:
    return sum(saved_by_cache(c.model, c.usage) or 0.0 for c in costs)
