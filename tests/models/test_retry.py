"""Retries: what is tried again, how long the pauses are, and who else waits."""

import time
from email.utils import formatdate
from typing import Any

import msgspec
import pytest

from teamwright.core.data.message import Delta, Retrying
from teamwright.core.errors import Fault, ModelError
from teamwright.models.faults import SHOWN, Endpoint, Failed, Tries, by_status, clean, read_error, read_patience
from teamwright.models.retry import Brake, Patience, persist

PLACE = Endpoint("api.example", "claude-x", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL")


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self, chance: float = 1.0, retries: int = 10) -> None:
        self.now = 1000.0
        self.slept: list[float] = []
        self.patience = Patience(retries, self.sleep, lambda: self.now, lambda: chance)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class Attempts:
    def __init__(self, *failures: Failed) -> None:
        self.failures = list(failures)
        self.made = 0

    async def __call__(self) -> str:
        self.made += 1
        if self.failures:
            raise self.failures.pop(0)
        return "done"


def failed(
    tries: Tries = "many", fault: Fault = "server", status: int | None = 500, after: float | None = None
) -> Failed:
    return Failed("It broke.", fault, status=status, tries=tries, after=after)


@pytest.mark.spec("A7")
@pytest.mark.anyio
async def test_pauses_double_from_half_a_second_to_thirty() -> None:
    clock, deltas = Clock(), list[Delta]()
    assert await persist(Attempts(*[failed()] * 10), clock.patience, Brake(), deltas.append) == "done"
    assert clock.slept == [0.5, 1, 2, 4, 8, 16, 30, 30, 30, 30]
    assert deltas[1] == Retrying(2, 10, 1.0, "It broke.", "server", 500)
    assert len(deltas) == 10


@pytest.mark.spec("A7")
@pytest.mark.anyio
async def test_half_of_a_pause_is_chance() -> None:
    clock = Clock(chance=0.0)
    await persist(Attempts(*[failed()] * 3), clock.patience, Brake(), lambda _: None)
    assert clock.slept == [0.25, 0.5, 1]


@pytest.mark.spec("A7")
@pytest.mark.anyio
@pytest.mark.parametrize(
    ("tries", "retries", "made"), [("many", 10, 11), ("many", 0, 1), ("few", 10, 4), ("few", 1, 2), ("no", 10, 1)]
)
async def test_patience_ends(tries: Tries, retries: int, made: int) -> None:
    attempts = Attempts(*[failed(tries)] * 50)
    with pytest.raises(ModelError, match=r"It broke\.") as caught:
        await persist(attempts, Clock(retries=retries).patience, Brake(), lambda _: None)
    assert attempts.made == made
    assert (f"{made} attempts" in str(caught.value)) == (made > 1)
    assert (caught.value.fault, caught.value.status) == ("server", 500)


@pytest.mark.spec("A7")
@pytest.mark.anyio
async def test_retry_after_is_obeyed_and_never_shortens_the_pause() -> None:
    clock = Clock(chance=0.0)
    attempts = Attempts(failed(status=429, after=7), failed(status=429, after=0.0), failed(status=503, after=2))
    await persist(attempts, clock.patience, Brake(), lambda _: None)
    assert clock.slept == [7, 0.5, 2]


@pytest.mark.spec("A7")
@pytest.mark.anyio
async def test_too_long_a_wait_is_not_waited_for() -> None:
    attempts, clock, brake = Attempts(failed(status=429, after=3000)), Clock(), Brake()
    with pytest.raises(ModelError, match="50 minutes"):
        await persist(attempts, clock.patience, brake, lambda _: None)
    assert (attempts.made, clock.slept, brake.until) == (1, [], 0)


@pytest.mark.spec("A7")
@pytest.mark.anyio
@pytest.mark.parametrize("status", [429, 529])
async def test_one_that_is_told_to_wait_holds_back_the_others(status: int) -> None:
    clock, brake = Clock(chance=0.0), Brake()

    async def told() -> str:
        if clock.now >= 1020:
            return "late"
        raise failed(status=status, after=20)

    async def other() -> str:
        assert clock.now >= 1020
        return "after the brake"

    def watch(delta: Delta) -> None:
        assert isinstance(delta, Retrying)
        assert brake.until == 1020

    assert await persist(told, clock.patience, brake, watch) == "late"
    clock.now = 1001  # a request that begins while the first still waits
    assert await persist(other, clock.patience, brake, lambda _: None) == "after the brake"
    assert clock.slept == [20, 19]


