"""Carries out ops: what each one does to a session, its agents, its jobs and its rules."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, assert_never
from uuid import uuid4

from teamwright.core.data.event import Warned
from teamwright.core.data.op import (
    AddDirectories,
    AddRules,
    AddTask,
    Answer,
    AskAside,
    ChangeTask,
    Compact,
    Interrupt,
    Op,
    RemoveDirectories,
    RemoveRules,
    Rewind,
    Say,
    SendToBackground,
    SetEffort,
    SetMode,
    SetModel,
    SetServer,
    ShutDown,
    StopAll,
    StopJob,
)
from teamwright.core.errors import ToolError, UsageError
from teamwright.core.ids import AgentId, CallId, JobId
from teamwright.core.permissions.consent import MODES, Mode

if TYPE_CHECKING:
    from teamwright.runtime.session import Session

Running = Interrupt | SendToBackground | StopJob | ShutDown | StopAll
Setting = SetMode | SetModel | SetEffort
Permitting = AddRules | AddDirectories | RemoveRules | RemoveDirectories | Answer


async def carry_out(session: "Session", op: Op) -> None:
    match op:
        case Say():
            await session.say(op)
        case Interrupt() | SendToBackground() | StopJob() | ShutDown() | StopAll():
            await _change_work(session, op)
        case SetMode() | SetModel() | SetEffort():
            _set(session, op)
        case Compact():
            if not await session.main.compact(op.instructions):
                raise UsageError("there is nothing to compact yet")
        case Rewind():
            rewinding = session.services.rewinding
            await rewinding.rewind(op)
        case AskAside():
            await session.aside(op.question)
        case SetServer():
            await session.brought.set_server(op)
        case AddTask() | ChangeTask():
            from teamwright.runtime.teams.tasks.person import arrange  # noqa: PLC0415  # no first prompt needs it

            await arrange(session.teamwork.board, session.main.id, op)
        case _:
            _permit(session, op)


def _set(session: "Session", op: Setting) -> None:
    main = session.main
    match op:
        case SetMode():
            _set_mode(session, op.mode)
        case SetModel():
            models = session.services.resolve_models(op.model) if op.model else session.first_models
            main.use_models(models, "model")
        case SetEffort():
            main.render(main.prompt, main.model, "effort", op.effort)
        case _:
            assert_never(op)


def _set_mode(session: "Session", mode: Mode) -> None:
    if mode not in MODES:
        raise UsageError(f"no permission mode {mode!r}; there are {', '.join(MODES)}")
    if mode == "bypassPermissions" and not session.may_bypass:
        raise UsageError(
            "bypassPermissions was not enabled for this session: start it with --dangerously-skip-permissions"
        )
    session.main.set_mode(mode)


def _permit(session: "Session", op: Permitting) -> None:
    rules, desk = session.services.rules, session.main.desk
    match op:
        case AddRules():
            for problem in rules.add(op.behaviour, op.rules, op.agent, op.source):
                session.tell(session.main.id, Warned(problem))
        case RemoveRules():
            rules.remove(op.behaviour, op.rules, op.source)
        case AddDirectories():
            desk.add_roots(_resolved(op.directories))
        case RemoveDirectories():
            desk.remove_roots(_resolved(op.directories))
        case Answer():
            if not session.questions.answer(op.question, op.decision, by=op.by, via=op.via):
                raise UsageError(f"no question {op.question} is waiting: it was answered, withdrawn or never asked")
        case _:
            assert_never(op)


def _resolved(directories: Sequence[str]) -> list[Path]:
    return [Path(directory).resolve() for directory in directories]


# --- running work


async def _change_work(session: "Session", op: Running) -> None:
    match op:
        case Interrupt():
            await _interrupt(session, op.agent)
        case SendToBackground():
            await _send_to_background(session, op.job)
        case StopJob():
            await _stop(session, op.job)
        case ShutDown():
            await _shut_down(session, op.agent)
        case StopAll():
            await _stop_all(session, turns=op.turns)
        case _:
            assert_never(op)


async def _interrupt(session: "Session", id: AgentId | None) -> None:
    teamwork = session.teamwork
    mate = next((m for m in teamwork.mates() if id in (m.agent, m.address)), None)
    agent = session.main if id is None else session.supervisor.agent(mate.agent if mate else id)
    if agent is not None:
        agent.interrupt()
    elif mate is None or not await teamwork.interrupt(mate):
        raise UsageError(f"no agent {id} is running")


async def _send_to_background(session: "Session", id: JobId | None) -> None:
    """Move one foreground agent to the background, or all of them."""
    jobs = session.supervisor.jobs
    chosen = [j for j in jobs.running() if not j.background and (id is None or j.id == id)]
    if not chosen:
        raise UsageError("no agent is running in the foreground" if id is None else f"no task {id!r} is running there")
    for job in chosen:
        await jobs.send_to_background(job)


async def _stop(session: "Session", id: JobId) -> None:
    if "@" in id:
        try:
            await session.teamwork.stop(session.main, id)
        except ToolError as error:
            raise UsageError(str(error)) from None
        return
    supervisor = session.supervisor
    job = supervisor.jobs.get(id)
    if job is None or not await supervisor.stop(job):
        raise UsageError(f"no task {id!r} is running")


async def _shut_down(session: "Session", id: AgentId) -> None:
    teamwork = session.teamwork
    mate = next((m for m in teamwork.mates() if id in (m.agent, m.address)), None)
    lead = teamwork.roster.lead_of(mate.team) if mate else None
    if mate is None or lead is None:
        raise UsageError(f"there is no teammate {id}: it has shut down, or is led by another session")
    try:
        await teamwork.requests.ask_shutdown(lead, mate.name, "The person asks for it.", CallId(f"person-{uuid4()}"))
    except ToolError as error:
        raise UsageError(str(error)) from None


async def _stop_all(session: "Session", *, turns: bool) -> None:
    supervisor = session.supervisor
    await supervisor.stop_all()
    living = {agent.id: agent.running for agent in supervisor.agents}
    away = {m.agent: m.state == "running" for m in session.teamwork.mates() if m.agent not in living}
    for id, works in (living | away).items() if turns else ():
        if works:
            with suppress(UsageError):  # its process has ended meanwhile
                await _interrupt(session, id)
