"""Questions to a person: each is answered, expires, or is visibly waiting."""

from collections.abc import Awaitable, Callable

import anyio

from teamwright.core.data.event import Answered, Asked, Event
from teamwright.core.ids import AgentId, QuestionId
from teamwright.core.permissions.consent import Decision, Deny, Question

Tell = Callable[[AgentId, Event], None]
Answerer = Callable[[Question], Awaitable[Decision]]


class _OpenQuestion:
    def __init__(self, question: Question) -> None:
        self.question = question
        self.answered = anyio.Event()
        self.decision: Decision | None = None


class Questions:
    """Put by the gate, answered by an op or by `code`. `limit` in seconds; None: somebody looks at it."""

    def __init__(self, tell: Tell, limit: float | None, code: Answerer | None = None) -> None:
        self._tell = tell
        self._code = code
        self._limit = limit
        self._slots: dict[QuestionId, _OpenQuestion] = {}
        self._nobody = ""

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
                    self.answer(question.id, await self._code(question))
                await slot.answered.wait()
        finally:
            del self._slots[question.id]
            self._tell(question.agent, Answered(question.id, slot.decision))
        return slot.decision or Deny(f"Nobody answered the question about {question.tool} within {self._limit:g} s.")

    def answer(self, id: QuestionId, decision: Decision) -> bool:
        """False if no such question waits: unknown, already answered, or withdrawn."""
        slot = self._slots.get(id)
        if slot is None or slot.decision is not None:
            return False
        slot.decision = decision
        slot.answered.set()
        return True

    def leave(self, why: str) -> None:
        """Nobody answers any more: what waits is denied, and what comes later at once."""
        self._nobody = why
        for slot in tuple(self._slots.values()):
            self.answer(slot.question.id, Deny(f"{slot.question.tool} was not run: {slot.question.reason} {why}"))
