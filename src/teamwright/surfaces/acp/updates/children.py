"""Sub-agents, for editors that show what each says: next to its call, or as a session of its own."""

from collections.abc import Callable
from typing import Any, Literal

from teamwright.core.data.event import (
    AgentEnded,
    AgentStarted,
    Answered,
    Asked,
    LettersTaken,
    Record,
    TeamChanged,
    TurnEnded,
    TurnStarted,
)
from teamwright.core.ids import AgentId
from teamwright.surfaces.acp.threads.prompts import stop_of
from teamwright.surfaces.acp.updates.calls import NoKeeper
from teamwright.surfaces.acp.updates.speech import chunk_of
from teamwright.surfaces.acp.updates.voice import Voice
from teamwright.surfaces.view.letters import items_of
from teamwright.surfaces.view.shapes import Spoken
from teamwright.surfaces.view.text import one_line
from teamwright.surfaces.view.view import SessionFold
from teamwright.tools.bounds import visible

Show = Literal["cards", "transcripts", "sessions"]
TellIn = Callable[[str, dict[str, Any]], None]  # in the session of this id


class Children:
    """`cards`: sub-agents are shown as cards only, and nothing is told here."""

    def __init__(self, show: Show, root: str, view: SessionFold, tell: TellIn, cwd: Callable[[], str]) -> None:
        self.show: Show = show
        self._root, self._view, self._tell, self._cwd = root, view, tell, cwd
        self._voices: dict[AgentId, Voice] = {}
        self._calls: dict[AgentId, str] = {}
        self._states: dict[AgentId, str] = {}

    @property
    def voices(self) -> list[Voice]:
        return list(self._voices.values())

    def known(self, session: str) -> AgentId | None:
        """The agent behind a session of its own."""
        return next((id for id in self._states if id == session), None)

    async def hear(self, record: Record) -> None:
        id = record.agent
        if self.show == "cards" or id == self._view.main:
            return
        if isinstance(record.event, AgentStarted):
            self._calls[id] = record.event.call_id or ""
        voice = self._voices.get(id)
        if voice is None:
            voice = self._voices[id] = self._voice(id)
            if self.show == "sessions":
                self._state(id, "running")
        if isinstance(record.event, LettersTaken) and self.show == "sessions":
            self._told(id, record)
        await voice.hear(record)
        if self.show == "sessions":
            self._follow(record)

    def _voice(self, id: AgentId) -> Voice:
        session = id if self.show == "sessions" else self._root

        def tell(update: dict[str, Any]) -> None:
            self._tell(session, update)

        parent = {"claudeCode": {"parentToolUseId": self._calls.get(id) or id}}
        return Voice(id, tell, self._cwd, NoKeeper(), meta=parent if self.show == "transcripts" else None)

    def _told(self, id: AgentId, record: Record) -> None:
        assert isinstance(record.event, LettersTaken)
        for item in items_of(record.event.message, record.n, record.at):
            if isinstance(item, Spoken):
                self._tell(id, chunk_of("user_message_chunk", visible(item.text), f"{id}:{record.n}"))

    def _follow(self, record: Record) -> None:
        match record.event:
            case Asked():
                self._state(record.agent, "requires_action")
            case Answered() | TurnStarted():
                self._state(record.agent, "running")
            case TurnEnded() as end if self._view.agent(record.agent).team:
                self._state(record.agent, "idle", stopReason=stop_of(end))
            case AgentEnded() as end:
                stops = {"completed": "end_turn", "killed": "cancelled"}
                self._state(record.agent, "idle", stopReason=stops.get(end.status, "refusal"))
            case TeamChanged(kind="message") as mail:
                message = {"sender": mail.agent, "recipient": mail.to, "content": visible(mail.message or mail.text)}
                self._tell(record.agent, {"sessionUpdate": "session_message"} | message)
            case _:
                pass

    def _state(self, id: AgentId, state: str, **more: str) -> None:
        if self._states.get(id) == state:
            return
        first = id not in self._states
        self._states[id] = state
        agent = self._view.agent(id)
        parent = agent.parent if agent.parent in self._states else None
        update: dict[str, Any] = {"sessionUpdate": "subagent_update", "sessionId": id, "state": {"state": state} | more}
        if first:
            update |= {"title": one_line(agent.name, 60), "description": one_line(agent.description, 200)}
            update["capabilities"] = {"cancel": {}}
        self._tell(parent or self._root, update)
