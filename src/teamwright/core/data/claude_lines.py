"""Writes transcripts in Claude Code's layout, so that tools which read those also find our sessions."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from teamwright.core.data.api_json import block_of, message_of, user_of
from teamwright.core.data.event import LettersTaken, Record, Reminded, Replied, Rewound, ToolEnded
from teamwright.core.ids import AgentId, SessionId, line_uuid

CONFIG = "CLAUDE_CONFIG_DIR"
_LONGEST = 200  # characters in a directory name
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def projects_of(env: Mapping[str, str]) -> Path:
    """The directory in which Claude Code keeps the sessions of all projects."""
    home = env.get(CONFIG) or str(Path(env.get("HOME") or "/") / ".claude")
    return Path(_composed(home)) / "projects"


def folder_of(cwd: str) -> str:
    """The name of the directory that holds the sessions of one working directory."""
    cwd = _composed(cwd)
    name = re.sub(r"[^a-zA-Z0-9]", "-", cwd)
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}-{_short_hash(cwd)}"


def _composed(text: str) -> str:
    if text.isascii():
        return text
    import unicodedata  # noqa: PLC0415  # paths have seldom more than ASCII

    return unicodedata.normalize("NFC", text)


def _short_hash(text: str) -> str:
    """Claude Code's path hash: a signed 32-bit string hash, its absolute value in base 36."""
    number = 0
    for character in text:
        number = (number * 31 + ord(character)) & 0xFFFFFFFF
    number = abs(number - (1 << 32) if number >> 31 else number)
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"


class ClaudeLines:
    """Renders each message of each agent once, linked to the one before it.

    In a session imported from Claude Code, `last` is the id of its last line, which our first line follows. It also
    goes into the ids of our lines: the two programs number lines differently, and no id may occur twice.
    """

    def __init__(self, session: SessionId, main: AgentId, last: str | None = None) -> None:
        self._session, self._main, self._last = session, main, last
        self._before: dict[AgentId, str | None] = {main: last}
        self._parents: dict[str, str | None] = {}  # for each line of the main agent, the line before it

    def entry(self, record: Record, cwd: str) -> dict[str, Any] | None:
        message, before = _message(record), self._before.get(record.agent)
        uuid = self._uuid(record.agent, record.n)
        if record.agent == self._main and record.n:
            self._parents[uuid] = before
        if isinstance(record.event, Rewound) and record.event.talk:
            self._before[record.agent] = self._parents.get(self._uuid(record.agent, record.event.to))
        if message is None or not record.n:
            return None
        self._before[record.agent] = uuid
        entry: dict[str, Any] = {
            "type": message["role"],
            "uuid": uuid,
            "parentUuid": before,
            "sessionId": self._session,
            "timestamp": datetime.fromtimestamp(record.at / 1000, UTC).isoformat().replace("+00:00", "Z"),
            "cwd": cwd,
            "isSidechain": record.agent != self._main,
            "message": message,
        }
        return entry | ({"isMeta": True} if isinstance(record.event, Reminded) else {})

    def _uuid(self, agent: AgentId, line: int) -> str:
        return line_uuid(agent if self._last is None else AgentId(f"{agent}:{self._last}"), line)


def _message(record: Record) -> dict[str, Any] | None:
    match record.event:
        case LettersTaken(message=message) | Reminded(message=message):
            return {"role": "user", "content": [block_of(block) for block in message.blocks]}
        case Replied() as event if event.message.blocks:
            return message_of(event.message, event.id or f"msg_{record.agent}_{record.n}", event.stop, event.usage)
        case ToolEnded() as event:
            return user_of(event)
        case _:
            return None
