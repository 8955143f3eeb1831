"""Wraps one open connection to a server, hiding the protocol package.

Imported only when a server is configured: the package costs about a second.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.client.extension import NotificationBinding
from mcp.client.session import ClientRequestContext, ClientSession, ElicitationFnT, IncomingMessage
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, TypeAdapter

from teamwright import __version__
from teamwright.core.data.extensions.server import (
    Blob,
    Elicited,
    LinkedResource,
    Part,
    PromptArgument,
    ServerAnswer,
    ServerFault,
    ServerPrompt,
    ServerResource,
    ServerTool,
)
from teamwright.core.data.message import Image, Text
from teamwright.core.text import shown
from teamwright.host.mcp.callbacks import Ears

MOST_PAGES = 50
MOST_TOOLS = 500
CHANNEL = "claude/channel"  # the experimental capability of servers that push
_PUSHED = f"notifications/{CHANNEL}"
_MODERN = (types.METHOD_NOT_FOUND, types.UNSUPPORTED_PROTOCOL_VERSION)
_CALLED = TypeAdapter[types.CallToolResult | types.InputRequiredResult](
    types.CallToolResult | types.InputRequiredResult
)
_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


class _Pushed(BaseModel):
    content: str = ""
    meta: dict[str, Any] = {}


class McpSession:
    """Requests raise ServerFault; callers limit their time by cancelling."""

    def __init__(self, session: ClientSession, lost: anyio.Event) -> None:
        self._session = session
        self.lost = lost

    @property
    def instructions(self) -> str:
        return self._session.instructions or ""

    def _can(self, name: str) -> bool:
        return getattr(self._session.server_capabilities, name, None) is not None

    async def tools(self) -> list[ServerTool]:
        pages = await self._pages(self._session.list_tools) if self._can("tools") else []
        return [_tool(tool) for page in pages for tool in page.tools][:MOST_TOOLS]

    async def resources(self) -> list[ServerResource]:
        pages = await self._pages(self._session.list_resources) if self._can("resources") else []
        found = [resource for page in pages for resource in page.resources]
        return [
            ServerResource(r.uri, r.title or r.name, r.description or "", r.mime_type or "") for r in found[:MOST_TOOLS]
        ]

    async def prompts(self) -> list[ServerPrompt]:
        pages = await self._pages(self._session.list_prompts) if self._can("prompts") else []
        return [_prompt(prompt) for page in pages for prompt in page.prompts][:MOST_TOOLS]

    async def _pages(self, ask: Callable[..., Any]) -> list[Any]:
        """All pages of a list, up to a limit: a server could send pages without end."""
        pages: list[Any] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            with self._faults():
                params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
                pages.append(await ask(params=params))
            cursor = pages[-1].next_cursor
            if not cursor:
                break
        return pages

    async def call(self, name: str, args: Mapping[str, Any]) -> ServerAnswer:
        request = types.CallToolRequest(params=types.CallToolRequestParams(name=name, arguments=dict(args)))
        with self._faults():
            found = await self._session.send_request(request, _CALLED)
        if isinstance(found, types.InputRequiredResult):
            raise ServerFault("it asks for further input in a way that is not supported", "refused")
        return ServerAnswer(tuple(_part(block) for block in found.content), found.structured_content, found.is_error)

    async def read(self, uri: str) -> ServerAnswer:
        with self._faults():
            found = await self._session.read_resource(uri)
        return ServerAnswer(tuple(_contents(item) for item in found.contents))

    async def prompt(self, name: str, args: Mapping[str, str]) -> ServerAnswer:
        with self._faults():
            found = await self._session.get_prompt(name, dict(args))
        return ServerAnswer(tuple(_part(message.content) for message in found.messages))

    def _faults(self) -> "_Faults":
        return _Faults(self.lost)


class _Faults:
    """Converts the package's errors to ours; one that means the connection is unusable sets `lost`."""

    def __init__(self, lost: anyio.Event) -> None:
        self._lost = lost

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, MCPError):
            if error.code == types.CONNECTION_CLOSED or error.message == "Session terminated":
                self._lost.set()
                raise ServerFault("the connection ended", "lost") from None
            raise ServerFault(shown(error.message, 2000), "refused") from None
        if isinstance(error, ValueError | RuntimeError):  # a result that violates the protocol
            raise ServerFault(f"its answer does not fit the protocol: {shown(str(error), 500)}", "refused") from None


