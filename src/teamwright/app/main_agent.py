"""The main agent of a session: its model, its prompt, its tools, where it stands."""

import time
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from teamwright.app.models import GIVEN
from teamwright.app.parts import Parts
from teamwright.app.prompts import main_system, roots_of
from teamwright.core.ids import AgentId
from teamwright.core.policies.budget import Limits
from teamwright.core.ports import Desk, Tool
from teamwright.host.files.mounts import is_near
from teamwright.models.catalog import default_model
from teamwright.models.prices import cost
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.agents.factory import AgentFactory
from teamwright.runtime.agents.meter import AgentMeter
from teamwright.runtime.agents.spec import AgentSpec
from teamwright.store.files import prompts
from teamwright.store.settings.schema import Settings


def make_main(parts: Parts, workshop: AgentFactory) -> Agent:
    options, ground, opened = parts.options, parts.ground, parts.opened
    definition = parts.company.main_definition
    kit = parts.company.main_kit()
    before = opened.history.rendered
    model = _model(parts)
    effort = options.effort or (definition and definition.effort)
    effort = effort or (before.effort if before else ground.settings.effort)
    mode = options.mode or (definition and definition.permission_mode) or ground.settings.permissions.default_mode
    limits = build_limits(options.limits, ground.settings)
    if definition is not None and limits.turns is None:
        limits = replace(limits, turns=definition.max_turns)
    shape = AgentSpec(
        id=AgentId(opened.id),
        name="main",
        kind="main",
        model=model,
        effort=effort,
        toolset=kit,
        desk=build_desk(parts),
        mode=mode or "default",
        meter=AgentMeter(limits, cost, time.monotonic),
        approver="person" if options.can_ask or options.answer else "nobody",
    )
    main = workshop.make(shape, opened.history, opened.transcript)
    asked = options.system_prompt is not None or options.append_system_prompt or options.agent
    same = before and not asked and before.model == model and before.effort == effort
    served = bool(parts.company.extras.serving.configs)  # those tools are still to come
    if before and same and (served or prompts.get(opened.files.prompts, before.prompt)[1] == kit.specs):
        main.prompt = workshop.stored_prompt(before.prompt)
    else:
        prompt = workshop.prompt("main", lambda: main_system(parts, model, mode or "default"), kit.specs)
        main.render(prompt, model, "resume" if before else "start", effort)
    main.set_mode(mode or "default")
    return main


def rerender(parts: Parts, workshop: AgentFactory, main: Agent, served: Mapping[str, Tool] | None) -> None:
    """Other tools are there now. What has been rendered with the very same tools stays."""
    kit = parts.company.main_kit(served)
    main.use_tools(kit.tools, kit.limits)
    if main.prompt.tools != kit.specs:
        prompt = workshop.prompt(object(), lambda: main_system(parts, main.model, main.mode or "default"), kit.specs)
        main.render(prompt, main.model, "tools", main.effort)


def _model(parts: Parts) -> str:
    """As asked for; else the session's own; else the default."""
    names, before, definition = parts.names, parts.opened.history.rendered, parts.company.main_definition
    if names.model:
        return names.model
    if definition and definition.model and definition.model != "inherit":
        return names.resolve(definition.model)
    if before and before.model != GIVEN:
        return before.model
    return names.default or names.resolve(default_model(parts.ground.env, parts.ground.settings.model))


def build_limits(limits: Limits, settings: Settings) -> Limits:
    """The command line's, else the settings'."""
    budget = settings.own.budget
    usd = budget.usd if limits.usd is None else limits.usd
    return Limits(limits.turns, usd, limits.tokens or budget.tokens, limits.seconds or budget.seconds)


def build_desk(parts: Parts) -> Desk:
    opened, roots = parts.opened, roots_of(parts)
    kept = Path(opened.history.cwd)
    cwd = kept if kept.is_dir() and any(kept.is_relative_to(root) for root in roots) else parts.ground.cwd
    env = {"TEAMWRIGHT_AGENT_ID": opened.id, "TEAMWRIGHT_AGENT_NAME": "main", "TEAMWRIGHT_PARENT_SESSION_ID": opened.id}
    near = all(is_near(root) for root in roots)
    return Desk(
        cwd,
        roots,
        dict(opened.history.seen),
        opened.files.outputs,
        parts.rules.hides,
        trusted=parts.ground.trusted,
        near=near,
        env=env,
    )
