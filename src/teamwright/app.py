"""The composition root: the only file that knows every part and puts them together."""

import os
import platform
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.core.budget import Limits
from teamwright.core.consent import Decision, Mode, Question
from teamwright.core.crashpoint import arm
from teamwright.core.definition import BUILT_IN_KINDS
from teamwright.core.errors import UsageError
from teamwright.core.event import Event, Record
from teamwright.core.ids import AgentId
from teamwright.core.message import Effort, ToolSpec
from teamwright.core.ports import Desk, Model, Tool
from teamwright.core.rules import Rule, Rules, hidden_tools, parse_rules
from teamwright.library import instructions, trust
from teamwright.models.catalog import Catalog, default_model
from teamwright.models.prices import cost
from teamwright.models.providers import Providers, ProviderSettings
from teamwright.models.routed import RoutedModel
from teamwright.runtime.agent import Agent, Prompt
from teamwright.runtime.bus import Bus
from teamwright.runtime.gate import SessionGate
from teamwright.runtime.inbox import AgentInbox
from teamwright.runtime.meter import MeteredModel, SessionMeter
from teamwright.runtime.prompt import Place, system_prompt
from teamwright.runtime.questions import Questions
from teamwright.runtime.resume import Opened, Origin, open_history
from teamwright.runtime.rulebook import Rulebook
from teamwright.runtime.session import Session
from teamwright.store import prompts, transcripts
from teamwright.store.logs import Log
from teamwright.store.paths import Home, home_from
from teamwright.store.settings import SOURCES, load, project_root
from teamwright.store.settings_schema import Rule as SettingsRule
from teamwright.store.settings_schema import Settings
from teamwright.store.state import State, now_ms
from teamwright.tools.pool import built_in_tools, chosen, offered

GIVEN = "script/given"  # the name of a model that the caller made itself
RETRIES = 10


class Options(Struct, kw_only=True):
    """Everything that a surface decides about a session."""

    cwd: Path
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    origin: Origin = Origin()
    model: str | None = None
    own_model: Model | None = None  # e.g. a ScriptedModel; `model` is not looked at then
    fallback_model: str | None = None
    effort: Effort | int | None = None
    limits: Limits = Limits()
    system_prompt: str | None = None
    append_system_prompt: str = ""
    mode: Mode | None = None
    may_bypass: bool = False
    allowed_tools: Sequence[str] = ()
    disallowed_tools: Sequence[str] = ()
    tools: Sequence[str] | None = None
    own_tools: Sequence[Tool] = ()
    add_dirs: Sequence[str] = ()
    settings: str | None = None
    setting_sources: Sequence[str] = SOURCES
    trust: bool = False
    can_ask: bool = False  # somebody watches and answers questions by an op
    answer: Callable[[Question], Awaitable[Decision]] | None = None  # or code does
    debug: bool = False


class Ground(Struct, frozen=True):
    """Where a session stands: directories, settings, trust; and what the person should be told about them."""

    cwd: Path
    project: Path
    user: Path
    home: Home
    env: dict[str, str]
    settings: Settings
    trusted: bool
    notes: tuple[str, ...]


def survey(options: Options) -> Ground:
    """Read settings and trust. Of a directory that is not trusted nothing is obeyed."""
    cwd = options.cwd.resolve()
    if not cwd.is_dir():
        raise UsageError(f"{options.cwd} is not a directory")
    home, user = home_from(options.env), Path(options.env.get("HOME") or Path.home())
    project = project_root(cwd, user)

    own = load(project, home=user, state=home.root, trusted=False, sources=("user",))
    trusted = trust.is_trusted(project, state=home.root, listed=own.trusted_directories, flag=options.trust)
    settings = load(
        project, home=user, state=home.root, trusted=trusted, flag=options.settings, cwd=cwd,
        sources=options.setting_sources,
    )  # fmt: skip
    notes: list[str] = []
    if not trusted and (line := trust.untrusted_line(trust.what_would_run(project))):
        notes.append(line)
    env = {**options.env, **settings.env}
    return Ground(cwd, project, user, home, env, settings, trusted, (*settings.problems, *notes))


async def open_session(options: Options) -> Session:
    """Make everything that a session needs; it begins to live inside `async with`."""
    if point := options.env.get("TEAMWRIGHT_CRASHPOINT"):  # NAME:PASS, for tests of what a kill leaves behind
        name, _, passes = point.partition(":")
        arm(name, int(passes or 1))
    ground = survey(options)
    rules, problems = _rules(options, ground)
    models, names = _models(options, ground)
    tools = _tools(options, ground, rules.rules)
    opened = open_history(options.origin, ground.home, ground.cwd)
    try:
        state = await _open_state(ground, opened)
        notes = [*ground.notes, *problems, *opened.notes, *state.notes]
        return _compose(options, ground, rules, models, names, tools, opened, state, notes)
    except BaseException:
        opened.transcript.close()
        opened.lock.release()
        raise


