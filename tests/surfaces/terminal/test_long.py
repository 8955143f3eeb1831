"""A long conversation: shown at once, scrollable to its start, with only a small part in memory."""

from pathlib import Path
from typing import Any

import pytest
from stage import Stage, staged
from textual.geometry import Offset
from textual.selection import Selection

from teamwright.core.data.event import LettersTaken, Replied, TurnEnded
from teamwright.core.data.message import Message, Text, Usage, user
from teamwright.runtime.agents.resume import Origin
from teamwright.store.files.paths import find_transcript, home_from
from teamwright.store.files.transcripts import Transcript
from teamwright.surfaces.terminal.widgets.conversation import KEPT, MOST_FOLLOWED
from teamwright.surfaces.view.talk import MOST_ITEMS, SLACK

pytestmark = pytest.mark.anyio
TURNS = 2_000  # two items each: more than memory holds, and more than one page of what is read again


def fill(path: Path) -> None:
    transcript, _, _ = Transcript.open(path)
    for n in range(TURNS):
        answer = Message("assistant", (Text(f"answer {n} it is"),), "m")
        transcript.append(LettersTaken((), user(f"question {n} is")), n)
        transcript.append(Replied(answer, "end_turn", Usage(10, 10)), n)
        transcript.append(TurnEnded("done", "ok"), n)
    transcript.close()


async def scroll(stage: Stage, key: str, text: str) -> None:
    talk = stage.app.conversation

    def seen() -> bool:
        if key == "up":
            talk.action_top()
            return text in stage.screen
        for _ in range(10):  # faster than frames
            if text in stage.screen:
                return True
            talk.page(1)
            assert talk._laid.height <= (2 * KEPT + 4) * talk.size.height
        return False

    await stage.until(seen, text)


async def test_a_long_conversation_is_scrolled_from_end_to_end(walker: Any) -> None:
    walk = await walker.walk(["hello"], ["hello"])
    path = find_transcript(home_from(walker.env), walk.session.id)
    assert path is not None
    fill(path)
    async with staged(walker, origin=Origin(walk.session.id)) as stage:
        await stage.shows(f"answer {TURNS - 1} it is")
        assert stage.view.agents[stage.view.main].tokens >= 20 * TURNS
        assert len(stage.items) <= MOST_ITEMS + SLACK
        await scroll(stage, "up", "▌ hello")
        await stage.say("one more")
        await stage.until(lambda: any("one more" in getattr(item, "text", "") for item in stage.items))
        await stage.rests()
        assert "▌ hello" in stage.screen
        await scroll(stage, "down", "answer 300 it is")
        stage.app.conversation.action_bottom()
        await stage.shows("▌ one more")
        await stage.shows(f"question {TURNS - 1} is")
        assert not stage.app.conversation._older and len(stage.app.conversation._laid.rows) <= MOST_FOLLOWED


async def test_what_is_dropped_from_memory_stays_where_it_is_read(walker: Any) -> None:
    walk = await walker.walk([f"answer {n} it is" for n in range(60)], [f"question {n} is" for n in range(60)])
    async with staged(walker, origin=Origin(walk.session.id)) as stage:
        await stage.shows("answer 59 it is")
        await scroll(stage, "up", "question 0 is")
        fold = stage.view.folds[stage.view.main]
        del fold.talk.items[:100]
        fold.talk.dropped += 100
        await stage.say("one more")
        await stage.rests()
        await stage.pilot.pause(0.2)
        assert "question 0 is" in stage.screen
        await scroll(stage, "down", "▌ one more")
        fold.talk.dropped += 10
        del fold.talk.items[:10]
        fold.talk.version += 1
        stage.app.conversation.action_bottom()
        await stage.shows("▌ one more")
        await stage.shows("answer 59 it is")


async def walk_pages(stage: Stage, by: int, last: str) -> list[str]:
    """Every line on the way, once, page by page until this text is visible."""
    talk = stage.app.conversation
    room = talk.size.height
    passed = before = [talk.render_line(y).text.strip() for y in range(room)]

    def seen() -> bool:
        nonlocal passed, before
        for _ in range(10):  # faster than frames
            if any(last in line for line in before):
                return True
            talk.page(by)
            screen = [talk.render_line(y).text.strip() for y in range(room)]
            above, below = (screen, before) if by < 0 else (before, screen)
            shared = next(n for n in range(room, 0, -1) if above[-n:] == below[:n])
            passed = [*screen[: room - shared], *passed] if by < 0 else [*passed, *screen[shared:]]
            before = screen
        return False

    await stage.until(seen, last)
    return passed


async def test_nothing_is_missed_or_doubled_page_by_page(walker: Any) -> None:
    walk = await walker.walk(["hello"], ["hello"])
    path = find_transcript(home_from(walker.env), walk.session.id)
    assert path is not None
    fill(path)
    said = [words for n in range(TURNS) for words in (f"▌ question {n} is", f"answer {n} it is")]
    async with staged(walker, origin=Origin(walk.session.id)) as stage:
        await stage.shows(f"answer {TURNS - 1} it is")
        up = await walk_pages(stage, -1, "▌ hello")
        assert [line for line in up if line] == ["▌ hello", "hello", *said]
        down = await walk_pages(stage, 1, f"answer {TURNS - 1} it is")
        assert [line for line in down if line] == ["▌ hello", "hello", *said]


async def test_what_is_selected_stays_selected_while_more_is_laid_out_above(walker: Any) -> None:
    walk = await walker.walk([f"answer {n} it is" for n in range(60)], [f"question {n} is" for n in range(60)])
    async with staged(walker, origin=Origin(walk.session.id)) as stage:
        await stage.shows("answer 59 it is")
        talk = stage.app.conversation
        talk.page(-1)
        place = next(y for y in range(talk.size.height) if "answer" in talk.render_line(y).text)
        words = talk.render_line(place).text.strip()
        line = place + round(talk.scroll_y)
        stage.app.screen.selections = {talk: Selection(Offset(0, line), Offset(40, line))}
        talk._extend()
        assert talk.text_selection is not None
        found = talk.get_selection(talk.text_selection)
        assert found is not None and found[0].strip() == words
        talk.action_top()
        assert talk.text_selection is None  # it is no longer laid out


@pytest.mark.spec("AP10")
async def test_a_page_up_is_there_at_once_however_far_it_is(walker: Any) -> None:
    walk = await walker.walk([f"answer {n} it is" for n in range(60)], [f"question {n} is" for n in range(60)])
    async with staged(walker, origin=Origin(walk.session.id)) as stage:
        await stage.shows("answer 59 it is")
        talk = stage.app.conversation
        seen = {stage.screen}
        for _ in range(8):  # faster than any frame
            talk.page(-1)
            assert stage.screen not in seen
            seen.add(stage.screen)
        for _ in range(8):
            talk.page(1)
        assert "answer 59 it is" in stage.screen


@pytest.mark.spec("AP10")
async def test_the_first_screen_is_full_however_high_it_is(walker: Any) -> None:
    walk = await walker.walk([f"answer {n} it is" for n in range(60)], [f"question {n} is" for n in range(60)])
    async with staged(walker, origin=Origin(walk.session.id), size=(100, 220)) as stage:
        await stage.shows("answer 59 it is")
        await stage.shows("answer 10 it is")
