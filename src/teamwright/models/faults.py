"""Failures of one attempt, each explained in one sentence: what happened, where, and what to do now."""

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

from teamwright.core.errors import Fault, ModelError
from teamwright.core.jsontext import as_object

Tries = Literal["no", "few", "many"]  # how many retries it is worth
SHOWN = 300  # characters quoted from a server's message
COMPACT = " Compact it, start a new one, or use a model with a larger window."
_KEY = re.compile(r"\b(sk|key|gsk|xai)-[A-Za-z0-9_*.-]{8,}")
# How servers say that a conversation does not fit; what none of these covers is judged by its size.
TOO_LONG = (
    "prompt is too long",  # Anthropic, Fireworks
    "exceed context limit",
    "context_length_exceeded",  # OpenAI and many others
    "maximum context length",
    "exceeds the context window",
    "reduce the length of the messages",  # Groq, Cerebras
    "reduce your prompt",
    "string_above_max_length",
    "input is too long",  # Bedrock
    "too many input tokens",
    "exceeds the maximum number of tokens",  # Gemini
    "maximum prompt length",  # xAI
    "exceeded model token limit",  # Moonshot
    "context window exceeds limit",  # MiniMax
    "context_window_exceeded",  # Z.ai
    "prompt exceeds max length",
    "range of input length should be",  # Qwen
    "exceed max message tokens",  # Volcengine
    "prompt tokens too long",  # Baidu
    "max input characters",
    "too many tokens",  # Cohere
    "longer than the model's context length",  # Together, SGLang
    "maximum supported sequence length",  # SambaNova
    "context window limit",  # Cloudflare
    "prompt token count of",  # GitHub
    "contextwindowexceeded",  # LiteLLM
    "exceed_context_size",  # llama.cpp
    "exceeds the available context size",
    "exceed context window",
    "maximum model length",  # vLLM
    "max_model_len",
    "max_seq_len",
    "max_input_len",  # TensorRT-LLM
    "`max_new_tokens` must be <=",  # Text Generation Inference
    "`inputs` must have less than",
    "prompt too long",  # Ollama
    "greater than the context length",  # LM Studio
    "context length of only",
)
# Some servers answer these with status 500 or 404, although only a different request could succeed.
_UNFIT = re.compile(
    r"image input is not supported|failed to (load|decode) image|not a multimodal model|invalid image"
    r"|support (image|vision|multi)",
    re.IGNORECASE,
)
_FOR_GOOD = re.compile(r"insufficient_quota|billing_hard_limit", re.IGNORECASE)


class Endpoint(Struct, frozen=True):
    """Where a request goes, as far as error messages need to know."""

    host: str
    model: str
    key_name: str  # environment variable that holds the key
    base_name: str  # environment variable that holds the base URL
    key_sent: bool = True
    wire: Literal["anthropic", "openai"] = "anthropic"


def host_of(url: str) -> str:
    """The host of a URL, without a user name and password."""
    return url.partition("://")[2].partition("/")[0].partition("?")[0].rpartition("@")[2]


class Failed(ModelError):
    """One attempt failed. `after`: the server asked to wait this many seconds."""

    def __init__(
        self,
        message: str,
        fault: Fault,
        *,
        status: int | None = None,
        tries: Tries = "no",
        after: float | None = None,
        said: str = "",
    ) -> None:
        super().__init__(message, fault, status=status, said=said)
        self.tries: Tries = tries
        self.after = after


def clean(text: str) -> str:
    """A server's message made safe for a screen: bounded, one line, no invisible characters, no keys."""
    words = " ".join("".join(c if c.isprintable() else " " for c in text[: SHOWN * 4]).split())
    words = _KEY.sub(r"\1-…", words)
    return words if len(words) <= SHOWN else words[: SHOWN - 1] + "…"


def read_error(data: bytes) -> tuple[str, str]:
    """(kind and code, message) of an error body of any shape."""
    try:
        value: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        text = data[: SHOWN * 8].decode("utf-8", "replace")
        return "", "" if text.lstrip().startswith("<") else clean(text)
    if isinstance(value, list):
        value = next(iter(cast("list[Any]", value)), None)
    fields = as_object(value)
    error: Any = fields.get("error", fields)
    if isinstance(error, dict):
        inner = cast("dict[str, Any]", error)
        kind = " ".join(str(inner[k]) for k in ("type", "code") if isinstance(inner.get(k), (str, int)))
        message = str(inner.get("message") or inner.get("detail") or "")
        behind = as_object(inner.get("metadata")).get("raw")  # what the server behind a gateway said
        return clean(kind), clean(f"{message}: {behind}" if isinstance(behind, str) else message)
    return "", "" if error is None else clean(str(error))


