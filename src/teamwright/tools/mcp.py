"""Wraps a tool of an MCP server: its results are data, bounded and made visible."""

import base64
import binascii
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import anyio.to_thread
import msgspec

from teamwright.core.data.content.picture import fitted
from teamwright.core.data.extensions.server import Blob, LinkedResource, Part, ServerAnswer
from teamwright.core.data.message import Content, Image, Text, ToolSpec, words_of
from teamwright.core.errors import ToolError
from teamwright.core.policies.normalize import DEEPEST, is_deep
from teamwright.core.ports import Outcome, ToolContext
from teamwright.core.text import neutral
from teamwright.runtime.extensions.mcp_connection import ServedTool
from teamwright.tools.bounds import bounded, visible

MOST_DESCRIPTION = 4_000
MOST_SCHEMA = 100_000  # bytes of JSON
MOST_PICTURES = 20
_TOP_LEVEL = ("oneOf", "anyOf", "allOf", "not", "if", "then", "else", "$schema", "$id")


class McpTool:
    def __init__(self, offer: ServedTool) -> None:
        self.spec = ToolSpec(
            offer.name, _described(offer.tool.description)[:MOST_DESCRIPTION], _schema(offer), offer.tool.read_only
        )
        self._offer = offer

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        answer = await self._offer.call(args)
        spill = ctx.desk.spill
        content = await anyio.to_thread.run_sync(contents, answer, spill, self.spec.name)
        if answer.is_error:
            words = words_of(content)
            raise ToolError(words or f"The MCP server {self._offer.server} reports an error and does not say which.")
        return Outcome(content, _data(answer.data))


def _schema(offer: ServedTool) -> dict[str, Any]:
    """The server's schema, reduced to what providers accept: an object at the top, of limited size."""
    tool = offer.tool
    schema: dict[str, Any] = {key: value for key, value in tool.schema.items() if key not in _TOP_LEVEL}
    try:
        fits = len(msgspec.json.encode(schema)) <= MOST_SCHEMA
        schema = _with_words(schema)
    except RecursionError:
        fits = False
    if not fits or not isinstance(schema.get("properties", {}), dict):
        return {"type": "object", "properties": {}}
    schema.setdefault("properties", {})
    schema["type"] = "object"
    return schema


def _with_words(part: Any) -> Any:
    """The schema, with its words for the model made safe; names and values that calls must match stay."""
    if isinstance(part, list):
        return [_with_words(one) for one in cast("list[Any]", part)]
    if not isinstance(part, dict):
        return part
    return {
        name: _described(value) if name in ("description", "title") and isinstance(value, str) else _with_words(value)
        for name, value in cast("dict[str, Any]", part).items()
    }


def _described(words: str) -> str:
    return neutral(visible(words))


def _data(found: Any) -> dict[str, Any] | None:
    if found is None:
        return None
    data: dict[str, Any] = {"structuredContent": found}
    try:
        return data if len(msgspec.json.encode(data)) <= MOST_SCHEMA and not is_deep(data, DEEPEST) else None
    except RecursionError:
        return None


def contents(answer: ServerAnswer, spill: Path | None, name: str) -> tuple[Content, ...]:
    """What the model reads: text in order, bounded as a whole, and pictures while there is room."""
    words: list[str] = []
    pictures: list[Image] = []
    for part in answer.parts:
        fit = _fit(part, len(pictures))
        if isinstance(fit, Image):
            pictures.append(fit)
        else:
            words.append(_words(part, spill) + (f" {fit.text}" if fit else ""))
    if answer.data is not None and not words:
        words.append(msgspec.json.encode(answer.data).decode())
    text = bounded(visible("\n".join(words)), spill=spill, name=name)
    if not text and not pictures:
        text = "(the tool gave nothing back)"
    return (*((Text(text),) if text else ()), *pictures)


def _fit(part: Part, shown: int) -> Image | Text | None:
    """The picture ready to be sent, or why it cannot be; None for other parts and surplus pictures."""
    return fitted(part) if isinstance(part, Image) and shown < MOST_PICTURES else None


def _words(part: Part, spill: Path | None) -> str:
    match part:
        case Text(text):
            return text
        case LinkedResource(uri, name, description):
            about = " ".join(filter(None, (name, description)))
            return f"[resource {uri}{': ' + about if about else ''}]"
        case Image(media_type, data) | Blob(media_type, data):
            return f"[{media_type}, {len(data) * 3 // 4:,} bytes{_keep(data, spill)}]"


def _keep(data: str, spill: Path | None) -> str:
    """Writes the bytes to a private file; on a full disk the file is lost, never the result."""
    import os  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    if spill is None:
        return ", not shown"
    try:
        raw = base64.b64decode(data, validate=True)
        spill.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, path = tempfile.mkstemp(prefix="mcp-", suffix=".bin", dir=spill)
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
    except (OSError, binascii.Error, ValueError) as error:
        return f", could not be kept: {error}"
    return f", kept in {path}"
