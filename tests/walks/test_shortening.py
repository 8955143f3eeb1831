"""Compaction: automatic, on request, after a refusal; and what the agent still knows afterwards."""

from collections.abc import Callable
from typing import Any

import pytest

from conftest import Walker
from crew import NO_ANSWERS, after, bash, check_valid, crew
from program import Program
from teamwright.core.data.event import Compacted, Warned
from teamwright.core.data.message import Request
from teamwright.core.data.op import Compact
from teamwright.core.errors import ModelError, UsageError
from teamwright.core.permissions.consent import Allow, Deny, Question
from teamwright.core.policies.compaction import GO_ON
from teamwright.models.scripted import ScriptedModel, call
from teamwright.runtime.agents.resume import Origin

pytestmark = pytest.mark.anyio
BARE: dict[str, Any] = {"tools": ["Bash"], "system_prompt": "Work."}  # a prompt and tools of a few hundred tokens
SUMMARY = "the gist of it"


def is_summary(request: Request) -> bool:
    return "about to be shortened" in request.messages[-1].text


def player(play: Callable[[Request, int], Any]) -> ScriptedModel:
    """`play` answers the n-th request that does not ask for a summary; every summary is the gist."""
    count = 0

    def step(request: Request) -> Any:
        nonlocal count
        check_valid(request.messages)
        if is_summary(request):
            return SUMMARY
        count += 1
        return play(request, count)

    return ScriptedModel(step)


def long(n: int) -> Any:
    return bash(f"head -c {n} /dev/zero | tr '\\0' x")


def too_long(words: str = "prompt is too long: 215000 tokens > 200000 maximum") -> ModelError:
    return ModelError(words, "context", status=400)


@pytest.mark.spec("I1", "A11")
async def test_one_that_fills_its_window_is_summarised_by_one_request_and_goes_on(walker: Walker) -> None:
    model = player(lambda _, n: [long(25_000), long(25_000), "went on"][n - 1])
    async with crew(walker, model, **BARE, settings=_windows(13_000)) as walk:
        end = await walk.play("paint it blue")
    kinds = [is_summary(r) for r in model.requests]
    assert end.text == "went on" and kinds == [False, False, True, False]
    asked, last = model.requests[2], model.requests[3]
    before = model.requests[1]
    assert asked.messages[: len(before.messages)] == before.messages and asked.tools == before.tools  # cached
    (message,) = last.messages
    assert SUMMARY in message.text and "paint it blue" in message.text and "xxx" not in message.text
    assert message.text.endswith(GO_ON)
    (event,) = walk.of(Compacted)
    assert event.why == "auto" and event.tokens > 5_000
    assert walk.session.meter.turns == 3  # summaries do not count


def _windows(tokens: int) -> str:
    import json

    return json.dumps({"teamwright": {"windows": {"script/given": tokens}, "lean": False}})


@pytest.mark.spec("I1")
async def test_a_prompt_that_is_not_answered_yet_stays_word_for_word(walker: Walker) -> None:
    model = player(lambda _, n: [long(25_000), "first done", "second done"][n - 1])
    async with crew(walker, model, **BARE, settings=_windows(10_000)) as walk:
        await walk.play("do one " + "y" * 4_000)
        await walk.play("do two, exactly so " + "z" * 8_000)
    summary, kept = model.requests[-1].messages
    assert kept.text.startswith("do two, exactly so") and kept.text not in summary.text and "do one" in summary.text


@pytest.mark.spec("I8")
async def test_one_that_fills_up_again_each_time_ends_with_what_fills_it(walker: Walker) -> None:
    model = player(lambda _, n: long(25_000) if n < 30 else "end")
    async with crew(walker, model, **BARE, settings=_windows(5_000)) as walk:
        end = await walk.play()
        assert end.reason == "failed" and "3 times: the contents of a Bash result have about 6," in end.error
        assert sum(is_summary(r) for r in model.requests) == 3 and len(model.requests) == 7
        assert walk.session.main.history.ended == end
        again = await walk.play("something smaller")  # tried anew
    assert again.reason == "failed" and sum(is_summary(r) for r in model.requests) == 6


