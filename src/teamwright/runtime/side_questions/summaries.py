"""One-line summaries of what agents are doing, written by a fork of each; optional."""

from collections.abc import Callable, Coroutine
from typing import Any

import anyio
from msgspec.structs import replace

from teamwright.core.data.event import JobProgressed, Replied
from teamwright.core.ids import AgentId
from teamwright.core.policies.side_prompts import SUMMARY_WORDS, one_line, summary_ask
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.jobs.jobs import Job, Tell
from teamwright.runtime.side_questions.fork import run_forked, run_quietly


class Summaries:
    """Driven by agents' replies instead of a clock: an agent that has said nothing new is not asked again."""

    def __init__(
        self,
        seconds: float,
        launch: Callable[[Callable[[], Coroutine[Any, Any, None]]], None],
        tell: Tell,
        log: Callable[[str], None],
    ) -> None:
        self._pause = round(seconds * 1000)
        self._launch, self._tell, self._log = launch, tell, log
        self._asked: dict[AgentId, int] = {}  # when each was last asked, in milliseconds
        self._asking: dict[AgentId, anyio.CancelScope] = {}

    def heard(self, agent: Agent, job: Job, said: Replied, progress: JobProgressed) -> None:
        """Ask for a summary if one is due. A reply without calls is the last: nothing is left to be summed up."""
        if not said.message.calls or agent.id in self._asking:
            return
        if agent.now() - self._asked.get(agent.id, job.started) < self._pause:
            return
        self._asked[agent.id] = agent.now()
        scope = self._asking[agent.id] = anyio.CancelScope()

        async def sum_up() -> None:
            done = await run_forked(agent, [summary_ask()])
            line = one_line(done.text, words=SUMMARY_WORDS)
            if line and job.status == "running":
                self._tell(job.owner, replace(progress, summary=line))

        async def run() -> None:
            try:
                with scope:
                    await run_quietly(sum_up, f"a summary of agent {agent.id}", self._log)
            finally:
                if self._asking.get(agent.id) is scope:
                    del self._asking[agent.id]

        self._launch(run)

    def forget(self, id: AgentId) -> None:
        """The agent has ended: drop its request."""
        self._asked.pop(id, None)
        if scope := self._asking.pop(id, None):
            scope.cancel()
