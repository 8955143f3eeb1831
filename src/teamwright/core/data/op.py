"""Operations that a surface asks of a session; the answers come back as events."""

from typing import Literal

from msgspec import Struct

from teamwright.core.data.letter import Priority
from teamwright.core.data.message import Content, Effort
from teamwright.core.ids import AgentId, JobId, QuestionId
from teamwright.core.permissions.consent import Answerer, Behaviour, Decision, Mode


class Say(Struct, frozen=True, tag="say"):
    """A person's prompt for the main agent, or for a teammate or another running agent."""

    content: tuple[Content, ...]
    priority: Priority = "next"
    agent: AgentId | None = None
    typed: str = ""  # what the person typed, if the content was generated from it
    quiet: bool = False  # main agent at rest only: read with the next prompt, starts no turn
    trace: str = ""  # W3C `traceparent` of the program that asks


class Interrupt(Struct, frozen=True, tag="interrupt"):
    """End the running turn of an agent (by default the main one), but not the session."""

    agent: AgentId | None = None


class SendToBackground(Struct, frozen=True, tag="send_to_background"):
    """Let a caller stop waiting for one agent, or for all; the agents keep running."""

    job: JobId | None = None


class StopJob(Struct, frozen=True, tag="stop_job"):
    """Stop a job by its id, or a teammate, by force, by its address `name@team`."""

    job: JobId


class ShutDown(Struct, frozen=True, tag="shut_down"):
    """Ask a teammate, by id or address, to end, on behalf of the lead. It may refuse; the lead hears the answer."""

    agent: AgentId


class StopAll(Struct, frozen=True, tag="stop_all"):
    """Stop every job; `turns` also ends the turns of the main agent and of teammates, which stay alive."""

    turns: bool = False


class SetMode(Struct, frozen=True, tag="set_mode"):
    mode: Mode


class SetModel(Struct, frozen=True, tag="set_model"):
    """None restores the model that the session began with."""

    model: str | None


class SetEffort(Struct, frozen=True, tag="set_effort"):
    """Set how hard the main agent's model thinks from the next request on; None: the provider's default."""

    effort: Effort | int | None


class SetServer(Struct, frozen=True, tag="set_server"):
    """Switch an MCP server of the session on or off, or reconnect it; completes when the outcome is known."""

    server: str
    to: Literal["on", "off", "again"]


class Compact(Struct, frozen=True, tag="compact"):
    """Replace the main conversation by a summary, now or after the running turn."""

    instructions: str = ""


class Rewind(Struct, frozen=True, tag="rewind"):
    """Go back to before a line of the main transcript: a prompt, or an earlier rewind. Refused while the agent
    works."""

    line: int
    conversation: bool = True
    files: bool = False
    force: bool = False  # also files that somebody else has changed since


class AskAside(Struct, frozen=True, tag="ask_aside"):
    """Ask about the main conversation without entering it, even during a turn."""

    question: str


class AddRules(Struct, frozen=True, tag="add_rules"):
    """Add permission rules, written as in a settings file, for the rest of the session; for all agents, or for one."""

    rules: tuple[str, ...]
    behaviour: Behaviour
    agent: AgentId | None = None
    source: Literal["session", "local"] = "session"  # local: they are also in the local settings


class AddDirectories(Struct, frozen=True, tag="add_directories"):
    """Add working directories for the rest of the session."""

    directories: tuple[str, ...]


class RemoveRules(Struct, frozen=True, tag="remove_rules"):
    """Remove rules that were added in this session; None removes all of that behaviour.

    Rules from settings stay, unless `source` is `local` and they were removed from the local settings.
    """

    rules: tuple[str, ...] | None
    behaviour: Behaviour
    source: Literal["session", "local"] = "session"


class RemoveDirectories(Struct, frozen=True, tag="remove_directories"):
    """Remove working directories other than the first."""

    directories: tuple[str, ...]


class Answer(Struct, frozen=True, tag="answer"):
    question: QuestionId
    decision: Decision
    via: str = ""  # the surface that gave the answer
    by: Answerer = "person"


class AddTask(Struct, frozen=True, tag="add_task"):
    """Add a person's task to the list that the main agent works on."""

    subject: str
    description: str = ""
    blocked_by: tuple[int, ...] = ()
    owner: str = ""


class ChangeTask(Struct, frozen=True, tag="change_task"):
    """Change a task; None keeps a field, an empty owner releases the task."""

    id: int
    subject: str | None = None
    description: str | None = None
    status: Literal["pending", "in_progress", "completed", "deleted"] | None = None
    owner: str | None = None
    blocked_by: tuple[int, ...] = ()  # in addition to those that block it already


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
