"""kill -9 in the middle of a rewind: each file is wholly old or wholly new, and the rewind can be run again."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import Walker
from teamwright.app import open_session
from teamwright.core.data.op import Rewind
from teamwright.runtime.agents.resume import Origin
from teamwright.runtime.local_session import LocalSession
from teamwright.store.files.paths import home_from

NAMES = ("a", "b", "c", "new1", "new2")
OLD, NEW = b"old\n" * 2_000, b"new\n" * 3_000
SESSION = "11111111-1111-4111-8111-111111111111"
REWIND = """
import sys, anyio
from pathlib import Path
from teamwright.app import Options, open_session
from teamwright.core.crashpoint import arm
from teamwright.core.data.op import Rewind
from teamwright.models.scripted import ScriptedModel, call
from teamwright.runtime.agents.resume import Origin

async def main():
    project, home, session, point, passes = sys.argv[1:]
    names = ("a", "b", "c", "new1", "new2")
    writes = [call("Write", file_path=f"{project}/{name}", content="new\\n" * 3000) for name in names]
    reads = [call("Read", file_path=f"{project}/{name}") for name in ("a", "b", "c")]
    env = {"HOME": home, "TEAMWRIGHT_HOME": f"{home}/.teamwright", "PATH": "/usr/bin:/bin"}
    options = Options(cwd=Path(project), env=env, own_model=ScriptedModel([reads, writes, "end"]), keep_files=True,
                      mode="acceptEdits", origin=Origin(id=session))
    async with await open_session(options) as opened:
        await opened.ask("go")
        line = (await opened.services.rewinding.points())[0].line
        arm(point, int(passes))
        await opened.submit(Rewind(line, conversation=True, files=True))

anyio.run(main)
"""


@pytest.mark.anyio
@pytest.mark.spec("RW7")
@pytest.mark.parametrize(
    ("point", "passes"),
    [("rewind.remove", 2), ("rewind.file", 1), ("rewind.file", 3), ("transcript.append", 1), ("transcript.half", 1)],
)
async def test_a_rewind_that_was_killed_is_run_again(walker: Walker, point: str, passes: int) -> None:
    for name in NAMES[:3]:
        (walker.project / name).write_bytes(OLD)
    argv = [sys.executable, "-c", REWIND, str(walker.project), str(walker.home), SESSION, point, str(passes)]
    killed = subprocess.run(argv, capture_output=True, timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert all(content(walker.project / name) in (OLD, NEW) for name in NAMES[:3])
    assert all(content(walker.project / name) in (b"", NEW) for name in NAMES[3:])
    options = walker.options(["x"], keep_files=True, origin=Origin(SESSION))
    async with await open_session(options) as session:
        port = LocalSession(session, home_from(walker.env))
        (first,) = await port.points()  # the conversation has not gone back, because the files were not finished
        await port.submit(Rewind(first.line, conversation=True, files=True))
        assert [content(walker.project / name) for name in NAMES] == [OLD, OLD, OLD, b"", b""]
        (again,) = await port.points()
        assert not (await port.preview(again.line)).others
        await port.submit(Rewind(again.line, conversation=True, files=True))
        assert {content(walker.project / name) for name in NAMES} == {NEW}


FULL = """
import resource, sys, anyio
from pathlib import Path
from teamwright.app import Options, open_session
from teamwright.core.data.event import FilesRestored
from teamwright.core.data.op import Rewind
from teamwright.models.scripted import ScriptedModel, call

async def main():
    project, home = sys.argv[1:]
    change = call("Bash", command="head -c 2000000 /dev/zero > large; echo two > small; echo three > new")
    env = {"HOME": home, "TEAMWRIGHT_HOME": f"{home}/.teamwright", "PATH": "/usr/bin:/bin"}
    options = Options(cwd=Path(project), env=env, own_model=ScriptedModel([[change], "end", "more"]), keep_files=True,
                      mode="bypassPermissions", may_bypass=True)
    async with await open_session(options) as opened:
        watch = opened.watch()
        await opened.ask("go")
        line = (await opened.services.rewinding.points())[0].line
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
        await opened.submit(Rewind(line, conversation=False, files=True))
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert (await opened.ask("more")).reason == "done"
    async for record in watch:
        if isinstance(record.event, FilesRestored):
            print(*record.event.left, sep="\\n")

anyio.run(main)
"""


@pytest.mark.spec("RW4", "RW7")
def test_a_full_disk_costs_no_file(walker: Walker) -> None:
    old = {"large": b"o" * 2_000_000, "small": b"one\n"}
    for name, data in old.items():
        (walker.project / name).write_bytes(data)
    subprocess.run(["git", "init", "-q"], cwd=walker.project, check=True, timeout=30)
    argv = [sys.executable, "-c", FULL, str(walker.project), str(walker.home)]
    ran = subprocess.run(argv, capture_output=True, timeout=60, check=False, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "large: it could not be kept as it is now: The disk is full" in ran.stdout and ran.stdout.count("\n") == 1
    assert content(walker.project / "large") == b"\0" * 2_000_000
    assert content(walker.project / "small") == b"one\n" and not (walker.project / "new").exists()


def content(file: Path) -> bytes:
    return file.read_bytes() if file.exists() else b""
