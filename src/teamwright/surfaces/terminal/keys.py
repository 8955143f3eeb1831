"""Every key of the app, for the bindings and for the page that lists them."""

from typing import Literal, cast

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.binding import Binding
from textual.keys import Keys

Place = Literal["typing", "conversation", "agents", "everywhere"]

KEYS: tuple[tuple[Place, str, str], ...] = (
    ("typing", "Enter", "send; while the agent works, queue it for the next step"),
    ("typing", "Shift+Enter, Alt+Enter, Ctrl+J, \\ Enter", "insert a new line"),
    ("typing", "Up, Down", "browse earlier prompts; Up in an empty input takes back a queued prompt"),
    ("typing", "Tab", "complete; in an empty input: go to the conversation"),
    ("typing", "/ @ !", "start a command, mention a file, run a shell command"),
    ("typing", "Esc", "interrupt the turn; twice: edit the last prompt"),
    ("typing", "Enter (empty)", "open the waiting questions"),
    ("conversation", "PgUp, PgDn, mouse wheel", "scroll; Ctrl+End goes to the end"),
    ("conversation", "Tab, then Up, Down, Enter", "select and open a step; Esc returns to the input"),
    ("conversation", "Ctrl+O", "open or close all steps"),
    ("conversation", "drag with the mouse, Ctrl+C", "copy"),
    ("agents", "Shift+Up, Shift+Down", "open another agent's conversation; your prompts go to it"),
    ("agents", "F2", "show agents, then tasks, then mail"),
    ("agents", "Ctrl+B", "move the agents in the foreground to the background"),
    ("everywhere", "Shift+Tab", "switch to the next permission mode"),
    ("everywhere", "Ctrl+C", "clear the input; interrupt the turn; at rest, twice: quit"),
    ("everywhere", "Ctrl+D (empty)", "quit"),
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
