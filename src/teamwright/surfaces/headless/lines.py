"""Converts events to the JSON lines of `--output-format stream-json`. Pure: facts in, dicts out."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, assert_never, cast

import msgspec

from teamwright.core.data.api_json import STOPS, bare, block_of, usage_of
from teamwright.core.data.event import (
    Compacted,
    JobEnded,
    JobProgressed,
    JobStarted,
    Rewound,
    Suggested,
    TeamChanged,
    TurnEnded,
)
from teamwright.core.data.message import (
    BlockEnded,
    BlockStarted,
    Delta,
    InputDelta,
    Message,
    PromptRead,
    ReplyEnded,
    ReplyStarted,
    Retrying,
    TextDelta,
    ThinkingDelta,
)
from teamwright.core.ids import AgentId, QuestionId, line_uuid
from teamwright.core.permissions.consent import Question
from teamwright.runtime.teams.tasks.open_work import OpenWork

LONGEST = 1_048_576  # bytes of one line
_SHORT, _FEW = 256, 32  # never cut: texts of so many characters, and lists in our own part of a line of so many items
_OURS = 4  # depth of a line down to a tool's arguments
_RULE = re.compile(r"^([A-Za-z_][\w-]*)(?:\((.*)\))?$", re.DOTALL)
_encode = msgspec.json.Encoder().encode
_UNSAFE = re.compile(
    "[\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def encode_line(line: dict[str, Any]) -> bytes:
    """One line of at most 1 MiB. Control and invisible characters are escaped, so it is safe for a terminal."""
    data = _escaped(_encode(line))
    most = LONGEST // 4
    while len(data) >= LONGEST and most:
        data = _escaped(_encode(_cut(msgspec.to_builtins(line), most)))
        most //= 4
    return data + b"\n"


def _escaped(data: bytes) -> bytes:
    return data if data.isascii() and b"\x7f" not in data else _UNSAFE.sub(_as_json, data.decode()).encode()


def _as_json(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[n : n + 2].hex()}" for n in range(0, len(units), 2))


def _cut(value: Any, most: int, depth: int = 0) -> Any:
    """Shorten texts and lists to `most`; short texts, such as ids, stay whole."""
    if isinstance(value, str):
        room = max(most, _SHORT)
        return value if len(value) <= room else f"{value[:room]}[... {len(value) - room} characters cut in this line]"
    room = max(most, _FEW) if depth < _OURS else most
    if isinstance(value, dict):
        items = islice(cast("dict[str, Any]", value).items(), room)
        return {_cut(k, most): _cut(v, most, depth + 1) for k, v in items}
    if isinstance(value, list):
        return [_cut(v, most, depth + 1) for v in cast("list[Any]", value)[:room]]
    return value


def replayed(message: Message) -> dict[str, Any]:
    """What the main agent was told, including prompts, as it took it."""
    return {"message": {"role": "user", "content": [block_of(b) for b in message.blocks]}, "isReplay": True}


def stream_events(delta: Delta) -> Iterator[dict[str, Any]]:
    """A delta in the form of the Messages API's stream, whatever the provider."""
    match delta:
        case ReplyStarted():
            message: dict[str, Any] = {
                "id": delta.id,
                "type": "message",
                "role": "assistant",
                "model": bare(delta.model),
                "content": [],
                "stop_reason": None,
                "stop_sequence": None,
                "usage": usage_of(delta.usage),
            }
            yield {"type": "message_start", "message": message}
        case BlockStarted():
            yield {"type": "content_block_start", "index": delta.index, "content_block": _empty_block(delta)}
        case TextDelta():
            yield _block_delta(delta.index, {"type": "text_delta", "text": delta.text})
        case ThinkingDelta():
            yield _block_delta(delta.index, {"type": "thinking_delta", "thinking": delta.text})
        case InputDelta():
            yield _block_delta(delta.index, {"type": "input_json_delta", "partial_json": delta.json})
        case BlockEnded():
            yield {"type": "content_block_stop", "index": delta.index}
        case ReplyEnded():
            stop = {"stop_reason": STOPS.get(delta.stop, delta.stop), "stop_sequence": None}
            yield {"type": "message_delta", "delta": stop, "usage": usage_of(delta.usage)}
            yield {"type": "message_stop"}
        case Retrying() | PromptRead():
            return
        case _:
            assert_never(delta)


def _block_delta(index: int, delta: dict[str, str]) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def _empty_block(delta: BlockStarted) -> dict[str, Any]:
    match delta.kind:
        case "text":
            return {"type": "text", "text": ""}
        case "thinking":
            return {"type": "thinking", "thinking": "", "signature": ""}
        case "tool_use":
            return {"type": "tool_use", "id": delta.id, "name": delta.name, "input": {}}
        case "opaque":
            return {"type": delta.name or "opaque"}
        case _:
            assert_never(delta.kind)


def retry_of(delta: Retrying) -> dict[str, Any]:
    return {
        "type": "system",
        "subtype": "api_retry",
        "attempt": delta.attempt,
        "max_retries": delta.attempts,
        "retry_delay_ms": round(delta.wait * 1000),
        "error_status": delta.status,
        "error": delta.reason,
    }


def boundary_of(event: Compacted) -> dict[str, Any]:
    data = {"trigger": "manual" if event.why == "manual" else "auto", "pre_tokens": event.tokens}
    return {"type": "system", "subtype": "compact_boundary", "compact_metadata": data}


def rewound_of(event: Rewound, agent: AgentId) -> dict[str, Any]:
    """A person in an app went back: everything is again as before the line `user_message_id`."""
    data = {"conversation": event.talk, "filesChanged": list(event.files)}
    return {"type": "system", "subtype": "rewound", "user_message_id": line_uuid(agent, event.to), **data}


