"""Team led by Python code, through the same paths and checks as a team that a model leads."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Literal, TypeVar

import anyio
from msgspec import Struct

from teamwright.core.data.checked import checked
from teamwright.core.data.definition import Isolation
from teamwright.core.data.event import LettersTaken, Record, ToolEnded, TurnEnded
from teamwright.core.data.message import Effort, Message, Reply, Usage
from teamwright.core.data.tasks import Done, Draft, Owner, Refusal, Task, TaskId
from teamwright.core.data.team import Member, RequestId, TeamRequest
from teamwright.core.errors import NoAnswer, ToolError, UsageError
from teamwright.core.ids import CallId, LetterId
from teamwright.core.permissions.consent import Mode
from teamwright.core.policies.spawn import Ask
from teamwright.core.ports import ToolContext
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.asking import CLOSED
from teamwright.runtime.bus import Watch
from teamwright.runtime.teams.lead_mail import LeadMail, TeamMessage
from teamwright.runtime.teams.service import Teamwork

MOST_SUBJECT = 200  # characters of a task's subject
FEW_WORDS = 60  # characters that people read in place of a text
LOOK = 1.0  # seconds until an answer is looked for again, if nothing rang
CODE = "code_"  # beginning of calls that code made
Hearing = Literal["code", "model"]
T = TypeVar("T")


class Gone(Struct, frozen=True):
    """The outcome of a request to shut down. `reason` holds the teammate's own words if it refused."""

    done: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return self.done


