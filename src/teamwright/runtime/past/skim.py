"""Adds up the lines of a transcript without reading their words. Blocks: call it in a thread."""

from typing import Any

import msgspec
from msgspec import Struct

from teamwright.core.data.content.patch import count_lines, patch_of
from teamwright.core.data.event import Rendered, Replied, ToolEnded
from teamwright.core.data.message import Usage
from teamwright.store.files.lines import Lines

_RENDERED = Rendered.__struct_config__.tag
_REPLIED = Replied.__struct_config__.tag
_ENDED = ToolEnded.__struct_config__.tag
_PATCH = b'"structuredPatch"'


class Skimmed(Struct, frozen=True):
    used: dict[str, Usage]  # by model
    api_ms: int
    added: int  # lines in files
    removed: int


class _End(Struct):
    is_error: bool = False
    data: dict[str, Any] | None = None


class _EndLine(Struct):
    event: _End


class _Prompt(Struct):
    model: str


class _PromptLine(Struct):
    event: _Prompt


_ends = msgspec.json.Decoder(_EndLine)
_prompts = msgspec.json.Decoder(_PromptLine)


def skim(lines: Lines, before: int) -> Skimmed:
    """Sums over the lines before `before`."""
    used = dict[str, Usage]()
    model, api_ms, added, removed = "", 0, 0, 0
    wanted = [n for n in range(1, before) if lines.kinds[n - 1] in (_REPLIED, _ENDED, _RENDERED)]
    for n, data in lines.raw(wanted):
        kind = lines.kinds[n - 1]
        if kind == _REPLIED:
            reply = lines.reply(n, data)
            name = reply.message.model or model
            used[name] = used.get(name, Usage()) + reply.usage
            api_ms += reply.ms
        elif kind == _RENDERED:
            model = lines.decode(n, data, _prompts).event.model
        elif _PATCH in data and not (end := lines.decode(n, data, _ends).event).is_error:
            more, less = count_lines(patch_of(end.data))
            added, removed = added + more, removed + less
    return Skimmed(used, api_ms, added, removed)
