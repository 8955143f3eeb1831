"""Notes between sessions: taken beside the conversation, given to the next session, shortened at rest."""

import re
from pathlib import Path
from typing import Any

import anyio
import pytest
from aside_kit import Thinker, kinds, seen, settings, stage

from conftest import Walker
from crew import LIMIT, after, crew
from teamwright.core.data.event import LettersTaken, TurnEnded
from teamwright.core.data.letter import PERSON, Letter, Prompt
from teamwright.core.data.message import Request, Text
from teamwright.core.ids import new_letter_id
from teamwright.runtime.agents.resume import Origin
from teamwright.runtime.session import Session

pytestmark = pytest.mark.anyio
NOTE = "## Build\n- make test needs Python 3.12\n"


def notebook(walker: Walker) -> Path:
    (folder,) = (walker.home / ".teamwright/memory/projects").iterdir()
    return folder / "MEMORY.md"


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


@pytest.mark.spec("I2", "X2")
async def test_a_letter_that_comes_while_the_last_notes_are_taken_waits_for_a_resume(walker: Walker) -> None:
    taking, go_on = anyio.Event(), anyio.Event()

    def notes(request: Request) -> Any:
        taking.set()
        return after(go_on, NOTE)(request)

    model = stage(["one", "never asked"], notes=notes)

    async def post(session: Session) -> None:
        await taking.wait()
        await session.supervisor.post(Letter(new_letter_id(), session.main.id, PERSON, Prompt((Text("late"),))))
        go_on.set()

    async with anyio.create_task_group() as group, crew(walker, model, settings=settings(sessionMemory=True)) as walk:
        await walk.play("first")
        group.start_soon(post, walk.session)
        id = walk.session.id
    assert kinds(walk) == ["talk", "notes"] and [end.reason for end in walk.of(TurnEnded)] == ["done"]
    async with crew(walker, stage(["one", "heard"]), origin=Origin(resume=id)) as walk:
        with anyio.fail_after(LIMIT):
            await walk.session.idle()
        assert [m.text for m in walk.session.main.history.messages[-2:]] == ["late", "heard"]


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
        assert walk.session.services.side_questions._resting is None  # nothing waits for a rest
    assert kinds(walk) == ["talk"]
