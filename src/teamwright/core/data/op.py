"""Operations that a surface asks of a session; the answers come back as events."""

from typing import Literal

from msgspec import Struct

from teamwright.core.data.letter import Priority
from teamwright.core.data.message import Content, Effort
from teamwright.core.ids import AgentId, JobId, QuestionId
from teamwright.core.permissions.consent import Answerer, Behaviour, Decision, Mode


class Say(Struct, frozen=True, tag="say"):
    """A person's prompt for the main agent, or for another one: a teammate, or an agent that somebody started."""

    content: tuple[Content, ...]
    priority: Priority = "next"
    agent: AgentId | None = None
    typed: str = ""  # what the person wrote, where the content is made of it
    quiet: bool = False  # for the main agent at rest: it is read with the next prompt, and starts no turn
    trace: str = ""  # of the program that asks, as a W3C `traceparent`


class Interrupt(Struct, frozen=True, tag="interrupt"):
    """End the running turn of an agent, the main one if none is named; not the session."""

    agent: AgentId | None = None


class SendToBackground(Struct, frozen=True, tag="send_to_background"):
    """Let a caller continue without the agent it waits for, or without all of them; each keeps running."""

    job: JobId | None = None


class StopJob(Struct, frozen=True, tag="stop_job"):
    """A job by its id, or a teammate, by force, by its address `name@team`."""

    job: JobId


class ShutDown(Struct, frozen=True, tag="shut_down"):
    """Ask a teammate, in the lead's place, to end: by its id or address. It may refuse; the lead hears the answer."""

    agent: AgentId


class StopAll(Struct, frozen=True, tag="stop_all"):
    """Stop every job; with `turns` also end the turns of the main agent and of teammates, who live on."""

    turns: bool = False


class SetMode(Struct, frozen=True, tag="set_mode"):
    mode: Mode


class SetModel(Struct, frozen=True, tag="set_model"):
    """None: back to the model that the session began with."""

    model: str | None


class SetEffort(Struct, frozen=True, tag="set_effort"):
    """How hard the main agent's model thinks from the next request on; None: as its provider has it."""

    effort: Effort | int | None


class SetServer(Struct, frozen=True, tag="set_server"):
    """Switch one of the session's MCP servers on or off, or connect again; done when it is known how that went."""

    server: str
    to: Literal["on", "off", "again"]


class Compact(Struct, frozen=True, tag="compact"):
    """Replace the main conversation by a summary, now or when its running turn has ended."""

    instructions: str = ""


class Rewind(Struct, frozen=True, tag="rewind"):
    """Back to before a line of the main transcript: a prompt, or an earlier rewind. Refused while the agent works."""

    line: int
    conversation: bool = True
    files: bool = False
    force: bool = False  # also files that somebody else has changed since


class AskAside(Struct, frozen=True, tag="ask_aside"):
    """A question about the main conversation that does not enter it, also while a turn runs."""

    question: str


class AddRules(Struct, frozen=True, tag="add_rules"):
    """Permission rules for the rest of the session, in the words of a settings file; for all agents, or for one."""

    rules: tuple[str, ...]
    behaviour: Behaviour
    agent: AgentId | None = None
    source: Literal["session", "local"] = "session"  # local: they are in the local settings, too


class AddDirectories(Struct, frozen=True, tag="add_directories"):
    """Further working directories for the rest of the session."""

    directories: tuple[str, ...]


class RemoveRules(Struct, frozen=True, tag="remove_rules"):
    """Rules that were added in this session; None: all of that kind. What settings say stays, unless `source` is
    `local` and they were taken out of the local settings."""

    rules: tuple[str, ...] | None
    behaviour: Behaviour
    source: Literal["session", "local"] = "session"


class RemoveDirectories(Struct, frozen=True, tag="remove_directories"):
    """Working directories that are not the first one."""

    directories: tuple[str, ...]


class Answer(Struct, frozen=True, tag="answer"):
    question: QuestionId
    decision: Decision
    via: str = ""  # the surface on which it was given
    by: Answerer = "person"


class AddTask(Struct, frozen=True, tag="add_task"):
    """A task of the person's for the list that the main agent works on."""

    subject: str
    description: str = ""
    blocked_by: tuple[int, ...] = ()
    owner: str = ""


class ChangeTask(Struct, frozen=True, tag="change_task"):
    """What is to be different about a task; None leaves a part as it is, an empty owner takes it from its owner."""

    id: int
    subject: str | None = None
    description: str | None = None
    status: Literal["pending", "in_progress", "completed", "deleted"] | None = None
    owner: str | None = None
    blocked_by: tuple[int, ...] = ()  # besides those that it waits for already


Op = (
    Say
    | Interrupt
    | SendToBackground
    | StopJob
    | ShutDown
    | StopAll
    | SetMode
    | SetModel
    | SetEffort
    | SetServer
    | Compact
    | Rewind
    | AskAside
    | AddRules
    | AddDirectories
    | RemoveRules
    | RemoveDirectories
    | AddTask
    | ChangeTask
    | Answer
)
