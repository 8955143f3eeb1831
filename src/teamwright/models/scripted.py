"""Scripted model that plays a script, for demos, our tests and those of people who build on this package.

    ScriptedModel([call("Bash", command="ls"), "There are three files."])          one script
    ScriptedModel({"main": [...], "fix": {"when": "fix the bug", "steps": [...]}})   several
    ScriptedModel(lambda request: "a step")                                          a function; may be async
    ScriptedModel.load("demo.json")                                 the model `script/demo.json`; YAML by its extension

`script.py` lists the kinds of steps. Nothing is remembered between requests, so any number of agents, forks and
resumed sessions can play at once. A script is chosen by its mark in the user's text (never in a tool result):
`SCRIPT:key`, or the text of its `when`. The last mark wins; without one the script `main` plays. The step is the
number of assistant messages after that mark; a step that fails leaves no message, so it is played again. After the last
step the reply is "done". In a tool's input, `{{re:PATTERN}}` becomes group 1 of the pattern's last match in the text of
the conversation, tool results included, and `{{step}}` the number of the step, counted from 0.
"""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from inspect import isawaitable
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.lowlevel
import msgspec
from msgspec import Raw

from teamwright.core.data.message import (
    Block,
    BlockEnded,
    BlockStarted,
    Image,
    InputDelta,
    Message,
    Opaque,
    Reply,
    ReplyEnded,
    ReplyStarted,
    Request,
    Stop,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolResult,
    Usage,
)
from teamwright.core.errors import ModelError, SettingsError
from teamwright.core.ids import CallId
from teamwright.core.ports import OnDelta
from teamwright.models.script import (
    BadScript,
    Part,
    Script,
    ScriptStep,
    call,
    line_of,
    read_file,
    read_scripts,
    read_step,
    thinking,
)

__all__ = ["Script", "ScriptStep", "ScriptedModel", "call", "thinking"]

Sleep = Callable[[float], Awaitable[object]]
Play = Callable[[Request], Any]

AFTER_THE_LAST = "done"
IMAGE_CHARS = 6000  # an image counts as about 1,500 tokens
PIECE = 256  # characters of a tool's input in one delta
_MARK = re.compile(r"SCRIPT:([\w-]+(?:\.[\w-]+)*)")
_WORD = re.compile(r"\s*\S+|\s+\Z")
_HOLE = re.compile(r"\{\{(?:(step)|re:(.+?))\}\}(?!\})", re.DOTALL)


class ScriptedModel:
    """Plays a script and records every request."""

    def __init__(
        self,
        script: Sequence[Any] | Mapping[str, Any] | Play,
        *,
        pace: float = 0.0,
        sleep: Sleep = anyio.sleep,
    ) -> None:
        self.requests: list[Request] = []
        self._pace = pace
        self._sleep = sleep
        self._play = script if callable(script) else None
        self._scripts = {} if callable(script) else read_scripts(script)

    @classmethod
    def load(cls, path: str | Path, *, pace: float = 0.0, sleep: Sleep = anyio.sleep) -> "ScriptedModel":
        """The script of a file; SettingsError names the file and the line that is wrong."""
        file = Path(path).expanduser()
        text, value = read_file(file)
        try:
            return cls(value, pace=pace, sleep=sleep)
        except BadScript as bad:
            raise SettingsError(f"{file}, line {line_of(text, bad.at)}: {bad}") from None

    async def reply(self, request: Request, on_delta: OnDelta) -> Reply:
        self.requests.append(request)
        await anyio.lowlevel.checkpoint()  # like a network, it lets others run and can be cancelled
        step, number, pace = await self._choose(request)
        if step.delay:
            await self._sleep(step.delay)
        if step.error is not None:
            raise step.error.with_traceback(None)
        stamp = _stamp(request)
        parts = tuple(_fill(part, request, number, f"call_{stamp}_{i}") for i, part in enumerate(step.parts))
        message = Message("assistant", parts, request.model)
        before, usage = _usage(request, message)
        on_delta(ReplyStarted(f"msg_{stamp}", request.model, before))
        seconds = step.delay
        for index, part in enumerate(parts):
            seconds += await self._stream(index, part, pace, on_delta)
        stop: Stop = step.stop or ("tool_use" if message.calls else "end_turn")
        on_delta(ReplyEnded(stop, usage))
        return Reply(message, stop, usage, f"msg_{stamp}", seconds)

    async def _choose(self, request: Request) -> tuple[ScriptStep, int, float]:
        """The step for this request, its number, and the pace at which to stream it."""
        if self._play is not None:
            made = self._play(request)
            step = read_step(await made if isawaitable(made) else made, ())
            return step, _replies(request.messages), self._pace if step.pace is None else step.pace
        script, number = self._locate(request.messages)
        step = script.steps[number] if number < len(script.steps) else ScriptStep((Text(AFTER_THE_LAST),))
        pace = next((p for p in (step.pace, script.pace) if p is not None), self._pace)
        return step, number, pace

    def _locate(self, messages: Sequence[Message]) -> tuple[Script, int]:
        """The script and the step number, derived from the conversation alone."""
        if isinstance(self._scripts, Script):
            return self._scripts, _replies(messages)
        key, step = "main", 0
        for message in messages:
            if message.role == "assistant":
                step += 1
                continue
            for block in message.blocks:
                named = _named_last(block.text, self._scripts) if isinstance(block, Text) else None
                if named is not None:
                    key, step = named, 0
        if key not in self._scripts:
            known = ", ".join(f"`SCRIPT:{name}`" for name in self._scripts)
            raise ModelError(f"There is no script `{key}`. Name one of these in the prompt: {known}.", "config")
        return self._scripts[key], step

    async def _stream(self, index: int, part: Part, pace: float, on_delta: OnDelta) -> float:
        """Streams one block as a provider would; returns the seconds it took."""
        match part:
            case ToolCall():
                on_delta(BlockStarted(index, "tool_use", part.id, part.name))
                json = bytes(part.input).decode()
                for at in range(0, len(json), PIECE):
                    on_delta(InputDelta(index, json[at : at + PIECE]))
                on_delta(BlockEnded(index))
                return 0.0
            case Text(text):
                kind, delta = "text", TextDelta
            case Thinking(text):
                kind, delta = "thinking", ThinkingDelta
        on_delta(BlockStarted(index, kind))
        for word in _WORD.findall(text):
            if pace:
                await self._sleep(len(word) / pace)
            on_delta(delta(index, word))
        on_delta(BlockEnded(index))
        return len(text) / pace if pace else 0.0


