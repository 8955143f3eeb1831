"""Session in this process, driven by a program: prompts with commands, hooks, servers and usage figures."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.event import Warned
from teamwright.core.data.extensions.hook import DEFAULT_SECONDS, HookEvent
from teamwright.core.data.message import Usage
from teamwright.core.data.op import Say
from teamwright.core.data.team import split_address
from teamwright.core.errors import StoreError, UsageError
from teamwright.core.ids import AgentId
from teamwright.runtime.local_session import LocalSession
from teamwright.runtime.slash_commands import take_prompt

if TYPE_CHECKING:
    from teamwright.runtime.agents.resources import Exchange
    from teamwright.runtime.extensions.hooks import HookFunction, Watch
    from teamwright.runtime.rewind.restore import Restored
    from teamwright.runtime.teams.tasks.open_work import OpenWork


class UsageReport(Struct, frozen=True):
    """What the session has used. `usd` is the known part; `usd_by_model` has None for a model of unknown price."""

    turns: int
    api_seconds: float
    usd: float
    usage: Usage
    by_model: Mapping[str, Usage]
    usd_by_model: Mapping[str, float | None]


class DrivenSession(LocalSession):
    """All that headless mode and the door do with a session in their own process."""

    # --- prompts

    async def take(self, say: Say) -> None:
        """Post a prompt, or run what it names as `/name`."""
        await take_prompt(self._session, say)

    def find_agent(self, named: str) -> AgentId:
        """Find an agent by id, name or address. An unknown id is returned as it is, for the session to refuse."""
        name, team = split_address(named)
        if (roster := self._roster) is not None:
            for known in [team] if team else sorted(roster.names):
                if (member := roster.find(known, name)) is not None:
                    return member.agent
        living = [id for id, known in self.agents().items() if named in (id, known)]
        if len(living) > 1:
            raise UsageError(f"several agents are called {named!r}: use an id ({', '.join(living)})")
        return living[0] if living else AgentId(named)

    def answer_nothing(self, why: str) -> None:
        """From now on nobody answers questions: waiting ones are denied now, later ones at once."""
        self._session.questions.leave(why)

    def warn(self, words: str) -> None:
        self._session.tell(self.main, Warned(words))

    # --- what the driving program brings

    def add_agents(self, agents: Mapping[str, Any]) -> None:
        """Add definitions; before the first turn."""
        self._brought.add_agents(agents)

    def only_skills(self, names: Sequence[str]) -> None:
        self._brought.only_skills(names)

    def use_driver(self, exchange: "Exchange") -> None:
        """Talk to the MCP servers of the driving program through `exchange`."""
        self._brought.use_driver(exchange)

    def add_hook(
        self,
        event: HookEvent,
        matcher: str,
        function: "HookFunction",
        *,
        seconds: float = DEFAULT_SECONDS,
        blocks: bool = False,
        name: str = "",
    ) -> None:
        """Raises re.error for an invalid matcher."""
        hooks = self._brought.points.use()
        hooks.add_callable(event, matcher, function, seconds=seconds, blocks=blocks, name=name)

    def watch_hooks(self, watch: "Watch") -> None:
        self._brought.points.use().watch = watch

    # --- state

    @property
    def tools(self) -> list[str]:
        """What the main agent may call."""
        return [tool.name for tool in self._prompt.tools]

    @property
    def kinds(self) -> Mapping[str, AgentDefinition]:
        return self._session.kinds()

    @property
    def offered_skills(self) -> list[str]:
        """Skills that the model may call with the Skill tool."""
        return [skill.name for skill in self._brought.offered]

    # --- progress

    async def open_work(self) -> "list[OpenWork]":
        """Tasks and requests that its teams have left open; none if the store cannot be read."""
        with suppress(StoreError):
            teams = self._session.services.open_teams
            return [] if teams is None else await teams.open_work()
        return []

    async def restore_files(self, message: str, *, dry: bool) -> "Restored":
        """Restore files as they were before the line with this id; the conversation stays as it is."""
        services = self._session.services
        return await services.rewinding.restore_files(message, dry=dry)

    async def at_rest(self) -> None:
        """Wait until the main agent has nothing to do."""
        await self._session.main.at_rest()

    @property
    def owes_turn(self) -> bool:
        """Whether an agent runs, or has something to run for; commands do not count."""
        main, supervisor = self._session.main, self._session.supervisor
        jobs = [job for job in supervisor.jobs.unfinished(main.id) if job.kind == "agent"]
        return bool(jobs) or not main.resting or any(agent.running for agent in supervisor.agents)

    def report_usage(self) -> UsageReport:
        meter = self._session.meter
        return UsageReport(
            turns=meter.turns,
            api_seconds=meter.api_seconds,
            usd=meter.usd,
            usage=meter.usage,
            by_model=meter.by_model,
            usd_by_model=meter.usd_by_model,
        )