@pytest.mark.anyio
async def test_a_fault_without_a_delay_does_not_press_the_brake() -> None:
    brake = Brake()
    await persist(Attempts(failed(status=529), failed(status=500, after=3)), Clock().patience, brake, lambda _: None)
    assert brake.until == 0


@pytest.mark.spec("A7")
def test_retry_after_in_every_form() -> None:
    now = time.time()
    assert read_patience({}, now) is None
    assert read_patience({"retry-after": "12"}, now) == 12
    assert read_patience({"retry-after": "1.5"}, now) == 1.5
    assert read_patience({"retry-after-ms": "250", "retry-after": "12"}, now) == 0.25
    assert read_patience({"retry-after": formatdate(now + 90, usegmt=True)}, now) == pytest.approx(90, abs=1.1)
    assert read_patience({"retry-after": formatdate(now - 90, usegmt=True)}, now) == 0
    for nonsense in ("soon", "inf", "nan", "", "Mon, 99 Foo 2020"):
        assert read_patience({"retry-after": nonsense}, now) is None
    assert read_patience({"retry-after": "-5"}, now) == 0


@pytest.mark.spec("A7")
@pytest.mark.parametrize(
    ("status", "fault", "tries", "word"),
    [
        (400, "bad_request", "no", "claude-x"),
        (401, "auth", "no", "ANTHROPIC_API_KEY"),
        (402, "bad_request", "no", "402"),
        (403, "auth", "no", "ANTHROPIC_API_KEY"),
        (404, "not_found", "no", "claude-x"),
        (408, "server", "many", "408"),
        (409, "server", "many", "409"),
        (413, "context", "no", "window"),
        (422, "bad_request", "no", "422"),
        (307, "not_found", "no", "ANTHROPIC_BASE_URL"),
        (429, "rate_limit", "many", "limits"),
        (500, "server", "many", "500"),
        (503, "server", "many", "503"),
        (529, "overloaded", "many", "overloaded"),
    ],
)
def test_every_status_has_its_sentence(status: int, fault: Fault, tries: Tries, word: str) -> None:
    error = by_status(PLACE, status, "some_error", "the server's words")
    assert (error.fault, error.tries, error.status) == (fault, tries, status)
    text = str(error)
    assert word in text and "api.example" in text and "the server's words" in text and text.endswith(".")


@pytest.mark.spec("A7")
@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, b'{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 201 > 200"}}'),
        (400, b'{"error":{"message":"Too many","type":"invalid_request_error","code":"context_length_exceeded"}}'),
        (400, b'{"error":{"code":400,"message":"x","type":"exceed_context_size_error","n_ctx":4096}}'),
        (500, b'{"error":"the request exceeds the available context size, try increasing it"}'),
        (400, b'{"object":"error","message":"This model\'s maximum context length is 4096 tokens","code":400}'),
        (400, b'{"error":{"message":"input length and `max_tokens` exceed context limit: 1 + 2 > 2"}}'),
    ],
)
def test_a_context_that_is_too_long_is_recognised(status: int, body: bytes) -> None:
    error = by_status(PLACE, status, *read_error(body))
    assert (error.fault, error.tries, error.status) == ("context", "no", status)
    assert "window" in str(error) and "claude-x" in str(error)


