"""What is done beside the conversation where a setting says so: summaries, suggestions, notes; and /btw."""

import io
import json
import re
from pathlib import Path
from typing import Any

import anyio
import pytest

from conftest import Walker
from crew import LIMIT, Crew, after, agent, bash, crew
from program import Program, tool
from teamwright.core.errors import ModelError
from teamwright.core.event import JobEnded, JobProgressed, LettersTaken, Suggested, TurnEnded
from teamwright.core.message import Request
from teamwright.models.scripted import ScriptedModel
from teamwright.surfaces.progress import Progress

pytestmark = pytest.mark.anyio
KINDS = {
    "suggest": "what would they most likely type next",
    "summary": "looks over your shoulder",
    "notes": "Later sessions in this project",
    "shorter": "Write all of them anew",
    "aside": "<side-question>",
}
_MARK = re.compile(r"SCRIPT:(\w+)")
NOTE = "## Build\n- make test needs Python 3.12\n"


def kind_of(request: Request) -> str:
    last = request.messages[-1].text
    return next((kind for kind, words in KINDS.items() if words in last), "talk")


def stage(talk: list[Any], **asides: Any) -> ScriptedModel:
    """The conversation plays `talk`, an agent what its prompt names; each kind of aside has its own answer."""

    async def play(request: Request) -> Any:
        kind = kind_of(request)
        said = sum(m.role == "assistant" for m in request.messages)
        name = _MARK.search(request.messages[0].text)
        steps = {"kid": KID, **asides}[name[1]] if name else talk
        step = asides[kind] if kind != "talk" else steps[said] if said < len(steps) else "done"
        step = step(request) if callable(step) else step
        return await step if hasattr(step, "__await__") else step

    return ScriptedModel(play)


KID: list[Any] = [bash("true"), bash("echo again"), "report"]


def kinds(walk: Crew) -> list[str]:
    return [kind_of(r) for r in walk.model.requests]


def settings(**own: Any) -> str:
    return json.dumps({"teamwright": own})


def notebook(walker: Walker) -> Path:
    (folder,) = (walker.home / ".teamwright/memory/projects").iterdir()
    return folder / "MEMORY.md"


# --- I3


@pytest.mark.spec("I3")
async def test_after_a_turn_the_next_prompt_is_suggested_on_one_line(walker: Walker) -> None:
    model = stage(["one", "two"], suggest='- "Now run the\x1b[31m tests"\nand more')
    async with crew(walker, model, settings=settings(promptSuggestions=True)) as walk:
        await walk.say("first")
        await walk.until(Suggested)
        messages = list(walk.session.main.history.messages)
        assert [m.text for m in messages] == ["first", "one"]
        await walk.play("second")
    assert kinds(walk) == ["talk", "suggest", "talk", "suggest"]
    assert walk.of(Suggested)[0].text == "Now run the\\u001b[31m tests"
    first, aside, second, _ = walk.model.requests
    assert aside.messages[: len(first.messages)] == first.messages and second.messages[:2] == tuple(messages)


class Thinker:
    """An answer that never comes; it tells when it was asked for and when it was given up."""

    def __init__(self) -> None:
        self.asked, self.left = anyio.Event(), anyio.Event()

    async def __call__(self, _: Request) -> Any:
        self.asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.left.set()


async def seen(event: anyio.Event) -> None:
    with anyio.fail_after(LIMIT):
        await event.wait()


@pytest.mark.spec("I3")
async def test_a_new_prompt_cancels_a_suggestion(walker: Walker) -> None:
    thinker = Thinker()
    model = stage(["one", after(thinker.left, "two")], suggest=thinker)
    async with crew(walker, model, settings=settings(promptSuggestions=True)) as walk:
        await walk.say("first")
        await seen(thinker.asked)
        await walk.say("second")
        await walk.until(lambda e: isinstance(e, TurnEnded) and e.text == "two")
        walk.session.hurry()
    assert walk.of(Suggested) == []


@pytest.mark.spec("I3")
async def test_a_turn_that_begins_by_itself_cancels_it_too(walker: Walker) -> None:
    thinker = Thinker()
    wait = walker.project / "go"
    held = bash(f"while ! [ -e {wait} ]; do sleep 0.02; done")
    talk = [agent("held", run_in_background=True), "one", after(thinker.left, "two")]
    model = stage(talk, suggest=thinker, held=[held, "report"])
    async with crew(walker, model, settings=settings(promptSuggestions=True)) as walk:
        await walk.say("first")
        await seen(thinker.asked)
        wait.touch()  # the notice of its end begins another turn
        await walk.until(lambda e: isinstance(e, TurnEnded) and e.text == "two")
        walk.session.hurry()
    assert walk.of(Suggested) == []


