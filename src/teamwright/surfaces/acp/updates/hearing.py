"""Records of a session as updates for the editor, in order."""

import uuid
from typing import Any

import anyio

from teamwright.core.data.event import (
    Answered,
    AsideAnswered,
    Asked,
    Compacted,
    FilesRestored,
    LettersTaken,
    PromptPosted,
    Record,
    Rendered,
    Replied,
    Rewound,
    Streamed,
    Warned,
)
from teamwright.core.data.message import Delta, Retrying
from teamwright.core.ids import AgentId, line_uuid
from teamwright.runtime.port import SessionPort
from teamwright.surfaces.acp.protocol.shapes import Client
from teamwright.surfaces.acp.protocol.wire import Wire
from teamwright.surfaces.acp.questions.consent import EditorConsent
from teamwright.surfaces.acp.threads.config import Config
from teamwright.surfaces.acp.threads.prompts import Prompts, interrupt
from teamwright.surfaces.acp.threads.replay import note_words, step_of
from teamwright.surfaces.acp.updates.cards import Cards
from teamwright.surfaces.acp.updates.children import Children, Show
from teamwright.surfaces.acp.updates.speech import chunk_of
from teamwright.surfaces.acp.updates.voice import Voice
from teamwright.surfaces.view.letters import items_of
from teamwright.surfaces.view.sentences import restored_words, retry_words, rewind_words
from teamwright.surfaces.view.shapes import Note, Spoken
from teamwright.surfaces.view.text import one_line, tokens
from teamwright.surfaces.view.view import SessionFold
from teamwright.tools.bounds import visible

JOIN = 0.03  # seconds for which a message's words are joined
TITLE = 80  # characters
CLOSED = "The session was closed."


