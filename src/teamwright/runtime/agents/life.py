"""Life loop of every agent: turns while letters come, a wait while its jobs run, then rest as its policy says."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from teamwright.core.data.event import TurnEnded
from teamwright.core.data.letter import JobStatus, Letter
from teamwright.runtime.agents.agent import Agent


class LifePolicy(Protocol):
    """What differs between the main agent, an agent that runs once, and a teammate."""

    @property
    def over(self) -> bool: ...

    async def take(self) -> Sequence[Letter]:
        """The letters that are due."""
        ...

    async def turn(self, letters: Sequence[Letter]) -> None: ...

    async def wait_for_jobs(self) -> bool:
        """Wait while its own jobs run. False if none does, or if it does not wait for them."""
        ...

    async def rest(self) -> None:
        """Nothing is left to do: end, or wait for a letter."""
        ...


async def live(policy: LifePolicy) -> None:
    while not policy.over:
        if letters := await policy.take():
            await policy.turn(letters)
        elif not await policy.wait_for_jobs():
            await policy.rest()


async def turn_in_slot(agent: Agent, letters: Sequence[Letter]) -> TurnEnded:
    """Run a turn in a slot. An agent that waits for a slot, or has finished its turn, needs no file handle."""
    if agent.slot.must_wait:
        agent.rest()
    await agent.slot.take()
    try:
        return await agent.turn(letters)
    finally:
        agent.slot.give_back()
        agent.rest()


class MainLife:
    """Lives as long as the session. Jobs report by letters; the session itself waits for them where it must."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    @property
    def over(self) -> bool:
        return self._agent.closing

    async def take(self) -> Sequence[Letter]:
        letters = await self._agent.take()
        return () if self._agent.closing else letters  # the store keeps them for a resume

    async def turn(self, letters: Sequence[Letter]) -> None:
        await self._agent.turn(letters)

    async def wait_for_jobs(self) -> bool:
        return False

    async def rest(self) -> None:
        await self._agent.wait_at_rest()


class OnceLife:
    """Lives until nothing is left to say and none of its own jobs runs, or until a turn ends badly."""

    def __init__(self, agent: Agent, jobs: Callable[[Agent, float], Awaitable[float | None]]) -> None:
        """`jobs` waits while some run, and returns how long only commands held up the end; None: no job runs."""
        self._agent, self._jobs, self._waited = agent, jobs, 0.0
        self.end: tuple[JobStatus, str] | None = None

    @property
    def over(self) -> bool:
        return self.end is not None

    async def take(self) -> Sequence[Letter]:
        return await self._agent.inbox.take(at_rest=True)

    async def turn(self, letters: Sequence[Letter]) -> None:
        end = await turn_in_slot(self._agent, letters)
        if end.reason != "done":
            self.end = how_ended(end)

    async def wait_for_jobs(self) -> bool:
        waited = await self._jobs(self._agent, self._waited)
        self._waited += waited or 0.0
        return waited is not None

    async def rest(self) -> None:
        """End if no letter waits. A later letter resumes the agent: nothing is awaited between this check and its
        end."""
        if self._agent.inbox.quiet:
            self.end = "completed", ""


def how_ended(end: TurnEnded) -> tuple[JobStatus, str]:
    """How an agent's last turn ends its run. At a limit the run counts as completed, and says so."""
    match end.reason:
        case "max_turns" | "max_budget":
            return "completed", end.error
        case "interrupted":
            return "killed", end.error
        case _:
            return "failed", end.error
