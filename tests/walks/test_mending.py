"""A conversation that a provider refuses for its content: mended once, kept as mended, and never lost."""

import json
from typing import Any

import anyio
import pytest

from conftest import Walker
from crew import bash, check_valid, crew
from fake_api import Asked, FakeApi, Step, answer, events, stream
from pictures import block, coded, jpeg, png
from program import Program
from teamwright.core.data.event import Compacted, LettersTaken, Mended, ToolEnded, Warned
from teamwright.core.data.message import Image, Raw, Request, Text, Thinking, ToolCall, ToolResult
from teamwright.core.data.op import Say
from teamwright.core.errors import ModelError
from teamwright.core.ids import CallId
from teamwright.models.scripted import ScriptedModel, call, thinking
from teamwright.runtime.agents.resume import Origin

pytestmark = pytest.mark.anyio
REFUSAL = "messages.2.content.0: Could not process image"


def pictures(request: Request) -> int:
    blocks = [b for m in request.messages for b in m.blocks]
    inner = [c for b in blocks if isinstance(b, ToolResult) for c in b.content]
    return sum(isinstance(b, Image) for b in (*blocks, *inner))


def refused(words: str = REFUSAL, fault: Any = "bad_request") -> ModelError:
    return ModelError(f"the provider refused it (400: {words})", fault, status=400, said=words)


def picky(*steps: Any, most: int = 0) -> ScriptedModel:
    """Refuses requests with more than this many pictures."""
    said = iter(steps)

    def play(request: Request) -> Any:
        check_valid(request.messages)
        return refused() if pictures(request) > most else next(said)

    return ScriptedModel(play)


def shot(walker: Walker, name: str = "shot.png", raw: bytes = png()) -> Any:
    (walker.project / name).write_bytes(raw)
    return call("Read", file_path=name)


@pytest.mark.spec("A7", "A11")
async def test_a_picture_that_is_refused_becomes_words_for_good(walker: Walker) -> None:
    model = picky(shot(walker), "saw nothing", bash("echo on"), "end")
    async with crew(walker, model) as walk:
        assert (await walk.play("look")).text == "saw nothing"
        assert (await walk.play("go on")).text == "end"
    assert [pictures(r) for r in model.requests] == [0, 1, 0, 0, 0]  # refused once in total
    mended, after = model.requests[2], model.requests[3]
    assert after.messages[: len(mended.messages)] == mended.messages  # the prefix stays
    assert "An image stood here" in str(mended.messages[-1]) and REFUSAL in str(mended.messages[-1])
    assert len(walk.of(Mended)) == 1 and any("refused" in w.text for w in walk.of(Warned))
    again = picky("resumed")
    async with crew(walker, again, origin=Origin(resume=walk.session.id)) as walk:
        assert (await walk.play("more")).text == "resumed"
    (request,) = again.requests
    assert request.messages[: len(after.messages)] == after.messages


@pytest.mark.spec("A7")
async def test_pictures_that_were_taken_before_stay(walker: Walker) -> None:
    model = picky(shot(walker), "one", shot(walker, "b.png"), "two", most=1)
    async with crew(walker, model) as walk:
        await walk.play("look")
        assert (await walk.play("and now")).text == "two"
    assert [pictures(r) for r in model.requests] == [0, 1, 1, 2, 1]


@pytest.mark.spec("A7", "A9")
@pytest.mark.parametrize("fault", ["bad_request", "too_large"])
async def test_it_is_tried_once_and_then_told_in_one_sentence(walker: Walker, fault: Any) -> None:
    read = shot(walker)
    model = ScriptedModel(lambda r: read if len(r.messages) == 1 else refused("credit is used up", fault))
    async with crew(walker, model) as walk:
        end = await walk.play("look")
    assert end.reason == "failed" and end.error.count("credit is used up") == 1 and "as well" in end.error
    assert len(model.requests) == 4 and not walk.of(Mended) and not walk.of(Compacted)  # nor would it be summarised


@pytest.mark.spec("A7")
async def test_a_refusal_with_nothing_to_blame_is_not_tried_again(walker: Walker) -> None:
    model = ScriptedModel(lambda _: refused("max_tokens: too many"))
    async with crew(walker, model) as walk:
        end = await walk.play("look")
    assert end.reason == "failed" and "max_tokens" in end.error and len(model.requests) == 1


@pytest.mark.spec("A7")
async def test_reasoning_that_is_not_taken_back_is_left_out(walker: Walker) -> None:
    def play(request: Request) -> Any:
        if any(isinstance(b, Thinking) for m in request.messages for b in m.blocks):
            return refused("messages.1.content.0: Invalid `signature` in `thinking` block")
        return [thinking("hm"), "first"] if len(request.messages) == 1 else "second"

    model = ScriptedModel(play)
    async with crew(walker, model) as walk:
        await walk.play("one")
        assert (await walk.play("two")).text == "second"
    assert len(model.requests) == 3 and len(walk.of(Mended)) == 1


