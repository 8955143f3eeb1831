"""Remote agents of a session: what workers are told of them, and how their code leaves and comes back."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.core.data.charter import Charter, HookName, write_rules
from teamwright.core.data.code import Author, BranchBack, Journey, Landed
from teamwright.core.data.definition import AgentDefinition
from teamwright.core.ids import AgentId
from teamwright.library import instructions
from teamwright.runtime.agents.limits.shared import share_limits
from teamwright.runtime.concurrency.shared_run import SharedRun
from teamwright.runtime.workers.answering import Answering
from teamwright.runtime.workers.remotes import Draft, RemoteAgents, RemoteDeps
from teamwright.store.tables.bundles import BundleTable
from teamwright.store.tables.remotes import RemoteTable

if TYPE_CHECKING:
    from teamwright.app.services import Services
    from teamwright.core.data.extensions.hook import HookEvent
    from teamwright.store.engine.space import Space

_HOOKS: tuple[HookName, ...] = ("PreToolUse", "TaskCreated", "TaskCompleted", "TeammateIdle")


class TravellingCode:
    """Code that leaves this repository, and comes back to it."""

    def __init__(self, services: "Services", space: "Space") -> None:
        self.services, self.space = services, space
        self._departures: dict[tuple[Path, str], SharedRun[tuple[Journey, Author]]] = {}

    async def depart(self, cwd: Path, fetch: str) -> tuple[Journey, Author]:
        """Agents that are sent at the same time share one look at the repository."""
        return await self._departures.setdefault((cwd, fetch), SharedRun()).get(partial(self._depart, cwd, fetch))

    async def _depart(self, cwd: Path, fetch: str) -> tuple[Journey, Author]:
        from teamwright.host.git.travel.departure import author_of, depart  # noqa: PLC0415

        space, own = self.space, self.services.workspace.own
        bundles, most = BundleTable(space.database), own.engine.code_mb
        journey = await depart(cwd, bundles.of, space.objects, code_mb=most, scratch=space.home.run, fetch=fetch)
        for parcel in journey.parcels:
            await bundles.add(parcel)
        return journey, await author_of(cwd)

    async def land(self, name: str, agent: AgentId, back: BranchBack) -> Landed:
        from teamwright.host.git.travel.arrival import Sender, land  # noqa: PLC0415

        sender = Sender(name, agent, self.services.store.session)
        project = self.services.workspace.project
        return await land(project, sender, back, self.space.objects, scratch=self.space.home.run)


def open_remotes(services: "Services", space: "Space") -> RemoteAgents:
    from teamwright.store.engine.wire.address import agent_url  # noqa: PLC0415

    def provider(model: str) -> str:
        return model.partition("/")[0]

    def url(agent: AgentId) -> str:
        return agent_url(space.address, agent)

    def charter(draft: Draft, journey: Journey, author: Author) -> Charter:
        return make_charter(services, draft, journey, author)

    async def shared() -> None:
        main, store = services.supervisor.main, services.store
        await share_limits(main.meter, store.state, store.session, services.since)

    own = services.workspace.own
    deps = RemoteDeps(
        session=services.store.session,
        database=space.database,
        charter=charter,
        put=space.lines.put,
        follow=space.follow,
        fetch=space.fetch_lines,
        url=url,
        code=TravellingCode(services, space),
        provider=provider,
        wait_seconds=own.engine.worker_wait_seconds,
        labels=labels_of,
        share_limits=shared,
    )
    answering = Answering(services, RemoteTable(space.database), services.workspace.project)
    return RemoteAgents(services, deps, answering)


def labels_of(definition: AgentDefinition) -> Mapping[str, str]:
    return definition.remote.labels


def make_charter(services: "Services", draft: Draft, journey: Journey, author: Author) -> Charter:
    workspace, options, parent = services.workspace, services.options, draft.parent
    main, own = services.supervisor.main, workspace.own
    limits = main.meter.limits
    return Charter(
        session=services.store.session,
        agent=draft.agent,
        name=draft.name,
        definition=draft.definition,
        model=draft.model,
        effort=draft.effort,
        mode=services.mode,
        own_mode=draft.mode,
        parent=parent.id,
        depth=parent.depth + 1,
        description=draft.description,
        call=draft.call,
        rules=write_rules(services.rules.rules, str(workspace.project)),
        usd=limits.usd,
        tokens=limits.tokens,
        since=services.since,
        hooks=_hooks(services),
        asked=services.asked,
        patience=own.question_timeout_seconds,
        instructions=_instructions(services) if "user" in options.setting_sources else "",
        trusted=workspace.trusted,
        author=author.name,
        email=author.email,
        project=journey.project,
        base=journey.base,
        directory=journey.directory,
        upstream=journey.upstream,
    )


def _hooks(services: "Services") -> dict[HookName, tuple[str, ...]]:
    """The lead's hooks that workers must ask about, by their matchers."""
    hooks = services.points.hooks
    if hooks is None:
        return {}
    events: dict[HookName, HookEvent] = {name: name for name in _HOOKS}
    return {name: found for name, event in events.items() if (found := hooks.matchers(event))}


def _instructions(services: "Services") -> str:
    """The person's own instructions, wherever their agents run."""
    workspace = services.workspace
    found = instructions.collect(
        workspace.user,
        workspace.project,
        home=workspace.user,
        state=workspace.home.root,
        trusted=workspace.trusted,
        sources=("user",),
    )
    return instructions.render(found, workspace.cwd) if found.files else ""
