"""`/status` and `/context`: how the session is set up, and what fills its window."""

from collections.abc import Sequence

from anyio import to_thread

from teamwright import __version__
from teamwright.core.data.extensions.server import ServerState
from teamwright.core.text import plural
from teamwright.runtime.port import ContextUse, SessionFacts, SessionStatus
from teamwright.store.files.paths import SessionFiles, find_transcript, home_from, read_name
from teamwright.surfaces.terminal.slash.command import CommandContext
from teamwright.surfaces.terminal.widgets.status import MODES
from teamwright.surfaces.view.text import one_line, rounded, safe, spent, tokens

BAR, BESIDE = 40, 28  # cells for a full window, and for the words beside the bar
# command that helps, to be followed by the server's name
NOTES = {"needs-auth": "teamwright mcp login", "failed": "teamwright mcp test"}


async def status(stage: CommandContext, words: str) -> str:
    session, now = stage.session, await stage.session.status()
    rows = {
        "version": __version__,
        "session": f"{session.id}{' (in another process)' if session.elsewhere else ''}",
        "name": one_line(await to_thread.run_sync(_name, stage), 100) or "none; /rename gives it one",
        **_setup(session.facts, now),
        "context": _share(now.context),
        "cost": _cost(session.facts),
    }
    lines = [f"  {name:10} {told}" for name, told in rows.items()]
    listed = server_lines(now.servers)
    return "\n".join([*lines, f"  {'servers':10} {'' if listed else 'none'}".rstrip(), *(f"  {x}" for x in listed)])


def _cost(facts: SessionFacts) -> str:
    return f"{spent(facts.usd, unpriced=facts.unpriced)}{f', {facts.left} left' if facts.left else ''}"


def _name(stage: CommandContext) -> str:
    transcript = find_transcript(home_from(stage.options.env), stage.session.id)
    return read_name(SessionFiles(transcript)) if transcript else ""


def _setup(facts: SessionFacts, now: SessionStatus) -> dict[str, str]:
    effort = "" if now.effort is None else f", effort {now.effort}"
    held = {"": "off", "none": "on, but nothing here can hold it: every command needs approval"}
    return {
        "directory": safe(facts.cwd),
        "model": f"{one_line(facts.model, 100)}{effort}",
        "mode": f"{facts.mode} ({MODES[facts.mode]})",
        "key": f"from {now.key}" if now.key else "none is used",
        "sandbox": held.get(facts.sandbox, f"on ({facts.sandbox})"),
    }


def server_lines(states: Sequence[ServerState]) -> list[str]:
    """Each server with its state, its number of tools, and why it is not connected."""
    widest = max((len(one_line(state.name, 40)) for state in states), default=0)
    return [
        f"  {one_line(state.name, 40).ljust(widest)}  {state.status:10}  {about_server(state)}".rstrip()
        for state in states
    ]


def about_server(state: ServerState) -> str:
    if state.status == "connected":
        off = f", {plural(len(state.waiting), 'changed tool')} off until you agree" if state.waiting else ""
        return f"{plural(len(state.tools), 'tool')}{off}"
    why = one_line(state.error, 300)
    help = f"`{NOTES[state.status]} {one_line(state.name, 40)}`" if state.status in NOTES else ""
    return "; ".join(part for part in (why, help) if part)


async def context(stage: CommandContext, words: str) -> str:
    used = (await stage.session.status()).context
    parts = {"system": used.system, "tools": sum(used.tools.values()), "messages": used.messages}
    whole = used.window or sum(parts.values())
    room = stage.prompt.size
    cells = max(10, min(BAR, room.width - BESIDE))
    if used.window:
        parts["free"] = max(0, used.window - sum(parts.values()))
    lines = [
        f"  {name:9} {_bar(count, whole, cells)} {_percent(count, whole):>5}  {tokens(count)}"
        for name, count in parts.items()
    ]
    head = f"{one_line(used.model, 100)}: {_share(used)}. Parts are estimated by their length."
    return "\n".join([head, "", *lines, "", "/compact replaces the conversation by a summary."])


def _share(used: ContextUse) -> str:
    count = used.system + sum(used.tools.values()) + used.messages
    if not used.window:
        return f"{tokens(count)} tokens; how many fit is not known"
    return f"{_percent(count, used.window)} of {rounded(used.window)} tokens"


def _bar(count: int, whole: int, room: int) -> str:
    """At least one cell for anything above zero."""
    cells = min(room, max(1 if count else 0, round(room * count / max(1, whole))))
    return f"{'█' * cells}{'·' * (room - cells)}"


def _percent(count: int, whole: int) -> str:
    share = 100 * count / max(1, whole)
    return "<1 %" if 0 < share < 1 else f"{share:.0f} %"
