"""Port shared by all places for teammates' processes: what is stored of a pane and what is available."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

import anyio
from msgspec import Struct

from teamwright.core.errors import ToolError
from teamwright.core.policies.placement import Detected
from teamwright.core.text import shown

GRACE = 5.0  # seconds between SIGTERM and SIGKILL
START = 20.0  # for a new pane to start its program
_LONGEST_TITLE = 60


class Pane(Struct, frozen=True, omit_defaults=True):
    """A teammate's process and where it is to be seen. It is stored: a later process addresses it with nothing else."""

    backend: Literal["tmux", "iterm2", "local"]
    id: str  # `%3` for tmux, the session's for iTerm2, the pid for a child
    pid: int
    started: str  # the process's start as the machine tells it: with the pid, this process and no other
    socket: str = ""  # tmux: its server
    server: int = 0  # tmux: the server's process, by pid and start; a new server restarts its pane numbers
    server_started: str = ""
    mark: str = ""  # tmux: written into the pane
    log: str = ""  # local: what it says


class Panes(Protocol):
    """One kind of place. Every method may be called for a pane that another process has opened."""

    async def open(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], title: str, color: str) -> Pane:
        """Start it by argv; `env` is added to the harmless part of our own. Raises ToolError; then nothing is left."""
        ...

    async def is_open(self, pane: Pane) -> bool:
        """The pane is there, and its process is the one that was started."""
        ...

    async def watch(self, pane: Pane) -> None:
        """Returns when its process has died."""
        ...

    async def close(self, pane: Pane) -> bool:
        """End it, if it is ours. False: there was nothing of ours to end."""
        ...


class PaneAnswer(Struct, frozen=True):
    code: int
    out: str
    complaint: str


def look(env: Mapping[str, str]) -> Detected:
    """What this terminal and this machine offer."""
    import shutil  # noqa: PLC0415  # not for a task list

    path = env.get("PATH", "")
    return Detected(
        inside_tmux=bool(env.get("TMUX")),
        in_iterm=env.get("TERM_PROGRAM") == "iTerm.app" or bool(env.get("ITERM_SESSION_ID")),
        tmux=shutil.which("tmux", path=path) or "",
        it2=shutil.which("it2", path=path) or "",
    )


def plain_title(title: str) -> str:
    """One short line without control characters, and without `#`: tmux runs commands that stand in `#(...)`."""
    return shown(title.replace("#", "＃"), _LONGEST_TITLE).strip() or "teammate"


async def ask(argv: Sequence[str], env: Mapping[str, str], seconds: float) -> PaneAnswer:
    """Run a terminal's own program to its end."""
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
