"""Limits that the processes of a session share: the ledger says what the others have used."""

from teamwright.core.ids import SessionId
from teamwright.runtime.agents.limits.meter import AgentMeter
from teamwright.store.tables.state import StateStore


async def share_limits(meter: AgentMeter, state: StateStore, session: SessionId, since: int) -> None:
    """Count usage from `since` on: when the main agent's process began, in milliseconds."""
    if meter.limits.usd is not None or meter.limits.tokens is not None:
        spent = await state.spent(session, since)
        meter.others_spent(spent.usd, spent.usage.total)
