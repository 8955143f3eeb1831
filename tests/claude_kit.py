"""Transcripts as another program writes them: one JSON object per line, linked by `parentUuid`."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID

ID = "3f2a9c41-0000-4000-8000-000000000001"
START = "2026-03-04T10:00:{:02d}.000Z"


class Sheet:
    """Lines of one session; each is linked to the previous one unless told otherwise."""

    def __init__(self, cwd: Path | str, id: str = ID) -> None:
        self.cwd, self.id = str(cwd), id
        self.lines: list[dict[str, Any] | str] = []
        self.last: str | None = None
        self._n = 0

    def add(self, type: str, /, **more: Any) -> str:
        self._n += 1
        uuid = str(UUID(int=self._n))
        line = {
            "type": type, "uuid": uuid, "parentUuid": self.last, "isSidechain": False, "userType": "external",
            "cwd": self.cwd, "sessionId": self.id, "version": "2.1.3", "timestamp": START.format(self._n % 60),
        } | more  # fmt: skip
        self.lines.append(line)
        if not line["isSidechain"]:
            self.last = uuid
        return uuid

    def say(self, content: Any, **more: Any) -> str:
        return self.add("user", **{"message": {"role": "user", "content": content}} | more)

    def reply(self, *blocks: Any, id: str = "", **more: Any) -> str:
        content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
        usage = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 100}
        message = {"id": id or f"msg_{self._n}", "role": "assistant", "model": "claude-opus-4-5", "usage": usage}
        stop = "tool_use" if any(block["type"] == "tool_use" for block in content) else "end_turn"
        return self.add("assistant", **{"message": message | {"content": content, "stop_reason": stop}} | more)

    def result(self, call: str, content: Any, **more: Any) -> str:
        return self.say([{"type": "tool_result", "tool_use_id": call, "content": content}], **more)

    def write(self, home: Path) -> Path:
        slug = "".join(c if c.isalnum() else "-" for c in self.cwd)
        path = home / ".claude/projects" / slug / f"{self.id}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join((x if isinstance(x, str) else json.dumps(x)) + "\n" for x in self.lines))
        return path


def use(id: str, name: str = "Bash", **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": input}
