"""Usage: every call has a row before it is sent, and each row is settled, whatever happens to the call."""

from typing import Any

import anyio
import pytest
from live import ledger, living

from conftest import Walker
from fake_api import CUT, FakeApi, Step, answer, events, stream
from program import Program, Ran
from teamwright.core.data.event import Streamed, TurnEnded
from teamwright.core.data.message import TextDelta, Usage
from teamwright.core.data.op import Interrupt
from teamwright.core.errors import ModelError
from teamwright.core.policies.budget import Limits
from teamwright.models.scripted import ScriptedModel, call
from teamwright.runtime.agents.resume import Origin
from teamwright.store.tables.state import StateStore

pytestmark = [pytest.mark.anyio, pytest.mark.spec("O5")]
OK, FAILED, LOST = 1, 2, 0


def chunk(delta: Any = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """One chunk of a chat completion."""
    return {"choices": [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def chat(*values: Any, done: bool = True) -> bytes:
    return events([*values, *(["[DONE]"] if done else [])], named=False)


def outcomes(walker: Walker) -> list[int | None]:
    return [row[3] for row in ledger(walker)]


async def test_answered_calls_add_up_to_what_the_provider_counted(walker: Walker) -> None:
    walk = await walker.walk([call("Glob", pattern="*"), "done"], ["one", "two"])
    rows, used = ledger(walker), walk.session.meter.usage
    assert outcomes(walker) == [OK, OK, OK]
    assert sum(row[0] for row in rows) == used.input + used.cache_read + used.cache_write
    assert sum(row[1] for row in rows) == used.output > 0
    replies = [e.usage for e in walk.events if hasattr(e, "usage")]
    assert sum(replies, Usage()) == used


async def test_a_row_is_there_before_the_call_leaves(walker: Walker) -> None:
    seen: list[list[int | None]] = []

    def play(_):
        seen.append(outcomes(walker))
        return "done"

    await walker.walk(play, ["one", "two"])
    assert seen == [[None], [OK, None]]


async def test_a_call_that_failed_is_settled_and_costs_nothing(walker: Walker) -> None:
    walk = await walker.walk([ModelError("no", "auth", status=401)])
    assert ledger(walker) == [(0, 0, 0.0, FAILED)] and walk.session.meter.usage == Usage()


async def test_a_call_that_was_interrupted_is_settled_with_what_it_had_begun(walker: Walker) -> None:
    async with living(walker, [{"text": "one two three", "pace": 0.5}]) as live:
        await live.say("go")
        await live.until(Streamed)
        await live.session.submit(Interrupt())
        await live.until(TurnEnded)
    ((input, output, usd, outcome),) = ledger(walker)
    assert input > 0 and output <= 3 and usd is None and outcome == FAILED
    used = live.session.meter.usage
    assert used.input + used.cache_read + used.cache_write == input


async def test_an_unknown_price_is_said_as_unknown_and_not_as_nothing(walker: Walker) -> None:
    walk = await walker.walk(["done"])
    state = await StateStore.open(walker.home / ".teamwright/state.db")
    (cost,) = await state.costs(walk.session.id)
    await state.close()
    assert cost.unknown_cost and cost.usd == 0 and cost.turns == 1 and cost.name == "main"
    assert walk.session.meter.usd_by_model == {"script/given": None}


async def test_a_call_of_a_dead_process_is_settled_at_its_estimate_by_who_resumes(walker: Walker) -> None:
    first = await walker.walk(["done"])
    state = await StateStore.open(walker.home / ".teamwright/state.db")
    await state.open_call(first.session.id, first.session.main.id, "script/given", 1234)  # and then it was killed
    await state.close()
    assert outcomes(walker) == [OK, None]
    await walker.walk(["a", "b"], origin=Origin(resume=first.session.id))
    rows = ledger(walker)
    assert (rows[1][0], rows[1][3]) == (1234, LOST) and outcomes(walker) == [OK, LOST, OK]


@pytest.mark.spec("O6")
async def test_at_the_limit_of_time_there_is_one_more_turn_to_report(walker: Walker) -> None:
    walk = await walker.walk(lambda _: call("Glob", pattern="*"), limits=Limits(seconds=1e-9))
    assert walk.ends[0].reason == "max_budget" and len(walk.model.requests) == 1
    assert "1e-09 seconds" in walk.ends[0].error


async def test_deltas_are_shown_while_the_call_is_counted(walker: Walker) -> None:
    model = ScriptedModel(["some words"])
    walk = await walker.walk(model)
    texts = [e.delta.text for e in walk.of(Streamed) if isinstance(e.delta, TextDelta)]
    assert "".join(texts) == "some words" and outcomes(walker) == [OK]


LOST_ANSWERS: dict[str, list[Step]] = {
    "cut at once": [CUT],
    "nothing after the head": [*stream(b"", end=CUT)],
    "begun without figures": [*stream(chat(chunk({"content": "x" * 4_000}), done=False), end=CUT)],
    "no sense": stream(b"data: {\n\n"),
}


@pytest.mark.spec("O6")
@pytest.mark.parametrize("how", LOST_ANSWERS)
async def test_an_answer_that_is_lost_costs_its_estimate(program: Program, how: str) -> None:
    whole = stream(chat(chunk({"content": "hi"}, "stop"), chunk(usage={"prompt_tokens": 7, "completion_tokens": 3})))
    async with FakeApi([LOST_ANSWERS[how], LOST_ANSWERS[how], whole]) as api:
        ran = await anyio.to_thread.run_sync(lambda: say_hi(program, api.url))
        sizes = [len(asked.body) for asked in api.asked]
    assert ran.result["result"] == "hi" and len(sizes) == 3
    usage = ran.result["usage"]
    assert sizes[0] // 8 < (usage["input_tokens"] - 7) / 2 < sizes[0] // 2
    assert usage["output_tokens"] == 3 + (2_000 if how.startswith("begun") else 0)


@pytest.mark.parametrize(
    "figures", [{"prompt_tokens": -5_000, "completion_tokens": -9}, {"prompt_tokens": 1 << 50}, None]
)
async def test_figures_that_cannot_be_count_as_none(program: Program, figures: dict[str, int] | None) -> None:
    whole = stream(chat(chunk({"content": "hi"}, "stop"), *([chunk(usage=figures)] if figures else [])))
    async with FakeApi([whole]) as api:
        ran = await anyio.to_thread.run_sync(lambda: say_hi(program, api.url))
        (asked,) = api.asked
    assert len(asked.body) // 8 < ran.result["usage"]["input_tokens"] < len(asked.body) // 2


async def test_what_was_never_sent_or_was_refused_costs_nothing(program: Program) -> None:
    whole = stream(chat(chunk({"content": "hi"}, "stop"), chunk(usage={"prompt_tokens": 7, "completion_tokens": 3})))
    async with FakeApi([answer(500, {}), answer(429, {}), answer(529, {}), whole]) as api:
        ran = await anyio.to_thread.run_sync(lambda: say_hi(program, api.url))
    assert (ran.result["usage"]["input_tokens"], ran.result["usage"]["output_tokens"]) == (7, 3)
    gone = await anyio.to_thread.run_sync(lambda: say_hi(program, api.url))
    assert gone.rc == 1 and gone.result["usage"]["input_tokens"] == 0


def say_hi(program: Program, url: str) -> Ran:
    env = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "k", "TEAMWRIGHT_MAX_RETRIES": "3"}
    return program.run("-p", "hi", "--model", "openai/m", "--output-format", "json", env=env)
