"""Words of an agent as they come, for its watchers: plain messages, which may be lost and are never stored."""

import contextlib
from collections.abc import AsyncGenerator

import nats.errors

from teamwright.core.ids import AgentId
from teamwright.store.engine.wire.connection import AWAY, Connection

_LISTEN = 1.0  # seconds


class LiveWords:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def tell(self, agent: AgentId, data: bytes) -> None:
        """Publish without waiting: while the engine is away the words are lost."""
        with contextlib.suppress(*AWAY):
            await self._connection.client.publish(self._subject(agent), data)

    async def listen(self, agent: AgentId) -> AsyncGenerator[bytes]:
        """Give words until it is closed."""
        heard = await self._connection.subscribe(self._subject(agent))
        try:
            while True:
                with contextlib.suppress(nats.errors.TimeoutError):
                    yield (await heard.next_msg(timeout=_LISTEN)).data
        finally:
            await self._connection.unsubscribe(heard)

    def _subject(self, agent: AgentId) -> str:
        return f"tw.{self._connection.address.space}.live.{agent}"
