"""Interface of all places for teammates' processes: what is stored of a pane, and what can be done with it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

import anyio
from msgspec import Struct

from teamwright.core.errors import ToolError
from teamwright.core.policies.placement import Detected
from teamwright.core.text import shown

GRACE = 5.0  # seconds between SIGTERM and SIGKILL
START = 20.0  # seconds for a new pane to start its program
_LONGEST_TITLE = 60


class Pane(Struct, frozen=True, omit_defaults=True):
    """A teammate's process and where it is shown. It is stored, so that a later process can address it with nothing
    else."""

    backend: Literal["tmux", "iterm2", "local"]
    id: str  # `%3` for tmux, the session's for iTerm2, the pid for a child
    pid: int
    started: str  # the process's start time as the system reports it; with the pid it identifies the process
    socket: str = ""  # tmux: the server's socket
    server: int = 0  # tmux: the server's pid; with its start time below, because a new server reuses pane numbers
    server_started: str = ""
    mark: str = ""  # tmux: a mark stored in the pane
    log: str = ""  # local: its log file


class Panes(Protocol):
    """One kind of place. Every method also works for panes opened by another process."""

    async def open(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], title: str, color: str) -> Pane:
        """Starts a program by argv; `env` extends the harmless part of our environment. Raises ToolError and leaves
        nothing."""
        ...

    async def is_open(self, pane: Pane) -> bool:
        """Is the pane there, running the process that was started in it?"""
        ...

    async def watch(self, pane: Pane) -> None:
        """Returns when the pane's process has died."""
        ...

    async def close(self, pane: Pane) -> bool:
        """Ends the pane if it is ours. Returns False if there was nothing of ours to end."""
        ...


class PaneAnswer(Struct, frozen=True):
    code: int
    out: str
    complaint: str


def look(env: Mapping[str, str]) -> Detected:
    """Detects what this terminal and this machine offer."""
    import shutil  # noqa: PLC0415  # not for a task list

    path = env.get("PATH", "")
    return Detected(
        inside_tmux=bool(env.get("TMUX")),
        in_iterm=env.get("TERM_PROGRAM") == "iTerm.app" or bool(env.get("ITERM_SESSION_ID")),
        tmux=shutil.which("tmux", path=path) or "",
        it2=shutil.which("it2", path=path) or "",
    )


def plain_title(title: str) -> str:
    """One short line without control characters or `#`, because tmux runs the commands in `#(...)`."""
    return shown(title.replace("#", "＃"), _LONGEST_TITLE).strip() or "teammate"


async def ask(argv: Sequence[str], env: Mapping[str, str], seconds: float) -> PaneAnswer:
    """Runs the terminal's own control program to its end."""
    try:
        with anyio.fail_after(seconds):
            done = await anyio.run_process(argv, env=dict(env), check=False, start_new_session=True)
    except TimeoutError:
        raise ToolError(
            f"{argv[0]} has not answered for {seconds:g} s. Look after it, or choose `in-process`."
        ) from None
    except OSError as error:
        raise ToolError(f"{argv[0]} could not be started: {error.strerror}. Choose `in-process`.") from None
    out, complaint = (text.decode(errors="replace").strip() for text in (done.stdout, done.stderr))
    return PaneAnswer(done.returncode, out, shown(complaint))
