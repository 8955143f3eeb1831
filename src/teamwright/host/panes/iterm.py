"""Teammates in panes of iTerm2, through its command-line tool `it2` (the one on PyPI).

The tool can split a pane, but can start a program there only through its shell. The shell gets one line of our own: two
options, and the paths of Python, a file of ours and a launch file. Nothing from outside is in it.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio

from teamwright.core.errors import ToolError
from teamwright.host.panes.base import GRACE, START, Pane, PaneAnswer, ask, plain_title
from teamwright.host.panes.launch_file import Started, discard, taken, wrap
from teamwright.host.process.environment import tool_environment
from teamwright.host.process.identity import end, gone, is_same, start_of

_ANSWER = 15.0  # seconds for one command of the tool, which talks to the application
_PASSED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TERM_PROGRAM", "PYTHONPATH")


class Iterm:
    """`env` is the lead's, which runs in a pane of iTerm2; `room` and `split` as for tmux."""

    def __init__(
        self, program: str, *, env: Mapping[str, str], room: Path, split: bool = True, grace: float = GRACE
    ) -> None:
        self._program, self._env, self._room, self._split = program, env, room, split
        self._theirs = {key: value for key, value in env.items() if key in _PASSED or key.startswith("ITERM")}
        self._lead = env.get("ITERM_SESSION_ID", "").rpartition(":")[2]
        self._last = ""  # our newest pane; the next one goes below it
        self._grace = grace
        self._lock = anyio.Lock()

    async def open(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], title: str, color: str) -> Pane:
        parcel = wrap(self._room, argv, cwd=cwd, env=tool_environment(self._env, env))
        line = " ".join(shlex.quote(word) for word in parcel.command)
        session, begun = "", Started(0)
        try:
            with anyio.CancelScope(shield=True):  # each step is limited; a cancellation in between would lose a pane
                if self._split:
                    async with self._lock:
                        session = self._last = await self._new_pane()
                    self._must(await self._run("session", "run", "-s", session, f"exec {line}"))
                else:  # for a window, the receipt names the session
                    self._must(await self._run("window", "new", "--command", line))
            begun = await taken(parcel, START)
            session = session or begun.session
        finally:
            discard(parcel)
            if session and not begun.pid:
                with anyio.CancelScope(shield=True):
                    await self._run("session", "close", "-f", "-s", session)
        pane = Pane("iterm2", session, begun.pid, await start_of(begun.pid))
        await self._run("session", "set-name", "-s", session, "--", plain_title(title))
        return pane

    async def is_open(self, pane: Pane) -> bool:
        """Checks the process, because closing a pane ends it."""
        return await is_same(pane.pid, pane.started)

    async def watch(self, pane: Pane) -> None:
        await gone(pane.pid, pane.started)

    async def close(self, pane: Pane) -> bool:
        ours = await end(pane.pid, pane.started, self._grace)
        if ours or await self._holds(pane):  # a profile may keep panes whose program has ended
            await self._run("session", "close", "-f", "-s", pane.id)
            return True
        return False

    async def _new_pane(self) -> str:
        answer = PaneAnswer(1, "", "")
        if self._last:
            answer = await self._run("session", "split", "-s", self._last)
        if answer.code:  # none yet, or a person has closed it
            answer = self._must(await self._run("session", "split", "-v", *(("-s", self._lead) if self._lead else ())))
        found = re.search(r"Created new pane: ([\w-]+)", answer.out)
        if not found:
            raise ToolError("it2 did not name the pane that it made: update it, or choose `tmux` or `in-process`.")
        return found[1]

    async def _holds(self, pane: Pane) -> bool:
        """Is the process we started the last one in this session, though it has ended? The session may have been
        restarted."""
        answer = await self._run("session", "get-var", "-s", pane.id, "pid")
        return answer.code == 0 and answer.out == str(pane.pid) and not await start_of(pane.pid)

    async def _run(self, *words: str) -> PaneAnswer:
        return await ask([self._program, *words], self._theirs, _ANSWER)

    def _must(self, answer: PaneAnswer) -> PaneAnswer:
        if answer.code:
            why = answer.complaint or answer.out or f"exit status {answer.code}"
            raise ToolError(f"it2 did not open a pane: {why}. Is the Python API of iTerm2 on? Or choose `in-process`.")
        return answer
