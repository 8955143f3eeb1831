"""`teamwright attach URL`: an agent that runs in an engine's space, from any machine with access to that."""

import os
import sys
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from msgspec.structs import replace

from teamwright.core.data import api_json
from teamwright.core.data.event import AgentEnded, Event, LettersTaken, Replied, Streamed, ToolEnded
from teamwright.core.data.letter import PERSON, Letter, Prompt
from teamwright.core.data.message import Text, TextDelta
from teamwright.core.errors import UsageError
from teamwright.core.ids import AgentId, new_letter_id
from teamwright.store.engine.wire.address import Address, read_agent_url
from teamwright.surfaces.attach.lines import ToldLine, describe
from teamwright.surfaces.plain import wants_colours
from teamwright.surfaces.stdin import read_lines
from teamwright.tools.bounds import visible

if TYPE_CHECKING:
    from teamwright.store.engine.space import Space

AGAIN = 400  # lines shown to a newcomer
HELP = "Type a message to the agent; /stop ends it, /quit leaves it alone."
_PATIENCE = 60.0  # seconds
_delta = msgspec.json.Decoder(Streamed)


class _Words(msgspec.Struct):
    """The fields of a line that are used."""

    content: str | list[dict[str, Any]] = ""


class _ControlRequest(msgspec.Struct):
    subtype: str = ""


class _Typed(msgspec.Struct):
    type: str = ""
    message: _Words | None = None
    request: _ControlRequest | None = None
    request_id: str = ""


def is_url(named: str | None) -> bool:
    return named is not None and named.startswith(("nats://", "tls://"))


def find_agent(url: str, named: str | None) -> tuple[Address, AgentId]:
    """The agent's address: with the person's user and password if they name the same engine, else only with their
    authority."""
    from teamwright.app.engine import address_of  # noqa: PLC0415
    from teamwright.app.options import Options  # noqa: PLC0415
    from teamwright.app.workspace import open_workspace  # noqa: PLC0415

    address, agent = read_agent_url(url)
    options = Options(cwd=Path.cwd(), env=dict(os.environ), engine=named)
    try:
        own = address_of(options, open_workspace(options))
    except UsageError:
        if named:
            raise
        return address, agent
    if own.space == address.space and {*own.hosts} & {*address.hosts} and not address.user:
        return own, agent
    return replace(address, authority=own.authority), agent


async def attach_agent(address: Address, agent: AgentId, as_json: bool) -> int:  # noqa: FBT001
    """Show its last lines, then all that it does, until it ends or there is nothing more to type."""
    from teamwright.store.engine.space import Joining, open_space  # noqa: PLC0415
    from teamwright.store.files.paths import home_from  # noqa: PLC0415

    space = await open_space(address, home_from(os.environ).root, Joining(patience=_PATIENCE))
    try:
        return await _Visit(space, agent, as_json=as_json).stay()
    finally:
        await space.close()


