"""Operations that a surface asks of a session; the answers come back as events."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from teamwright.core.data.letter import Priority
from teamwright.core.data.message import Content, Text
from teamwright.core.ids import AgentId, JobId, QuestionId
from teamwright.core.permissions.consent import Decision, Mode


class Say(Struct, frozen=True, tag="say"):
    """A person's prompt for the main agent, or for another one: a teammate, or an agent that somebody started."""

    content: tuple[Content, ...]
    priority: Priority = "next"
    agent: AgentId | None = None
    typed: str = ""  # what the person wrote, where the content is made of it
    quiet: bool = False  # for the main agent at rest: it is read with the next prompt, and starts no turn


class Interrupt(Struct, frozen=True, tag="interrupt"):
    """End the running turn of an agent, the main one if none is named; not the session."""

    agent: AgentId | None = None


class SendToBackground(Struct, frozen=True, tag="send_to_background"):
    """Let a caller continue without the agent it waits for, or without all of them; each keeps running."""

    job: JobId | None = None


class StopJob(Struct, frozen=True, tag="stop_job"):
    """A job by its id, or a teammate, by force, by its address `name@team`."""

    job: JobId


class StopAll(Struct, frozen=True, tag="stop_all"):
    """Stop every job; with `turns` also end the turns of the main agent and of teammates, who live on."""

    turns: bool = False


class SetMode(Struct, frozen=True, tag="set_mode"):
    mode: Mode


class SetModel(Struct, frozen=True, tag="set_model"):
    """None: back to the model that the session began with."""

    model: str | None


class Compact(Struct, frozen=True, tag="compact"):
    """Replace the main conversation by a summary, now or when its running turn has ended."""

    instructions: str = ""


class AskAside(Struct, frozen=True, tag="ask_aside"):
    """A question about the main conversation that does not enter it, also while a turn runs."""

    question: str


class AddRules(Struct, frozen=True, tag="add_rules"):
    """Permission rules for the rest of the session, in the words of a settings file; for all agents, or for one."""

    rules: tuple[str, ...]
    behaviour: Literal["allow", "ask", "deny"]
    agent: AgentId | None = None
    source: Literal["session", "local"] = "session"  # local: they are in the local settings, too


class AddDirectories(Struct, frozen=True, tag="add_directories"):
    """Further working directories for the rest of the session."""

    directories: tuple[str, ...]


class RemoveRules(Struct, frozen=True, tag="remove_rules"):
    """Rules that were added in this session; None: all of that kind. What settings say stays, unless `source` is
    `local` and they were taken out of the local settings."""

    rules: tuple[str, ...] | None
    behaviour: Literal["allow", "ask", "deny"]
    source: Literal["session", "local"] = "session"


class RemoveDirectories(Struct, frozen=True, tag="remove_directories"):
    """Working directories that are not the first one."""

    directories: tuple[str, ...]


class Answer(Struct, frozen=True, tag="answer"):
    question: QuestionId
    decision: Decision


Op = (
    Say
    | Interrupt
    | SendToBackground
    | StopJob
    | StopAll
    | SetMode
    | SetModel
    | Compact
    | AskAside
    | AddRules
    | AddDirectories
    | RemoveRules
    | RemoveDirectories
    | Answer
)


def prompt_text(content: Sequence[Content]) -> str:
    """The words of a prompt."""
    return "\n".join(block.text for block in content if isinstance(block, Text))