@pytest.mark.spec("I3")
@pytest.mark.parametrize("answer", ["NONE", "none.", "", ModelError("no", "auth"), bash("true")])
async def test_no_suggestion_is_silence(walker: Walker, answer: Any) -> None:
    model = stage(["one"], suggest=answer or [])  # a reply without blocks
    async with crew(walker, model, settings=settings(promptSuggestions=True)) as walk:
        assert (await walk.play()).reason == "done"
    assert walk.of(Suggested) == [] and [e.reason for e in walk.of(TurnEnded)] == ["done"]


@pytest.mark.spec("I3")
async def test_after_a_turn_that_failed_nothing_is_suggested(walker: Walker) -> None:
    model = stage([ModelError("no", "auth")], suggest="x")
    async with crew(walker, model, settings=settings(promptSuggestions=True)) as walk:
        await walk.play()
    assert kinds(walk) == ["talk"]


# --- I5


SUMMARIES = {"agentSummaries": True, "summarySeconds": 0.001}


@pytest.mark.spec("I5", "B5")
async def test_a_background_agent_says_in_one_line_what_it_does(walker: Walker) -> None:
    words = " ".join(f"w{n}" for n in range(20))
    talk = [agent("kid", run_in_background=True), "waits", "done"]
    async with crew(walker, stage(talk, summary=f"`{words}`\nmore"), settings=settings(**SUMMARIES)) as walk:
        await walk.play()
    told = [e.summary for e in walk.of(JobProgressed) if e.summary]
    assert told and set(told) == {" ".join(f"w{n}" for n in range(12)) + "…"}
    assert 1 <= kinds(walk).count("summary") <= 2  # for each reply with calls, one at a time; none for the report
    (kid,) = walk.children
    asked = [r for r in walk.model.requests if kind_of(r) == "summary"]
    own = [r for r in walk.model.requests if kind_of(r) == "talk" and "SCRIPT:kid" in r.messages[0].text]
    assert len(own) == 3 and all(r.tools == own[0].tools and r.messages[0] == own[0].messages[0] for r in asked)
    assert own[-1].messages[: len(own[0].messages)] == own[0].messages and not any("shoulder" in repr(r) for r in own)
    last = [r.event for r in walk.records if isinstance(r.event, JobProgressed | JobEnded)][-1]
    assert isinstance(last, JobEnded) and last.job == kid


@pytest.mark.spec("I5")
async def test_summaries_come_at_most_every_so_many_seconds(walker: Walker) -> None:
    talk = [agent("kid", run_in_background=True), "waits", "done"]
    own = settings(agentSummaries=True)  # 30 s: the agent is done long before
    async with crew(walker, stage(talk, summary="x"), settings=own) as walk:
        await walk.play()
    assert "summary" not in kinds(walk)


@pytest.mark.spec("I5")
async def test_a_foreground_agent_is_not_asked(walker: Walker) -> None:
    async with crew(walker, stage([agent("kid"), "done"], summary="x"), settings=settings(**SUMMARIES)) as walk:
        await walk.play()
    assert "summary" not in kinds(walk)


@pytest.mark.spec("I5")
@pytest.mark.parametrize("fault", [ModelError("no", "auth"), "hang"])
async def test_a_summary_that_fails_or_hangs_disturbs_nobody(walker: Walker, fault: Any) -> None:
    thinker = Thinker()
    talk = [agent("kid", run_in_background=True), "waits", "done"]
    model = stage(talk, summary=thinker if fault == "hang" else fault)
    async with crew(walker, model, settings=settings(**SUMMARIES)) as walk:
        assert (await walk.play()).text == "done"
        if fault == "hang":
            await seen(thinker.left)  # with its agent
    assert [e.status for e in walk.of(JobEnded)] == ["completed"]
    assert not [e for e in walk.of(JobProgressed) if e.summary]
    if fault != "hang":
        assert "a summary of agent" in (walker.home / ".teamwright/logs/teamwright.log").read_text()
    else:
        assert kinds(walk).count("summary") == 1  # one at a time


# --- I2


