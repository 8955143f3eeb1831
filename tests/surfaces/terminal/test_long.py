"""A long conversation: it is there at once, all of it can be scrolled to, and little of it is in memory."""

from pathlib import Path
from typing import Any

import pytest
from stage import Stage, staged

from teamwright.core.data.event import LettersTaken, Replied, TurnEnded
from teamwright.core.data.message import Message, Text, Usage, user
from teamwright.runtime.agents.resume import Origin
from teamwright.store.files.paths import find_transcript, home_from
from teamwright.store.files.transcripts import Transcript
from teamwright.surfaces.terminal.widgets.conversation import SPAN
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
            assert len(talk._rows) <= SPAN
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
        assert not stage.app.conversation._older and len(stage.app.conversation._rows) <= SPAN


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