def _named_last(text: str, scripts: Mapping[str, Script]) -> str | None:
    marks = [(found.start(), found[1]) for found in _MARK.finditer(text)]
    marks += [(text.rfind(script.when), key) for key, script in scripts.items() if script.when and script.when in text]
    return max(marks)[1] if marks else None


def _replies(messages: Sequence[Message]) -> int:
    return sum(message.role == "assistant" for message in messages)


def _stamp(request: Request) -> str:
    """A stable id per request: agents differ in their first message, forks and turns in their last."""
    ends = request.messages[:1] + request.messages[-1:]
    whole = msgspec.json.encode((request.model, len(request.messages), ends))
    return blake2b(whole, digest_size=6).hexdigest()


def _fill(part: Part, request: Request, step: int, id: str) -> Part:
    if not isinstance(part, ToolCall):
        return part
    input = part.input
    if b"{{" in bytes(input):
        input = Raw(msgspec.json.encode(_fill_value(part.args, request, step)))
    return msgspec.structs.replace(part, id=part.id or CallId(id), input=input)


def _fill_value(value: Any, request: Request, step: int) -> Any:
    match value:
        case str():
            return _fill_text(value, request, step)
        case dict():
            fields = cast("dict[str, Any]", value)
            return {key: _fill_value(item, request, step) for key, item in fields.items()}
        case list():
            return [_fill_value(item, request, step) for item in cast("list[Any]", value)]
        case _:
            return value


def _fill_text(text: str, request: Request, step: int) -> str:
    def fill(hole: re.Match[str]) -> str:
        return str(step) if hole[1] else _last_match(hole[2], request)

    return _HOLE.sub(fill, text)


def _last_match(pattern: str, request: Request) -> str:
    try:
        found = list(re.finditer(pattern, "\n".join(_texts(request.messages))))
    except re.error as error:
        raise ModelError(f"The script's pattern `{pattern}` is wrong: {error}.", "config") from None
    if not found:
        raise ModelError(f"The script's pattern `{pattern}` matches nothing in the conversation.", "config")
    return found[-1][1 if found[-1].re.groups else 0] or ""


def _texts(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        for block in message.blocks:
            content = block.content if isinstance(block, ToolResult) else (block,)
            yield from (item.text for item in content if isinstance(item, Text))


def _usage(request: Request, message: Message) -> tuple[Usage, Usage]:
    """Counts four characters as a token. The previous request's content counts as cached."""
    sizes = [sum(map(_chars, m.blocks)) for m in request.messages]
    tools = (len(tool.name) + len(tool.description) + len(msgspec.json.encode(tool.schema)) for tool in request.tools)
    head = sum(map(len, request.system)) + sum(tools)
    cached = _tokens(head + sum(sizes[: request.previous])) if request.previous else 0
    before = Usage(input=_tokens(head + sum(sizes)) - cached, cache_read=cached)
    return before, before + Usage(output=_tokens(sum(map(_chars, message.blocks))))


def _tokens(chars: int) -> int:
    return (chars + 3) // 4


def _chars(block: Block) -> int:
    match block:
        case Text(text) | Thinking(text):
            return len(text)
        case Image():
            return IMAGE_CHARS
        case ToolCall():
            return len(block.name) + memoryview(block.input).nbytes
        case ToolResult():
            return sum(map(_chars, block.content))
        case Opaque():
            return memoryview(block.raw).nbytes
