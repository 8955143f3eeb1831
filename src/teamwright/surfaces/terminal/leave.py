"""Ways to leave the app."""

from msgspec import Struct

from teamwright.core.text import plural
from teamwright.runtime.agents.resume import Origin
from teamwright.surfaces.view.view import SessionFold


class Leave(Struct, frozen=True):
    """Leave for good, or for another session."""

    origin: Origin | None = None
    ended: bool = False  # the session itself has ended


def warning(view: SessionFold, *, elsewhere: bool) -> str:
    """What a second Ctrl+C does. `elsewhere`: the session runs in another process, and continues there."""
    if elsewhere:
        return "Ctrl+C again quits; the session keeps running"
    running = [agent for agent in view.agents.values() if agent.state == "running" and agent.id != view.main]
    return f"Ctrl+C again stops {plural(len(running), 'agent')} and quits" if running else "Ctrl+C again quits"