SAID: dict[str, tuple[int, Any]] = {
    "Anthropic": (400, {"error": {"message": "prompt is too long: 213462 tokens > 200000 maximum"}}),
    "OpenAI": (400, {"error": {"message": "Your input exceeds the context window of this model."}}),
    "OpenAI's limit": (400, {"error": {"message": "Input tokens exceed the configured limit of 272000 tokens. Please "
                                       "reduce the length of the messages."}}),
    "Azure": (400, {"error": {"code": "string_above_max_length", "message": "Invalid 'messages[1].content'"}}),
    "Bedrock": (400, {"message": "Input is too long for requested model."}),
    "Gemini": (400, [{"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "The input token count (1196265) "
                                "exceeds the maximum number of tokens allowed (1048575)."}}]),
    "xAI": (400, {"error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens."}),
    "Groq": (400, {"error": {"message": "Please reduce the length of the messages or completion."}}),
    "Cerebras": (400, {"message": "Please reduce the length of the messages or completion. Current length is 13123"}),
    "DeepSeek": (400, {"error": {"message": "This model's maximum context length is 65536 tokens."}}),
    "Moonshot": (400, {"error": {"message": "Your request exceeded model token limit: 262144 (requested: 291351)"}}),
    "MiniMax": (400, {"error": {"message": "invalid params, context window exceeds limit (2013)"}}),
    "Z.ai": (400, {"error": {"code": "1261", "message": "Prompt exceeds max length"}}),
    "Qwen": (400, {"error": {"code": "invalid_parameter_error", "message": "<400> InternalError.Algo.InvalidParameter: "
                             "Range of input length should be [1, 129024]"}}),
    "Volcengine": (400, {"error": {"message": "Total tokens of image and text exceed max message tokens."}}),
    "Mistral": (400, {"object": "error", "message": "Prompt contains 40000 tokens and 0 draft tokens, too large for "
                      "model with 32768 maximum context length"}),
    "Cohere": (400, {"message": "too many tokens: total number of tokens in the prompt cannot exceed 4081"}),
    "Together": (400, {"error": {"message": "The input (9000 tokens) is longer than the model's context length (8192 "
                                 "tokens)."}}),
    "Fireworks": (400, {"error": {"message": "The prompt is too long: 140000, model maximum context length: 131071"}}),
    "SambaNova": (400, {"error": "The prompt is 9000 tokens long, but the maximum supported sequence length is 8192!"}),
    "GitHub": (400, {"error": {"message": "prompt token count of 200000 exceeds the limit of 128000"}}),
    "OpenRouter": (400, {"error": {"message": "Provider returned error", "code": 400,
                                   "metadata": {"raw": "prompt is too long", "provider_name": "x"}}}),
    "LiteLLM": (400, {"error": {"message": "litellm.ContextWindowExceededError: no", "type": None, "code": "400"}}),
    "llama.cpp": (400, {"error": {"type": "exceed_context_size_error", "message": "no"}}),
    "llama-cpp-python": (500, {"error": {"message": "Requested tokens (2000) exceed context window of 512"}}),
    "vLLM": (400, {"object": "error", "message": "The decoder prompt (length 9000) is longer than the maximum model "
                   "length of 4096."}),
    "SGLang": (400, {"message": "Requested token count exceeds the model's maximum context length of 4096 tokens."}),
    "TGI": (422, {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 4000"}),
    "TensorRT-LLM": (500, {"error": "Prompt length (9000) exceeds max_input_len (4096)"}),
    "Ollama": (400, {"error": "prompt too long; exceeded max context length by 4096 tokens"}),
    "LM Studio": (400, {"error": "The number of tokens to keep from the initial prompt is greater than the context "
                        "length."}),
}  # fmt: skip


@pytest.mark.spec("A7")
@pytest.mark.parametrize("server", SAID)
def test_every_servers_words_for_too_long_are_known(server: str) -> None:
    status, body = SAID[server]
    assert by_status(PLACE, status, *read_error(msgspec.json.encode(body))).fault == "context"
    assert by_status(PLACE, 429, *read_error(msgspec.json.encode(body))).fault == "rate_limit"


def test_a_limit_is_not_mistaken_for_the_window() -> None:
    said = b'{"error":{"message":"rate limit on the maximum context length of all requests"}}'
    assert by_status(PLACE, 429, *read_error(said)).fault == "rate_limit"
    assert by_status(Endpoint("h", "m", "K", "B", wire="openai"), 413, "", "").fault == "too_large"


def test_an_account_without_money_is_not_asked_again() -> None:
    error = by_status(PLACE, 429, *read_error(b'{"error":{"code":"insufficient_quota","message":"no credit"}}'))
    assert (error.fault, error.tries) == ("rate_limit", "no")


@pytest.mark.spec("A12")
def test_a_servers_words_are_bounded_and_harmless() -> None:
    wild = "a\x1b[31mred\x07\u202e\u200b\n\n  b\x00 key sk-ant-REDACTED-0123456789 " + "x" * 5000
    words = clean(wild)
    assert words.isprintable() and words.startswith("a [31mred b key sk-…") and len(words) == SHOWN


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"<html><h1>Bad gateway</h1></html>", ("", "")),
        (b"upstream\nfailed", ("", "upstream failed")),
        (b'{"error":"model not loaded"}', ("", "model not loaded")),
        (b'{"detail":"Not Found"}', ("", "Not Found")),
        (b'{"error":{"type":"a","code":"b","message":"c"}}', ("a b", "c")),
        (b"", ("", "")),
        (b"[1,2]", ("", "")),
        (b"null", ("", "")),
        (b"\xff\xfe", ("", "��")),
        (b'{"error":null}', ("", "")),
    ],
)
def test_error_bodies_of_every_shape(body: bytes, said: tuple[str, str]) -> None:
    assert read_error(body) == said
