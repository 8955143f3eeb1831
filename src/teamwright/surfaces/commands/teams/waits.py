"""Finds what team members wait for, from the store and their transcripts, even if nothing runs."""

from collections.abc import Sequence

from msgspec import Struct

from teamwright.core.data.conversation.history import fold
from teamwright.core.data.event import Line
from teamwright.core.data.tasks import Task, TaskId
from teamwright.core.data.team import Member, Team, TeamRequest
from teamwright.core.ids import SessionId
from teamwright.store.files import transcripts
from teamwright.store.files.paths import Home, SessionFiles, find_transcript
from teamwright.store.tables.mail import MailTable
from teamwright.store.tables.processes import ProcessTable
from teamwright.store.tables.requests import RequestTable
from teamwright.store.tables.state import StateStore
from teamwright.store.tables.tasks import TaskTable
from teamwright.store.tables.teams import TeamTable

MOST_TASKS = 5  # named in a sentence


class Mate(Struct, frozen=True):
    """A teammate, with all that explains why it does not run."""

    member: Member
    led: bool  # its lead's process lives
    held: bool  # a living process runs it
    asked: Sequence[TeamRequest]  # its open questions to others
    owed: Sequence[TeamRequest]  # others' open questions to it
    unread: int
    tasks: Sequence[Task]  # open tasks of its team
    lines: Sequence[Line]  # its transcript

    @property
    def since(self) -> int:
        if self.asked and self.held:
            return self.asked[0].asked_at
        last = self.lines[-1].at if self.lines else 0
        return max(last, self.member.since)


class TeamWaits(Struct, frozen=True):
    """All members of a session's teams; `owed` and `asked` are the lead's own open requests."""

    mates: Sequence[Mate]
    owed: Sequence[TeamRequest]
    asked: Sequence[TeamRequest]


async def read_crew(home: Home, state: StateStore, session: SessionId) -> TeamWaits:
    processes = ProcessTable(state.database, home.run)
    teams, requests = TeamTable(state.database), RequestTable(state.database)
    mail, tasks = MailTable(state.database), TaskTable(state.database)
    mates: list[Mate] = []
    owed: list[TeamRequest] = []
    asked: list[TeamRequest] = []
    for team in await teams.teams():
        members = await teams.members(team.name)
        if session != team.session and all(m.session != session for m in members):
            continue
        listed = [task for task in (await tasks.list(team.name)).tasks if task.status != "completed"]
        for member in members:
            mine, others = await _open_requests(requests, member)
            if member.is_lead:
                asked, owed = [*asked, *mine], [*owed, *others]
                continue
            held = member.state != "shutdown" and await processes.holder(member.agent) is not None
            mates.append(
                Mate(
                    member,
                    _is_led(team, processes),
                    held,
                    mine,
                    others,
                    await mail.unread(member.agent),
                    listed,
                    _lines(home, member),
                )
            )
    return TeamWaits(mates, owed, asked)


async def _open_requests(requests: RequestTable, member: Member) -> tuple[list[TeamRequest], list[TeamRequest]]:
    """What a member has asked in its team, and what it was asked there."""
    mine, others = await requests.asked_by(member.agent), await requests.open_for(member.agent)
    asked = [r for r in mine if r.state == "open" and r.team == member.team]
    return asked, [r for r in others if r.team == member.team]


def _is_led(team: Team, processes: ProcessTable) -> bool:
    return team.process is not None and processes.alive(team.process)


def _lines(home: Home, member: Member) -> list[Line]:
    main = find_transcript(home, member.session) if member.session else None
    path = SessionFiles(main).agent(member.agent) if main else None
    return [line for _, line in transcripts.read(path)] if path and path.is_file() else []


# --- in words


