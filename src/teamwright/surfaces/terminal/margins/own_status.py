"""The person's own status line: the first lines that a command from the settings prints.

The command runs when something has changed, at most about three times a second, and never twice at once.
"""

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from rich.ansi import AnsiDecoder
from textual.content import Content
from textual.widgets import Static

from teamwright import __version__
from teamwright.app.workspace import Workspace, passed_names
from teamwright.runtime.port import SessionFacts
from teamwright.store.files.paths import find_transcript
from teamwright.surfaces.view.text import one_line, safe
from teamwright.surfaces.view.totals import Totals

if TYPE_CHECKING:
    from teamwright.store.settings.schema import StatusCommand
    from teamwright.surfaces.terminal.app import TerminalApp

PAUSE, AFTER_FAULT, LIMIT = 0.34, 5.0, 5.0  # seconds between two runs, after a failed one, and for one
MOST_LINES, MOST_LINE = 3, 1_000
LONG = 200_000  # tokens
_COLOUR = re.compile(r"(\x1b\[[\d;:]*m)")
_COMMAND = re.compile(  # links and titles, moves of the cursor, character sets
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[\d;?]*[A-Za-ln-z]|\x1b[()][A-Z0-9]|[\x0e\x0f]"
)


def status_input(facts: SessionFacts, totals: Totals, places: dict[str, str], ms: int) -> dict[str, Any]:
    """The command's input, under the names that such scripts know. `places`: session, transcript, project."""
    share = round(100 * facts.window / facts.room) if facts.room else None
    return {
        "hook_event_name": "Status",
        "session_id": places["session"],
        "transcript_path": places["transcript"],
        "cwd": facts.cwd,
        "model": {"id": facts.model, "display_name": facts.model.rpartition("/")[2]},
        "workspace": {"current_dir": facts.cwd, "project_dir": places["project"]},
        "version": __version__,
        "permission_mode": facts.mode,
        "cost": {
            "total_cost_usd": facts.usd,
            "total_duration_ms": ms,
            "total_api_duration_ms": totals.api_ms,
            "total_lines_added": totals.added,
            "total_lines_removed": totals.removed,
        },
        "context_window": {
            "context_window_size": facts.room or None,
            "used_percentage": share,
            "remaining_percentage": None if share is None else max(0, 100 - share),
            "total_input_tokens": totals.usage.total - totals.usage.output,
            "total_output_tokens": totals.usage.output,
            "current_usage": {
                "input_tokens": totals.last.input,
                "output_tokens": totals.last.output,
                "cache_creation_input_tokens": totals.last.cache_write,
                "cache_read_input_tokens": totals.last.cache_read,
            },
        },
        "exceeds_200k_tokens": facts.window > LONG,
    }


def read_output(out: str) -> list[Content]:
    """The first lines. Colours stay; all other control characters are removed or written out."""
    lines = [line[:MOST_LINE] for line in out.replace("\r\n", "\n").strip("\n").split("\n")[:MOST_LINES]]
    if not any(line.strip() for line in lines):
        return []
    decoder = AnsiDecoder()
    return [Content.from_rich_text(decoder.decode_line(_clean(line))) for line in lines]


def _clean(line: str) -> str:
    parts = _COLOUR.split(_COMMAND.sub("", line))  # every second part is a colour
    return "".join(part if n % 2 else safe(part).replace("\n", " ") for n, part in enumerate(parts))


class OwnStatus(Static):
    DEFAULT_CSS = """
    OwnStatus {
        height: auto; max-height: 3; display: none; background: $background; color: $text-muted;
        text-wrap: nowrap; text-overflow: ellipsis;
    }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__("", id=id, markup=False)

    def show(self, lines: Sequence[Content], padding: int) -> None:
        self.display = bool(lines)
        self.styles.padding = (0, padding)
        self.update(Content("\n").join(lines))


class StatusRunner:
    """Runs the command. Each fault is reported once."""

    def __init__(self, app: "TerminalApp", place: Workspace, command: "StatusCommand") -> None:
        self._app, self._place, self._command = app, place, command
        self._began = time.monotonic()
        self._transcript: Path | None = None  # its path, once something was said
        self._seen: object = None  # what the last run was for
        self._next, self._running = 0.0, False
        self._told: set[str] = set()

    def look(self, facts: SessionFacts) -> None:
        """Run it if there is news for it."""
        now = time.monotonic()
        if self._running or now < self._next:
            return
        news = (facts, self._app.view.version, self._app.size.width)
        if news != self._seen:
            self._seen, self._running, self._next = news, True, now + PAUSE
            self._app.run_worker(self._run(), name="status")

    async def _run(self) -> None:
        from teamwright.host.process.hook_process import run_hook  # noqa: PLC0415

        try:
            data, env = msgspec.json.encode(self._input()), self._env()
            ended = await run_hook(self._command.command, data, cwd=self._stand(), env=env, limit=LIMIT)
        finally:
            self._running = False
        fault = ended.fault or (f"exit status {ended.status}: {ended.err}" if ended.status else "")
        if fault:
            self._next = time.monotonic() + AFTER_FAULT
            self._tell(one_line(fault.rstrip(": \n"), 300))
        if self._app.screen_stack:
            line = self._app.screen_stack[0].query_one("#own-status", OwnStatus)
            line.show([] if fault else read_output(ended.out), self._command.padding)
            self._app.wake()

    def _input(self) -> dict[str, Any]:
        session, home = self._app.session, self._app.home
        self._transcript = self._transcript or find_transcript(home, session.id)
        places = {
            "session": session.id,
            "transcript": str(self._transcript or home.transcript(session.cwd, session.id)),
            "project": str(self._place.project),
        }
        ms = round(1000 * (time.monotonic() - self._began))
        return status_input(session.facts, self._app.view.totals, places, ms)

    def _env(self) -> dict[str, str]:
        from teamwright.host.process.environment import tool_environment  # noqa: PLC0415

        env, project = self._place.env, str(self._place.project)
        more = {"CLAUDE_PROJECT_DIR": project, "TEAMWRIGHT_PROJECT_DIR": project, "COLUMNS": str(self._app.size.width)}
        more |= {name: env[name] for name in ("TERM", "COLORTERM") if name in env}
        return tool_environment(env, more, passed_names(self._place))

    def _stand(self) -> Path:
        session = self._app.session
        here = Path(session.facts.cwd)
        return here if here.is_dir() else self._place.project

    def _tell(self, fault: str) -> None:
        if fault not in self._told:
            self._told.add(fault)
            self._app.tell(f"statusLine `{one_line(self._command.command, 80)}`: {fault}", "warning")
