"""Messages of the protocol, as far as we read them. Other fields are ignored."""

from typing import Any, Literal, cast

import msgspec
from msgspec import Raw, Struct

from teamwright.surfaces.acp.protocol.wire import PARAMS, UNREADABLE, RpcError

LONGEST_TRACE = 256  # characters of a `traceparent`


class EnvVariable(Struct):
    name: str
    value: str


class McpServer(Struct):
    """`type` is missing for a server that is started as a program."""

    name: str
    type: Literal["stdio", "http", "sse"] = "stdio"
    command: str = ""
    args: list[str] = []
    env: list[EnvVariable] = []
    url: str = ""
    headers: list[EnvVariable] = []


class Opening(Struct):
    """Parameters of `session/new`; with a session's id also of `load`, `resume` and `fork`."""

    cwd: str
    mcpServers: list[McpServer] = []
    additionalDirectories: list[str] | None = None


class Reopening(Opening, kw_only=True):
    sessionId: str


class OfSession(Struct):
    sessionId: str


class SessionsWanted(Struct):
    cwd: str | None = None
    cursor: str | None = None


class ModeWanted(OfSession):
    modeId: str


class ModelWanted(OfSession):
    modelId: str


class OptionWanted(OfSession):
    configId: str
    value: str


class Resource(Struct):
    uri: str = ""
    text: str | None = None
    blob: str | None = None
    mimeType: str | None = None


class ContentBlock(Struct):
    """One type for all blocks: `type` says which fields count."""

    type: str
    text: str = ""
    data: str = ""
    mimeType: str | None = None
    uri: str | None = None
    name: str = ""
    resource: Resource | None = None


class PromptRequest(OfSession):
    prompt: list[ContentBlock]
    meta: Any = msgspec.field(default=None, name="_meta")  # of any shape: what we do not know is no error

    @property
    def trace(self) -> str:
        """The trace context of the editor's own span; empty if it is malformed."""
        found = cast("dict[str, Any]", self.meta).get("traceparent") if isinstance(self.meta, dict) else None
        return found if isinstance(found, str) and len(found) <= LONGEST_TRACE else ""


class PermissionOutcome(Struct):
    outcome: str = ""
    optionId: str = ""


class PermissionAnswer(Struct):
    """The answer to `session/request_permission`."""

    outcome: PermissionOutcome = msgspec.field(default_factory=PermissionOutcome)


class FormAnswer(Struct):
    """The answer to `elicitation/create`."""

    action: str = ""
    content: dict[str, Any] | None = None


class SessionAbilities(Struct):
    notices: Any = None
    compaction: Any = None


class Elicitation(Struct):
    form: Any = None


class Capabilities(Struct):
    session: SessionAbilities | None = None
    elicitation: Elicitation | None = None
    subagents: Any = None
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")


class Hello(Struct):
    protocolVersion: int
    clientCapabilities: Capabilities | None = None


class Client(Struct, frozen=True):
    """What the editor can show."""

    forms: bool = False
    notices: bool = False
    compaction: bool = False
    terminals: bool = False  # commands' output in display terminals
    transcripts: bool = False  # what sub-agents say, next to the call that started them
    children: bool = False  # sub-agents as sessions of their own


def client_of(said: Capabilities | None) -> Client:
    said = said or Capabilities()
    session, meta = said.session or SessionAbilities(), said.meta or {}
    return Client(
        forms=said.elicitation is not None and said.elicitation.form is not None,
        notices=session.notices is not None,
        compaction=session.compaction is not None,
        terminals=bool(meta.get("terminal_output")),
        transcripts=bool(meta.get("subagent-transcript")),
        children=said.subagents is not None,
    )


def read(params: Raw, kind: type[Any]) -> Any:
    """Raises RpcError for wrong parameters."""
    try:
        return msgspec.json.decode(params, type=kind)
    except UNREADABLE as error:
        raise RpcError(PARAMS, f"wrong parameters: {error}") from None
