"""Title of the terminal's window: the project and its state; the old title is restored at the end."""

from collections.abc import Callable, Mapping
from pathlib import Path

from teamwright.core.text import plural
from teamwright.surfaces.view.checklist import activity
from teamwright.surfaces.view.text import one_line
from teamwright.surfaces.view.view import SessionFold

OFF = "CLAUDE_CODE_DISABLE_TERMINAL_TITLE"
SAVE, RESTORE = "\x1b[22;0t", "\x1b[23;0t"  # save and restore on the terminal's own stack of titles
MOST = 60  # characters about the state
_WITHOUT = ("", "dumb", "linux", "vt100", "vt220")  # terminals that have no title, and might print it


def wants_title(env: Mapping[str, str], *, setting: bool) -> bool:
    """Whether this terminal's title may be set."""
    off = env.get(OFF, "").strip().casefold() not in ("", "0", "false", "no", "off")
    return setting and not off and env.get("TERM", "") not in _WITHOUT


def title_of(view: SessionFold, cwd: Path) -> str:
    """`✳ teamwright · shop: Fixing the bug`. Words of models are made safe: no control character gets through."""
    main, name = view.agent(view.main), f"teamwright · {one_line(cwd.name or str(cwd), 40)}"
    if view.questions:
        return f"? {name}: {plural(len(view.questions), 'question')} for you"
    if main.state not in ("running", "waiting"):
        return name
    doing = activity(view.tasks, main.id).rstrip("…")
    return f"✳ {name}: {one_line(doing, MOST)}" if doing else f"✳ {name}"


class TerminalTitle:
    """Writes nothing before it is allowed, nor if the title is unchanged."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._shown = ""
        self.allowed = False

    def show(self, title: str) -> None:
        if not self.allowed or title == self._shown:
            return
        saved = "" if self._shown else SAVE
        self._shown = title
        self._write(f"{saved}\x1b]2;{title}\x1b\\")

    def restore(self) -> None:
        if self._shown:
            self._shown, self.allowed = "", False
            self._write(f"\x1b]2;\x1b\\{RESTORE}")