class Names(Struct, frozen=True):
    """Model names as asked for, as `provider/name`; None where nobody said."""

    model: str | None
    default: str | None
    fallback: str | None
    catalog: Catalog
    named: tuple[str, ...]

    def resolve(self, name: str) -> str:
        return self.catalog.resolve(name, named=self.named).full


def _routed(ground: Ground, retries: int, given: Mapping[str, Model]) -> tuple[RoutedModel, Names]:
    own = ground.settings.own
    catalog = Catalog.load(own.windows)
    named = {name: ProviderSettings(p.base_url, p.key_env, p.wire) for name, p in own.providers.items()}
    providers = Providers(ground.env, silence=own.model_silence_seconds, retries=retries, named=named)
    return RoutedModel(catalog, providers, tuple(named), given), Names(None, None, None, catalog, tuple(named))


def model_for(ground: Ground, name: str | None) -> tuple[RoutedModel, str]:
    """The model that a session here would use, asked without retries; for `doctor`."""
    models, names = _routed(ground, 0, {})
    return models, names.resolve(name or default_model(ground.env, ground.settings.model))


def _models(options: Options, ground: Ground) -> tuple[RoutedModel, Names]:
    said = ground.env.get("TEAMWRIGHT_MAX_RETRIES", "")
    given = {GIVEN: options.own_model} if options.own_model else {}
    models, names = _routed(ground, int(said) if said.isdigit() else RETRIES, given)
    model = GIVEN if options.own_model else options.model and names.resolve(options.model)
    fallback = options.fallback_model and names.resolve(options.fallback_model)
    default = None
    if model is None and not (options.origin.resume or options.origin.last):
        default = names.resolve(default_model(ground.env, ground.settings.model))
    for name in (model, default, fallback):
        if name is not None:
            models.open(name)  # no key, no such provider: said before anything begins
    return models, replace(names, model=model, default=default, fallback=fallback)


def _rules(options: Options, ground: Ground) -> tuple[Rulebook, list[str]]:
    """Rules of the settings and of the command line; and what is wrong with some of them."""
    base, home = str(ground.project), str(ground.user.resolve())
    problems: list[str] = []

    def read(said: Iterable[SettingsRule], flags: Sequence[str] = ()) -> tuple[Rule, ...]:
        parsed = [parse_rules([r.text], r.source, base, home) for r in said] + [parse_rules(flags, "flag", base, home)]
        problems.extend(str(problem) for _, wrong in parsed for problem in wrong)
        return tuple(rule for rules, _ in parsed for rule in rules)

    said = ground.settings.permissions
    rules = Rules(read(said.allow, options.allowed_tools), read(said.ask), read(said.deny, options.disallowed_tools))
    return Rulebook(rules, base=base, home=home), problems


def _tools(options: Options, ground: Ground, rules: Rules) -> dict[str, Tool]:
    tools = built_in_tools(ground.env) | {tool.spec.name: tool for tool in options.own_tools}
    wanted = options.tools
    if wanted is not None and "default" not in wanted:
        wanted = [*wanted, *(tool.spec.name for tool in options.own_tools)]
    return chosen(tools, wanted, hidden_tools(rules, tools))


async def _open_state(ground: Ground, opened: Opened) -> State:
    state = await State.open(ground.home.state)
    started = opened.history.started
    assert started is not None
    await state.register_session(opened.id, started.cwd, now_ms())
    await state.register_agent(AgentId(opened.id), opened.id, None, "main", "main", 0)
    if len(opened.history.messages) > 0:
        await state.settle_orphans(opened.id, cost)
    return state


