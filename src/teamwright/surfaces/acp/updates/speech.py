"""Words of one reply, told as they come: joined for a moment, and never told twice after a retry."""

import uuid
from collections.abc import Callable
from typing import Any, Literal

from teamwright.core.ids import AgentId, line_uuid

Kind = Literal["agent_message_chunk", "agent_thought_chunk"]
Tell = Callable[[dict[str, Any]], None]


def chunk_of(kind: str, text: str, id: str) -> dict[str, Any]:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}, "messageId": id}


class Speech:
    """One reply's text, or its thoughts. What was told cannot be taken back."""

    def __init__(self, kind: Kind, tell: Tell, agent: AgentId) -> None:
        self._kind: Kind = kind
        self._tell, self._agent = tell, agent
        self._id = ""
        self._said: list[str] = []  # told or waiting under this id
        self._waiting: list[str] = []  # not told yet
        self._again: str | None = None  # text of a new attempt, as long as it repeats what was already said
        self._voids = 0

    def begin(self, line: int) -> None:
        """Begin a reply that will probably be this line of the transcript."""
        self.flush()
        self._id = self._name(line)
        self._said, self._again, self._voids = [], None, 0

    def retry(self) -> None:
        """The attempt failed. The next one may say the same."""
        self._again = "" if self._said else None

    def add(self, text: str) -> None:
        if self._again is None:
            self._said.append(text)
            self._waiting.append(text)
            return
        self._again += text
        self._agree(self._again)

    def end(self, whole: str, line: int) -> None:
        """The reply as the transcript has it: tell what was not streamed."""
        if not self._said:
            self._id = self._name(line)
        if whole.strip():
            self._agree(whole)
        self.flush()
        self._said, self._again = [], None

    def _agree(self, text: str) -> None:
        """Tell what is new. A text that differs from what was said begins a new message."""
        said = "".join(self._said)
        if said.startswith(text):
            return
        if not text.startswith(said):
            self.flush()
            self._voids += 1
            self._id, said = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self._id}:{self._voids}")), ""
        self._waiting.append(text[len(said) :])
        self._said, self._again = [text], None

    def flush(self) -> None:
        if self._waiting:
            text, self._waiting = "".join(self._waiting), []
            self._tell(chunk_of(self._kind, text, self._id))

    def _name(self, line: int) -> str:
        """A message has the id of its stream-json line; thoughts have an id of their own."""
        id = line_uuid(self._agent, line)
        return id if self._kind == "agent_message_chunk" else str(uuid.uuid5(uuid.NAMESPACE_OID, f"thought:{id}"))
