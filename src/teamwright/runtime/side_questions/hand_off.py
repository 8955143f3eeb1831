"""Checks what an agent did before its result is handed over, by a request of its own instead of the agent's
judgement."""

from collections.abc import Callable

import anyio
from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.policies.side_prompts import HAND_OFF_RULES, hand_off_ask, one_line
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.side_questions.fork import run_quietly

LIMIT = 20.0  # seconds: then the result is handed over unchecked
WARNING = "Warning of the check of this agent's calls, which is a model's opinion: {}"


class HandOffCheck(Struct, frozen=True):
    log: Callable[[str], None]

    async def look(self, agent: Agent) -> str:
        """A warning, or nothing; nothing also if the check failed or took too long, or the agent has used no tool."""
        calls = [call for message in agent.history.messages for call in message.calls]
        found = ""

        async def ask() -> None:
            nonlocal found
            task = "\n\n".join(agent.history.prompts)
            request = replace(
                agent.request(),
                system=(HAND_OFF_RULES,),
                tools=(),
                messages=(hand_off_ask(task, calls),),
                previous=0,
                shared=0,
            )
            found = one_line((await agent.aside.reply(request, lambda _: None)).answer)

        if calls and agent.meter.reached(turns=False) is None:
            with anyio.move_on_after(LIMIT):
                await run_quietly(ask, f"the check of agent {agent.id}", self.log)
        return WARNING.format(found) if found else ""