@pytest.mark.spec("I8")
async def test_where_prompt_and_tools_alone_fill_the_window_that_is_said(walker: Walker) -> None:
    model = player(lambda _, n: bash("echo 1") if n < 30 else "end")
    async with crew(walker, model, settings=_windows(2_500)) as walk:
        end = await walk.play()
    assert end.reason == "failed" and "the system prompt and the tools" in end.error
    assert sum(is_summary(r) for r in model.requests) == 3


@pytest.mark.spec("A7", "I1")
async def test_a_refusal_without_a_figure_does_not_make_the_window_smaller_than_what_fits(walker: Walker) -> None:
    """Prompt and tools alone are most of what was refused, and yet they are taken after the summary."""

    def play(_: Request, n: int) -> Any:
        return too_long("request too large") if n == 2 else bash(f"echo {n}") if n < 9 else "went on"

    model = player(play)
    async with crew(walker, model, settings=_windows(200_000)) as walk:
        end = await walk.play()
    assert end.text == "went on" and next(event.why for event in walk.of(Compacted)) == "too_long"
    assert sum(is_summary(r) for r in model.requests) <= 2


@pytest.mark.spec("I8")
@pytest.mark.parametrize("between", [1, 2, 5])
async def test_calls_that_each_fill_the_window_are_counted_whatever_lies_between(walker: Walker, between: int) -> None:
    model = player(lambda _, n: (bash("echo 1") if n % (between + 1) else long(25_000)) if n < 60 else "end")
    async with crew(walker, model, **BARE, settings=_windows(5_000)) as walk:
        end = await walk.play()
    assert end.reason == "failed" and "3 times: the contents of a Bash result have about 6," in end.error
    assert sum(is_summary(r) for r in model.requests) == 3


@pytest.mark.spec("I1", "I8")
async def test_a_summary_that_would_fill_the_window_itself_loses_its_middle(walker: Walker) -> None:
    """Each reply fills half of the window, and each summary would fill it whole."""

    def step(request: Request) -> Any:
        if is_summary(request):
            return "how it begins " + "s" * 60_000 + " how it ends"
        return long(25_000) if len(model.requests) < 12 else "end"

    model = ScriptedModel(step)
    async with crew(walker, model, **BARE, settings=_windows(13_000)) as walk:
        end = await walk.play()
    assert end.text == "end" and sum(is_summary(r) for r in model.requests) > 3
    text = walk.of(Compacted)[0].messages[0].text
    assert "how it begins" in text and "how it ends" in text and "characters left out" in text and len(text) < 20_000


@pytest.mark.spec("I1", "I8")
@pytest.mark.parametrize("kind", NO_ANSWERS)
async def test_only_a_reply_that_ended_by_itself_and_without_calls_is_a_summary(walker: Walker, kind: str) -> None:
    """It is asked for three times; then the conversation stays, and is ended once it is larger than the window."""

    def step(request: Request) -> Any:
        return NO_ANSWERS[kind] if is_summary(request) else long(25_000)

    model = ScriptedModel(step)
    async with crew(walker, model, **BARE, settings=_windows(5_000)) as walk:
        end = await walk.play("paint it blue")
    assert end.reason == "failed" and "could not be shortened, 3 times in a row: the contents of a Bash" in end.error
    assert not walk.of(Compacted) and sum(is_summary(r) for r in model.requests) == 9
    told = [event.text for event in walk.of(Warned)]
    assert len(told) == 3 and all("no summary, though asked 3 times" in words for words in told)
    first, second, third = [r.messages[-1].text for r in model.requests if is_summary(r)][:3]
    assert "no summary" not in first and "no summary" in second and second == third
    assert "paint it blue" in str(model.requests[-1].messages)


