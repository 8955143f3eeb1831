"""Control protocol over pipes: a driving program's requests, and our permission questions to it."""

import re
from collections.abc import Awaitable, Mapping
from typing import Any, Literal, TypeVar, cast

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.app import Options
from teamwright.core.data.message import Image, Text
from teamwright.core.data.op import (
    Answer,
    Interrupt,
    Op,
    Say,
    SendToBackground,
    SetMode,
    SetModel,
    SetServer,
    StopAll,
    StopJob,
)
from teamwright.core.errors import TeamwrightError, UsageError
from teamwright.core.ids import AgentId, JobId, QuestionId
from teamwright.core.permissions.consent import Allow, Decision, Deny, Mode
from teamwright.runtime.driven_session import DrivenSession
from teamwright.surfaces.headless.context import context_usage
from teamwright.surfaces.headless.greeting import greeting_of, servers_of
from teamwright.surfaces.headless.permission_update import PermissionUpdate, ops_of, write_down

# --- lines that we read


class TextBlock(Struct, tag="text"):
    text: str


class ControlSource(Struct):
    media_type: str
    data: str
    type: Literal["base64"] = "base64"


class ImageBlock(Struct, tag="image"):
    source: ControlSource


class SaidLine(Struct):
    content: str | list[TextBlock | ImageBlock]


class Meta(Struct):
    traceparent: str = ""  # W3C trace context: the turn becomes part of that trace


class UserLine(Struct, tag="user"):
    message: SaidLine
    client_composed: bool = False  # contains no commands
    agent_id: str | None = None  # the agent that it is for, by id or name; None: the main agent
    meta: Meta = field(default_factory=Meta, name="_meta")


class ControlRequest(Struct, tag="control_request"):
    """What can be named is answered, however broken the rest is: the other side waits for it."""

    request_id: str
    body: Any = field(default=None, name="request")

    @property
    def request(self) -> dict[str, Any]:
        return cast("dict[str, Any]", self.body) if isinstance(self.body, dict) else {}


class Response(Struct):
    request_id: str
    subtype: Any = None
    response: Any = None
    error: Any = "unknown"


class ControlResponse(Struct, tag="control_response"):
    response: Response


class ControlCancel(Struct, tag="control_cancel_request"):
    """Cancels a request, which was already answered: all are, at once."""


InputLine = UserLine | ControlRequest | ControlResponse | ControlCancel
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_lines = msgspec.json.Decoder(InputLine)
_KIND = re.compile(rb'"type"\s*:\s*"control_(request|response)"')
_ID = re.compile(rb'"request_id"\s*:\s*"([\w.:-]{1,100})"')


def read_line(line: bytes) -> InputLine:
    return _lines.decode(line)


def named_in(line: bytes) -> tuple[str, str]:
    """("request" or "response", id) of a line that cannot be read, as far as it can be told: somebody waits for it."""
    kind, id = _KIND.search(line), _ID.search(line)
    return (kind[1].decode(), id[1].decode()) if kind and id else ("", "")


class PermissionResult(Struct):
    behavior: Literal["allow", "deny"]
    updatedInput: dict[str, Any] | None = None
    updatedPermissions: list[PermissionUpdate] | None = None
    message: str = ""
    interrupt: bool = False


class HookEntry(Struct):
    hookCallbackIds: list[str] = []
    matcher: str | None = None
    timeout: float | None = None  # seconds
    onFailure: str | None = None


class Initialize(Struct):
    hooks: dict[str, list[HookEntry]] | None = None
    agents: dict[str, dict[str, Any]] | None = None
    skills: list[str] | str | None = None


class ServerNamed(Struct):
    serverName: str
    enabled: bool = True


class SetPermissionMode(Struct):
    mode: Mode


class TaskNamed(Struct):
    task_id: JobId | None = None


class AgentNamed(Struct):
    agent_id: AgentId | None = None


class ChooseModel(Struct):
    model: str | None = None


Body = TypeVar("Body", bound=Struct)


def _read(kind: type[Body], value: Mapping[str, Any]) -> Body:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"not understood: {error}") from None


def read_initialize(request: Mapping[str, Any]) -> Initialize:
    return _read(Initialize, request)