def _compose(
    options: Options, ground: Ground, rules: Rulebook, models: RoutedModel, names: Names, tools: dict[str, Tool],
    opened: Opened, state: State, notes: list[str],
) -> Session:  # fmt: skip
    id, history, own = AgentId(opened.id), opened.history, ground.settings.own
    log = Log(ground.home.logs, opened.id, debug=options.debug)
    bus = Bus(lambda _agent, since: _reread(id, opened, since))
    meter = SessionMeter(_limits(options.limits, ground.settings), cost, time.monotonic)
    desk = _desk(options, ground, opened)

    def tell(agent: AgentId, event: Event) -> None:
        bus.publish(Record(agent, 0, now_ms(), event))

    def mode(_agent: AgentId) -> Mode:
        return main.mode

    questions = Questions(tell, own.question_timeout_seconds, options.answer)
    gate = SessionGate(
        mode=mode,
        rules=lambda: rules.rules,
        desk=lambda _: desk,
        name=lambda _: "main",
        put=questions.put if options.can_ask or options.answer else None,
        readable=(opened.files.outputs,),
        protected=(ground.home.root,),
        home=ground.user,
    )
    desk.hidden = rules.hides
    main = Agent(
        id, name="main", history=history, transcript=opened.transcript, bus=bus,
        inbox=AgentInbox(id, state, history.letters),
        model=MeteredModel(models, ledger=state, meter=meter, session=opened.id, agent=id),
        tools=tools, gate=gate.ask, meter=meter, desk=desk, mode=_mode(options, ground),
        now=now_ms, log=log.write, flush=state.flush, fallback=names.fallback,
    )  # fmt: skip
    _render(main, options, ground, names, opened, offered(tools, interactive=False))
    main.set_mode(main.mode)

    async def close() -> None:
        opened.transcript.close()
        await state.close()
        await models.aclose()
        opened.lock.release()

    return Session(
        opened.id, cwd=ground.cwd, main=main, bus=bus, meter=meter, questions=questions,
        resolve_model=names.resolve, add_rules=rules.add, agent_names=BUILT_IN_KINDS,
        model_names=names.catalog.names(), may_bypass=options.may_bypass or main.mode == "bypassPermissions",
        notes=notes, on_close=(close,),
    )  # fmt: skip


def _limits(limits: Limits, settings: Settings) -> Limits:
    """The command line's, else the settings'."""
    budget = settings.own.budget
    usd = budget.usd if limits.usd is None else limits.usd
    return Limits(limits.turns, usd, limits.tokens or budget.tokens, limits.seconds or budget.seconds)


def _mode(options: Options, ground: Ground) -> Mode:
    return options.mode or ground.settings.permissions.default_mode or "default"


def _desk(options: Options, ground: Ground, opened: Opened) -> Desk:
    more = (*(ground.cwd / d for d in options.add_dirs), *ground.settings.permissions.additional_directories)
    for directory in more:
        if not directory.is_dir():
            raise UsageError(f"--add-dir {directory} is not a directory")
    roots = tuple(dict.fromkeys((ground.cwd, *(d.resolve() for d in more))))
    kept = Path(opened.history.cwd)
    cwd = kept if kept.is_dir() and any(kept.is_relative_to(root) for root in roots) else ground.cwd
    env = {"TEAMWRIGHT_AGENT_ID": opened.id, "TEAMWRIGHT_AGENT_NAME": "main", "TEAMWRIGHT_PARENT_SESSION_ID": opened.id}
    return Desk(cwd, roots, dict(opened.history.seen), opened.files.outputs, env=env)


def _render(
    main: Agent, options: Options, ground: Ground, names: Names, opened: Opened, tools: tuple[ToolSpec, ...]
) -> None:
    """System prompt and tools: as they were, unless this start changes model, tools or prompt."""
    before = opened.history.rendered
    model = names.model or (before.model if before and before.model != GIVEN else names.default)
    if model is None:
        model = names.resolve(default_model(ground.env, ground.settings.model))
    effort = options.effort or (before.effort if before else ground.settings.effort)
    asked = options.system_prompt is not None or options.append_system_prompt
    if before and not asked and before.model == model and before.effort == effort:
        system, old = prompts.get(opened.files.prompts, before.prompt)
        if old == tools:
            main.prompt = Prompt(before.prompt, system, tools)
            return
    found = instructions.collect(
        ground.cwd, ground.project, home=ground.user, state=ground.home.root, trusted=ground.trusted,
        sources=options.setting_sources,
    )  # fmt: skip
    place = Place(
        str(ground.cwd), platform.platform(terse=True), time.strftime("%Y-%m-%d"), model,
        git=(ground.project / ".git").exists(), directories=tuple(map(str, main.desk.roots[1:])),
    )  # fmt: skip
    system = system_prompt(
        place, instructions.render(found), own=options.system_prompt, append=options.append_system_prompt
    )
    hash = prompts.put(opened.files.prompts, system, tools)
    main.render(Prompt(hash, system, tools), model, "resume" if before else "start", effort)


def _reread(id: AgentId, opened: Opened, since: int) -> Iterator[Record]:
    for n, line in transcripts.read(opened.files.transcript, since):
        yield Record(id, n, line.at, line.event)
