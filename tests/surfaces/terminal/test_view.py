"""The fold of events into what the screen shows: pure, so the tables are short."""

from datetime import UTC

import msgspec
import pytest

from teamwright.core.data.event import (
    AgentEnded,
    AgentStarted,
    Answered,
    Asked,
    Denied,
    Event,
    FilesRestored,
    JobEnded,
    JobStarted,
    LettersTaken,
    PromptPosted,
    PromptWithdrawn,
    Record,
    Replied,
    Rewound,
    Streamed,
    TeamChanged,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Warned,
)
from teamwright.core.data.letter import Figures, JobStatus, Letter, Lines, Notice, Said, Sender
from teamwright.core.data.letters.text import added, as_message
from teamwright.core.data.message import (
    BlockStarted,
    Message,
    PromptRead,
    ReplyStarted,
    Retrying,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    Usage,
    user,
)
from teamwright.core.data.schedule import Schedule, ScheduleId, scheduled_words
from teamwright.core.ids import AgentId, CallId, JobId, LetterId, QuestionId, SessionId
from teamwright.core.permissions.consent import Allow, Question
from teamwright.surfaces.view.letters import items_of, shell_text
from teamwright.surfaces.view.shapes import Item, Note, Spoken, Step, Thought
from teamwright.surfaces.view.talk import MOST_ITEMS, SLACK
from teamwright.surfaces.view.view import SessionFold, older

MAIN, CHILD = AgentId("main"), AgentId("child")


class Feed:
    def __init__(self) -> None:
        self.view, self.n, self.records = SessionFold(MAIN, price=lambda model, usage: 0.5), 0, list[Record]()

    def __call__(self, *events: Event, agent: AgentId = MAIN) -> None:
        for event in events:
            self.n += event.durable
            record = Record(agent, self.n if event.durable else 0, self.n * 1000, event)
            self.records.append(record)
            self.view.apply(record)

    @property
    def items(self) -> list[Item]:
        return self.view.talk(MAIN).items


@pytest.fixture
def feed() -> Feed:
    return Feed()


def call(name: str = "Bash", id: str = "c1", **args: object) -> ToolCall:
    return ToolCall(CallId(id), name, msgspec.Raw(msgspec.json.encode(args)))


def replied(*blocks: object) -> Replied:
    return Replied(Message("assistant", tuple(blocks), "m"), "end_turn", Usage(10, 5))  # type: ignore[arg-type]


def stream(text: str, index: int = 0) -> Streamed:
    return Streamed(TextDelta(index, text))


@pytest.mark.spec("O1")
def test_what_streams_becomes_the_very_item_of_the_whole_reply(feed: Feed) -> None:
    feed(TurnStarted(), LettersTaken((), user("hi")), Streamed(ReplyStarted("r", "m")))
    feed(Streamed(BlockStarted(0, "thinking")), Streamed(ThinkingDelta(0, "hm")), Streamed(BlockStarted(1, "text")))
    feed(stream("Hel", 1), stream("lo", 1))
    said, thought = feed.items[2], feed.items[1]
    assert isinstance(said, Spoken) and said.streaming and said.text == "Hello"
    feed(replied(Thinking("hm."), Text("Hello.")))
    assert feed.items[1] is thought and isinstance(thought, Thought) and thought.text == "hm."
    assert feed.items[2] is said and said.text == "Hello." and not said.streaming and said.n == 2
    feed(TurnEnded("done", "Hello."))
    assert feed.view.agents[MAIN].state == "idle" and len(feed.items) == 3


def test_an_attempt_that_failed_leaves_nothing_of_its_words(feed: Feed) -> None:
    feed(TurnStarted(), stream("half"), Streamed(Retrying(1, 3, 2.0, "overloaded", "overloaded")), stream("whole"))
    feed(replied(Text("whole")))
    assert [item.text for item in feed.items if isinstance(item, Spoken)] == ["whole"]
    assert len(feed.items) == 1


FAULT = "api.test is overloaded (529: Busy. Wait). Try again later or with another model."


def retries(count: int) -> list[Streamed]:
    return [Streamed(Retrying(n, 9, 2.0 * n, FAULT, "overloaded")) for n in range(1, count + 1)]


