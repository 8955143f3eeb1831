"""Teammates in tmux panes: next to the lead's own pane, or in a separate session on a separate server.

Only panes with our mark are ever changed or closed. tmux's arguments contain no outside text except the title.
"""

import os
import re
from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path

import anyio
from msgspec import Struct

from teamwright.core.errors import ToolError
from teamwright.core.text import shown
from teamwright.host.panes.base import GRACE, START, Pane, PaneAnswer, ask, plain_title
from teamwright.host.panes.launch_file import LaunchFile, discard, taken, wrap
from teamwright.host.process.environment import tool_environment
from teamwright.host.process.identity import collect, end, gone, is_same, start_of

_SESSION = "teamwright"
_ANSWER = 10.0  # seconds per tmux command
_LAST = 2.0  # for a server without panes to end
_TRIES = 5
# The pane to split has just gone; or our own server is ending, or being started by another process.
_RACES = {
    True: re.compile(r"can't find"),
    False: re.compile(r"can't find|duplicate session|server exited|lost server|no server running|error connecting"),
}
_OLDEST = (3, 0)  # first version with per-pane options
_PASSED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TMUX_TMPDIR", "TMPDIR")
_MADE = "#{pane_id} #{pane_pid} #{pid} #{socket_path}"
_ROW = "#{pane_id} #{window_id} #{pane_width} #{pane_height} #{pane_pid} #{?pane_dead,1,0} =#{@teamwright}"
_COLORS = {name: name for name in ("red", "green", "yellow", "blue", "magenta", "cyan", "white")} | {
    "purple": "magenta",
    "orange": "colour208",
    "pink": "colour205",
}


class _PaneRow(Struct, frozen=True):
    """A pane as its server reports it."""

    id: str
    window: str
    area: int
    pid: int
    dead: bool
    mark: str


