"""Identifies the local server behind an address, and the context size it gives a model if it reports one."""

import re
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import anyio
import msgspec
from msgspec import Struct

from teamwright.core.jsontext import as_list, as_object

Name = Literal["llama.cpp", "vLLM", "Ollama", "LM Studio", ""]
Fetch = Callable[[str, bytes | None], Awaitable[bytes]]  # address and body to post -> a small document, or empty
_NUM_CTX = re.compile(r"^num_ctx\s+(\d{1,9})\s*$", re.MULTILINE)


class LocalServer(Struct, frozen=True):
    """`window` in tokens. `idle`: ask again later, because the model is not loaded or the server was slow."""

    name: Name = ""
    window: int | None = None
    idle: bool = False


_UNLOADED = LocalServer("Ollama", idle=True)


async def ask_server(fetch: Fetch, base: str, model: str, limit: float) -> LocalServer:
    """Asks all known addresses at once, and uses what has arrived after `limit` seconds. Each kind of server answers
    only its own addresses."""
    root = base.removesuffix("/v1")
    said: dict[str, Any] = {}

    async def ask(key: str, url: str, body: bytes | None = None) -> None:
        try:
            said[key] = msgspec.json.decode(await fetch(url, body))
        except (msgspec.DecodeError, RecursionError, ValueError):
            said[key] = None

    with anyio.move_on_after(limit) as waited:
        async with anyio.create_task_group() as group:
            group.start_soon(ask, "props", f"{root}/props")
            group.start_soon(ask, "models", f"{base}/models")
            group.start_soon(ask, "ps", f"{root}/api/ps")
            group.start_soon(ask, "lm", f"{root}/api/v0/models")
        if _read(said, model) == _UNLOADED:  # only for Ollama: another server might take a POST for a prompt
            await ask("show", f"{root}/api/show", msgspec.json.encode({"model": model}))
    found = _read(said, model)
    return LocalServer(idle=True) if waited.cancelled_caught and not found.name else found


def _read(said: dict[str, Any], model: str) -> LocalServer:
    listed = _entry(said.get("models"), "data", model, sole=True)
    if window := _number(_field(said.get("props"), "default_generation_settings"), "n_ctx"):
        return LocalServer("llama.cpp", window)
    if window := _number(_field(listed, "meta"), "n_ctx"):
        return LocalServer("llama.cpp", window)
    if window := _number(listed, "max_model_len"):
        return LocalServer("vLLM", window)
    if isinstance(_field(said.get("ps"), "models"), list):
        window = _number(_entry(said["ps"], "models", model), "context_length") or _num_ctx(said.get("show"))
        return LocalServer("Ollama", window, idle=window is None)
    if (entry := _entry(said.get("lm"), "data", model)) is not None:
        window = _number(entry, "loaded_context_length")
        return LocalServer("LM Studio", window, idle=window is None)
    return LocalServer()


def _num_ctx(show: Any) -> int | None:
    """The context size set in the model's own file. The size that the model was trained for says nothing about the
    server."""
    text = _field(show, "parameters")
    found = _NUM_CTX.search(text) if isinstance(text, str) else None
    return int(found[1]) or None if found else None


def _entry(value: Any, key: str, model: str, *, sole: bool = False) -> Any:
    """The list entry with this name; with `sole` also the only entry, since some servers accept any name."""
    entries = as_list(_field(value, key))
    for entry in entries:
        if any(_field(entry, field) in (model, f"{model}:latest") for field in ("id", "name", "model")):
            return entry
    return entries[0] if sole and len(entries) == 1 else None


def _field(value: Any, key: str) -> Any:
    return as_object(value).get(key)


def _number(value: Any, key: str) -> int | None:
    number = _field(value, key)
    return number if isinstance(number, int) and number > 0 else None
