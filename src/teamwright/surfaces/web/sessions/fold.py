"""The fold of a session for pages. What no transcript has is kept apart, so that a reload shows the same items."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from teamwright.core.data.event import AgentStarted, Answered, Asked, ModeChanged, Record
from teamwright.core.ids import AgentId, LetterId, QuestionId
from teamwright.core.permissions.consent import Decision
from teamwright.models.prices import cost
from teamwright.store.tables.state import now_ms
from teamwright.surfaces.view.shapes import AgentView, Item, Note
from teamwright.surfaces.view.talk import TalkFold
from teamwright.surfaces.view.view import SessionFold

MOST_ANSWERED = 200  # questions whose answers are remembered for latecomers
EVERYTHING = 1 << 40


class PageTalk(TalkFold):
    """A conversation as its transcript has it: a job's end is where the agent read of it."""

    def end_job(self, note: Note) -> None:
        del note


class PageFold(SessionFold):
    """The fold of a whole session; `most` items of each conversation stay in memory."""

    def __init__(
        self, main: AgentId, *, color: Callable[[AgentView], str] | None = None, most: int | None = None
    ) -> None:
        super().__init__(main, price=cost, color=color)
        self._most_items = most
        self.mode = ""
        self.worktrees: dict[str, str] = {}  # names of agents' worktrees
        self.asked: dict[QuestionId, int] = {}
        self.answered: dict[QuestionId, Decision | None] = {}

    def apply(self, record: Record) -> None:
        match record.event:
            case Asked(question):
                self.asked[question.id] = record.at or now_ms()
            case Answered(question, decision):
                self.asked.pop(question, None)
                self.answered[question] = decision
                while len(self.answered) > MOST_ANSWERED:
                    del self.answered[next(iter(self.answered))]
            case ModeChanged(mode) if record.agent == self.main:
                self.mode = mode
            case AgentStarted(worktree=place) if place:
                self.worktrees[record.agent] = Path(place).name
            case _:
                pass
        super().apply(record)

    def knows(self, letter: LetterId) -> bool:
        """Whether it is queued, or was already read."""
        return letter in self._taken or any(queued.letter == letter for queued in self.queue)

    def _fold(self, agent: AgentId) -> TalkFold:
        if (found := self.folds.get(agent)) is None:
            found = self.folds[agent] = PageTalk() if self._most_items is None else PageTalk(most=self._most_items)
        return found


def numbered(items: Sequence[Item]) -> Iterator[tuple[str, Item]]:
    """Each item with its id: transcript line, and place in that. Items in no transcript have line 0."""
    line, place, live = 0, 0, 0
    for item in items:
        if not item.n:
            yield f"0.{live}", item
            live += 1
            continue
        place = place + 1 if item.n == line else 0
        line = item.n
        yield f"{line}.{place}", item
