"""Questions to a person: each is answered, expires, or is visibly waiting."""

from collections.abc import Awaitable, Callable

import anyio
from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.data.event import Answered, Asked, Event
from teamwright.core.ids import AgentId, QuestionId
from teamwright.core.permissions.consent import Answerer as By
from teamwright.core.permissions.consent import Consent, Decision, Deny, Question
from teamwright.store.tables.state import now_ms

Tell = Callable[[AgentId, Event], None]
Answerer = Callable[[Question], Awaitable[Decision]]


class _OpenQuestion:
    def __init__(self, question: Question) -> None:
        self.question = question
        self.answered = anyio.Event()
        self.decision: Decision | None = None
        self.asked = now_ms()

    def recorded(self, decision: Decision, by: By, via: str = "", *, expired: bool = False) -> Decision:
        """The decision with our record of it, in place of any that it came with."""
        verdict = "expired" if expired else "deny" if isinstance(decision, Deny) else "allow"
        consent = Consent(by, via, verdict, self.asked, now_ms(), self.question.kind)
        return replace(decision, consent=consent)


class Questions(Struct, eq=False):
    """Put by the gate, answered by an op or by `code`. `limit` is in seconds; None: somebody is watching."""

    _tell: Tell
    _limit: float | None
    _code: Answerer | None = None
    _slots: dict[QuestionId, _OpenQuestion] = {}
    _nobody: str = ""

    @property
    def asked(self) -> dict[QuestionId, int]:
        """When each waiting question was put, in milliseconds since 1970."""
        return {id: slot.asked for id, slot in self._slots.items()}

    @property
    def waiting(self) -> list[Question]:
        return [slot.question for slot in self._slots.values()]

    async def put(self, question: Question) -> Decision:
        if self._nobody:
            return Deny(f"{question.tool} was not run: {question.reason} {self._nobody}")
        slot = self._slots[question.id] = _OpenQuestion(question)
        self._tell(question.agent, Asked(question))
        try:
            with anyio.move_on_after(self._limit):
                if self._code is not None:
                    self.answer(question.id, await self._code(question), by="code", via="library")
                await slot.answered.wait()
        finally:
            del self._slots[question.id]
            self._tell(question.agent, Answered(question.id, slot.decision))
        if slot.decision is not None:
            return slot.decision
        late = Deny(f"Nobody answered the question about {question.tool} within {self._limit:g} s.")
        return slot.recorded(late, "nobody", expired=True)

    def answer(self, id: QuestionId, decision: Decision, *, by: By = "person", via: str = "") -> bool:
        """False if no such question waits: unknown, already answered, or withdrawn."""
        slot = self._slots.get(id)
        if slot is None or slot.decision is not None:
            return False
        slot.decision = slot.recorded(decision, by, via)
        slot.answered.set()
        return True

    def leave(self, why: str) -> None:
        """Nobody answers any more: deny waiting questions now, and later ones at once."""
        self._nobody = why
        for slot in tuple(self._slots.values()):
            words = f"{slot.question.tool} was not run: {slot.question.reason} {why}"
            self.answer(slot.question.id, Deny(words), by="nobody")