def prompt_of(line: UserLine) -> Say:
    """The user line as a prompt: text, or text and images."""
    said = line.message.content
    parts = [TextBlock(said)] if isinstance(said, str) else said
    blocks = tuple(
        Text(p.text) if isinstance(p, TextBlock) else Image(p.source.media_type, p.source.data) for p in parts
    )
    if not any(isinstance(b, Image) or b.text.strip() for b in blocks):
        raise UsageError("a user line without any content was left out")
    content = tuple(b for b in blocks if isinstance(b, Image) or b.text.strip())
    return Say(content, trace=line.meta.traceparent)


def prompt_for(session: DrivenSession, line: UserLine) -> Say:
    """The prompt, addressed to the agent that the line names."""
    say = prompt_of(line)
    return say if line.agent_id is None else replace(say, agent=session.find_agent(line.agent_id))


# --- answers to questions that we asked


async def take_answer(session: DrivenSession, response: Response, options: Options | None = None) -> None:
    """An unreadable answer denies, so that no question is left hanging. Without `options` it is a guest's answer.

    With `options`, rules that the answer wants to save are written into the settings.
    """
    decision, updates = _decision_of(response)
    refused: list[str] = []
    for update in updates:
        try:
            for op in ops_of(update):
                await session.submit(op)
            if options is not None:
                await write_down(update, options)
        except TeamwrightError as error:  # the answer itself still counts
            refused.append(str(error))
    question = QuestionId(response.request_id)
    answer = Answer(question, decision, "door") if options is None else Answer(question, decision, "stdio", "code")
    await session.submit(answer)
    if refused:
        raise UsageError("; ".join(refused))


def _decision_of(response: Response) -> tuple[Decision, list[PermissionUpdate]]:
    if response.subtype != "success":
        return Deny(f"Refused: the driving program answered with an error ({response.error})."), []
    try:
        answer = _read(PermissionResult, response.response or {})
    except UsageError as error:
        return Deny(f"Refused: the driving program's answer was {error}"), []
    if answer.behavior == "deny":
        return Deny(answer.message or "Refused by the person.", answer.interrupt, answer.message), []
    return Allow(answer.updatedInput), answer.updatedPermissions or []


# --- requests to us


async def answer_request(session: DrivenSession, line: ControlRequest) -> dict[str, Any]:
    """The whole control_response line."""
    return await respond(line, _carry_out(session, line.request))


async def respond(line: ControlRequest, answer: Awaitable[dict[str, Any] | None]) -> dict[str, Any]:
    try:
        body = await answer
    except TeamwrightError as error:
        return refusal(line.request_id, str(error))
    response: dict[str, Any] = {"subtype": "success", "request_id": line.request_id}
    if body is not None:
        response["response"] = body
    return {"type": "control_response", "response": response}


def refusal(request_id: str, why: str) -> dict[str, Any]:
    return {"type": "control_response", "response": {"subtype": "error", "request_id": request_id, "error": why}}


async def _carry_out(session: DrivenSession, request: Mapping[str, Any]) -> dict[str, Any] | None:
    match request.get("subtype"):
        case "initialize":
            return greeting_of(session)
        case "set_permission_mode":
            await session.submit(SetMode(_read(SetPermissionMode, request).mode))
            return {"mode": session.snapshot().mode}
        case "get_context_usage":
            return await context_usage(session)
        case "mcp_status":
            return {"mcpServers": servers_of(session)}
        case "mcp_reconnect":
            await session.submit(SetServer(_read(ServerNamed, request).serverName, "again"))
        case "mcp_toggle":
            named = _read(ServerNamed, request)
            await session.submit(SetServer(named.serverName, "on" if named.enabled else "off"))
        case _:
            await session.submit(_op_of(request))
    return None


def _op_of(request: Mapping[str, Any]) -> Op:
    match request.get("subtype"):
        case "interrupt":
            return Interrupt(_read(AgentNamed, request).agent_id)
        case "stop_all":
            return StopAll()
        case "set_model":
            model = _read(ChooseModel, request).model
            return SetModel(None if model in (None, "default") else model)
        case "stop_task":
            return StopJob(_read(TaskNamed, request).task_id or JobId(""))
        case "background":
            return SendToBackground(_read(TaskNamed, request).task_id)
        case unknown:
            raise UsageError(f"unknown control request {unknown!r}")