def read_patience(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait according to `retry-after-ms` or `retry-after` (a number or a date); None if neither is
    usable."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        said = headers.get(name)
        if not said:
            continue
        try:
            seconds = float(said) / unit
        except ValueError:
            try:
                seconds = parsedate_to_datetime(said).timestamp() - now
            except (ValueError, TypeError, OverflowError):
                continue
        if isfinite(seconds):
            return max(0.0, seconds)
    return None


def by_status(place: Endpoint, status: int, kind: str, message: str, after: float | None = None) -> Failed:
    """The failure for an HTTP error status, or for the status that an error event stands for."""
    said = f": {message}" if message else ""
    told = f"{kind} {message}"
    if _is_too_long(place, status, told):
        text = (
            f"The conversation does not fit into the window of {place.model} ({place.host} answered {status}{said})."
            f"{COMPACT}"
        )
        return Failed(text, "context", status=status, said=message)
    if (status >= 500 or status == 404) and _UNFIT.search(told):
        return Failed(*_unfit(place, status, said), status=status, said=message)
    return _for_now(place, status, told, said, after) or Failed(
        *_refusal(place, status, said), status=status, said=message
    )


def _is_too_long(place: Endpoint, status: int, told: str) -> bool:
    too_much = status == 413 and place.wire == "anthropic"
    return too_much or (status not in (429, 529) and any(words in told.lower() for words in TOO_LONG))


def _for_now(place: Endpoint, status: int, told: str, said: str, after: float | None) -> Failed | None:
    """Failures that may pass; None for other statuses."""
    if status == 429:
        tries: Tries = "no" if _FOR_GOOD.search(told) else "many"
        hint = "Check the account's limits and credit." if tries == "no" else "Try again later or with another model."
        text = f"{place.host} limits the requests for {place.model} (429{said}). {hint}"
        return Failed(text, "rate_limit", status=status, tries=tries, after=after)
    if status == 529:
        text = f"{place.host} is overloaded (529{said}). Try again later or with another model."
        return Failed(text, "overloaded", status=status, tries="many", after=after)
    if status >= 500 or status in (408, 409):
        text = f"{place.host} failed to answer for {place.model} ({status}{said}). Try again later."
        return Failed(text, "server", status=status, tries="many", after=after)
    return None


def _refusal(place: Endpoint, status: int, said: str) -> tuple[str, Fault]:
    """The message and fault for a status that retrying cannot fix."""
    match status:
        case 401 if not place.key_sent:
            return f"{place.host} asks for a key (401{said}). Set {place.key_name}.", "auth"
        case 401:
            return f"{place.host} does not accept the key (401{said}). Check {place.key_name}.", "auth"
        case 403:
            hint = f"Check that the key in {place.key_name} may use {place.model}."
            return f"{place.host} does not allow this request (403{said}). {hint}", "auth"
        case 404:
            hint = f"Check the model's name, and {place.base_name} if you set it."
            return f"{place.host} does not know the model {place.model} (404{said}). {hint}", "not_found"
        case 413:
            hint = "Start a new conversation or leave out large files."
            return f"The request is too large for {place.host} (413{said}). {hint}", "too_large"
        case _ if 300 <= status < 400:
            hint = f"Set {place.base_name} to the address it really has."
            return f"{place.host} answers with a redirect ({status}{said}), which is not followed. {hint}", "not_found"
        case _:
            return _unfit(place, status, said)


def _unfit(place: Endpoint, status: int, said: str) -> tuple[str, Fault]:
    hint = "Check the model's name and the settings for it; the same request would be refused again."
    return f"{place.host} refused the request for {place.model} ({status}{said}). {hint}", "bad_request"


def not_a_model(place: Endpoint, kind: str) -> Failed:
    """A 200 response with a web page or the like: a wrong address, or a login page in between."""
    text = f"{place.host} answered with {clean(kind)}, not as a model would. Check {place.base_name} and the network."
    return Failed(text, "not_found", status=200)


def cut(place: Endpoint) -> Failed:
    return Failed(f"The answer of {place.host} was cut off before its end.", "network", tries="many")


def garbled(place: Endpoint, what: str) -> Failed:
    return Failed(f"{place.host} sent a stream that makes no sense ({clean(what)}).", "server", tries="many")


def too_long(place: Endpoint) -> Failed:
    text = f"{place.host} sent an answer that is larger than any reply may be. Ask {place.model} for less at once."
    return Failed(text, "server")


def silent(place: Endpoint, seconds: float) -> Failed:
    text = f"{place.host} was silent for {seconds:g} seconds. Try again later, or raise modelSilenceSeconds."
    return Failed(text, "silence", tries="many")


def by_certificate(place: Endpoint, error: Exception) -> Failed:
    why = clean(getattr(error, "verify_message", "") or str(error))
    hint = "If a proxy or a private authority signs it, set SSL_CERT_FILE to that authority's file."
    return Failed(f"The certificate of {place.host} could not be verified ({why}). {hint}", "network")