@pytest.mark.spec("I2")
async def test_what_a_session_noted_is_told_to_the_next_one(walker: Walker) -> None:
    own = settings(sessionMemory=True)
    async with crew(walker, stage(["one"], notes=NOTE), settings=own) as walk:
        await walk.play("first")
        assert "notes" not in kinds(walk)
        written = [m.text for m in walk.session.main.history.messages]
    assert kinds(walk) == ["talk", "notes"] and written == ["first", "one"]
    text = notebook(walker).read_text()
    assert re.search(r"## Build\n- \d{4}-\d\d-\d\d: make test needs Python 3.12\n", text)
    async with crew(walker, stage(["one"], notes="NOTHING"), settings=own) as walk:
        await walk.play("first")
    system = "\n".join(walk.model.requests[0].system)
    assert "make test needs Python 3.12" in system and "information, not orders" in system
    assert notebook(walker).read_text() == text
    async with crew(walker, stage(["one"])) as walk:  # the setting is off
        await walk.play("first")
    assert "Python 3.12" not in "\n".join(walk.model.requests[0].system) and kinds(walk) == ["talk"]


@pytest.mark.spec("I2")
async def test_notes_are_taken_after_so_many_turns_and_the_rest_at_the_end(walker: Walker) -> None:
    own = settings(sessionMemory=True, memoryTurns=2)
    async with crew(walker, stage(["r"] * 9, notes=NOTE), settings=own) as walk:
        for n in range(5):
            await walk.play(f"prompt {n}")
            with anyio.fail_after(LIMIT):
                while kinds(walk).count("notes") < (n + 1) // 2:
                    await anyio.sleep(0.01)
    assert kinds(walk) == ["talk", "talk", "notes", "talk", "talk", "notes", "talk", "notes"]
    assert notebook(walker).read_text().count("make test") == 1


@pytest.mark.spec("I2")
async def test_a_session_that_is_cut_off_or_has_failed_takes_no_notes(walker: Walker) -> None:
    own = settings(sessionMemory=True)
    async with crew(walker, stage(["one", after(anyio.Event(), "x")], notes=NOTE), settings=own) as walk:
        await walk.play("first")
        await walk.say("second")
        await walk.until(lambda e: isinstance(e, LettersTaken) and e.message.text == "second")
    assert "notes" not in kinds(walk)
    with pytest.raises(ExceptionGroup):
        async with crew(walker, stage(["one"], notes=NOTE), settings=own) as walk:
            await walk.play()
            raise ZeroDivisionError
    assert "notes" not in kinds(walk)
    async with crew(walker, stage(["one"], notes=NOTE), settings=own) as walk:
        await walk.play()
        walk.session.hurry()
    assert "notes" not in kinds(walk) and not (walker.home / ".teamwright/memory").exists()


@pytest.mark.spec("I2", "A10")
async def test_no_secret_is_noted(walker: Walker) -> None:
    walker.env |= {"SHOP_TOKEN": "hunter2hunter2"}
    key = "-".join(["sk", "ant", "x1" * 12])
    notes = f"## Shop\n- log in with hunter2hunter2\n- or {key}\n- at http://me:pw12@shop.example"
    async with crew(walker, stage(["one"], notes=notes), settings=settings(sessionMemory=True)) as walk:
        await walk.play()
    text = notebook(walker).read_text()
    assert text.count("[secret]") == 3 and not re.search("hunter2|x1x1|pw12", text)
    assert notebook(walker).stat().st_mode & 0o777 == 0o600


async def test_notes_that_cannot_be_read_are_named_and_left_out(walker: Walker) -> None:
    own = settings(sessionMemory=True)
    async with crew(walker, stage(["one"], notes=NOTE), settings=own) as walk:
        await walk.play()
    file = notebook(walker)
    file.unlink()
    file.symlink_to("/etc/hostname")
    async with crew(walker, stage(["one"], notes=NOTE), settings=own) as walk:
        assert any("MEMORY.md" in note for note in walk.session.notes)
        assert (await walk.play()).text == "one"
    assert file.is_symlink()


# --- I6


def long_notes() -> str:
    lines = [f"- 2026-01-{n % 28 + 1:02}: the same thing said for the {n}th time, at some length" for n in range(60)]
    return "# Notes of earlier sessions\n\n## Things\n" + "\n".join(lines) + "\n"


async def _with_notes(walker: Walker) -> Path:
    async with crew(walker, stage(["one"], notes=NOTE), settings=settings(sessionMemory=True)) as walk:
        await walk.play()
    notebook(walker).write_text(long_notes())
    return notebook(walker)


DREAMS = settings(consolidateMemory=True, consolidateSeconds=0.01)


@pytest.mark.spec("I6")
async def test_notes_are_shortened_once_when_the_session_rests(walker: Walker) -> None:
    file = await _with_notes(walker)
    model = stage(["one", "two"], shorter="## Things\n- 2026-01-28: said often")
    async with crew(walker, model, settings=DREAMS, can_ask=True) as walk:
        await walk.play()
        with anyio.fail_after(LIMIT):
            while file.read_text() == long_notes():
                await anyio.sleep(0.01)
        assert [m.text for m in walk.session.main.history.messages] == ["go", "one"]
        await walk.play("second")
    assert file.read_text().endswith("## Things\n- 2026-01-28: said often\n")
    assert file.with_name("MEMORY.md.before").read_text() == long_notes()
    assert kinds(walk) == ["talk", "shorter", "talk"]
    assert [m.role for m in walk.model.requests[1].messages] == ["user"]  # the notes alone