def subtype_of(end: TurnEnded) -> str:
    match end.reason:
        case "done":
            return "success"
        case "max_turns":
            return "error_max_turns"
        case "max_budget":
            return "error_max_budget_usd"
        case "failed" | "interrupted" | "refused":
            return "error_during_execution"
        case _:
            assert_never(end.reason)


_TASK_TYPES = {
    "agent": "local_agent",
    "shell": "local_bash",
    "monitor": "local_bash",
    "remote": "remote_agent",
}
_ENDS = {"completed": "completed", "failed": "failed", "killed": "stopped"}


def task_of(event: JobStarted | JobProgressed | JobEnded) -> dict[str, Any]:
    """A line about a background job, or a foreground agent."""
    match event:
        case JobStarted():
            line = {
                "subtype": "task_started",
                "task_id": event.job,
                "description": event.description or event.kind,
                "task_type": _TASK_TYPES[event.kind],
                "tool_use_id": event.call_id,
            }
        case JobProgressed():
            line = {
                "subtype": "task_progress",
                "task_id": event.job,
                "description": event.description,
                "usage": msgspec.to_builtins(event.usage),
                "last_tool_name": event.last_tool,
                "summary": event.summary or None,
            }
        case JobEnded():
            line = {
                "subtype": "task_notification",
                "task_id": event.job,
                "status": _ENDS.get(event.status, event.status),
                "summary": event.summary,
                "output_file": event.output,
                "tool_use_id": event.call_id,
                "usage": msgspec.to_builtins(event.usage),
            }
        case _:
            assert_never(event)
    return {key: value for key, value in line.items() if value is not None}


def ended_of(event: JobEnded) -> dict[str, Any]:
    return {"subtype": "task_updated", "task_id": event.job, "patch": {"status": event.status}}


def mate_of(event: TeamChanged) -> dict[str, Any] | None:
    """A teammate is a task as well, under its address, until it shuts down; one that died can be brought back."""
    task = {"task_id": event.agent}
    if event.kind == "spawn":
        words = event.text or event.agent
        return {"subtype": "task_started"} | task | {"description": words, "task_type": "in_process_teammate"}
    if event.kind == "shutdown":
        ended = {"status": "stopped" if event.text else "completed", "output_file": ""}
        return {"subtype": "task_notification"} | task | ended | {"summary": f"{event.agent} has shut down"}
    return None


def news_of(event: Suggested | TeamChanged) -> dict[str, Any]:
    if isinstance(event, Suggested):
        return {"subtype": "prompt_suggestion", "suggestion": event.text}
    return team_of(event)


def team_of(event: TeamChanged) -> dict[str, Any]:
    line = {
        "subtype": "team_event",
        "team": event.team,
        "kind": event.kind,
        "agent": event.agent,
        "text": event.text or None,
        "to": event.to or None,
        "task_id": event.task or None,
    }
    return {key: value for key, value in line.items() if value is not None}


# --- questions to a driving program


def question_of(question: Question, main: AgentId) -> dict[str, Any]:
    """Questions of the main agent carry no agent id."""
    request: dict[str, Any] = {
        "subtype": "can_use_tool",
        "tool_name": question.tool,
        "input": question.args,
        "tool_use_id": question.call_id,
        "decision_reason": question.reason,
        "title": f"Allow {question.tool}?",
        "display_name": question.tool,
        "description": question.reason,
        "agent_name": question.agent_name,
    }
    if question.agent != main:
        request["agent_id"] = question.agent
    if question.color:
        request["agent_color"] = question.color
    if suggestions := _suggestions(question):
        request["permission_suggestions"] = suggestions
    if question.blocked_path:
        request["blocked_path"] = question.blocked_path
    return {"type": "control_request", "request_id": question.id, "request": request}


def _suggestions(question: Question) -> list[dict[str, Any]]:
    """What would answer this question and similar ones: for an edit the mode, and the directory if need be."""
    accept = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}
    if question.patch and question.is_edit:
        return [accept]
    if question.patch and question.blocked_path:
        folder = str(Path(question.blocked_path).parent)
        return [{"type": "addDirectories", "directories": [folder], "destination": "session"}, accept]
    if not question.suggestions:
        return []
    rules = [_rule_parts(rule) for rule in question.suggestions]
    return [{"type": "addRules", "rules": rules, "behavior": "allow", "destination": "session"}]


def cancel_of(question: QuestionId) -> dict[str, Any]:
    return {"type": "control_cancel_request", "request_id": question}


def _rule_parts(rule: str) -> dict[str, str]:
    found = _RULE.match(rule)
    name, content = found.groups() if found else (rule, None)
    return {"toolName": name} | ({"ruleContent": content} if content else {})


# --- what teams leave open


def open_of(found: Sequence[OpenWork]) -> dict[str, Any]:
    """Open tasks and requests, for a result."""
    tasks = [
        {"team": work.team, "id": str(task.id), "subject": task.subject, "status": task.status, "owner": task.owner}
        for work in found
        for task in work.tasks
    ]
    requests = [
        {"team": work.team, "id": request.id, "kind": request.kind, "from": who}
        for work in found
        for request, who in work.requests
    ]
    return {key: rows for key, rows in {"open_tasks": tasks, "open_requests": requests}.items() if rows}


def with_open(text: str, found: Sequence[OpenWork]) -> str:
    """Add a line to an answer that does not name all that is open itself."""
    unsaid = [work for work in found if any(not re.search(rf"{name}(?!\w)", text) for name in _names(work))]
    return "\n\n".join(filter(None, (text, *(f"[There are {work}.]" for work in unsaid))))


def _names(work: OpenWork) -> list[str]:
    return [*(f"#{task.id}" for task in work.tasks), *(request.id for request, _ in work.requests)]
