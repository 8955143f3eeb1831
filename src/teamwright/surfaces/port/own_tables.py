"""Runs the program's own commands, to show their tables inside another surface."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from teamwright.core.errors import UsageError
from teamwright.host.process.capture import Capture, plain
from teamwright.host.process.run import run

TABLE_SECONDS = 30.0


async def printed(arguments: Sequence[str], cwd: Path, env: Mapping[str, str], columns: int = 0) -> str:
    """What a command prints: the same table as outside. `columns` is its width; 0: any."""
    env = {name: value for name, value in env.items() if name != "COLUMNS"}
    env |= {"COLUMNS": str(columns)} if columns else {}
    capture = Capture(head=60_000, tail=20_000)
    argv = [sys.executable, "-m", "teamwright", *arguments]
    ended = await run(argv, cwd=cwd, env=env, limit=TABLE_SECONDS, capture=capture)
    if ended.timed_out:
        raise UsageError(f"`teamwright {arguments[0]}` did not end within {TABLE_SECONDS:.0f} s")
    return plain(capture.text()).rstrip("\n")