class Tmux:
    """`env` is the lead's; if it contains `TMUX`, the lead's window is used, else a server called `name`.

    `room` is a private directory for launch files; without `split` each teammate gets a window.
    """

    def __init__(
        self, program: str, *, env: Mapping[str, str], room: Path, name: str, split: bool = True, grace: float = GRACE
    ) -> None:
        self._program, self._env, self._room, self._split = program, env, room, split
        self._theirs = {key: env[key] for key in _PASSED if key in env}
        self._inside = bool(env.get("TMUX"))
        if self._inside:
            self._server = ("-S", env["TMUX"].rsplit(",", 2)[0])
        else:  # with default settings: a person's could keep dead panes or restore old sessions
            self._server = ("-L", re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64], "-f", "/dev/null")
        self._grace = grace
        self._lock = anyio.Lock()
        self._known = False

    async def open(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], title: str, color: str) -> Pane:
        await self._check_version()
        parcel = wrap(self._room, argv, cwd=cwd, env=tool_environment(self._env, env))
        pane: Pane | None = None
        begun = False
        try:
            with anyio.CancelScope(shield=True):  # each step is limited; a cancellation in between would lose a pane
                async with self._lock:
                    pane = await self._make(parcel, plain_title(title), color)
            await taken(parcel, START)
            begun = True
        finally:
            discard(parcel)
            if pane and not begun:
                with anyio.CancelScope(shield=True):
                    await self.close(pane)
        assert pane
        return pane

    async def is_open(self, pane: Pane) -> bool:
        return await is_same(pane.pid, pane.started) and await self._find(pane) is not None

    async def watch(self, pane: Pane) -> None:
        await gone(pane.pid, pane.started)

    async def close(self, pane: Pane) -> bool:
        ours = await end(pane.pid, pane.started, self._grace)
        row = await self._find(pane)  # still there if dead panes are kept
        if row and not await is_same(pane.pid, pane.started):
            await self._tell(pane, "kill-pane", "-t", pane.id)
        if not self._inside and not await self._rows("-a", server=("-S", pane.socket)):
            with anyio.move_on_after(_LAST):  # our own server ends with its last pane, perhaps as our orphan
                await gone(pane.server, pane.server_started)
            collect(pane.server, pane.server_started)
        return ours or row is not None

    # --- opening

    async def _make(self, parcel: LaunchFile, title: str, color: str) -> Pane:
        mark = os.urandom(8).hex()
        answer = await self._place(parcel, title)
        for _ in range(_TRIES):
            if answer.code == 0 or not _RACES[self._inside].search(answer.complaint):
                break
            await anyio.sleep(0.05)
            answer = await self._place(parcel, title)
        if answer.code:
            raise ToolError(self._trouble(answer))
        id, pid, server, socket = answer.out.split(" ", 3)
        # Set the mark first, because it identifies the pane as ours. Run each command separately: an old tmux may
        # refuse the last one.
        style = _COLORS.get(color, "default")
        settings = (
            ("set-option", "-p", "-t", id, "@teamwright", mark),
            ("set-option", "-p", "-t", id, "remain-on-exit", "off"),
            ("select-pane", "-t", id, "-T", _word(title)),
            ("set-option", "-p", "-t", id, "pane-border-style", f"fg={style}"),
        )
        await self._run(*[word for line in settings for word in (*line, ";")][:-1])
        await self._arrange(id)
        starts = await start_of(int(pid)), await start_of(int(server))
        return Pane("tmux", id, int(pid), starts[0], socket, int(server), starts[1], mark)

    async def _place(self, parcel: LaunchFile, title: str) -> PaneAnswer:
        """Puts a new pane where there is room, else opens a new window, else the session itself."""
        made = ("-d", "-P", "-F", _MADE)
        rows = await self._rows(*(("-t", self._lead) if self._inside else ("-s", "-t", f"={_SESSION}")))
        ours = [row for row in rows if row.mark and not row.dead]
        if answer := await self._split_pane(ours, parcel):
            return answer
        if rows or self._inside:
            where = await self._session() if self._inside else f"={_SESSION}:"
            name = _word(title)
            return await self._run("new-window", *made, "-t", where, "-n", name, "--", *parcel.command)
        size = ("-x", "200", "-y", "60")
        named = ("-s", _SESSION, "-n", _word(title))
        return await self._run("new-session", *made, *size, *named, "--", *parcel.command)

    async def _split_pane(self, ours: Sequence[_PaneRow], parcel: LaunchFile) -> PaneAnswer | None:
        """Splits the largest of our panes, or the lead's. None if nothing may be split or there is no room."""
        if not self._split or not (ours or self._inside):
            return None
        side, widest = ("-v", max(ours, key=attrgetter("area")).id) if ours else ("-h", self._lead)
        made = ("-d", "-P", "-F", _MADE)
        answer = await self._run("split-window", side, *made, "-t", widest, "--", *parcel.command)
        return answer if answer.code == 0 or "no space" not in answer.complaint else None

    async def _arrange(self, id: str) -> None:
        """Evens out our own panes; panes that are not ours keep their place and size."""
        rows = await self._rows("-t", id)
        others = [row for row in rows if not row.mark]
        if not others:
            await self._run("select-layout", "-t", id, "tiled")
        elif len(rows) - len(others) > 1:
            await self._run("select-layout", "-t", id, "-E")

    @property
    def _lead(self) -> str:
        pane = self._env.get("TMUX_PANE", "")
        return pane if re.fullmatch(r"%\d+", pane) else "$" + self._env["TMUX"].rpartition(",")[2] + ":"

    async def _session(self) -> str:
        answer = await self._run("display-message", "-p", "-t", self._lead, "#{session_id}")
        return f"{answer.out}:"

    # --- talking to a server

    async def _rows(self, *which: str, server: Sequence[str] = ()) -> list[_PaneRow]:
        answer = await self._run("list-panes", *which, "-F", _ROW, server=server)
        rows: list[_PaneRow] = []
        for line in answer.out.splitlines() if answer.code == 0 else ():
            id, window, width, height, pid, dead, mark = line.split(" ", 6)
            rows.append(_PaneRow(id, window, int(width) * int(height), int(pid or 0), dead == "1", mark[1:]))
        return rows

    async def _find(self, pane: Pane) -> _PaneRow | None:
        """The pane on its original server, with our mark and our process, dead or alive."""
        if not await is_same(pane.server, pane.server_started):
            return None
        rows = await self._rows("-a", server=("-S", pane.socket))
        found = [row for row in rows if row.id == pane.id and row.mark == pane.mark]
        return found[0] if found and (found[0].pid == pane.pid or found[0].dead) else None

    async def _tell(self, pane: Pane, *words: str) -> None:
        await self._run(*words, server=("-S", pane.socket))

    async def _run(self, *words: str, server: Sequence[str] = ()) -> PaneAnswer:
        return await ask([self._program, "-u", *(server or self._server), *words], self._theirs, _ANSWER)

    async def _check_version(self) -> None:
        if self._known:
            return
        told = (await ask([self._program, "-V"], self._theirs, _ANSWER)).out
        number = re.search(r"(\d+)\.(\d+)", told)
        if told.startswith("tmux ") and number and "openbsd" not in told and _pair(number) < _OLDEST:
            raise ToolError(f"{shown(told)} is too old: 3.0 or newer is needed. Update it, or choose `in-process`.")
        self._known = True

    def _trouble(self, answer: PaneAnswer) -> str:
        where = f"The tmux server at {self._server[1]}" if self._inside else "tmux"
        why = answer.complaint or f"exit status {answer.code}"
        return (
            f"{where} did not open a pane: {why}. No teammate was started; choose `in-process` to continue without it."
        )


def _pair(number: re.Match[str]) -> tuple[int, int]:
    return int(number[1]), int(number[2])


def _word(text: str) -> str:
    """Escapes an argument, because tmux takes a final `;` for the end of a command."""
    return text[:-1] + r"\;" if text.endswith(";") else text