class LedTeam:
    """A team led from code, made by `Session.team`. `messages` and `ask` give what teammates tell their lead.

    What cannot be done raises a UsageError that says why.
    """

    def __init__(
        self, work: Teamwork, lead: Agent, name: str, mail: LeadMail | None, watch: Callable[[], Watch]
    ) -> None:
        """Without `mail` the main agent's model leads the team, and reads what the lead is told."""
        self._work, self._agent, self._mail, self._watch = work, lead, mail, watch
        self.name = name  # made safe for files

    def __repr__(self) -> str:
        return f"LedTeam({self.name!r})"

    @property
    def members(self) -> list[Member]:
        """Members that have not shut down, the lead first."""
        return self._work.roster.members(self.name)

    # --- people

    async def spawn(
        self,
        name: str,
        prompt: str,
        *,
        kind: str | None = None,
        description: str = "",
        model: str | None = None,
        effort: Effort | int | None = None,
        mode: Mode | None = None,
        isolation: Isolation | None = None,
    ) -> Member:
        """Add a teammate, which begins with `prompt` at once. A name that is taken gets a number: see `.name`.

        With `mode="plan"` it may change nothing before the lead has approved its plan; `isolation="worktree"` gives it
        a worktree and a branch of its own.
        """
        ask = Ask(
            description=description or _few(prompt) or name,
            prompt=prompt,
            kind=kind,
            model=model,
            effort=effort,
            name=name,
            team=self._lead.team,
            mode=mode,
            isolation=isolation,
        )
        if not name.strip():
            raise UsageError("a teammate needs a name")
        ask = checked(ask, Ask, f"spawn of {name}")
        agent = self._agent
        nothing = Reply(Message("assistant", ()), "end_turn", Usage())
        ctx = ToolContext(agent.id, _new_call(), agent.desk, agent.request(), nothing, agent.emit)
        made, plan = await _spoken(self._work.spawn(ask, ctx))
        assert isinstance(made, Member)
        for note in plan.notes:
            self._work.roster.warn(agent.id, f"{made.name}: {note}")
        return made

    async def send(self, to: str, text: str, summary: str = "") -> tuple[str, ...]:
        """Tell a teammate something, or all with `*`. It is stored when this returns the names of its readers."""
        return await self._send(to, text, summary, _new_call())

    async def _send(self, to: str, text: str, summary: str, call: CallId) -> tuple[str, ...]:
        if not text.strip():
            raise UsageError("the message is empty")
        mail, lead = self._work.mail, self._lead
        if self._mail is not None:
            mail.worked(lead.agent)  # like a person's words: answers to them are no idle chatter
        return (await _spoken(mail.say(lead, to, text, summary or _few(text), call))).to

    async def ask(self, name: str, text: str, *, within: float = 600.0) -> TeamMessage:
        """Tell a teammate something and wait for its next message to the lead, or for the last words of its turn.

        What it says before it has read the question does not count. Questions to the same teammate wait for each other.
        Raises NoAnswer if `within` seconds pass, its turn fails, or it shuts down.
        """
        member, mail, call = self._find(name), self._heard(), _new_call()
        with anyio.move_on_after(within):
            async with mail.ask(member.agent):
                watch = self._watch()
                try:
                    await self._send(member.name, text, "", call)
                    return await self._hear(member, LetterId(f"m-{self._agent.id}-{call}"), watch, mail)
                finally:
                    watch.close()
                    self._agent.inbox.ring()  # readers of `messages` may now have what was held back
        raise NoAnswer(f"{member.name} has not answered within {within:g} s; what it says later is in messages()")

    async def _hear(self, member: Member, question: LetterId, watch: Watch, mail: LeadMail) -> TeamMessage:
        taken = False
        while True:
            record: Record | None = None
            with anyio.move_on_after(LOOK):
                record = await anext(watch, None)
                if record is None:
                    raise NoAnswer(f"the session was closed before {member.name} answered")
            if record is None or record.agent != member.agent:
                self._check_presence(member)
                continue
            match record.event:
                case LettersTaken(letters):
                    taken = taken or question in letters
                case ToolEnded(call_id, is_error=False) if taken:
                    if answer := await mail.claim(f"m-{member.agent}-{call_id}"):
                        return answer
                case TurnEnded() as end if taken:
                    mail.answered(member.agent, record.at)
                    return _last_words(member, end)
                case _:
                    pass

    def _check_presence(self, member: Member) -> None:
        now = self._work.roster.find(self.name, member.agent)
        if now is None or now.state == "shutdown":
            raise NoAnswer(f"{member.name} has shut down without an answer")

    def messages(self, *, forever: bool = False) -> AsyncIterator[TeamMessage]:
        """What teammates tell the lead, each once: messages, plans, and the last words of their turns.

        Ends when everybody is idle and everything was read; with `forever`, when the team is deleted. Answers that
        `ask` returned are left out.
        """
        return self._heard().messages(self.name, anyio.sleep_forever if forever else self.idle)

    def _heard(self) -> LeadMail:
        if self._mail is None:
            raise UsageError(f"the model of the main agent leads the team {self.name}, and reads what it is told")
        return self._mail

    async def answer_plan(
        self, message: TeamMessage, *, approve: bool, feedback: str = "", mode: Mode | None = None
    ) -> None:
        """Answer a `plan_approval_request`, for which a teammate in plan mode waits. `mode` is the one to go on in."""
        answer = {"approve": approve} | {k: v for k, v in {"feedback": feedback, "mode": mode}.items() if v}
        await _spoken(self._work.requests.answer_plan(self._lead, message.sender, message.request, answer))

    async def idle(self) -> None:
        """Wait until each teammate is idle, has read everything and finds no task to take."""
        while not await self._work.rests(self.name):
            await anyio.lowlevel.checkpoint()

    async def shutdown(self, name: str, reason: str = "", *, within: float = 60.0, force: bool = False) -> Gone:
        """Ask a teammate to end, and wait: true once it is gone, false if it refuses or does not answer in time.

        `force` does not ask: its turn is cut off, and its tasks go back to the list.
        """
        member = self._find(name)
        if force:
            await _spoken(self._work.stop(self._agent, member.address))
            return Gone(done=True)
        asked = await _spoken(self._work.requests.ask_shutdown(self._lead, member.name, reason, _new_call()))
        with anyio.move_on_after(within):
            return await self._answer(member, asked)
        return Gone(done=False, reason=f"no answer within {within:g} s")

    async def _answer(self, member: Member, asked: RequestId) -> Gone:
        roster, requests = self._work.roster, self._work.tables.requests
        while True:
            if (now := roster.find(self.name, member.agent)) is None or now.state == "shutdown":
                return Gone(done=True)
            request = await requests.by_id(asked)
            if request is not None and (refusal := _refusal(request)) is not None:
                return Gone(done=False, reason=refusal)
            with anyio.move_on_after(LOOK):
                await roster.news()

    # --- tasks

    async def tasks(self) -> list[Task]:
        """The shared task list, in the order of its numbers."""
        board = self._work.board
        return list((await board.table.list(self._lead.team)).tasks)

    async def add_task(
        self, subject: str, description: str = "", *, blocked_by: Sequence[int] = (), owner: str | None = None
    ) -> Task:
        """Add a task; an idle teammate takes it once nothing blocks it. `owner` assigns it to a teammate."""
        line = " ".join(subject.split())
        if not line or len(line) > MOST_SUBJECT:
            raise UsageError(f"a task's subject has 1 to {MOST_SUBJECT} characters; details go into the description")
        member = self._find(owner) if owner else None
        draft = Draft(line, description, blocked_by=tuple(TaskId(id) for id in dict.fromkeys(blocked_by)))
        board, agent, team = self._work.board, self._agent.id, self._lead.team
        given = Owner(member.name, member.agent) if member else None
        done = _done(await _spoken(board.create(agent, draft, _new_call(), list=team, owner=given)))
        assert done.task is not None
        return done.task

    # --- the end

    async def delete(self) -> None:
        """End the team with its mail and its tasks. Refused while a teammate works; idle ones are ended."""
        await _spoken(self._work.delete(self._agent, self._lead.team))
        if self._mail is not None:
            self._mail.teams.discard(self.name)
            self._agent.inbox.ring()

    @property
    def _lead(self) -> Member:
        """The lead's place in this team, which need not be its current one."""
        if self._agent.closing:
            raise UsageError(CLOSED)
        lead = self._work.roster.lead_of(self.name)
        if lead is None or lead.agent != self._agent.id:
            raise UsageError(f"this session does not lead the team {self.name}: it was deleted, or has another lead")
        return lead

    def _find(self, name: str) -> Member:
        lead, member = self._lead, self._work.roster.find(self.name, name)
        if member is None or member.state == "shutdown" or member.agent == lead.agent:
            there = ", ".join(m.name for m in self.members if not m.is_lead)
            raise UsageError(f"there is no teammate {name!r} in the team {self.name}; there are: {there or 'none'}")
        return member