@pytest.mark.spec("I1")
@pytest.mark.parametrize("kind", NO_ANSWERS)
async def test_a_summary_that_comes_when_it_is_asked_for_again_is_taken(walker: Walker, kind: str) -> None:
    answers = [NO_ANSWERS[kind], NO_ANSWERS[kind], SUMMARY]
    model = ScriptedModel(lambda request: answers.pop(0) if is_summary(request) else "an answer")
    async with crew(walker, model) as walk:
        await walk.play("paint it blue")
        await walk.submit(Compact())
    (event,) = walk.of(Compacted)
    assert SUMMARY in event.messages[0].text and "I cannot" not in event.messages[0].text
    assert event.usage.output > len(SUMMARY) // 4 or kind == "empty"  # what was no summary was paid for


@pytest.mark.spec("I1", "A7")
async def test_where_the_model_refuses_and_writes_no_summary_either_the_conversation_is_kept(walker: Walker) -> None:
    def play(request: Request) -> Any:
        if is_summary(request):
            return NO_ANSWERS["a call"]
        return bash("echo 1") if len(request.messages) == 1 else too_long()

    model = ScriptedModel(play)
    async with crew(walker, model) as walk:
        end = await walk.play("paint it blue")
        with pytest.raises(ModelError, match="no summary"):
            await walk.submit(Compact())
        assert "paint it blue" in walk.session.main.history.messages[0].text
    assert end.reason == "failed" and "no summary" in end.error and not walk.of(Compacted)


@pytest.mark.spec("I1")
async def test_at_rest_it_is_not_told_to_go_on(walker: Walker) -> None:
    model = player(lambda _, n: f"answer {n}")
    async with crew(walker, model) as walk:
        await walk.play("paint it blue")
        await walk.submit(Compact())
        await walk.play("something else")
    assert GO_ON not in model.requests[-1].messages[0].text


@pytest.mark.spec("A7", "I1")
async def test_a_refusal_as_too_long_shortens_once_and_teaches_the_window(walker: Walker) -> None:
    def play(request: Request, n: int) -> Any:
        return too_long("maximum context length is 6000 tokens") if n == 2 else [long(40_000), None, "fits now"][n - 1]

    model = player(play)
    async with crew(walker, model) as walk:
        end = await walk.play("paint it")
    assert end.text == "fits now" and [e.why for e in walk.of(Compacted)] == ["too_long"]
    summarised = next(r for r in model.requests if is_summary(r))
    assert len(str(summarised.messages)) < 14_000  # cut down to what fits


@pytest.mark.spec("A7", "I1")
async def test_one_that_is_too_long_even_then_ends_with_a_clear_error(walker: Walker) -> None:
    model = player(lambda _, n: bash("echo 1") if n == 1 else too_long())
    async with crew(walker, model) as walk:
        end = await walk.play()
    assert end.reason == "failed" and "too long" in end.error
    assert [is_summary(r) for r in model.requests] == [False, False, True, False]


def odd(words: str = "Bad Request", fault: Any = "bad_request") -> ModelError:
    """A refusal in words that no list has."""
    return ModelError(f"the server refused it (400: {words})", fault, status=400, said=words)


@pytest.mark.spec("A7", "I1")
@pytest.mark.parametrize(
    ("before", "refusal"),
    [(24_000, odd()), (24_000, odd("")), (100, odd("the tokens do not fit")), (100, odd("no", "too_large"))],
)
async def test_a_refusal_that_may_mean_the_length_is_tried_shortened_once(
    walker: Walker, before: int, refusal: ModelError
) -> None:
    model = player(lambda _, n: [long(before), refusal, "went on", "and on"][n - 1])
    async with crew(walker, model, **BARE) as walk:
        assert (await walk.play("paint it blue")).text == "went on"
        assert (await walk.play("more")).text == "and on"
    assert [is_summary(r) for r in model.requests] == [False, False, True, False, False]
    assert [e.why for e in walk.of(Compacted)] == ["too_long"] and "paint it blue" in str(model.requests[-1].messages)


