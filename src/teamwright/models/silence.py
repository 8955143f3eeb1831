"""The limit for a server that says nothing."""

import asyncio

import anyio

PINGED = 10  # times the limit for silence: how long events that say nothing keep an answer alive
EARLY = 0.01  # of the limit for silence: how much too early it may be found


class ServerSilence:
    """Counts from the last thing that a server said. Comments and blank lines say nothing; pings are heard for a while.

    It begins with the body: connecting has a limit of its own, and a server that stops reading is silent too.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds, self.scope, self._last = seconds, anyio.CancelScope(), 0.0
        self._now = asyncio.get_running_loop().time  # what scopes go by; to ask anyio each time costs more

    def broken(self) -> None:
        self._last = self._now()
        self._wait_until(self._last + self.seconds)

    def pinged(self) -> None:
        """An event that says only that the server is alive, as some do while a model thinks."""
        self._wait_until(min(self._now() + self.seconds, self._last + PINGED * self.seconds))

    def _wait_until(self, moment: float) -> None:
        """To set a timer costs more than to read a chunk, and chunks come by the hundred a second."""
        if abs(moment - self.scope.deadline) > self.seconds * EARLY:
            self.scope.deadline = moment
