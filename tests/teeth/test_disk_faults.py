"""A disk that fails: every run ends with an error or recovers, and nothing that was accepted is lost.

A sample of `make long`. A shim makes calls below the program's home fail; without a C compiler there is none.
"""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from disk_harness import Fault, Patient, build, compiler
from team_brain import Brain

from program import Program, bash, tool
from teamwright.core.ids import AgentId, SessionId
from teamwright.store.files import transcripts
from teamwright.store.files.paths import Home

pytestmark = [
    pytest.mark.spec("T6", "A2", "X2"),
    pytest.mark.skipif(compiler() is None, reason="there is no C compiler for the shim that lets the disk fail"),
]


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("shim"))


@pytest.fixture(scope="module")
def brain() -> Iterator[Brain]:
    brain = Brain()
    yield brain
    brain.close()


# --- a team

SAMPLE = [
    Fault(700, errno.EIO),
    Fault(1300, errno.ENOSPC, 6),
    Fault(60, errno.EIO, kinds=("sync",), power=True),
    Fault(120, errno.EIO, 3, kinds=("sync",), power=True),
    Fault(450, errno.ENOSPC, 0),  # while teammates are born
    Fault(1000, errno.EIO, 0),  # in the midst of tasks and messages
]


@pytest.mark.parametrize("fault", SAMPLE, ids=str)
def test_a_team_whose_disk_fails_ends_in_words_and_goes_on_when_it_is_well(
    brain: Brain, shim: Path, fault: Fault
) -> None:
    patient = Patient(brain, shim, "in-process", 100 + SAMPLE.index(fault))
    try:
        verdict = patient.suffer(fault)
    finally:
        patient.close()
    assert verdict.fired and not verdict.bad, str(verdict)
    if fault.times == 0:
        assert verdict.status == 1 and verdict.seconds < 15, str(verdict)


# --- one teammate

ID = "11111111-2222-4333-8444-555555555555"
TEAM = {
    "main": [
        tool("TeamCreate", team_name="crew"),
        tool("Agent", description="ada works", prompt="SCRIPT:ada", name="ada"),
        *["on"] * 3,
    ],
    "ada": [
        [bash("echo one >> log"), tool("SendMessage", to="team-lead", message="hi", summary="a note")],
        *["end"] * 3,
    ],
    "after": ["on"] * 3,
}


@pytest.mark.parametrize("at", range(3, 8))
def test_what_a_failed_sync_takes_from_a_transcript_does_not_run_again_by_itself(
    shim: Path, program: Program, at: int
) -> None:
    """Its syncs fail from here on, twice: the file ends at the last good one, and the finished call has no result."""
    (program.root / "count").write_bytes(bytes(8))
    below = Home(program.state).files(program.project, SessionId(ID)).agent(AgentId("a")).parent
    env = {
        "LD_PRELOAD": str(shim), "DISK_ROOT": str(below), "DISK_COUNT": str(program.root / "count"),
        "DISK_LOG": str(program.root / "disk"), "DISK_KINDS": ",sync,", "DISK_AT": str(at),
        "DISK_ERROR": str(errno.EIO), "DISK_TIMES": "2",
    }  # fmt: skip
    flags = ("--dangerously-skip-permissions", "--session-id", ID)
    failed = program.run("-p", "go", *flags, script=TEAM, env=env)
    fired = (program.root / "disk").exists()  # two that come at once share a sync, so there may be fewer
    assert failed.rc == int(fired) and (fired or at > 4), failed.err
    again = program.run("-p", "SCRIPT:after", flags[0], "--resume", ID, script=TEAM)
    assert again.rc == 0 and (program.project / "log").read_text() == "one\n", again.err


# --- one transcript

