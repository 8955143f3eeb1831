"""The small shell that ends our commands after we were killed."""

import subprocess
import sys
from pathlib import Path

import pytest

READS_OF_THE_WATCH = """
import os, sys, anyio
from pathlib import Path
from teamwright.host.process.capture import Capture
from teamwright.host.process.run import run

opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)

def children():
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()

async def main():
    await run(["true"], cwd=Path("."), env={}, limit=20, capture=Capture())
    [watch] = [pid for pid in children() if b"teamwright-watch" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    opened.clear()
    await run(["true"], cwd=Path("."), env={}, limit=20, capture=Capture())
    print([path for path in opened if path in (f"/proc/{watch}/limits", f"/proc/{watch}/environ")])

anyio.run(main)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="there is a watch on Linux only")
def test_the_watch_is_known_and_not_searched_for_marks(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", READS_OF_THE_WATCH]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")