@pytest.mark.spec("A7", "I1")
async def test_a_refusal_that_does_not_mean_the_length_loses_nothing(walker: Walker) -> None:
    def step(request: Request) -> Any:
        if len(model.requests) == 6:
            return "went on"
        return long(24_000) if len(model.requests) == 1 else odd("Field `x` is required")

    model = ScriptedModel(step)
    async with crew(walker, model, **BARE) as walk:
        for _ in range(2):
            end = await walk.play("paint it")
            assert end.reason == "failed" and end.error.count("Field `x`") == 1
        assert (await walk.play("again")).text == "went on"
    assert [is_summary(r) for r in model.requests] == [False, False, True, False, True, False]
    assert not walk.of(Compacted) and "xxxxx" in str(model.requests[-1].messages)


@pytest.mark.spec("A7")
async def test_a_short_conversation_is_not_shortened_for_any_refusal(walker: Walker) -> None:
    """Neither a small one, nor one far below what the model has taken."""
    model = player(lambda _, n: [bash("true"), odd(), long(24_000), "long", "short", odd()][n - 1])
    async with crew(walker, model, **BARE) as walk:
        assert (await walk.play()).reason == "failed"
        assert (await walk.play()).text == "long"
        await walk.submit(Compact())
        assert (await walk.play()).text == "short"
        assert (await walk.play("y" * 9_000)).reason == "failed"
    assert [e.why for e in walk.of(Compacted)] == ["manual"]


@pytest.mark.spec("I1")
async def test_a_summary_on_request_is_cut_down_after_any_refusal(walker: Walker) -> None:
    def step(request: Request) -> Any:
        if is_summary(request):
            return odd() if len(str(request.messages)) > 20_000 else SUMMARY
        return long(24_000) if len(model.requests) == 1 else "end"

    model = ScriptedModel(step)
    async with crew(walker, model, **BARE) as walk:
        history = walk.session.main.history
        await walk.play("paint it")
        await walk.submit(Compact())
    assert [e.why for e in walk.of(Compacted)] == ["manual"] and SUMMARY in history.messages[0].text


@pytest.mark.spec("A7")
async def test_a_first_prompt_that_does_not_fit_is_an_error_at_once(walker: Walker) -> None:
    model = player(lambda _, n: too_long())
    async with crew(walker, model) as walk:
        end = await walk.play()
    assert end.reason == "failed" and len(model.requests) == 1


@pytest.mark.spec("I1")
async def test_a_summary_that_fails_loses_nothing(walker: Walker) -> None:
    def step(request: Request) -> Any:
        if is_summary(request):
            return ModelError("overloaded", "overloaded", status=529)
        return long(30_000) if len(request.messages) == 1 else "end"

    async with crew(walker, ScriptedModel(step), settings=_windows(9_000)) as walk:
        end = await walk.play()
    assert end.text == "end" and not walk.of(Compacted)
    assert any("could not be compacted" in w.text for w in walk.of(Warned))


