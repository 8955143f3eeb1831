"""Streams as the two kinds of servers send them, and the messages that they stand for."""

from typing import Any

from fake_api import events
from teamwright.core.data.message import Message, Raw, Text, Thinking, ToolCall, ToolSpec, Usage, user
from teamwright.core.ids import CallId

TOOLS = (
    ToolSpec("Read", "Reads a file.", {"type": "object", "properties": {"file_path": {"type": "string"}}}),
    ToolSpec("Bash", "Runs a command.", {"type": "object", "properties": {"command": {"type": "string"}}}),
)
SYSTEM = ("You are a careful agent.", "The date is unknown.")
ASKED = (user("look at f"),)


def start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def begin(**usage: int) -> dict[str, Any]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": []}
    return {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}}


def end(reason: str | None = "end_turn", **usage: int) -> list[dict[str, Any]]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [{"type": "message_delta", "delta": delta, "usage": usage}, {"type": "message_stop"}]


def said(text: str) -> list[dict[str, Any]]:
    """A short answer in events of the Messages API."""
    blocks = [start(0, type="text", text=""), delta(0, "text_delta", text=text), stop(0)]
    return [begin(input_tokens=3, output_tokens=1), *blocks, *end(output_tokens=5)]


ANTHROPIC_EVENTS: list[dict[str, Any]] = [
    begin(input_tokens=12, cache_creation_input_tokens=30, cache_read_input_tokens=400, output_tokens=1),
    start(0, type="thinking", thinking="", signature=""),
    {"type": "ping"},
    delta(0, "thinking_delta", thinking="Hm, “f” first"),
    delta(0, "thinking_delta", thinking=" — then g."),
    delta(0, "signature_delta", signature="RXJz+/8="),
    stop(0),
    start(1, type="text", text=""),
    delta(1, "text_delta", text="I look "),
    delta(1, "text_delta", text="at it 🙂\n"),
    stop(1),
    start(2, type="tool_use", id="toolu_a", name="Read", input={}),
    delta(2, "input_json_delta", partial_json=""),
    delta(2, "input_json_delta", partial_json='{"file_'),
    delta(2, "input_json_delta", partial_json='path" : "f"}'),
    stop(2),
    start(3, type="tool_use", id="toolu_b", name="Bash", input={}),
    delta(3, "input_json_delta", partial_json='{"command": "ls"}'),
    stop(3),
    *end("tool_use", output_tokens=77),
]
ANTHROPIC = events(ANTHROPIC_EVENTS)
ANTHROPIC_USAGE = Usage(12, 77, 400, 30)
CALLS = (
    ToolCall(CallId("toolu_a"), "Read", Raw(b'{"file_path":"f"}')),
    ToolCall(CallId("toolu_b"), "Bash", Raw(b'{"command":"ls"}')),
)
WORDS = Text("I look at it 🙂\n")
ANTHROPIC_MESSAGE = Message(
    "assistant", (Thinking("Hm, “f” first — then g.", "RXJz+/8="), WORDS, *CALLS), "anthropic/claude-x"
)


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """One chunk of a chat completion."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices, **more}


def call(index: int | None, arguments: Any, id: str | None = None, name: str | None = None) -> dict[str, Any]:
    function = {"arguments": arguments} | ({"name": name} if name else {})
    fields = {"index": index, "id": id, "type": "function" if id else None, "function": function}
    return {k: v for k, v in fields.items() if v is not None}


def chat(*values: dict[str, Any], done: bool = True, line: str = "\n") -> bytes:
    return events([*values, *(["[DONE]"] if done else [])], named=False, line=line)


OPENAI_EVENTS = [
    chunk({"role": "assistant", "content": ""}),
    chunk({"reasoning_content": "Hm, "}),
    chunk({"reasoning_content": "f."}),
    chunk({"content": "I look "}),
    chunk({"content": "at it 🙂\n"}),
    chunk({"tool_calls": [call(0, "", "toolu_a", "Read")]}),
    chunk({"tool_calls": [call(0, '{"file_')]}),
    chunk({"tool_calls": [call(0, 'path" : "f"}')]}),
    chunk({"tool_calls": [call(1, '{"command": "ls"}', "toolu_b", "Bash")]}),
    chunk({}, "tool_calls"),
    chunk(usage={"prompt_tokens": 50, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 32}}),
]
OPENAI = chat(*OPENAI_EVENTS)
OPENAI_USAGE = Usage(18, 9, 32)
OPENAI_MESSAGE = Message("assistant", (Thinking("Hm, f."), WORDS, *CALLS), "openai/m")