class Hearing:
    """Tells the editor everything about one session, except answers to its requests."""

    def __init__(self, port: SessionPort, wire: Wire, client: Client, config: Config, prompts: Prompts) -> None:
        self._port, self._wire, self._client = port, wire, client
        self._config, self._prompts = config, prompts
        self.view = SessionFold(port.main)
        show: Show = "sessions" if client.children else "transcripts" if client.transcripts else "cards"
        self.cards = Cards(self.view, self.tell, steps=show == "cards")
        self.children = Children(show, port.id, self.view, self.tell_in, self._cwd)
        self.voice = Voice(port.main, self.tell, self._cwd, self.cards, terminals=client.terminals)
        self.consent: EditorConsent | None = None
        self.seen: dict[AgentId, int] = {}
        self.title = ""
        self.aside = anyio.Event()  # set when the next answer to a side question was told
        self._state, self._settings, self._usage = "idle", ("", "", ""), (0, 0, 0.0)
        self._tasks, self._plan = 0, list[dict[str, Any]]()

    def _cwd(self) -> str:
        return self._port.facts.cwd

    # --- output

    def tell(self, update: dict[str, Any]) -> None:
        self.tell_in(self._port.id, update)

    def tell_in(self, session: str, update: dict[str, Any]) -> None:
        self._wire.notify("session/update", {"sessionId": session, "update": update})

    def speak(self, text: str, kind: str = "agent_message_chunk") -> None:
        """Words of the program itself."""
        self.voice.flush()
        self.tell(chunk_of(kind, visible(text), str(uuid.uuid4())))

    def note(self, text: str, severity: str = "info") -> None:
        """A line for the person outside of the conversation."""
        if self._client.notices:
            title, _, more = visible(text).partition("\n")
            about = {"description": more} if more else {}
            self.tell({"sessionUpdate": "notice", "severity": severity, "title": title} | about)
        else:
            self.speak(text, "agent_thought_chunk")

    def fail_calls(self, why: str) -> None:
        self.voice.calls.fail_all(why)

    def close(self) -> None:
        """Nothing more will come, so no call is left open."""
        self.voice.flush()
        self.voice.calls.fail_all(CLOSED)
        self.cards.end_all()

    def show_running(self, *, told: bool) -> None:
        """Show calls of the main agent that run when it is joined."""
        fold, cwd = self.view.folds.get(self._port.main), str(self._port.cwd)
        for step in fold.steps.values() if fold else ():
            if not told:
                self.tell(step_of(step, cwd))
            self.voice.calls.restore(step.call_id, step.tool, step.args)

    def agent_state(self) -> str:
        """State of the main agent."""
        return self.view.agent(self._port.main).state

    # --- input

    async def hear(self, record: Record) -> None:
        if record.n:
            if record.n <= self.seen.get(record.agent, 0):
                return  # it was already there
            self.seen[record.agent] = record.n
        main = record.agent == self._port.main
        self.view.apply(record)
        if isinstance(record.event, Streamed):
            await self._stream(record, record.event.delta)
            return
        self.cards.hear(record)
        if main:
            await self._hear_main(record)
        else:
            await self.children.hear(record)
        self._hear_question(record)
        self._tell_changes()

    async def _stream(self, record: Record, delta: Delta) -> None:
        if record.agent != self._port.main:
            await self.children.hear(record)
            return
        self.voice.stream(delta)
        if isinstance(delta, Retrying):
            self.note(retry_words(delta), "warning")

    async def _hear_main(self, record: Record) -> None:
        await self.voice.hear(record)
        match record.event:
            case LettersTaken() as event:
                await self._taken(event, record)
            case PromptPosted() as event:
                if said := self._prompts.posted(event):
                    self._said_elsewhere(said, str(uuid.uuid4()))
            case Replied():
                self.tell_usage()
            case Rendered() as event:
                self._config.effort = event.effort
            case Warned() as event:
                self.note(event.text, "warning")
            case AsideAnswered() as event:
                self.speak(event.text)
                self.aside.set()
                self.aside = anyio.Event()
            case Compacted() as event:
                self._compacted(event, record.n)
            case Rewound() as event:
                self.note(rewind_words(event))
            case FilesRestored() as event:
                self.note(restored_words(event))
            case _:
                pass

    async def _taken(self, event: LettersTaken, record: Record) -> None:
        """The agent reads letters: tell what others said to it; the editor knows its own."""
        others, unwanted = self._prompts.took(event)
        id = line_uuid(record.agent, record.n)
        for text in others:
            self._said_elsewhere(text, id)
        for item in items_of(event.message, record.n, record.at):
            if isinstance(item, Note) and item.kind in ("message", "notice"):
                self.speak(note_words(item), "agent_thought_chunk")
            elif isinstance(item, Spoken):
                self._name(item.text)
        if unwanted:
            await interrupt(self._port)

    def _name(self, prompt: str) -> None:
        if not self.title and prompt.strip():
            self.title = one_line(prompt, TITLE)
            self.tell({"sessionUpdate": "session_info_update", "title": self.title})

    def _said_elsewhere(self, text: str, id: str) -> None:
        self.voice.flush()
        self.tell(chunk_of("user_message_chunk", visible(text), id))

    def _compacted(self, event: Compacted, line: int) -> None:
        if self._client.compaction:
            id = line_uuid(self._port.main, line)
            self.tell({"sessionUpdate": "compaction_update", "compactionId": id, "status": "completed"})
        else:
            words = f"The conversation was compacted: a summary replaces {tokens(event.tokens)} tokens."
            self.speak(words, "agent_thought_chunk")

    def _hear_question(self, record: Record) -> None:
        if self.consent is None:
            return
        match record.event:
            case Asked(question=question):
                self.consent.asked(question)
            case Answered(question=id):
                self.consent.answered(id)
            case _:
                pass

    # --- changes

    def _tell_changes(self) -> None:
        facts = self._port.facts
        settings = (facts.mode, facts.model, str(self._config.effort))
        if settings != self._settings:
            before, self._settings = self._settings, settings
            if before[0] and before[0] != facts.mode:
                self.tell({"sessionUpdate": "current_mode_update", "currentModeId": facts.mode})
            if before[0]:
                self.tell_options()
        if (state := self._state_now()) != self._state:
            self._state = state
            self.tell({"sessionUpdate": "session_info_update", "_meta": {"teamwright": {"state": state}}})

    def _state_now(self) -> str:
        if self.view.questions:
            return "waiting"
        return "running" if any(a.state in ("running", "waiting") for a in self.view.agents.values()) else "idle"

    def tell_options(self) -> None:
        self.tell({"sessionUpdate": "config_option_update", "configOptions": self._config.options()})

    def settle_settings(self) -> None:
        """The editor knows the present settings."""
        facts = self._port.facts
        self._settings = (facts.mode, facts.model, str(self._config.effort))

    def tell_usage(self) -> None:
        facts = self._port.facts
        usage = (facts.window, facts.room, facts.usd)
        if usage != self._usage and facts.window:
            self._usage = usage
            cost = {"amount": facts.usd, "currency": "USD"}
            size = facts.room or facts.window
            self.tell({"sessionUpdate": "usage_update", "used": facts.window, "size": size, "cost": cost})

    # --- delayed output

    def flush(self) -> float | None:
        """Tell what has waited long enough; returns the seconds until more is due. Nothing is dropped for a slow
        reader: words are joined longer."""
        if self._wire.congested:
            return JOIN
        for voice in (self.voice, *self.children.voices):
            voice.flush()
        return self.cards.tell_due()

    async def tell_rest(self) -> None:
        """Tell everything that must come before an answer to a prompt."""
        for voice in (self.voice, *self.children.voices):
            voice.flush()
        self.cards.tell_all()
        await self.tell_plan()

    async def tell_plan(self) -> None:
        if self._tasks == self.view.tasks_changed:
            return
        self._tasks = self.view.tasks_changed
        self.view.tasks = list((await self._port.crew()).tasks)
        plan: list[dict[str, Any]] = []
        for task in self.view.tasks:
            owner = f" ({one_line(task.owner, 40)})" if task.owner else ""
            words = f"#{task.id} {one_line(task.subject, 200)}{owner}"
            plan.append({"content": words, "priority": "medium", "status": task.status})
        if plan != self._plan:
            self._plan = plan
            self.tell({"sessionUpdate": "plan", "entries": plan})