def mate_waits(mate: Mate) -> tuple[str, str] | None:
    """Its state and what it waits for. None: it is at work, and its transcript says at what."""
    member = mate.member
    if member.state == "shutdown":
        return "shutdown", "nothing: it has shut down; spawn it again if it is needed"
    if not mate.held:
        return _gone(mate)
    if question := next(iter(mate.asked), None):
        return "waiting", _question(question)
    if member.state != "idle":
        history = fold(line.event for line in mate.lines)
        rests = history.ended is not None or not history.messages
        return ("waiting", "a free slot: the limit of running agents is reached") if mate.unread and rests else None
    return "idle", _idle(mate)


def _gone(mate: Mate) -> tuple[str, str]:
    waits = "".join(f"; {_question(request)}" for request in mate.asked)
    waits += f"; {_unread(mate.unread)}" if mate.unread else ""
    if mate.led:
        return "gone", f"its process has ended: a message restarts it{waits}"
    if mate.member.state == "idle":
        return "parked", f"its session: --resume wakes it{waits}"
    return "gone", f"its process has ended: --resume continues it{waits}"


def _question(request: TeamRequest) -> str:
    match request.kind:
        case "plan":
            return f"the lead's answer to its plan ({request.id})"
        case "permission":
            return f"a person's answer at the lead: may it use {request.body.get('tool', 'a tool')}? ({request.id})"
        case "shutdown":
            return f"the answer to its request to shut down ({request.id})"
        case "interrupt":
            return f"its process to end its turn ({request.id})"


def _idle(mate: Mate) -> str:
    if leave := next((r for r in mate.owed if r.kind == "shutdown"), None):
        return f"its own answer to the request to shut down ({leave.id})"
    if mate.unread:
        return f"nothing: it is being woken, {_unread(mate.unread)}"
    lead = "" if mate.led else "a lead, because its own process is gone; "
    return f"{lead}a message, or a task{_blocked(mate)}"


def _blocked(mate: Mate) -> str:
    """Blocked tasks that it could do if they were free, its own first."""
    own = [t for t in mate.tasks if t.agent == mate.member.agent and t.blocked_by]
    free = [t for t in mate.tasks if t.agent is None and t.blocked_by]
    owners = {t.id: t.owner for t in mate.tasks}
    told = [_waits_for(task, owners, mate.member.name) for task in (own + free)[:MOST_TASKS]]
    more = len(own) + len(free) - len(told)
    return f": {'; '.join(told)}{f'; and {more} more' if more > 0 else ''}" if told else ""


def _waits_for(task: Task, owners: dict[TaskId, str | None], me: str) -> str:
    whose = " (its own)" if task.owner == me else ""
    before = [f"#{id}" + (f" ({owner}'s)" if (owner := owners.get(id)) else "") for id in task.blocked_by[:MOST_TASKS]]
    return f"#{task.id}{whose} waits for {', '.join(before)}"


def _unread(many: int) -> str:
    return "1 message is unread" if many == 1 else f"{many} messages are unread"


def lead_owes(crew: TeamWaits) -> list[str]:
    """What waits for an answer of the lead, or of its person."""
    names = {mate.member.agent: mate.member.name for mate in crew.mates}
    words: list[str] = []
    for request in crew.owed:
        who = names.get(request.asker, "somebody")
        if request.kind == "permission":
            words.append(f"a person's answer: may {who} use {request.body.get('tool', 'a tool')}? ({request.id})")
        else:
            words.append(f"its own answer to {who}'s {request.kind} ({request.id})")
    return words


def lead_waits(crew: TeamWaits) -> list[str]:
    """What the lead waits for, other than its own jobs."""
    names = {mate.member.agent: mate.member.name for mate in crew.mates}
    words = lead_owes(crew)
    for request in crew.asked:
        words.append(f"{names.get(request.answerer, 'somebody')}'s answer to its {request.kind} request ({request.id})")
    working = [mate.member.name for mate in crew.mates if mate.held and mate.member.state in ("created", "running")]
    return [*words, f"its teammates: {', '.join(working)}"] if working else words