async def lead_team(
    work: Teamwork, agent: Agent, name: str, description: str, *, lead: Hearing, watch: Callable[[], Watch]
) -> LedTeam:
    """The team of this name that is led here, or a new one."""
    if lead not in ("code", "model"):
        raise UsageError(f"lead={lead!r}: a team is led by 'code' or by the main agent's 'model'")
    async with work.making:  # of two calls with one name, the second gets the team of the first
        for known in work.roster.led_here():
            if known.casefold() == name.casefold():
                return LedTeam(work, agent, known, await _mail_of(work, agent, known), watch)
        call = _new_call() if lead == "code" else CallId(_new_call().removeprefix(CODE))
        team = await _spoken(work.create(agent, name, description, "", call))
        return LedTeam(work, agent, team.name, await _mail_of(work, agent, team.name), watch)


async def hear_again(work: Teamwork, agent: Agent) -> None:
    """After a resume by code: hear again for the teams that code led before."""
    for name in work.roster.led_here():
        await _mail_of(work, agent, name)


async def _mail_of(work: Teamwork, agent: Agent, team: str) -> LeadMail | None:
    """None if a model made the team."""
    teams = work.tables.teams
    _, _, call = (await teams.key_of(team)).rpartition("/")
    return work.hear_by_code(agent, team) if call.startswith(CODE) else None


def _last_words(member: Member, end: TurnEnded) -> TeamMessage:
    if end.reason != "done":
        why = f": {end.error}" if end.error and end.error != end.reason else ""
        raise NoAnswer(f"the turn of {member.name} ended without an answer ({end.reason}){why}")
    return TeamMessage(member.name, end.text, "idle_notification")


async def _spoken(work: Awaitable[T]) -> T:
    """Errors for a model become errors for the calling code."""
    try:
        return await work
    except ToolError as error:
        raise UsageError(str(error)) from None


def _done(outcome: Done | Refusal) -> Done:
    if isinstance(outcome, Refusal):
        raise UsageError(outcome.words)
    return outcome


def _refusal(request: TeamRequest) -> str | None:
    answer = request.answer or {}
    return str(answer.get("reason", "")) if request.answer is not None and not answer.get("approve") else None


def _new_call() -> CallId:
    """The id of a call that no model made: the key under which its effects are stored once."""
    return CallId(f"{CODE}{os.urandom(8).hex()}")


def _few(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= FEW_WORDS else line[: FEW_WORDS - 4].rsplit(" ", 1)[0] + " ..."
