"""MCP servers as data: their transport, what they offer and what they answer."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from teamwright.core.data.message import Image, Text
from teamwright.core.errors import TeamwrightError

ELICITATION = "Elicitation"  # instead of a tool's name: a server asks the person something
NEW_TOOLS = "NewTools"  # likewise: a server has changed its tools
ServerStatus = Literal["pending", "connected", "failed", "needs-auth", "disabled"]
Loss = Literal["failed", "lost", "needs-auth", "refused"]


class Stdio(Struct, frozen=True, tag="stdio"):
    """A program that we start and talk to through its standard input and output."""

    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}


class Http(Struct, frozen=True, tag="http"):
    """A server that is there already (streamable HTTP)."""

    url: str
    headers: dict[str, str] = {}


class Sse(Struct, frozen=True, tag="sse"):
    """The same in the older way of two connections."""

    url: str
    headers: dict[str, str] = {}


class Sdk(Struct, frozen=True, tag="sdk"):
    """It lives in the program that drives us; messages go through that program's pipes."""


Reach = Stdio | Http | Sse | Sdk


class ServerConfig(Struct, frozen=True):
    """One server as somebody wrote it down. `fault` says why it cannot be used as it stands."""

    name: str
    reach: Reach
    source: str = "code"  # user, project, local, flag, managed, agent, code
    file: str = ""
    call_seconds: float | None = None
    fault: str = ""


class ServerTool(Struct, frozen=True):
    """A tool as its server describes it. Two that are equal are the same tool: that is what a person approved."""

    name: str
    description: str
    schema: Mapping[str, Any]
    read_only: bool = False


class ServerState(Struct, frozen=True):
    name: str
    status: ServerStatus
    error: str = ""
    tools: tuple[str, ...] = ()  # as the model knows them
    waiting: tuple[str, ...] = ()  # new or changed since they were approved: off


class Blob(Struct, frozen=True):
    """Bytes that are neither text nor a picture; `data` is base64."""

    media_type: str
    data: str
    uri: str = ""


class LinkedResource(Struct, frozen=True):
    """A resource that the server only points to."""

    uri: str
    name: str = ""
    description: str = ""


Part = Text | Image | Blob | LinkedResource


class ServerAnswer(Struct, frozen=True):
    parts: tuple[Part, ...]
    data: Any = None  # structured content
    is_error: bool = False


class ServerResource(Struct, frozen=True):
    uri: str
    name: str = ""
    description: str = ""
    media_type: str = ""


class PromptArgument(Struct, frozen=True):
    name: str
    description: str = ""
    required: bool = False


class ServerPrompt(Struct, frozen=True):
    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


class Elicited(Struct, frozen=True):
    """What a person said to a server's question."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None


class ServerFault(TeamwrightError):
    """A server cannot be reached, is gone, or refused a request.

    `lost`: the connection is of no more use, and whether the request had an effect is not known.
    """

    def __init__(self, message: str, kind: Loss = "failed") -> None:
        super().__init__(message)
        self.kind: Loss = kind
