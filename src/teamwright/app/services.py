"""What lives in a session, put together: supervisor, gate, workshop, spawner, teams."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from teamwright.app.parts import Parts, Services
from teamwright.app.permissions import Guard, Law, open_guard
from teamwright.app.prompts import mode_here, system_of
from teamwright.app.servers import Person
from teamwright.app.workspace import Workspace, without_keys
from teamwright.core.data.event import Event, Record
from teamwright.core.data.letter import Letter, Said, Sender
from teamwright.core.ids import AgentId, CallId, new_letter_id
from teamwright.runtime.agents.compactor import Windows
from teamwright.runtime.agents.factory import AgentFactory
from teamwright.runtime.agents.outcomes import Books, Outcomes
from teamwright.runtime.agents.resume import Opened
from teamwright.runtime.agents.slots import Slots
from teamwright.runtime.agents.spawner import Spawner
from teamwright.runtime.agents.sub_agents import SpawnDeps
from teamwright.runtime.agents.supervisor import Supervisor
from teamwright.runtime.bus import Bus
from teamwright.runtime.extensions import checkpoints
from teamwright.runtime.extensions.checkpoints import Ask
from teamwright.runtime.extensions.hook_services import TeamHooks, WorktreeHooks
from teamwright.runtime.jobs.jobs import Jobs, Tell
from teamwright.runtime.jobs.schedule import Schedules
from teamwright.runtime.permissions.questions import Questions
from teamwright.runtime.trouble import Trouble
from teamwright.runtime.worktrees import Worktrees
from teamwright.store.files import transcripts
from teamwright.store.files.logs import Log
from teamwright.store.files.paths import SessionFiles
from teamwright.store.tables.jobs import JobRow, JobTable
from teamwright.store.tables.state import now_ms


def build_services(parts: Parts) -> Services:
    options, ground, opened, state = parts.options, parts.ground, parts.opened, parts.state
    own = ground.settings.own
    log = Log(ground.home.logs, opened.id, lambda text: without_keys(ground, text))
    bus = Bus(lambda agent, since: _reread(opened, workshop.files_of(agent), agent, since))

    def tell(agent: AgentId, event: Event) -> None:
        bus.publish(Record(agent, 0, now_ms(), event))

    def ring(agent: AgentId) -> None:
        supervisor.ring(agent)

    async def facts(agent: AgentId) -> list[str]:
        running = [f"Still at work for you: {j.description} ({j.kind} {j.id})" for j in jobs.unfinished(agent)]
        return [*running, *await parts.company.get_teamwork().recall(agent)]

    trouble = Trouble(log.write)
    jobs = Jobs(JobTable(state.database), opened.id, tell, ring)
    rooms = _rooms(parts)
    supervisor = Supervisor(jobs, state, rooms, tell, log.write, job_wait=own.job_wait_seconds, trouble=trouble)
    questions = Questions(tell, own.question_timeout_seconds, options.answer)
    guard = _guard(parts, supervisor, questions, tell, log)
    workshop = AgentFactory(
        session=opened.id, files=opened.files, bus=bus, letters=state, ledger=state, model=parts.models,
        gate=_gate(parts, guard), around=guard.points, slots=Slots(_most_agents(ground)), now=now_ms, log=log.write,
        debug=log.write if options.debug else None, flush=state.flush, facts=facts, trouble=trouble,
        windows=Windows(parts.names.window, parts.models.window),
        letter_room=lambda model: parts.names.window(model) or 200_000, fallback=parts.names.fallback,
    )  # fmt: skip
    ways = _ways(parts, supervisor)
    spawner = Spawner(workshop, supervisor, rooms, ways)
    parts.company.searching.introduce(parts.models, state, opened.id, supervisor.agent)
    _introduce(parts, guard, supervisor, spawner, tell, log)
    if options.interactive:
        parts.company.extras.serving.person = Person(AgentId(opened.id), questions.put)
    return Services(
        log=log, bus=bus, jobs=jobs, rooms=rooms, supervisor=supervisor, questions=questions, workshop=workshop,
        spawner=spawner, ways=ways, team_hooks=TeamHooks(guard.points),
    )  # fmt: skip


def _gate(parts: Parts, guard: Guard) -> Ask:
    """A driving program may want files back as they were: then each is kept before it is changed."""
    if parts.ground.env.get(checkpoints.SWITCH) not in ("1", "true"):
        return guard.gate.ask
    return checkpoints.guarded(guard.gate.ask, checkpoints.folder_of(parts.opened.files))


def _rooms(parts: Parts) -> Worktrees:
    opened, extras = parts.opened, parts.company.extras
    trees = WorktreeHooks(lambda: extras.points, AgentId(opened.id))
    return Worktrees(
        parts.ground.settings.symlink_directories, session=opened.id, notes=opened.files.dir / "rooms",
        make_by_hook=trees.make, removed_by_hook=trees.removed,
    )  # fmt: skip


def _guard(parts: Parts, supervisor: Supervisor, questions: Questions, tell: Tell, log: Log) -> Guard:
    opened, extras = parts.opened, parts.company.extras
    law = Law(
        facts=parts.company.facts,
        rules=extras.rules_of, mode=parts.mode, color=lambda agent: parts.company.get_teamwork().roster.color_of(agent),  # noqa: PLW0108 -- teams come later
        make_hooks=lambda: extras.make_hooks(opened.id, opened.files.transcript, log.write),
    )  # fmt: skip
    return open_guard(parts.options, parts.ground, opened, law, supervisor, questions, tell)


def _introduce(parts: Parts, guard: Guard, supervisor: Supervisor, spawner: Spawner, tell: Tell, log: Log) -> None:
    main = AgentId(parts.opened.id)

    def say(server: str, text: str) -> None:
        letter = Letter(new_letter_id(), main, Sender("system", f"mcp:{server}"), Said(text))
        supervisor.launch(lambda: supervisor.post(letter))

    parts.company.extras.introduce(main, guard.points, guard.gate.ask, supervisor, spawner, tell, log.write, say)


def look_up(parts: Parts, jobs: Jobs, schedules: Schedules | None = None) -> Outcomes:
    """What became of calls that are interrupted, by what they left in the store."""
    teamwork = parts.company.get_teamwork()
    tables = teamwork.tables
    books = Books(
        mail=tables.mail, requests=tables.requests, teams=tables.teams, tasks=teamwork.board.table,
        made=schedules.made_by if schedules else None, kept=schedules.holds if schedules else None,
    )  # fmt: skip

    def job(owner: AgentId, call: CallId) -> JobRow | None:
        found = jobs.begun_by(owner, call)
        return found.row() if found else None

    def status(id: str) -> str:
        found = jobs.get(id)
        return found.status if found else ""

    return Outcomes(
        job=job, status=status, posted=parts.state.has_letter, books=books, catalog=parts.company.facts.catalog
    )


def left_by(outcomes: Outcomes, rows: Sequence[JobRow]) -> Outcomes:
    """The same for what an earlier process left: its jobs are known by their rows alone."""
    known = {(row.owner, row.call): row for row in rows if row.call}

    def job(owner: AgentId, call: CallId) -> JobRow | None:
        return known.get((owner, call))

    return replace(outcomes, job=job)


def _most_agents(ground: Workspace) -> int:
    said = ground.env.get("TEAMWRIGHT_MAX_AGENTS", "")
    return int(said) if said.isdigit() and int(said) else ground.settings.own.max_agents


def _ways(parts: Parts, supervisor: Supervisor) -> SpawnDeps:
    company, ground = parts.company, parts.ground

    def resolve(name: str) -> str:
        full = parts.names.resolve(name)
        parts.models.check(full)  # a provider without a key is an error now, not in the child
        return full

    return SpawnDeps(
        kinds=company.startable,
        refusal=company.refusal,
        absence=company.absence,
        kit=company.kit,
        kit_of=company.kit_of,
        mode=lambda own: mode_here(parts, supervisor, own),
        system=lambda definition, model, cwd, mode: system_of(parts, model, cwd, role=definition.prompt, mode=mode),
        told=company.extras.told,
        equip=company.extras.equip,
        resolve_model=resolve,
        features=company.features,
        background_after=ground.settings.own.background_after_seconds,
    )


def _reread(opened: Opened, files: SessionFiles, agent: AgentId, since: int) -> Iterator[Record]:
    path = opened.files.transcript if agent == opened.id else files.agent(agent)
    for n, line in transcripts.read(path, since):
        yield Record(agent, n, line.at, line.event)