def _tool(tool: types.Tool) -> ServerTool:
    read_only = tool.annotations is not None and tool.annotations.read_only_hint is True
    return ServerTool(tool.name, tool.description or tool.title or "", tool.input_schema, read_only)


def _prompt(prompt: types.Prompt) -> ServerPrompt:
    arguments = tuple(
        PromptArgument(a.name, a.description or "", required=bool(a.required)) for a in prompt.arguments or ()
    )
    return ServerPrompt(prompt.name, prompt.description or prompt.title or "", arguments)


def _part(block: types.ContentBlock) -> Part:
    match block:
        case types.TextContent():
            return Text(block.text)
        case types.ImageContent():
            return _picture(block.mime_type, block.data, "")
        case types.AudioContent():
            return Blob(block.mime_type, block.data)
        case types.ResourceLink():
            return LinkedResource(block.uri, block.title or block.name, block.description or "")
        case types.EmbeddedResource():
            return _contents(block.resource)


def _contents(item: types.TextResourceContents | types.BlobResourceContents) -> Part:
    if isinstance(item, types.TextResourceContents):
        return Text(item.text)
    return _picture(item.mime_type or "application/octet-stream", item.blob, item.uri)


def _picture(media_type: str, data: str, uri: str) -> Part:
    return Image(media_type, data) if media_type in _PICTURES else Blob(media_type, data, uri)


@asynccontextmanager
async def open_link(read: Any, write: Any, lost: anyio.Event, ears: Ears, cwd: Path) -> AsyncGenerator[McpSession]:
    """Opens the session. Tries the older handshake first, because every existing server knows it."""

    async def hear(message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            ears.changed("tools")
        elif isinstance(message, types.PromptListChangedNotification):
            ears.changed("prompts")
        elif isinstance(message, types.ResourceListChangedNotification):
            ears.changed("resources")

    async def log(params: types.LoggingMessageNotificationParams) -> None:
        ears.log(f"{params.level}: {shown(str(params.data), 500)}")

    async def push(params: _Pushed) -> None:
        declared = session.server_capabilities
        if declared is not None and CHANNEL in (declared.experimental or {}):
            ears.push(params.content, params.meta)
        else:
            ears.log(f"what it pushed was dropped: it does not declare the experimental capability {CHANNEL}")

    async def roots(context: ClientRequestContext) -> types.ListRootsResult:
        return types.ListRootsResult.model_validate({"roots": [{"uri": cwd.as_uri(), "name": cwd.name}]})

    session = ClientSession(
        read,
        write,
        message_handler=hear,
        logging_callback=log,
        list_roots_callback=roots,
        elicitation_callback=_elicitation(ears),
        client_info=types.Implementation(name="teamwright", version=__version__),
        notification_bindings=[NotificationBinding(method=_PUSHED, params_type=_Pushed, handler=push)],
    )
    async with session:
        connection = McpSession(session, lost)
        await _greet(session)
        yield connection


async def _greet(session: ClientSession) -> None:
    try:
        try:
            await session.initialize()
        except MCPError as error:
            if error.code == types.CONNECTION_CLOSED:
                raise ServerFault("the connection ended before it answered", "lost") from None
            if error.code not in _MODERN:
                raise
            await session.discover()
    except (ValueError, RuntimeError) as error:
        raise ServerFault(f"its greeting does not fit the protocol: {shown(str(error), 500)}") from None


def _elicitation(ears: Ears) -> ElicitationFnT | None:
    if ears.elicit is None:
        return None
    ask = ears.elicit

    async def answer(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        if isinstance(params, types.ElicitRequestURLParams):
            return types.ElicitResult(action="decline")
        found: Elicited = await ask(params.message, params.requested_schema)
        return types.ElicitResult(action=found.action, content=found.content)

    return answer
