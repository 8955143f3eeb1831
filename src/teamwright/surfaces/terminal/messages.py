"""Messages from panels and dialogs to the app. They never touch the session themselves."""

from textual.message import Message

from teamwright.core.ids import AgentId
from teamwright.core.permissions.consent import Decision, Question
from teamwright.surfaces.port.answering import Scope


class OpenAgent(Message):
    """Show this agent's own conversation; typed prompts go to it from then on."""

    def __init__(self, agent: AgentId) -> None:
        super().__init__()
        self.agent = agent


class StopAgent(Message):
    """Stop an agent: a teammate by force, another agent's job, or the main agent's turn."""

    def __init__(self, agent: AgentId) -> None:
        super().__init__()
        self.agent = agent


class StopEverything(Message):
    """Stop every job, and the turns of agents that live on."""


class Background(Message):
    """Move agents that somebody waits for to the background."""


class AnswerQuestion(Message):
    """`wide`: use the wider of its rules."""

    def __init__(
        self, question: Question, decision: Decision, rule_scope: Scope = "once", *, wide: bool = False
    ) -> None:
        super().__init__()
        self.question, self.decision, self.wide = question, decision, wide
        self.rule_scope: Scope = rule_scope
