"""Opens the person's own editor on the text of the input."""

import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from anyio import to_thread

from teamwright.core.errors import UsageError

_KNOWN = ("nano", "vim", "vi")  # if neither $VISUAL nor $EDITOR is set
MOST_CHARACTERS = 10_000_000


def command_of(env: Mapping[str, str]) -> list[str]:
    """The editor's command line, split like a shell does, but without a shell."""
    wanted = env.get("VISUAL", "").strip() or env.get("EDITOR", "").strip()
    if not wanted:
        wanted = next((name for name in _KNOWN if shutil.which(name, path=env.get("PATH"))), "")
    try:
        argv = shlex.split(wanted)
    except ValueError as error:
        raise UsageError(f"$VISUAL or $EDITOR cannot be read ({error}): {wanted}") from None
    if not argv:
        raise UsageError("Set $VISUAL or $EDITOR to the editor that Ctrl+G should open")
    if shutil.which(argv[0], path=env.get("PATH")) is None:
        raise UsageError(f"The editor {argv[0]} was not found: set $VISUAL or $EDITOR")
    return argv


async def edit(text: str, argv: list[str], env: Mapping[str, str]) -> str:
    """The file's content when the editor has ended; the editor has the terminal until then."""
    with TemporaryDirectory(prefix="teamwright-") as folder:
        path = Path(folder) / "prompt.md"
        await to_thread.run_sync(path.write_text, text, "utf-8", "surrogateescape")
        try:
            ran = await anyio.open_process([*argv, str(path)], stdin=None, stdout=None, stderr=None, env=env)
            async with ran:
                status = await ran.wait()
        except OSError as error:
            raise UsageError(f"The editor {argv[0]} cannot be started: {error.strerror}") from None
        if status:
            raise UsageError(f"The editor {argv[0]} ended with status {status}; the input is as it was")
        return await to_thread.run_sync(_read, path)


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")[:MOST_CHARACTERS].removesuffix("\n")
    except OSError as error:
        raise UsageError(f"What the editor wrote cannot be read: {error.strerror}") from None
