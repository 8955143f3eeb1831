"""Messages from panels and dialogs to the app. They never touch the session themselves."""

from typing import Literal

from textual.message import Message

from teamwright.core.ids import AgentId
from teamwright.core.permissions.consent import Decision, Question

Scope = Literal["once", "agent", "all"]  # a yes for this call, or for what its suggested rules cover


class OpenAgent(Message):
    """Show this agent's own conversation; what is typed goes to it from then on."""

    def __init__(self, agent: AgentId) -> None:
        super().__init__()
        self.agent = agent


class StopAgent(Message):
    """End it: a teammate by force, another agent's job, or the main agent's turn."""

    def __init__(self, agent: AgentId) -> None:
        super().__init__()
        self.agent = agent


class StopEverything(Message):
    """Every job, and every turn of those that live on."""


class Background(Message):
    """Send the agents that somebody waits for to the background."""


class AnswerQuestion(Message):
    def __init__(self, question: Question, decision: Decision, rule_scope: Scope = "once") -> None:
        super().__init__()
        self.question, self.decision, self.rule_scope = question, decision, rule_scope
