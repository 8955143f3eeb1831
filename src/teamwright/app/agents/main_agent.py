"""Makes the main agent of a session: its model, its prompt, its tools, its desk."""

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from teamwright.app.agents.prompts import main_system, roots_of
from teamwright.app.models import GIVEN, build_limits, chosen_effort, default_of
from teamwright.core.data.conversation.history import History
from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.event import Rendered
from teamwright.core.permissions.consent import Mode
from teamwright.core.ports import Desk, Tool
from teamwright.host.files.mounts import is_near
from teamwright.models.prices import cost
from teamwright.models.routed import UNPRICED, is_priced
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.agents.limits.meter import AgentMeter
from teamwright.runtime.agents.resume import Opened
from teamwright.runtime.agents.spec import AgentSpec
from teamwright.store.files import prompts
from teamwright.store.settings.schema import Settings

if TYPE_CHECKING:
    from teamwright.app.services import Services
    from teamwright.runtime.side_questions.service import SideQuestions


def make_main(services: "Services", opened: Opened) -> Agent:
    agents, before = services.agents, opened.history.rendered
    spec = _spec(services, opened.history)
    main = agents.make(spec, opened.history, opened.transcript)
    if before is not None and _is_rendered(services, opened, before, spec):
        main.prompt = agents.stored_prompt(before.prompt)
    else:
        system = partial(main_system, services, spec.model, spec.mode or "default", spec.toolset.specs)
        prompt = agents.prompt("main", system, spec.toolset.specs)
        main.render(prompt, spec.model, "resume" if before else "start", spec.effort)
    pair = services.models.planned
    main.plan_models = pair if pair and spec.model in pair else None  # a resumed one may have another model
    main.set_mode(spec.mode or "default")
    services.supervisor.own(main)
    return main


def _spec(services: "Services", history: History) -> AgentSpec:
    options, settings, definition = services.options, services.workspace.settings, services.registry.main_definition
    before, own = history.rendered, definition or AgentDefinition(name="", description="")
    limits = build_limits(options.limits, settings)
    if limits.turns is None:
        limits = replace(limits, turns=own.max_turns)
    model = _model(services, history)
    if limits.usd is not None:
        _check_prices(services, model, limits.usd)
    return AgentSpec(
        id=services.main,
        name="main",
        kind="main",
        model=model,
        effort=options.effort or own.effort or (before.effort if before else chosen_effort(services.workspace)),
        toolset=services.registry.main_toolset(services.extensions.served(None)),
        desk=build_desk(services, history),
        mode=_mode(options.mode or own.permission_mode or settings.permissions.default_mode, settings),
        meter=AgentMeter(limits, cost, time.monotonic, time.monotonic()),
        approver="person" if services.asked else "nobody",
    )


def _check_prices(services: "Services", model: str, usd: float) -> None:
    """Say which models a budget in dollars does not count, or fail if it must count all."""
    models = services.models
    for name in dict.fromkeys(filter(None, (model, *(models.planned or ()), models.fallback))):
        models.routed.check(name)
        if not is_priced(name):
            services.notes.append(UNPRICED.format(model=name, usd=usd))


def _mode(wanted: Mode | None, settings: Settings) -> Mode:
    off = wanted == "bypassPermissions" and settings.permissions.bypass_off
    return "default" if off or wanted is None else wanted


def _is_rendered(services: "Services", opened: Opened, before: Rendered, spec: AgentSpec) -> bool:
    """Whether the earlier prompt still holds. Servers' tools are still to come."""
    options = services.options
    if options.system_prompt is not None or options.append_system_prompt or options.agent:
        return False
    if before.model != spec.model or before.effort != spec.effort:
        return False
    stored = services.written.servers or prompts.get(opened.files.prompts, before.prompt)[1] == spec.toolset.specs
    return bool(stored)


def render_again(services: "Services", served: Mapping[str, Tool]) -> None:
    """Render again with other tools. If they are exactly those of the present prompt, it stays."""
    main, agents, toolset = services.supervisor.main, services.agents, services.registry.main_toolset(served)
    main.use_tools(toolset.tools, toolset.limits)
    if main.prompt.tools != toolset.specs:
        system = partial(main_system, services, main.model, main.mode or "default", toolset.specs)
        prompt = agents.prompt(object(), system, toolset.specs)
        main.render(prompt, main.model, "tools", main.effort)


def _model(services: "Services", history: History) -> str:
    """The model that was asked for; else the session's own; else the default."""
    models, before, definition = services.models, history.rendered, services.registry.main_definition
    if models.model:
        return models.model
    if definition and definition.model and definition.model != "inherit":
        return models.resolve(definition.model)
    if before and before.model != GIVEN:
        return before.model
    workspace = services.workspace
    return models.default or default_of(models, workspace)


def open_side_questions(services: "Services") -> "SideQuestions":
    """The runtime's own questions to the main agent. Only those that the settings switch on are sent unasked."""
    from teamwright.runtime.side_questions.memory import Memory  # noqa: PLC0415
    from teamwright.runtime.side_questions.service import Habits, SideQuestions  # noqa: PLC0415
    from teamwright.store.files.memories import Notebook  # noqa: PLC0415

    options, workspace, supervisor = services.options, services.workspace, services.supervisor
    own = workspace.own
    lasting = options.can_ask or options.assistant or own.assistant or options.proactive
    habits = Habits(
        suggest=own.prompt_suggestions,
        notes_every=own.memory_turns if own.session_memory else None,
        consolidate_after=own.consolidate_seconds if own.consolidate_memory and lasting else None,
    )
    memory = Memory(Notebook(workspace.home, workspace.project), services.without_keys, _today)
    return SideQuestions(
        supervisor.main,
        habits,
        memory,
        launch=supervisor.launch,
        tell=services.tell,
        log=services.log,
        jobs=services.jobs,
    )


def _today() -> str:
    return time.strftime("%Y-%m-%d")


def build_desk(services: "Services", history: History | None = None) -> Desk:
    """The main agent's desk; without a history, for a process in which it does not live."""
    roots, id, workspace = roots_of(services), services.main, services.workspace
    kept = Path(history.cwd) if history is not None else workspace.cwd
    stands = kept.is_dir() and any(kept.is_relative_to(root) for root in roots)
    return Desk(
        kept if stands else workspace.cwd,
        roots,
        dict(history.seen) if history is not None else {},
        services.store.files.outputs,
        services.rules.hides,
        trusted=workspace.trusted,
        near=all(is_near(root) for root in roots),
        env={"TEAMWRIGHT_AGENT_ID": id, "TEAMWRIGHT_AGENT_NAME": "main", "TEAMWRIGHT_PARENT_SESSION_ID": id},
    )
