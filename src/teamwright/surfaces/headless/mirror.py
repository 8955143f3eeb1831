"""Sends the transcript as it grows to a driving program that keeps its own copies of sessions."""

from collections.abc import Iterable, Mapping
from typing import Any

from teamwright.core.data.claude_lines import ClaudeLines, folder_of, projects_of
from teamwright.core.data.event import Record
from teamwright.runtime.driven_session import DrivenSession
from teamwright.store.mirrors.session import last_uuid


class Mirror:
    """Each message of each agent once, in the form that such programs read. `past` are the main agent's records so
    far."""

    def __init__(self, session: DrivenSession, env: Mapping[str, str], past: Iterable[Record] = ()) -> None:
        self._session = session
        self._place = projects_of(env) / folder_of(str(session.cwd))
        records = list(past)
        # An imported session continues after its last line over there.
        brought = any(getattr(record.event, "imported", "") for record in records[:1])
        self._lines = ClaudeLines(session.id, session.main, last_uuid(self._file(session.main)) if brought else None)
        for record in records:
            if not brought:
                self._lines.entry(record, "")

    def frame(self, record: Record) -> dict[str, Any] | None:
        entry = self._lines.entry(record, str(self._session.cwd))
        if entry is None:
            return None
        return {"type": "transcript_mirror", "filePath": str(self._file(record.agent)), "entries": [entry]}

    def _file(self, agent: str) -> Any:
        if agent == self._session.main:
            return self._place / f"{self._session.id}.jsonl"
        return self._place / self._session.id / "subagents" / f"agent-{agent}.jsonl"
