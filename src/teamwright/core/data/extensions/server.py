"""MCP servers as data: their transport, what they offer and what they answer."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from teamwright.core.data.message import Image, Text
from teamwright.core.errors import TeamwrightError

ELICITATION = "Elicitation"  # in place of a tool name: a server asks the person something
NEW_TOOLS = "NewTools"  # in place of a tool name: a server changed its tools
ServerStatus = Literal["pending", "connected", "failed", "needs-auth", "disabled"]
Loss = Literal["failed", "lost", "needs-auth", "refused"]


class Stdio(Struct, frozen=True, tag="stdio"):
    """A program that we start and talk to over its stdin and stdout."""

    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}


class Http(Struct, frozen=True, tag="http"):
    """A server that is already running (streamable HTTP)."""

    url: str
    headers: dict[str, str] = {}


class Sse(Struct, frozen=True, tag="sse"):
    """A running server over the older HTTP+SSE transport, which uses two connections."""

    url: str
    headers: dict[str, str] = {}


class Sdk(Struct, frozen=True, tag="sdk"):
    """A server inside the program that drives us; messages go through that program's pipes."""


Reach = Stdio | Http | Sse | Sdk


class ServerConfig(Struct, frozen=True):
    """A server as configured. `fault` says why it cannot be used as it stands."""

    name: str
    reach: Reach
    source: str = "code"  # user, project, local, flag, managed, agent, code
    file: str = ""
    call_seconds: float | None = None
    fault: str = ""


class ServerTool(Struct, frozen=True):
    """A tool as its server describes it. Approval is bound to equality: a tool that differs needs a new one."""

    name: str
    description: str
    schema: Mapping[str, Any]
    read_only: bool = False


class ServerState(Struct, frozen=True):
    name: str
    status: ServerStatus
    error: str = ""
    tools: tuple[str, ...] = ()  # by the names the model uses
    waiting: tuple[str, ...] = ()  # off, because they are new or changed since they were approved


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
    """A person's answer to a server's question."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None


class ServerFault(TeamwrightError):
    """A server cannot be reached, is gone, or refused a request.

    `lost`: the connection is unusable, and nobody knows whether the request had an effect.
    """

    def __init__(self, message: str, kind: Loss = "failed") -> None:
        super().__init__(message)
        self.kind: Loss = kind