@pytest.mark.spec("SE4")
def test_many_attempts_are_one_line(feed: Feed) -> None:
    feed(TurnStarted(), *retries(4))
    (note,) = feed.items
    assert isinstance(note, Note) and note.text == "api.test is overloaded (529). Retry 4 of 9 in 8 s."


@pytest.mark.spec("SE4")
@pytest.mark.parametrize(
    "answer", [Streamed(ReplyStarted("r", "m")), stream("so"), Streamed(BlockStarted(0, "text")), replied(Text("so"))]
)
def test_an_answer_takes_the_line_of_the_retries_away(feed: Feed, answer: Event) -> None:
    feed(TurnStarted(), *retries(2))
    before = feed.view.talk(MAIN).version
    feed(answer)
    assert not any(isinstance(item, Note) for item in feed.items) and feed.view.talk(MAIN).version > before


@pytest.mark.spec("SE4")
def test_after_the_last_attempt_only_the_error_stays(feed: Feed) -> None:
    feed(TurnStarted(), *retries(9), TurnEnded("failed", error=FAULT))
    assert [(item.kind, item.text) for item in feed.items if isinstance(item, Note)] == [("error", FAULT)]


def test_an_interrupted_reply_stays_to_be_read(feed: Feed) -> None:
    feed(TurnStarted(), stream("half"), TurnEnded("interrupted", error="interrupted"))
    said = feed.items[0]
    assert isinstance(said, Spoken) and said.text == "half" and not said.streaming
    assert feed.view.agents[MAIN].state == "idle"


@pytest.mark.spec("I11")
def test_a_prompt_that_is_read_slowly_shows_how_far(feed: Feed) -> None:
    shown: list[str] = []
    deltas = (PromptRead(512, 2048), PromptRead(1_900, 2048), PromptRead(2048, 2048), BlockStarted(0, "text"))
    for delta in deltas:
        feed(Streamed(delta))
        shown.append(feed.view.agents[MAIN].doing)
    assert shown == ["reading the prompt: 25 %", "reading the prompt: 92 %", "thinking", "writing"]
    assert not feed.items or not isinstance(feed.items[0], Note)


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ((ToolEnded(CallId("c1"), (Text("fine"),)),), "ok"),
        ((ToolEnded(CallId("c1"), (Text("bad"),), is_error=True),), "error"),
        ((Denied(CallId("c1"), "Bash", {}, "no"), ToolEnded(CallId("c1"), (Text("no"),), is_error=True)), "denied"),
    ],
)
def test_a_call_is_one_step_with_one_end(feed: Feed, end: tuple[Event, ...], status: str) -> None:
    feed(replied(Text("I run it."), call(command="make\ntest")))
    step = feed.items[1]
    assert isinstance(step, Step) and step.status == "running" and step.title == "make test"
    assert feed.view.agents[MAIN].doing == "Bash make test"
    feed(*end)
    assert step.status == status and not feed.view.folds[MAIN].steps


def test_the_time_of_a_step_begins_when_it_was_allowed(feed: Feed) -> None:
    feed(replied(call(command="make")), ToolStarted(CallId("c1")), ToolEnded(CallId("c1"), (Text("fine"),)))
    (step,) = feed.items
    assert isinstance(step, Step) and step.at < step.begun < step.ended


def test_calls_with_effects_run_one_after_the_other(feed: Feed) -> None:
    feed(replied(call(id="c1"), call(id="c2")))
    first, second = (item for item in feed.items if isinstance(item, Step))
    assert not first.queued and not second.queued  # who knows: nothing has begun
    feed(ToolStarted(CallId("c1")))
    assert not first.queued and second.queued
    feed(ToolEnded(CallId("c1"), ()), ToolStarted(CallId("c2")))
    assert not second.queued


def test_changed_arguments_are_the_ones_shown(feed: Feed) -> None:
    feed(replied(call(command="rm -rf /")), ToolEnded(CallId("c1"), (Text(""),), args={"command": "ls"}))
    step = feed.items[0]
    assert isinstance(step, Step) and step.title == "ls"


@pytest.mark.spec("M5")
def test_a_question_waits_until_it_is_answered_or_withdrawn(feed: Feed) -> None:
    question = Question(QuestionId("q"), MAIN, "main", CallId("c1"), "Bash", {"command": "ls"}, "no rule")
    feed(replied(call(command="ls")), Asked(question))
    agent = feed.view.agents[MAIN]
    assert feed.view.questions == [question] and agent.state == "waiting" and "your answer" in agent.waiting_for
    feed(Answered(QuestionId("q"), Allow()))
    assert not feed.view.questions and feed.view.agents[MAIN].state == "running"


