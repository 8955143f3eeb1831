"""Sends a growing transcript to a driving program that keeps its own copies of sessions."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from teamwright.core.data.event import LettersTaken, Record, Reminded, Replied, ToolEnded
from teamwright.core.ids import AgentId, line_uuid
from teamwright.runtime.driven_session import DrivenSession
from teamwright.surfaces.headless import lines


class Mirror:
    """Each message of each agent once, in the shape that such programs read."""

    def __init__(self, session: DrivenSession, env: Mapping[str, str]) -> None:
        self._session, self._main = session, session.main
        config = Path(env.get("CLAUDE_CONFIG_DIR") or Path(env.get("HOME", "~")).expanduser() / ".claude")
        project = re.sub(r"[^a-zA-Z0-9]", "-", str(session.cwd))
        self._place = config / "projects" / project
        self._before: dict[AgentId, str] = {}

    def frame(self, record: Record) -> dict[str, Any] | None:
        message = _message(record)
        if message is None or not record.n:
            return None
        uuid, before = line_uuid(record.agent, record.n), self._before.get(record.agent)
        self._before[record.agent] = uuid
        entry = {
            "type": message["role"],
            "uuid": uuid,
            "parentUuid": before,
            "sessionId": self._session.id,
            "timestamp": datetime.fromtimestamp(record.at / 1000, UTC).isoformat().replace("+00:00", "Z"),
            "cwd": str(self._session.cwd),
            "isSidechain": record.agent != self._main,
            "message": message,
        }
        return {"type": "transcript_mirror", "filePath": str(self._file(record.agent)), "entries": [entry]}

    def _file(self, agent: AgentId) -> Path:
        if agent == self._main:
            return self._place / f"{self._session.id}.jsonl"
        return self._place / self._session.id / "subagents" / f"agent-{agent}.jsonl"


def _message(record: Record) -> dict[str, Any] | None:
    match record.event:
        case LettersTaken(message=message) | Reminded(message=message):
            return {"role": "user", "content": [lines.block_of(block) for block in message.blocks]}
        case Replied() as event if event.message.blocks:
            return lines.message_of(event.message, event.id, event.stop, event.usage)
        case ToolEnded() as event:
            return lines.user_of(event)
        case _:
            return None
