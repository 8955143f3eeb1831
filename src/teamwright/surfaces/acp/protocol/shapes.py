"""Messages of the protocol as far as we read them. What else stands in them is ignored."""

from typing import Any, Literal, cast

import msgspec
from msgspec import Raw, Struct

from teamwright.surfaces.acp.protocol.wire import PARAMS, UNREADABLE, RpcError

LONGEST_TRACE = 256  # characters of a `traceparent`


class EnvVariable(Struct):
    name: str
    value: str


class McpServer(Struct):
    """`type` is left out by one that is started as a program."""

    name: str
    type: Literal["stdio", "http", "sse"] = "stdio"
    command: str = ""
    args: list[str] = []
    env: list[EnvVariable] = []
    url: str = ""
    headers: list[EnvVariable] = []


class Opening(Struct):
    """Of `session/new`; with a session's id also of `load`, `resume` and `fork`."""

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
    """One kind for all: `type` says which fields count."""

    type: str
    text: str = ""
    data: str = ""
    mimeType: str | None = None
    uri: str | None = None
    name: str = ""
    resource: Resource | None = None


class PromptRequest(OfSession):
    prompt: list[ContentBlock]
    meta: Any = msgspec.field(default=None, name="_meta")  # of whatever shape: what we do not know is nobody's fault

    @property
    def trace(self) -> str:
        """Of the editor's own span; one that is none is no part of any trace."""
        found = cast("dict[str, Any]", self.meta).get("traceparent") if isinstance(self.meta, dict) else None
        return found if isinstance(found, str) and len(found) <= LONGEST_TRACE else ""


class PermissionOutcome(Struct):
    outcome: str = ""
    optionId: str = ""


class PermissionAnswer(Struct):
    """Of `session/request_permission`."""

    outcome: PermissionOutcome = msgspec.field(default_factory=PermissionOutcome)


class FormAnswer(Struct):
    """Of `elicitation/create`."""

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
    terminals: bool = False  # output of commands as display terminals
    transcripts: bool = False  # what agents beneath say, beside the call that started them
    children: bool = False  # agents beneath as sessions of their own


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
