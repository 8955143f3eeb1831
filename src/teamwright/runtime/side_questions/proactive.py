"""Proactive mode: an idle main agent gets a tick, and may act by itself."""

import anyio

from teamwright.core.data.letter import SYSTEM, Letter, Prompt
from teamwright.core.data.message import Text
from teamwright.core.ids import new_letter_id
from teamwright.runtime.agents.agent import Agent

TICK = (
    "Nobody has asked anything for a while. If something useful is left to do for what you were asked, do it now; "
    "otherwise answer in a word that there is nothing."
)


async def tick(main: Agent, seconds: float) -> None:
    """Post ticks, only to an agent that rests with an empty inbox, so that at most one waits."""
    while True:
        await anyio.sleep(seconds)
        if not main.running and main.inbox.quiet:
            await main.inbox.post(Letter(new_letter_id(), main.id, SYSTEM, Prompt((Text(TICK),)), "later"))
