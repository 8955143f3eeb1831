"""Limits that several processes of a session share: what the others have used is in the ledger."""

from teamwright.core.ids import SessionId
from teamwright.runtime.agents.limits.meter import AgentMeter
from teamwright.store.tables.state import StateStore


async def share_limits(meter: AgentMeter, state: StateStore, session: SessionId, since: int) -> None:
    """`since`: when the process of the main agent began, in milliseconds. What is used from then on counts."""
    if meter.limits.usd is not None or meter.limits.tokens is not None:
        spent = await state.spent(session, since)
        meter.others_spent(spent.usd, spent.usage.total)
