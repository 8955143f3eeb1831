"""Renders messages as Messages API JSON, the form that other programs read."""

import uuid
from typing import Any, assert_never

import msgspec

from teamwright.core.data.event import ToolEnded
from teamwright.core.data.message import (
    Block,
    Content,
    Image,
    Message,
    Opaque,
    Stop,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)


def block_of(block: Block) -> Any:
    match block:
        case Text():
            return {"type": "text", "text": block.text}
        case Thinking():
            return {"type": "thinking", "thinking": block.thinking, "signature": block.signature}
        case Image():
            return {
                "type": "image",
                "source": {"type": "base64", "media_type": block.media_type, "data": block.data},
            }
        case ToolCall():
            return {"type": "tool_use", "id": block.id, "name": block.name, "input": msgspec.json.decode(block.input)}
        case ToolResult():
            return result_of(block.call_id, block.content, is_error=block.is_error)
        case Opaque():
            return msgspec.json.decode(block.raw)
        case _:
            assert_never(block)


def result_of(call_id: str, content: tuple[Content, ...], *, is_error: bool) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": [block_of(c) for c in content]}
    return block | {"is_error": True} if is_error else block


def usage_of(usage: Usage) -> dict[str, int]:
    return {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
    }


def bare(model: str) -> str:
    """The model's name without the provider prefix."""
    return model.partition("/")[2] or model


STOPS: dict[Stop, str] = {"pause": "pause_turn"}


def message_of(message: Message, id: str, stop: Stop | None, usage: Usage) -> dict[str, Any]:
    return {
        "id": id or f"msg_{uuid.uuid4().hex[:24]}",
        "type": "message",
        "role": "assistant",
        "model": bare(message.model),
        "content": [block_of(b) for b in message.blocks],
        "stop_reason": stop and STOPS.get(stop, stop),
        "stop_sequence": None,
        "usage": usage_of(usage),
    }


def user_of(ended: ToolEnded) -> dict[str, Any]:
    return {"role": "user", "content": [result_of(ended.call_id, ended.content, is_error=ended.is_error)]}
