"""What the app does when a panel or a dialog asks for it: ops for the session, and what it must read for them."""

from collections.abc import Sequence

from msgspec import Struct

from teamwright.core.consent import Allow, Decision, Question
from teamwright.core.errors import UsageError
from teamwright.core.ids import AgentId, JobId
from teamwright.core.op import AddRules, Answer, Interrupt, SendToBackground, StopAll, StopJob
from teamwright.core.work import Task
from teamwright.runtime.session import Session
from teamwright.store.mail import Entry
from teamwright.surfaces.terminal.messages import Scope

MOST_MAIL = 1_000  # of a team that the timeline keeps


class Crew(Struct, frozen=True):
    """What no event tells: read from the store when somebody looks at it."""

    teams: tuple[str, ...] = ()
    tasks: tuple[Task, ...] = ()
    mail: tuple[Entry, ...] = ()
    budget: str = ""


async def answer(session: Session, question: Question, decision: Decision, scope: Scope) -> list[Question]:
    """Answer it, with its suggested rules if they are to hold from now on. Returns what those rules answered too."""
    covered: list[Question] = []
    if isinstance(decision, Allow) and scope != "once" and question.suggestions:
        only = question.agent if scope == "agent" else None
        await session.submit(AddRules(question.suggestions, "allow", only))
        covered = _covered(session.questions.waiting, question, only)
    await session.submit(Answer(question.id, decision))
    done: list[Question] = []
    for other in covered:
        try:
            await session.submit(Answer(other.id, Allow()))
        except UsageError:  # somebody else was quicker, or it was withdrawn
            continue
        done.append(other)
    return done


def _covered(waiting: Sequence[Question], question: Question, only: AgentId | None) -> list[Question]:
    """Questions that would not be asked any more: the rules that would answer each are all there now."""
    rules = set(question.suggestions)
    return [
        other
        for other in waiting
        if other.id != question.id
        and other.suggestions
        and rules.issuperset(other.suggestions)
        and only in (None, other.agent)
    ]


async def stop_agent(session: Session, agent: AgentId) -> None:
    """A teammate by force, an agent's job, or the main agent's turn."""
    if agent == session.main.id:
        await session.submit(Interrupt())
        return
    member = session.teamwork.teams.member_of(agent)
    await session.submit(StopJob(JobId(member.address if member is not None else agent)))


async def stop_everything(session: Session) -> None:
    """Jobs end; whoever lives on, the main agent and teammates in this process, has its turn ended."""
    await session.submit(StopAll())
    for agent in session.supervisor.agents:
        if agent.running:
            await session.submit(Interrupt(agent.id))


async def send_to_background(session: Session) -> None:
    await session.submit(SendToBackground())


async def read_crew(session: Session) -> Crew:
    """Tasks, mail and what is left of the budget, as they are now."""
    teams = session.teamwork.teams
    names = tuple(sorted(teams.names))
    listing = await session.teamwork.board.listing(session.main.id)
    mail: list[Entry] = []
    for name in names:
        mail += await _newest_mail(session, name)
    return Crew(names, listing.tasks, tuple(sorted(mail, key=lambda entry: entry.n)), budget_left(session))


async def _newest_mail(session: Session, team: str) -> list[Entry]:
    found: list[Entry] = []
    since = 0
    while page := await session.teamwork.teams.tables.mail.audit(team, since=since):
        found, since = [*found, *page][-MOST_MAIL:], page[-1].n
    return found


def budget_left(session: Session) -> str:
    """In words; empty where nothing limits the session."""
    limits, meter = session.meter.limits, session.meter
    parts: list[str] = []
    if limits.usd is not None:
        parts.append(f"${max(0.0, limits.usd - meter.usd):.2f} of ${limits.usd:.2f}")
    if limits.tokens is not None:
        parts.append(f"{max(0, limits.tokens - meter.usage.total):,} of {limits.tokens:,} tokens")
    if limits.seconds is not None:
        parts.append(f"{max(0.0, limits.seconds - meter.seconds):.0f} of {limits.seconds:.0f} s")
    return " · ".join(parts)
