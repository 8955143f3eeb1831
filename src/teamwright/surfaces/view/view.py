"""Folds a session's events into what the screen needs: plain data, independent of drawing."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from teamwright.core.data.event import (
    AgentEnded,
    AgentStarted,
    Answered,
    AsideAnswered,
    Asked,
    Event,
    JobEnded,
    JobProgressed,
    JobStarted,
    LettersTaken,
    PromptPosted,
    PromptWithdrawn,
    Record,
    Rendered,
    Replied,
    Resumed,
    Rewound,
    Streamed,
    Suggested,
    TeamChanged,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Warned,
)
from teamwright.core.data.message import BlockStarted, PromptRead, Usage
from teamwright.core.data.tasks import Task
from teamwright.core.ids import AgentId, JobId, LetterId
from teamwright.core.permissions.consent import Question
from teamwright.runtime.past.skim import Skimmed
from teamwright.surfaces.view.letters import job_end
from teamwright.surfaces.view.shapes import (
    AgentView,
    Item,
    JobView,
    Note,
    Queued,
    Spoken,
    State,
    Step,
    Talk,
    TeamEvent,
    Thought,
)
from teamwright.surfaces.view.talk import TalkFold
from teamwright.surfaces.view.talk import before as items_before
from teamwright.surfaces.view.text import one_line
from teamwright.surfaces.view.totals import Totals
from teamwright.tools.catalog import traits_of

__all__ = [
    "AgentView",
    "Item",
    "JobView",
    "Note",
    "Queued",
    "SessionFold",
    "Spoken",
    "State",
    "Step",
    "Talk",
    "TeamEvent",
    "Thought",
]

Price = Callable[[str, Usage], float | None]

MOST_NEWS = 1_000  # events of teams in memory
_ENDS: dict[str, State] = {"completed": "done", "failed": "failed", "killed": "stopped"}
_STATES = ("spawn", "idle", "shutdown")
_WRITING = {"text": "writing", "thinking": "thinking"}


class SessionFold:
    """Fed with every record, in order. `version` grows with every visible change outside of conversations."""

    def __init__(
        self, main: AgentId, *, price: Price | None = None, color: Callable[[AgentView], str] | None = None
    ) -> None:
        self.main = main
        self.agents: dict[AgentId, AgentView] = {main: AgentView(main, "main")}
        self.folds: dict[AgentId, TalkFold] = {}
        self.queue: list[Queued] = []
        self.questions: list[Question] = []
        self.tasks: list[Task] = []  # the owner of this view reads it from the store,
        self.tasks_changed = 0  # each time that this has grown
        self.team_events: deque[TeamEvent] = deque(maxlen=MOST_NEWS)
        self.jobs: dict[JobId, JobView] = {}
        self.suggestion, self.totals = "", Totals()
        self.version = 0
        self._taken: deque[LetterId] = deque(maxlen=200)  # recently read letters
        self._price = price
        self._unpriced: set[AgentId] = set()
        self._color = color

    def talk(self, agent: AgentId) -> Talk:
        return self._fold(agent).talk

    def agent(self, id: AgentId) -> AgentView:
        if (found := self.agents.get(id)) is None:
            found = self.agents[id] = AgentView(id, id)
        return found

    def note(self, agent: AgentId, note: Note) -> None:
        """A line of the surface's own, which is in no transcript."""
        self._fold(agent).add(note)

    def apply(self, record: Record) -> None:
        self.tasks_changed += self._lists(record)
        self._fold(record.agent).apply(record)
        if isinstance(record.event, Streamed):
            if isinstance(record.event.delta, BlockStarted | PromptRead):
                self._write(record.agent, record.event.delta)
            return
        self.version += 1
        self.totals.apply(record.agent, self.main, record.event)
        self._apply(record, record.event)

    def pass_over(self, agent: AgentId, skimmed: Skimmed) -> None:
        """Account for the beginning of a transcript that is not folded."""
        self.spend(agent, skimmed.used)
        self.totals.add(skimmed)
        self._fold(agent).talk.dropped += 1
        self.tasks_changed += 1

    def spend(self, agent: AgentId, used: Mapping[str, Usage]) -> None:
        """Add what an agent used in replies that are not folded, by model."""
        view = self.agent(agent)
        for model, usage in used.items():
            view.tokens += usage.input + usage.output + usage.cache_write
            self._charge(view, model or view.model, usage)

    def _apply(self, record: Record, event: Event) -> None:
        match event:
            case AgentStarted():
                self._started(record, event)
            case Rendered():
                self.agent(record.agent).model = event.model
            case JobStarted() | JobProgressed() | JobEnded():
                self._job(record, event)
            case TeamChanged():
                self._team(record, event)
            case Asked() | Answered():
                self._question(record, event)
            case Warned():
                self.note(record.agent, Note("warning", event.text, at=record.at))
            case AsideAnswered():
                self.note(record.agent, Note("aside", event.text, event.question, at=record.at))
            case Suggested():
                self.suggestion = event.text
            case PromptPosted() | PromptWithdrawn():
                self._queue(record.agent, event)
            case _:
                self._turn(record, event)

    def _lists(self, record: Record) -> bool:
        """Whether the task list may have changed."""
        match record.event:
            case ToolEnded(call_id=id):
                step = self._fold(record.agent).steps.get(id)
                return step is not None and traits_of(step.tool).lists
            case TeamChanged(kind=kind):
                return kind != "message"
            case _:
                return False

    # --- what an agent does

    def _turn(self, record: Record, event: Event) -> None:
        agent = self.agent(record.agent)
        match event:
            case TurnStarted():
                agent.state, agent.doing, agent.waiting_for = "running", "thinking", ""
                agent.turn = record.at
                self.suggestion = ""
            case LettersTaken():
                self._take(agent, event.letters)
            case Rewound():
                self.suggestion = ""
            case Replied():
                agent.tokens += event.usage.input + event.usage.output + event.usage.cache_write
                self._charge(agent, event.message.model or agent.model, event.usage)
                self._settle(agent)
            case Resumed():
                rests = record.agent == self.main and agent.kind == "main"  # all others go on by themselves
                if rests and agent.state in ("running", "waiting"):
                    agent.state, agent.doing, agent.waiting_for = "idle", "", ""
            case ToolEnded() if agent.state == "idle":  # the outcome of a call that was cut off, told at the resume
                pass
            case ToolStarted() | ToolEnded():
                self._settle(agent)
            case TurnEnded():
                failed = event.reason not in ("done", "interrupted")
                agent.state, agent.doing = "failed" if failed else "idle", ""
                agent.waiting_for = one_line(event.error) if failed else ""
            case AgentEnded():
                agent.state, agent.doing, agent.ended = _ENDS.get(event.status, "done"), "", record.at
                agent.waiting_for = one_line(event.error)
            case _:
                pass

    def _take(self, agent: AgentView, letters: Sequence[LetterId]) -> None:
        self._taken.extend(letters)
        taken = set(letters)
        self.queue[:] = [queued for queued in self.queue if queued.letter not in taken]
        if taken:  # otherwise it was only added to the conversation
            agent.state, agent.doing, agent.ended = "running", "thinking", 0

    def _queue(self, agent: AgentId, event: PromptPosted | PromptWithdrawn) -> None:
        """A prompt for an agent at work waits in the queue, unless it was read meanwhile."""
        if isinstance(event, PromptWithdrawn):
            self.queue[:] = [queued for queued in self.queue if queued.letter != event.letter]
        elif event.letter not in self._taken and self.agent(agent).state in ("running", "waiting"):
            self.queue.append(Queued(event.letter, event.text, None if agent == self.main else agent))

    def _started(self, record: Record, event: AgentStarted) -> None:
        agent = self.agent(record.agent)
        agent.name, agent.kind, agent.parent, agent.team = event.name, event.kind, event.parent, event.team
        agent.description, agent.started, agent.cwd = event.description, record.at, event.worktree or event.cwd
        if self._color is not None:
            agent.color = self._color(agent)
        parent = self.folds.get(event.parent) if event.parent else None
        if parent is not None and event.call_id is not None and event.call_id in parent.steps:
            parent.steps[event.call_id].agent = record.agent
        if event.parent is not None:
            agent.state = "running"
            if event.parent in self.agents:
                self._settle(self.agents[event.parent])

    def _write(self, id: AgentId, delta: BlockStarted | PromptRead) -> None:
        if isinstance(delta, PromptRead):
            left = delta.done < delta.total
            doing = f"reading the prompt: {100 * delta.done // delta.total} %" if left else "thinking"
        else:
            doing = _WRITING.get(delta.kind, f"calling {one_line(delta.name, 40)}" if delta.name else "thinking")
        if (agent := self.agent(id)).doing != doing:
            agent.doing = doing
            self.version += 1

    def _settle(self, agent: AgentView) -> None:
        """An agent's state follows from its running calls."""
        steps = list(self._fold(agent.id).steps.values())
        asked = [step for step in steps if step.asked]
        busy = False  # a call with effects, whose beginning alone is recorded, runs alone
        for step in steps:
            step.queued = busy and not (step.begun or step.asked or step.agent)
            busy = busy or bool(step.begun or step.asked)
        joined = [self.agents[s.agent].name for s in steps if s.agent in self.agents and s.agent is not None]
        agent.state, agent.waiting_for = "running", ""
        if asked:
            agent.state, agent.waiting_for = "waiting", f"your answer: {asked[0].tool} {asked[0].title}".strip()
        elif steps and len(joined) == len(steps):
            agent.state, agent.waiting_for = "waiting", ", ".join(joined)
        agent.doing = f"{steps[0].tool} {steps[0].title}".strip() if steps else "thinking"

    def _charge(self, agent: AgentView, model: str, usage: Usage) -> None:
        agent.used[model] = agent.used.get(model, Usage()) + usage
        self._unpriced.add(agent.id)

    def price_all(self) -> None:
        """Compute the cost of agents that have used something since the last time: looking up prices takes a while."""
        for id in self._unpriced:
            agent, total = self.agents[id], 0.0
            costs = [self._price(model, usage) if self._price else None for model, usage in agent.used.items()]
            for cost in costs:
                total += cost or 0.0
            agent.usd = None if None in costs else total
        self._unpriced.clear()

    # --- jobs, teams, questions

    def _job(self, record: Record, event: JobStarted | JobProgressed | JobEnded) -> None:
        agent = self.agents.get(AgentId(event.job))
        match event:
            case JobStarted():
                self.jobs[event.job] = JobView(
                    event.job,
                    event.kind,
                    event.description,
                    record.agent,
                    background=event.background,
                    started=record.at,
                )
                if agent is not None or event.kind == "agent":
                    self.agent(AgentId(event.job)).background = event.background
            case JobProgressed():
                if agent is not None and event.summary:
                    agent.summary = one_line(event.summary)
            case JobEnded():
                if (job := self.jobs.get(event.job)) is not None:
                    self._end_job(record, event, job)

    def _end_job(self, record: Record, event: JobEnded, job: JobView) -> None:
        job.status, job.summary, job.ended = event.status, event.summary, record.at
        if job.background:
            took = event.usage.duration_ms or record.at - job.started
            note = Note("notice", job_end(event.summary, took), at=record.at, job=event.job)
            self._fold(record.agent).end_job(note)

    def _team(self, record: Record, event: TeamChanged) -> None:
        news = TeamEvent(record.at, event.team, event.kind, event.agent, event.text, event.to, event.task)
        before = next((old for old in reversed(self.team_events) if old.agent == event.agent), None)
        if event.kind not in _STATES or before is None or before.kind != event.kind:  # report each state once
            self.team_events.append(news)
        agent = self.agent(record.agent)
        agent.team = event.team
        if agent.name == agent.id:
            agent.name = event.agent.partition("@")[0]
        if self._color is not None and not agent.color:
            agent.color = self._color(agent)
        if record.agent != self.main:
            _set_team_state(agent, event.kind, record.at)

    def _question(self, record: Record, event: Asked | Answered) -> None:
        fold = self._fold(record.agent)
        if isinstance(event, Asked):
            if all(known.id != event.question.id for known in self.questions):
                self.questions.append(event.question)
            step = fold.steps.get(event.question.call_id)
        else:
            found = next((q for q in self.questions if q.id == event.question), None)
            self.questions[:] = [q for q in self.questions if q.id != event.question]
            step = fold.steps.get(found.call_id) if found else None
        if step is not None:
            step.asked = isinstance(event, Asked)
            fold.talk.version += 1
        self._settle(self.agent(record.agent))

    def _fold(self, agent: AgentId) -> TalkFold:
        if (found := self.folds.get(agent)) is None:
            found = self.folds[agent] = TalkFold()
        return found


def older(records: Iterable[Record], agent: AgentId, before: int) -> list[Item]:
    """The items of an agent's transcript up to a line, which were dropped from memory.

    All records are folded, because a later one may be a rewind that removes some items.
    """
    fold = TalkFold(most=1 << 40)
    for record in records:
        if record.agent == agent:
            fold.apply(record)
    return items_before(fold.talk.items, before)


def _set_team_state(agent: AgentView, kind: str, at: int) -> None:
    match kind:
        case "idle":
            agent.state, agent.doing, agent.waiting_for = "idle", "", "a message or a task"
        case "wake" | "spawn" | "claim":
            agent.state = "running"
        case "shutdown":
            agent.state, agent.doing, agent.ended = "done", "", at
        case "died":
            agent.state, agent.doing, agent.ended = "failed", "", at
        case _:
            pass