@pytest.mark.spec("I1")
async def test_what_the_person_answered_in_between_is_kept_as_well(walker: Walker) -> None:
    option = {"label": "blue", "description": "like the sky"}
    asked = {"question": "Which colour?", "header": "colour", "options": [option, option | {"label": "red"}]}
    steps = [
        call("AskUserQuestion", questions=[asked]),
        bash("touch refused &&\n  touch more"),
        [call("EnterPlanMode"), call("ExitPlanMode", plan="paint")],
        "end",
        "on",
    ]
    words = {
        "AskUserQuestion": Allow({"questions": [asked], "answers": {"Which colour?": "green, like the door"}}),
        "Bash": Deny("The person said no.", words="not in this directory"),
        "ExitPlanMode": Deny("The person said no.", words="also add a changelog line"),
    }

    async def answer(question: Question) -> Allow | Deny:
        return words[question.tool]

    model = player(lambda _, n: steps[n - 1])
    async with crew(walker, model, mode="default", interactive=True, answer=answer) as walk:
        await walk.play("paint it")
        await walk.submit(Compact())
    async with crew(walker, model, mode="default", origin=Origin(resume=walk.session.id)) as walk:
        await walk.play("next")
    kept = model.requests[-1].messages[0].text.partition("</asked-so-far>")[0]
    said = [
        "paint it",
        "Which colour? green, like the door",
        "(to Bash: touch refused &&) No: not in this directory",
        "also add a changelog line",
    ]
    assert [kept.count(words) for words in said] == [1] * 4
    assert sorted(said, key=kept.index) == said and "next" not in kept


@pytest.mark.spec("I1", "T10")
async def test_running_jobs_changed_files_and_the_mode_are_told_from_our_records(walker: Walker) -> None:
    path = str(walker.project / "made.txt")
    steps = [
        [call("Write", file_path=path, content="x"), call("Bash", command="sleep 60", run_in_background=True)],
        long(30_000),
        "end",
    ]
    model = player(lambda _, n: steps[n - 1] if n <= len(steps) else "end")
    async with crew(walker, model, settings=_windows(9_000)) as walk:
        await walk.say("go")
        await walk.until(Compacted)
        (message, *_) = walk.session.main.history.messages
        await walk.session.supervisor.stop_all()
    assert path in message.text and "sleep 60" in message.text and str(walker.project) in message.text


@pytest.mark.spec("I1")
async def test_by_hand_with_instructions_and_after_a_resume(walker: Walker) -> None:
    model = player(lambda _, n: f"answer {n}")
    async with crew(walker, model) as walk:
        with pytest.raises(UsageError, match="nothing to compact"):
            await walk.submit(Compact())
        await walk.play("paint it blue")
        await walk.submit(Compact("mind the corners"))
    assert "mind the corners" in model.requests[-1].messages[-1].text
    again = player(lambda _, n: "on")
    async with crew(walker, again, origin=Origin(resume=walk.session.id)) as walk:
        await walk.play("next")
    first, second = again.requests[0].messages
    assert SUMMARY in first.text and second.text == "next"


@pytest.mark.spec("I1")
async def test_by_hand_while_a_turn_runs_waits_for_its_end(walker: Walker) -> None:
    import anyio

    asked, go = anyio.Event(), anyio.Event()

    def step(request: Request) -> Any:
        if is_summary(request):
            return SUMMARY
        asked.set()
        return after(go, "answered")(request)

    async with crew(walker, ScriptedModel(step)) as walk:
        await walk.say("go")
        await asked.wait()
        async with anyio.create_task_group() as group:
            group.start_soon(walk.submit, Compact())
            await anyio.lowlevel.checkpoint()
            assert not any(map(is_summary, walk.model.requests))
            go.set()
    assert [e.why for e in walk.of(Compacted)] == ["manual"]


@pytest.mark.spec("I1")
def test_the_command_of_the_program(program: Program) -> None:
    script = program.project / "script.json"
    script.write_text('["first", "the gist", "last"]')
    ran = program.run("-p", "go", "--model", f"script/{script}", "--output-format", "stream-json", "--verbose")
    args = ("--model", f"script/{script}", "--output-format", "stream-json", "--verbose")
    done = program.run("-p", "/compact", "--resume", ran.result["session_id"], *args)
    assert done.rc == 0 and "compacted" in done.result["result"]
    assert any(line.get("subtype") == "compact_boundary" for line in done.lines)
    empty = program.run("-p", "/compact", *args)
    assert empty.rc == 1 and "nothing to compact" in empty.result["result"]
