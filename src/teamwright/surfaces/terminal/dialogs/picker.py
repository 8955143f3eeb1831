"""Picker of a session to resume, from this directory or from all; typing narrows the list."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from anyio import to_thread
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static

from teamwright.core.ids import SessionId
from teamwright.store.files.paths import Home, SessionEntry, list_sessions
from teamwright.store.tables.state import StateStore
from teamwright.surfaces.terminal.dialogs.search_list import SearchList
from teamwright.surfaces.terminal.render.cells import fit
from teamwright.surfaces.terminal.render.themes import Palette
from teamwright.surfaces.terminal.widgets.rows import Piece, RowList, palette_of, row
from teamwright.surfaces.view.team_digest import read_teams
from teamwright.surfaces.view.text import one_line, safe, said

MOST = 500


def session_row(
    entry: SessionEntry, width: int, palette: Palette, now: int, teams: str, *, where: bool, runs: bool = False
) -> Content:
    ago = _ago(now - entry.modified)
    left: list[Piece] = [(f"{ago:>8}  ", palette.dim)]
    left += [("running elsewhere  ", palette.good)] if runs else []
    left += [("imported  ", palette.dim)] if entry.imported else []
    left += [(f"team {one_line(teams, 60)}  ", palette.accent)] if teams else []
    words = entry.name or entry.prompt or "(no prompt yet)"
    left.append((one_line(said(words), 200), palette.text if not entry.fault else palette.dim))
    return row(left, _right(entry, width, palette, where=where), width)


def _right(entry: SessionEntry, width: int, palette: Palette, *, where: bool) -> list[Piece]:
    pieces: list[Piece] = [(f"  {one_line(entry.fault, 40)}", palette.bad)] if entry.fault else []
    if where and width >= 80:
        pieces.append((f"  {one_line(entry.cwd, 40)}", palette.dim))
    if width >= 50:
        pieces.append((f"  {entry.id[:8]}", palette.dim))
    return pieces


def _ago(ms: int) -> str:
    minutes = max(ms, 0) // 60_000
    if minutes < 1:
        return "just now"
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 48 * 60 else f"{minutes // 1440} days"


def matching(entries: Sequence[SessionEntry], words: str) -> list[SessionEntry]:
    """Sessions with every word in their name, prompt, id or directory."""
    wanted = words.casefold().split()
    return [e for e in entries if all(w in f"{e.name} {e.prompt} {e.id} {e.cwd}".casefold() for w in wanted)][:MOST]


def _running(home: Home) -> set[SessionId]:
    """Sessions of other processes that can be attached to. Blocks."""
    from teamwright.surfaces.port.doors import is_open, open_doors  # noqa: PLC0415  # with all of headless

    return {id for id in open_doors(home) if is_open(home, id)}


class SessionPicker(SearchList[SessionId | None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Close"),
        Binding("ctrl+a", "widen", "All directories", priority=True),
    ]
    DEFAULT_CSS = """
    SessionPicker {
        align: left bottom;
        & > Vertical {
            height: 80%; width: 100%; background: $surface; border: round $border; padding: 0 1;
        }
        & Static { height: auto; color: $text-muted; }
        & Input, & Input:focus { border: none; height: 1; margin-bottom: 1; padding: 0; background: transparent; }
    }
    """

    def __init__(self, home: Home, cwd: Path, *, here: SessionId | None = None) -> None:
        """`here` is the open session, which is left out."""
        super().__init__()
        self._home, self._cwd, self._here = home, cwd, here
        self._teams: dict[SessionId, str] = {}
        self._attachable: set[SessionId] = set()
        self._entries: list[SessionEntry] = []
        self._everywhere = False
        self._notes: list[str] = []  # of the store

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Input(placeholder="Type to search; Enter resumes a session")
            yield RowList()
            yield Static("", classes="picker--note", markup=False)

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self._read()

    @work(exclusive=True)
    async def _read(self) -> None:
        project = None if self._everywhere else self._cwd
        found = await to_thread.run_sync(list_sessions, self._home, project, abandon_on_cancel=True)
        self._entries = [entry for entry in found if entry.id != self._here]
        self._attachable = await to_thread.run_sync(_running, self._home)
        self._draw()
        self._teams = await read_teams(self._home, self._note)
        self._draw()

    def _note(self, state: StateStore) -> None:
        self._notes += [safe(note) for note in state.notes]

    @on(Input.Changed)
    def _draw(self) -> None:
        if not self.is_whole:
            return
        palette, now = palette_of(self), int(time.time() * 1000)
        shown = [e for e in self._entries if e.said or e.fault or e.id in self._teams or e.id in self._attachable]
        found = matching(shown, self.query_one(Input).value)

        def draw(e: SessionEntry, width: int) -> Content:
            team, runs = self._teams.get(e.id, ""), e.id in self._attachable
            return session_row(e, width, palette, now, team, where=self._everywhere, runs=runs)

        def rows(width: int) -> list[tuple[str, Content]]:
            return [(entry.id, draw(entry, width)) for entry in found]

        self.query_one(RowList).show(rows)
        where = "everywhere" if self._everywhere else fit(safe(str(self._cwd)), max(10, self.size.width - 66))
        change = "this directory" if self._everywhere else "all directories"
        counted = f"{len(found)} of {len(shown)} sessions" if shown else "no other sessions"
        words = f"{counted}, {where} · Ctrl+A: {change} · Esc: close"
        self.query_one(".picker--note", Static).update(Content("\n".join([*self._notes, words])))

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self._take(self.query_one(RowList).chosen)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._take(event.option_id)

    def _take(self, id: str | None) -> None:
        entry = next((e for e in self._entries if e.id == id), None)
        if entry is not None and not entry.fault:
            self.dismiss(entry.id)

    def action_widen(self) -> None:
        self._everywhere = not self._everywhere
        self._read()
