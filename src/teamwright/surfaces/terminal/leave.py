"""Ways to leave the app."""

from msgspec import Struct

from teamwright.runtime.agents.resume import Origin


class Leave(Struct, frozen=True):
    """For good, or for another session."""

    origin: Origin | None = None
    ended: bool = False  # the session itself has gone