@pytest.mark.spec("I6")
async def test_a_prompt_cancels_the_shortening(walker: Walker) -> None:
    file = await _with_notes(walker)
    thinker = Thinker()
    model = stage(["one", after(thinker.left, "two")], shorter=thinker)
    async with crew(walker, model, settings=DREAMS, can_ask=True) as walk:
        await walk.play()
        await seen(thinker.asked)
        assert (await walk.play("second")).text == "two"
    assert file.read_text() == long_notes() and not file.with_name("MEMORY.md.before").exists()


@pytest.mark.spec("I6")
@pytest.mark.parametrize(
    "more", [{"settings": settings(consolidateSeconds=0.01), "can_ask": True}, {"settings": DREAMS}]
)
async def test_it_is_off_by_default_and_where_nobody_could_come_back(walker: Walker, more: Any) -> None:
    await _with_notes(walker)
    async with crew(walker, stage(["one"], shorter="x"), **more) as walk:
        await walk.play()
        assert walk.session._asides._resting is None  # nothing waits for a rest
    assert kinds(walk) == ["talk"]


# --- the program


@pytest.mark.spec("I4")
def test_btw_in_the_place_of_a_prompt_prints_the_answer(program: Program) -> None:
    ran = program.run("-p", "/btw what is this?", script=["An empty place."])
    assert (ran.rc, ran.out) == (0, "An empty place.\n")
    events = program.transcript().read_text()
    assert "what is this?" not in events and "An empty place." not in events
    ran = program.prompt(["x"], text="/btw")
    assert ran.rc == 1 and "no question" in ran.result["result"]


@pytest.mark.spec("I4")
def test_btw_while_a_turn_runs_has_a_result_of_its_own(program: Program) -> None:
    mark = program.project / "go"
    script = {
        "main": [[tool("Nope"), tool("Bash", command=f"while ! [ -e {mark} ]; do sleep 0.02; done")], "all done"],
        "aside": {"when": "<side-question>", "steps": ["nearly there"]},
    }
    live = program.talk(script, "--dangerously-skip-permissions")
    live.say("work")
    live.seen(type="user")
    live.say("/btw how far?")
    (first,) = live.results(1)
    assert (first["result"], first["subtype"]) == ("nearly there", "success") and not mark.exists()
    mark.touch()
    assert live.results(2)[1]["result"] == "all done"
    assert [line["subtype"] for line in live.lines if line["type"] == "system"].count("init") == 1
    assert live.end().rc == 0


@pytest.mark.spec("I3", "I5")
def test_what_a_driving_program_sees_of_suggestions_and_summaries(program: Program) -> None:
    kid = {"description": "d", "prompt": "SCRIPT:kid", "run_in_background": True}
    script = {
        "main": [tool("Agent", **kid), "waits", "done"],
        "kid": [tool("Bash", command="true"), tool("Bash", command="echo x"), "report"],
        "summary": {"when": KINDS["summary"], "steps": ["Reading the files"]},
        "suggest": {"when": KINDS["suggest"], "steps": ["Go on"]},
    }
    own = settings(promptSuggestions=True, **SUMMARIES)
    ran = program.prompt(script, "--settings", own, "--dangerously-skip-permissions")
    system = [line for line in ran.lines if line["type"] == "system"]
    assert [x["suggestion"] for x in system if x["subtype"] == "prompt_suggestion"][-1] == "Go on"
    assert "Reading the files" in [x.get("summary") for x in system if x["subtype"] == "task_progress"]


@pytest.mark.spec("I3", "I4", "I5")
async def test_a_person_who_watches_sees_them_without_their_hidden_characters(walker: Walker) -> None:
    out = io.StringIO()
    talk = [agent("kid", run_in_background=True), "waits", "done"]
    model = stage(talk, summary="Reading it", suggest="Go on", aside="Nearly\x1b[2J there")
    own = settings(promptSuggestions=True, **SUMMARIES)
    async with crew(walker, model, settings=own) as walk:
        await walk.play()
        await walk.session.aside("how far?")
    screen = Progress(out, colours=False)
    for record in walk.records:
        screen.show(record)
    lines = [line.strip() for line in out.getvalue().splitlines()]
    assert {"| Reading it", "next: Go on", "Nearly\\x1b[2J there"} <= set(lines)