class _Visit:
    def __init__(self, space: "Space", agent: AgentId, *, as_json: bool) -> None:
        self._space, self._agent, self._as_json = space, agent, as_json
        self._told = ToldLine(colours=wants_colours(sys.stdout, dict(os.environ)))
        self._shown = anyio.Event()  # its past is on the screen
        self._said, self._ended = "", False  # the part of its current words that is on the screen

    async def stay(self) -> int:
        from teamwright.store.tables.remotes import RemoteTable  # noqa: PLC0415

        if await RemoteTable(self._space.database).find(self._agent) is None:
            raise UsageError(f"there is no agent {visible(self._agent)} in the space at {self._space.address}")
        async with anyio.create_task_group() as group:

            async def show() -> None:
                await self._show()
                group.cancel_scope.cancel()

            group.start_soon(self._listen)
            group.start_soon(show)
            if not self._as_json and sys.stdin.isatty():
                sys.stderr.write(f"attached to {visible(self._agent)}. {HELP}\n")
            await self._type()
            await self._shown.wait()
            group.cancel_scope.cancel()
        return 0

    # --- output

    async def _show(self) -> None:
        """Returns when the agent has ended."""
        from teamwright.store.engine.wire.lines import Place  # noqa: PLC0415

        past, place = deque[bytes](maxlen=AGAIN), Place()

        async def collect(data: bytes, now: Place) -> None:
            nonlocal place
            past.extend(data.splitlines())
            place = now

        await self._space.lines.catch_up(self._agent, place, collect)
        self._print(past)
        self._shown.set()
        async with anyio.create_task_group() as group:

            async def take(data: bytes, now: Place) -> None:
                del now
                self._print(data.splitlines())
                if self._ended:
                    group.cancel_scope.cancel()

            if not self._ended:
                await self._space.lines.follow(self._agent, place, take)

    def _print(self, rows: "deque[bytes] | list[bytes]") -> None:
        from teamwright.store.files.transcripts import decode_line  # noqa: PLC0415

        for row in rows:
            self._show_event(decode_line(Path(self._agent), 0, row).event)
        sys.stdout.flush()

    def _show_event(self, event: Event) -> None:
        match event:
            case Replied() if event.message.blocks:
                self._line({"type": "assistant", "message": self._unsaid(event)})
            case ToolEnded():
                self._line({"type": "user", "message": api_json.user_of(event)})
            case LettersTaken():
                blocks = [api_json.block_of(block) for block in event.message.blocks]
                text = "\n".join(block["text"] for block in blocks if block.get("type") == "text")
                self._line({"type": "user", "message": {"role": "user", "content": text}, "isReplay": True})
            case AgentEnded():
                self._ended = True
                words = f"the agent has ended: {event.status}{f', {event.error}' if event.error else ''}"
                self._line({"type": "system", "subtype": "warning", "text": words})
            case _:
                return

    def _unsaid(self, event: Replied) -> dict[str, Any]:
        """The reply; for a person without the words that are already on the screen."""
        message = api_json.message_of(event.message, event.id, event.stop, event.usage)
        if self._said and not self._as_json:
            sys.stdout.write("\n")
            message["content"] = [block for block in message["content"] if block.get("type") != "text"]
        self._said = ""
        return message

    async def _listen(self) -> None:
        """Show its words as they come."""
        async for data in self._space.live.listen(self._agent):
            try:
                delta = _delta.decode(data).delta
            except msgspec.DecodeError:
                continue
            if not isinstance(delta, TextDelta):
                continue
            if self._as_json:
                part = {"type": "text_delta", "text": delta.text}
                event = {"type": "content_block_delta", "index": delta.index, "delta": part}
                self._line({"type": "stream_event", "event": event})
            else:
                self._said += delta.text
                sys.stdout.write(visible(delta.text))
            sys.stdout.flush()

    def _line(self, line: dict[str, Any]) -> None:
        raw = msgspec.json.encode(line | {"agent_id": self._agent})
        if self._as_json:
            sys.stdout.write(raw.decode() + "\n")
            return
        for shown in describe(msgspec.json.encode(line), self._told):
            sys.stdout.write(shown + "\n")

    # --- input

    async def _type(self) -> None:
        async for line in read_lines():
            text = line.decode(errors="replace").rstrip("\r")
            if self._as_json:
                await self._take(line)
            elif text.strip() in ("/quit", "/detach"):
                return
            elif text.strip() == "/stop":
                await self._stop()
            elif text.strip():
                await self._say(text)

    async def _take(self, raw: bytes) -> None:
        try:
            line = msgspec.json.decode(raw, type=_Typed)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return self._refuse("", f"a line that is not understood was left out: {error}")
        if line.type == "user" and line.message is not None:
            said = line.message.content
            parts = [said] if isinstance(said, str) else [str(block.get("text", "")) for block in said]
            return await self._say("\n".join(part for part in parts if part))
        if line.request is not None and line.request.subtype == "stop_task":
            return await self._stop()
        return self._refuse(line.request_id, "only messages and stop_task can be sent to an agent in an engine")

    async def _say(self, text: str) -> None:
        from teamwright.store.tables.state import StateStore  # noqa: PLC0415

        letter = Letter(new_letter_id(), self._agent, PERSON, Prompt((Text(text),)))
        await StateStore(self._space.database).post(letter)

    async def _stop(self) -> None:
        from teamwright.store.tables.remotes import RemoteTable  # noqa: PLC0415

        await RemoteTable(self._space.database).stop(self._agent, "by the person")

    def _refuse(self, id: str, words: str) -> None:
        response = {"subtype": "error", "request_id": id, "error": words}
        self._line({"type": "control_response", "response": response})
        sys.stdout.flush()