@pytest.mark.spec("A7", "A9")
async def test_ids_that_their_own_server_does_not_take_back_are_fitted(walker: Walker) -> None:
    def play(request: Request) -> Any:
        said = [m.model for m in request.messages if m.calls]
        odd = ToolCall(CallId("functions.Bash:0"), "Bash", Raw(b'{"command":"true"}'))
        if not said:
            return odd
        return refused("messages.1.tool_calls.0.id: invalid") if any(said) else "end"

    model = ScriptedModel(play)
    async with crew(walker, model) as walk:
        assert (await walk.play("go")).text == "end"
        assert (await walk.play("more")).text == "end"
    assert len(model.requests) == 4 and len(walk.of(Mended)) == 1


@pytest.mark.spec("A5")
async def test_what_is_no_picture_never_reaches_the_model(walker: Walker) -> None:
    steps = [
        shot(walker, "huge.png", png(60_000, 60_000)),
        shot(walker, "fake.jpg", b"\xff\xd8\xff" + bytes(101)),
        shot(walker, "cut.jpg", jpeg()[:-2]),
        shot(walker, "really.png", jpeg(30, 20)),
    ]
    model = ScriptedModel([*steps, "end"])
    async with crew(walker, model) as walk:
        said = (Image("image/png", coded(png(9_000, 9_000))), Image("image/png", "nonsense"), Text("look"))
        await walk.submit(Say(said))
        await walk.until(lambda event: isinstance(event, ToolEnded) and "really" in str(event.data))
    ended = walk.of(ToolEnded)
    words = [str(e.content) for e in ended]
    assert (
        "60,000 x 60,000" in words[0] and "cut off" in words[2] and [e.is_error for e in ended] == [True] * 3 + [False]
    )
    (shown,) = [c for e in ended for c in e.content if isinstance(c, Image)]
    assert shown == Image("image/jpeg", coded(jpeg(30, 20)))
    asked = walk.of(LettersTaken)[0].message
    assert not any(isinstance(b, Image) for b in asked.blocks) and "9,000 x 9,000" in asked.text
    assert "look" in asked.text


# --- over the two wires


def _claude(text: str) -> list[Step]:
    start = {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 1, "output_tokens": 1}}}
    said = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    return stream(
        events([
            start, {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}, said,
            {"type": "content_block_stop", "index": 0}, {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
            {"type": "message_stop"},
        ])
    )  # fmt: skip


def _chat(text: str) -> list[Step]:
    chunks = [{"choices": [{"delta": {"content": text}}]}, {"choices": [{"finish_reason": "stop", "delta": {}}]}]
    return stream(events(chunks, named=False) + b"data: [DONE]\n\n")


def _no(words: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": "invalid_request_error", "message": words}}


def _holds_picture(asked: Asked) -> bool:
    return b'"type":"image' in asked.body


WIRES = [
    ("anthropic/claude-x", "ANTHROPIC_BASE_URL", "", _claude, answer(400, _no(REFUSAL))),
    ("anthropic/claude-x", "ANTHROPIC_BASE_URL", "", _claude, stream(events([_no("image exceeds 5 MB maximum")]))),
    ("openai/m", "OPENAI_BASE_URL", "/v1", _chat, answer(400, {"error": {"message": "Invalid image data"}})),
    ("openai/m", "OPENAI_BASE_URL", "/v1", _chat, answer(404, {"error": {"message": "none that support image input"}})),
    ("openai/m", "OPENAI_BASE_URL", "/v1", _chat, answer(500, {"error": {"message": "image input is not supported"}})),
]


@pytest.mark.spec("A7", "A11")
@pytest.mark.parametrize("wire", WIRES, ids=range(len(WIRES)))
async def test_both_wires_heal_and_a_poisoned_session_goes_on(program: Program, wire: Any) -> None:
    model, name, below, says, no = wire
    line = {"type": "user", "message": {"role": "user", "content": [block(png()), {"type": "text", "text": "look"}]}}
    plain = {"type": "user", "message": {"role": "user", "content": "go on"}}
    args = ("-p", "--model", model, "--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
    plays = [no, no, no, says("healed"), says("still well")]
    async with FakeApi(plays) as api:
        env = {name: api.url + below, "ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k", "TEAMWRIGHT_MAX_RETRIES": "0"}

        async def run(said: dict[str, Any], *more: str) -> Any:
            data = json.dumps(said).encode() + b"\n"
            return await anyio.to_thread.run_sync(lambda: program.run(*args, *more, env=env, input=data))

        lost = await run(line)
        healed = await run(plain, "--continue")
        well = await run(plain, "--continue")
        asked = [a for a in api.asked if a.method == "POST"]
    assert "[secret]" not in lost.out + lost.err  # a one-letter key is no reason to remove that letter
    assert lost.rc == 1 and "as well" in lost.result["result"] + lost.err + str(lost.result)
    assert healed.result["result"] == "healed" and well.result["result"] == "still well"
    assert [_holds_picture(a) for a in asked] == [True, False, True, False, False]