SCRIPT = """
import sys, anyio
from pathlib import Path
from teamwright.core.errors import DiskError
from teamwright.core.data.event import Reminded
from teamwright.core.data.message import user
from teamwright.store.files.transcripts import Transcript

async def main():
    path = Path(sys.argv[1])
    transcript = Transcript.create(path)
    for n in range(4):
        transcript.append(Reminded(user(f"line {n}")), n)
        try:
            await transcript.sync()
            print("synced", n)
        except DiskError as error:
            print("failed", n)
            break
    else:
        return
    for again in (transcript.sync, lambda: transcript.append(Reminded(user("late")), 9)):
        try:
            done = again()
            if done is not None and not isinstance(done, int):
                await done
            print("taken")
        except DiskError:
            print("refused")

anyio.run(main)
"""


def run_shimmed(shim: Path, root: Path, argv: list[str], at: int, times: int, kinds: str) -> str:
    count = root / "count"
    count.write_bytes(bytes(8))
    home = root / "home"
    home.mkdir()
    env = os.environ | {
        "LD_PRELOAD": str(shim), "DISK_ROOT": str(home), "DISK_COUNT": str(count), "DISK_LOG": str(root / "log"),
        "DISK_KINDS": kinds, "DISK_AT": str(at), "DISK_ERROR": str(errno.EIO), "DISK_TIMES": str(times),
    }  # fmt: skip
    done = subprocess.run([sys.executable, *argv], env=env, capture_output=True, text=True, timeout=30, check=True)
    return done.stdout


def lines_of(path: Path) -> list[str]:
    return [line.event.message.text for _, line in transcripts.read(path)]  # type: ignore[union-attr]


def test_what_a_failed_sync_may_have_dropped_is_written_anew(shim: Path, tmp_path: Path) -> None:
    path = tmp_path / "home" / "t.jsonl"
    said = run_shimmed(shim, tmp_path, ["-c", SCRIPT, str(path)], at=3, times=1, kinds=",sync,")
    assert said.split("\n")[:4] == [f"synced {n}" for n in range(4)]
    assert lines_of(path) == [f"line {n}" for n in range(4)]
    log = (tmp_path / "log").read_text().splitlines()
    assert log[0].startswith("failed 3 sync") and log[-1].startswith("sure "), log


def test_a_sync_that_fails_again_ends_the_file_at_its_last_good_mark_and_is_never_a_success(
    shim: Path, tmp_path: Path
) -> None:
    path = tmp_path / "home" / "t.jsonl"
    said = run_shimmed(shim, tmp_path, ["-c", SCRIPT, str(path)], at=4, times=2, kinds=",sync,")
    assert said.split() == ["synced", "0", "synced", "1", "failed", "2", "refused", "refused"]
    assert lines_of(path) == ["line 0", "line 1"]


# --- one group of commits

GROUP = """
import sys, anyio
from pathlib import Path
from teamwright.core.errors import DiskError
from teamwright.store.tables.state import StateStore
from teamwright.core.ids import SessionId

async def main():
    state = await StateStore.open(Path(sys.argv[1]))
    await state.register_session(SessionId("s0"), "/", 1)
    with open(sys.argv[2], "r+b") as count:  # from here on
        count.write(int(sys.argv[3]).to_bytes(8, sys.byteorder))
    said = []

    async def write(n):
        try:
            await state.register_session(SessionId(f"s{n}"), "/", n)
            said.append(f"stored{n}")
        except DiskError:
            said.append(f"failed{n}")

    async with anyio.create_task_group() as group:
        for n in range(1, 6):
            group.start_soon(write, n)
    rows = await state.database.read(lambda db: db.execute("SELECT count(*) FROM sessions").fetchone()[0])
    print(*sorted(said), rows)

anyio.run(main)
"""


@pytest.mark.parametrize(("times", "word"), [(1, "stored"), (0, "failed")])
def test_each_waiter_of_a_group_of_commits_hears_how_it_ended(
    shim: Path, tmp_path: Path, times: int, word: str
) -> None:
    path, count = tmp_path / "home" / "state.db", tmp_path / "count"
    argv = ["-c", GROUP, str(path), str(count), str(10_000)]
    said = run_shimmed(shim, tmp_path, argv, at=10_001, times=times, kinds=",sync,")
    assert said.split() == [*(f"{word}{n}" for n in range(1, 6)), "6" if times else "1"]
    assert (tmp_path / "log").read_text().startswith("failed 10001 sync")