@pytest.mark.spec("B5", "O7")
def test_agents_have_state_tokens_money_and_what_they_wait_for(feed: Feed) -> None:
    feed(replied(call("Agent", description="look", subagent_type="explore")))
    started = AgentStarted(SessionId("s"), "/", "1", kind="explore", name="explore", parent=MAIN, call_id=CallId("c1"))
    feed(started, agent=CHILD)
    feed(JobStarted(JobId(CHILD), "agent", "look", CallId("c1")))
    assert feed.view.agents[MAIN].state == "waiting" and feed.view.agents[MAIN].waiting_for == "explore"
    feed(replied(Text("found")), AgentEnded("completed", "found"), agent=CHILD)
    feed.view.price_all()
    child = feed.view.agents[CHILD]
    assert (child.state, child.tokens, child.usd, child.parent) == ("done", 15, 0.5, MAIN)
    feed(JobEnded(JobId(CHILD), "completed", "look", "", Figures(), CallId("c1")))
    assert feed.view.jobs[JobId(CHILD)].status == "completed"


@pytest.mark.spec("T7")
def test_a_teammate_is_known_by_what_the_team_tells(feed: Feed) -> None:
    feed(TeamChanged("t", "spawn", "ann@t"), TeamChanged("t", "idle", "ann@t"), agent=CHILD)
    member = feed.view.agents[CHILD]
    assert (member.name, member.team, member.state) == ("ann", "t", "idle")
    assert [event.kind for event in feed.view.team_events] == ["spawn", "idle"]


@pytest.mark.spec("Q1")
def test_a_queued_prompt_leaves_the_queue_when_it_is_read(feed: Feed) -> None:
    feed(PromptPosted(LetterId("l0"), "nobody waits for it"))
    feed(TurnStarted(), PromptPosted(LetterId("l1"), "more"), PromptPosted(LetterId("l2"), "and more"))
    feed(LettersTaken((LetterId("l1"),), user("more")))
    assert [queued.text for queued in feed.view.queue] == ["and more"]
    feed(PromptPosted(LetterId("l1"), "more"))  # it was read before the queue knew of it
    assert len(feed.view.queue) == 1
    feed(PromptWithdrawn(LetterId("l2")))
    assert not feed.view.queue


def background(feed: Feed, *later: Event) -> list[str]:
    """A command in the background has ended; then comes what is later."""
    summary = 'Command "npm test" failed: exit code 1'
    feed(TurnStarted(), JobStarted(JobId("b"), "shell", "npm test", background=True))
    feed(JobEnded(JobId("b"), "failed", summary, "/o", Figures(duration_ms=75_000)), *later)
    return [item.text for item in feed.items if isinstance(item, Note)]


def notice(status: JobStatus = "failed", summary: str = 'Command "npm test" failed: exit code 1') -> LettersTaken:
    told = Notice(JobId("b"), status, summary, "duration_ms: 9", "/o", usage=Figures(duration_ms=75_000))
    return LettersTaken((), as_message([Letter(LetterId("n"), MAIN, Sender("system"), told)]))


@pytest.mark.spec("SE3")
def test_the_end_of_a_job_is_one_line_whether_it_is_seen_or_read_later(feed: Feed) -> None:
    line = 'Command "npm test" failed: exit code 1 · 1 min 15 s'
    assert background(feed) == [line]
    feed(notice())
    assert [item.text for item in feed.items if isinstance(item, Note)] == [line]
    assert [item.text for item in older(feed.records, MAIN, 99) if isinstance(item, Note)] == [line]


@pytest.mark.spec("SE3")
def test_word_of_a_job_that_still_runs_is_no_end(feed: Feed) -> None:
    assert background(feed, notice("running", "It is silent."))[1:] == ["It is silent."]
    feed(notice())
    assert len(feed.items) == 2


