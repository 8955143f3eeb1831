"""Starts sessions in processes of their own, which outlive the page and the hub."""

import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from anyio import to_thread

from teamwright.core.permissions.consent import MODES
from teamwright.osfiles.private import create_file
from teamwright.store.files.paths import Home
from teamwright.surfaces.web.server.errors import Refused
from teamwright.tools.bounds import visible

LONGEST_MODEL = 200
MOST_SAID = 1_000_000  # bytes in the log of a session that is started again
_started: list["subprocess.Popen[bytes]"] = []  # they go on; the next start collects those that have ended


class Untrusted(Refused):
    """What the directory would run, line by line."""

    def __init__(self, parts: list[str]) -> None:
        super().__init__(409, "this directory brings settings or programs of its own: say whether you trust it")
        self.more = {"untrusted": [visible(part) for part in parts]}


class StartingSession(NamedTuple):
    """A session that is starting. Its complaints follow earlier ones in the log of its id."""

    id: str
    process: "subprocess.Popen[bytes]"
    log: Path
    before: int

    def why_not(self) -> str:
        """The last thing that it said."""
        try:
            said = self.log.read_bytes()[self.before :].decode(errors="replace").strip()
        except OSError:
            return ""
        return visible(said.splitlines()[-1].removeprefix("teamwright: ")) if said else ""


async def begin(home: Home, env: Mapping[str, str], cwd: Path, prompt: str, model: str, mode: str) -> StartingSession:
    id = str(uuid.uuid4())
    return await to_thread.run_sync(_start, home, env, cwd, id, ["--session-id", id, *_choices(model, mode)], prompt)


async def resume(home: Home, env: Mapping[str, str], cwd: Path, id: str, prompt: str) -> StartingSession:
    return await to_thread.run_sync(_start, home, env, cwd, id, ["--resume", id], prompt)


def _choices(model: str, mode: str) -> list[str]:
    if len(model) > LONGEST_MODEL or model.startswith("-") or not model.isprintable():
        raise Refused(400, "`model` must be the name of a model")
    if mode and mode not in MODES:
        raise Refused(400, f"no permission mode {mode[:40]!r}; there are {', '.join(MODES)}")
    if mode == "bypassPermissions":
        raise Refused(409, "a session without any questions is started in a terminal, not from the page")
    return [*(["--model", model] if model else []), *(["--permission-mode", mode] if mode else [])]


def _start(home: Home, env: Mapping[str, str], cwd: Path, id: str, options: list[str], prompt: str) -> StartingSession:
    """The prompt is in a file without a name: as an argument its length would have a limit, and others could read it.

    A pipe to us will not do: closing our end would deny all later questions of the session.
    """
    argv = [sys.executable, "-m", "teamwright", "-p", "--listen", *options]
    log = home.session_log(id)
    said = create_file(log, os.O_WRONLY | os.O_APPEND)
    if os.fstat(said).st_size > MOST_SAID:
        os.ftruncate(said, 0)
    before = os.fstat(said).st_size
    try:
        with tempfile.TemporaryFile() as words:
            words.write(prompt.encode())
            words.seek(0)
            session = subprocess.Popen(
                argv,
                cwd=cwd,
                env=dict(env),
                stdin=words,
                stdout=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,
            )
        _started[:] = [*(one for one in _started if one.poll() is None), session]
    except OSError as error:
        raise Refused(409, f"the session could not be started: {error.strerror or error}") from None
    finally:
        os.close(said)
    return StartingSession(id, session, log, before)


async def settle_trust(env: Mapping[str, str], cwd: Path, answer: object) -> None:
    """Ask the person first if the directory would run something: 409 with what that is."""
    words = await to_thread.run_sync(_untrusted, env, cwd, answer)
    if words:
        raise Untrusted(words)


def _untrusted(env: Mapping[str, str], cwd: Path, answer: object) -> list[str]:
    """What would run there and was not agreed to. A yes is remembered."""
    from teamwright.app import Options  # noqa: PLC0415  # all parts of a session come with it
    from teamwright.surfaces.port.trust_question import open_question, remember  # noqa: PLC0415

    asked = open_question(Options(cwd=cwd, env=dict(env)))
    if asked is None or answer is False:
        return []
    if answer is True:
        remember(asked, trusted=True)
        return []
    return [f"{part.title}: {', '.join(part.lines)}" for part in asked.found.parts]
