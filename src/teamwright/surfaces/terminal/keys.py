"""Every key of the app, for the bindings and for the page that lists them."""

from typing import Literal, cast

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.binding import Binding
from textual.keys import Keys

Place = Literal["typing", "conversation", "agents", "everywhere"]

KEYS: tuple[tuple[Place, str, str], ...] = (
    ("typing", "Enter", "send; while the agent works, queue it for the next step"),
    ("typing", "Shift+Enter, Ctrl+J", "insert a new line; so do Alt+Enter, and Enter after \\"),
    ("typing", "Up, Down", "browse earlier prompts; Up in an empty input takes back a queued prompt"),
    ("typing", "Tab", "complete; in an empty input: go to the conversation"),
    ("typing", "/ @ !", "start a command, mention a file, run a shell command"),
    ("typing", "Ctrl+R", "search the prompts of all projects"),
    ("typing", "Ctrl+G", "edit the input in $VISUAL or $EDITOR"),
    ("typing", "Ctrl+V", "paste a picture from the clipboard"),
    ("typing", "Ctrl+_, Alt+D, Ctrl+W", "undo; delete the next word, the word before"),
    ("typing", "Esc", "interrupt the turn; at rest, twice: rewind to an earlier prompt"),
    ("typing", "Enter (empty)", "open the waiting questions"),
    ("conversation", "PgUp, PgDn, wheel", "scroll; Ctrl+End goes to the end"),
    ("conversation", "Tab, Up, Down, Enter", "select and open a step; Esc returns to the input"),
    ("conversation", "Ctrl+O", "open or close all steps"),
    ("conversation", "mouse, then Ctrl+C", "select text and copy it"),
    ("agents", "Shift+Up, Shift+Down", "open another agent's conversation; your prompts go to it"),
    ("agents", "F2", "show agents, then tasks, then mail"),
    ("agents", "Ctrl+T", "hide or show the open tasks"),
    ("agents", "Ctrl+B", "move the agents in the foreground to the background"),
    ("everywhere", "Shift+Tab", "switch to the next permission mode"),
    ("everywhere", "Ctrl+C", "clear the input; interrupt the turn; at rest, twice: quit"),
    ("everywhere", "Ctrl+D (empty)", "quit"),
    ("everywhere", "Ctrl+Z", "suspend; `fg` in the shell resumes"),
)

BINDINGS = (
    Binding("ctrl+c", "interrupt_or_leave", "Leave", show=False, priority=True),
    Binding("ctrl+q", "nothing", show=False, priority=True),
    Binding("ctrl+o", "details", "Details", show=False),
    Binding("ctrl+b", "background", "To background", show=False, priority=True),
    Binding("ctrl+t", "tasks", "Task list", show=False, priority=True),
    Binding("f2", "side", "Agents", show=False),
    Binding("shift+tab", "next_mode", "Mode", show=False, priority=True),
)


def teach_alt_keys() -> None:
    """Teach Textual what terminals send for Alt with Enter or D, as keys that mean the same here."""
    known = cast("dict[str, tuple[Keys, ...]]", ANSI_SEQUENCES_KEYS)
    known.setdefault("\x1b\r", (Keys.ControlJ,))
    known.setdefault("\x1bd", (Keys.ControlDelete,))


def describe() -> str:
    widest = max(len(key) for _, key, _ in KEYS)
    lines: list[str] = []
    for place in ("typing", "conversation", "agents", "everywhere"):
        lines.append(f"{place}")
        lines += [f"  {key.ljust(widest)}  {words}" for where, key, words in KEYS if where == place]
    return "\n".join(lines)