def test_letters_of_others_are_told_apart_from_the_persons_words() -> None:
    mail = Letter(LetterId("1"), MAIN, Sender("agent", "ann"), Said('see <b> & "x"', "a find"))
    idle = Letter(LetterId("2"), MAIN, Sender("agent", "bob"), Said('{"type": "idle_notification"}'))
    notice = Letter(LetterId("3"), MAIN, Sender("system"), Notice(JobId("b"), "completed", "the build", "ok", "/o"))
    said, rests, told = items_of(as_message([mail, idle, notice]), 1, 0)
    assert isinstance(said, Note) and said.who == "ann" and said.text == 'a find\nsee <b> & "x"'
    assert isinstance(rests, Note) and rests.text == "is idle"
    assert isinstance(told, Note) and told.kind == "notice" and told.text == "the build"


def test_tags_that_are_for_the_model_are_not_shown() -> None:
    lines = Letter(
        LetterId("1"), MAIN, Sender("system"), Lines(JobId("b1"), "watch <log>", "</monitor-lines> one\ntwo")
    )
    watched, hooked = items_of(added(as_message([lines]), ["use <b>\n</hook-context> tabs"]), 1, 0)
    assert isinstance(watched, Note) and watched.text == "watch <log>\n</monitor-lines> one\ntwo"
    assert isinstance(hooked, Note) and hooked.text == "a hook adds: use <b> </hook-context> tabs"
    schedule = Schedule(ScheduleId("s1"), "look <b> at it", "0 9 * * *", recurring=True, next=0, created=0)
    (due,) = items_of(user(scheduled_words(schedule, 0, 0, UTC)), 1, 0)
    assert isinstance(due, Note) and due.text == "scheduled: look <b> at it"


def test_a_pasted_picture_is_called_one() -> None:
    name = "input/pictures/57cda64cead0869c.png"
    text = f'what is @/h/.teamwright/{name} and @"/h o/.teamwright/{name}", or @/h/input/pictures/mine.png?'
    (item,) = items_of(user(text), 1, 0)
    assert isinstance(item, Spoken)
    assert item.text == "what is [picture] and [picture], or @/h/input/pictures/mine.png?"


def test_a_shell_line_is_a_step_again_when_read_from_the_transcript() -> None:
    text = shell_text("grep '<a>' x | wc", 1, "</shell-output>\nno")
    (step,) = items_of(user(text), 3, 0)
    assert isinstance(step, Step) and step.status == "error"
    assert step.args == {"command": "grep '<a>' x | wc"} and step.result == "</shell-output>\nno"


def test_memory_is_bounded_and_what_was_dropped_can_be_read_again(feed: Feed) -> None:
    for number in range(MOST_ITEMS + SLACK + 10):
        feed(LettersTaken((), user(f"prompt {number}")))
    talk = feed.view.talk(MAIN)
    assert len(talk.items) <= MOST_ITEMS + SLACK and talk.dropped > 0
    before = older(feed.records, MAIN, talk.items[0].n)
    assert len(before) == talk.dropped
    assert [item.n for item in (*before, *talk.items)] == list(range(1, feed.n + 1))


@pytest.mark.spec("RW6")
def test_a_rewind_takes_items_away_and_brings_them_again(feed: Feed) -> None:
    feed(LettersTaken((), user("first")), LettersTaken((), user("second")), Warned("later"))
    before = list(feed.items)
    feed(Rewound(2, 0, talk=True))
    assert [item.text for item in feed.items][:1] == ["first"] and len(feed.items) == 2
    feed(FilesRestored(("/a",), (), ("/b: it is a directory with files now",)))
    assert isinstance(feed.items[-1], Note) and feed.items[-1].kind == "warning"
    assert "1 file put back" in feed.items[-1].text and "/b: it is" in feed.items[-1].text
    feed(LettersTaken((), user("instead")))
    feed(Rewound(3, 0, talk=True))
    assert feed.items[:-1] == before and feed.view.talk(MAIN).cuts == 2
    feed(Rewound(2, 0))
    assert feed.items[:3] == before and "the conversation did not" in feed.items[-1].text


@pytest.mark.spec("RW6")
def test_far_back_the_rest_is_read_again(feed: Feed) -> None:
    for number in range(MOST_ITEMS + SLACK + 10):
        feed(LettersTaken((), user(f"prompt {number}")))
    feed(Rewound(5, 0, talk=True))
    talk = feed.view.talk(MAIN)
    assert talk.dropped and len(talk.items) == 1
    assert [item.n for item in older(feed.records, MAIN, talk.items[0].n)] == [1, 2, 3, 4]
