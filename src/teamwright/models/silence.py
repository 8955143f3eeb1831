"""Time limit for a server that sends nothing."""

import asyncio

import anyio

PINGED = 10  # pings and comments keep an answer alive for this many times the limit
EARLY = 0.01  # fraction of the limit by which silence may be detected too early


class ServerSilence:
    """Measures the time since the server last said something. Blank lines do not count; pings and comments do
    for a while, in which a model may think. Without an end to that, a server that hangs would hold us for ever.

    It starts with the body: connecting has its own limit. A server that stops reading counts as silent too.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds, self.scope, self._last = seconds, anyio.CancelScope(), 0.0
        self._now = asyncio.get_running_loop().time  # the clock that scopes use; asking anyio each time costs more

    def broken(self) -> None:
        self._last = self._now()
        self._wait_until(self._last + self.seconds)

    def pinged(self) -> None:
        """Notes an event that only shows that the server is alive, as some send while a model thinks."""
        self._wait_until(min(self._now() + self.seconds, self._last + PINGED * self.seconds))

    def _wait_until(self, moment: float) -> None:
        """Moves the deadline only if it changes much: chunks come by the hundred a second, and setting a timer costs
        more than reading one."""
        if abs(moment - self.scope.deadline) > self.seconds * EARLY:
            self.scope.deadline = moment
