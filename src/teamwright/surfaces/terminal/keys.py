"""Every key of the app, for the bindings and for the page that lists them."""

from typing import Literal, cast

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.binding import Binding
from textual.keys import Keys

Place = Literal["typing", "conversation", "agents", "everywhere"]

KEYS: tuple[tuple[Place, str, str], ...] = (
    ("typing", "Enter", "send; while the agent works it is queued, and read at its next step"),
    ("typing", "Shift+Enter, Alt+Enter, Ctrl+J, \\ Enter", "a new line"),
    ("typing", "Up, Down", "earlier prompts; Up in an empty input takes a queued prompt back"),
    ("typing", "Tab", "complete; in an empty input: into the conversation"),
    ("typing", "/ @ !", "a command, a file, a line for the shell"),
    ("typing", "Esc", "end the running turn; twice: take the last prompt back to edit it"),
    ("typing", "Enter (empty)", "open the questions that wait for you"),
    ("conversation", "PgUp, PgDn, mouse wheel", "scroll; Ctrl+End goes back to the end"),
    ("conversation", "Tab, then Up, Down, Enter", "choose a step and open it; Esc goes back to typing"),
    ("conversation", "Ctrl+O", "open or close all steps"),
    ("conversation", "drag with the mouse, Ctrl+C", "copy"),
    ("agents", "Shift+Up, Shift+Down", "the conversation of another agent; what you type goes to it"),
    ("agents", "F2", "agents, tasks and mail, one after the other"),
    ("agents", "Ctrl+B", "send the agents that are waited for to the background"),
    ("everywhere", "Shift+Tab", "the next permission mode"),
    ("everywhere", "Ctrl+C", "put away what is typed; twice: leave"),
    ("everywhere", "Ctrl+D (empty)", "leave"),
)

BINDINGS = (
    Binding("ctrl+c", "interrupt_or_leave", "Leave", show=False, priority=True),
    Binding("ctrl+q", "nothing", show=False, priority=True),
    Binding("ctrl+o", "details", "Details", show=False),
    Binding("ctrl+b", "background", "To background", show=False, priority=True),
    Binding("f2", "side", "Agents", show=False),
    Binding("shift+tab", "next_mode", "Mode", show=False, priority=True),
)


def teach_alt_enter() -> None:
    """Terminals send Esc and Return, which Textual does not know: it becomes a key that means the same here."""
    known = cast("dict[str, tuple[Keys, ...]]", ANSI_SEQUENCES_KEYS)
    known.setdefault("\x1b\r", (Keys.ControlJ,))


def describe() -> str:
    widest = max(len(key) for _, key, _ in KEYS)
    lines: list[str] = []
    for place in ("typing", "conversation", "agents", "everywhere"):
        lines.append(f"{place}")
        lines += [f"  {key.ljust(widest)}  {words}" for where, key, words in KEYS if where == place]
    return "\n".join(lines)
