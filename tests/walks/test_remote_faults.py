"""What can fail between a lead, its workers and the engine: nothing is lost, nothing runs twice, and whoever cannot
continue says why in one sentence.
"""

import contextlib
import errno
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine_kit import Server
from long_form import long_form
from program import Program
from remote_stage import LIMIT, Stage, away, ended, notices, until
from teamwright.store.engine.entry import FORMAT
from wire_kit import Wire

CLOCKS = Path(__file__).parents[1] / "clocks"
SHIM = Path(__file__).parents[1] / "teeth" / "disk_faults.c"
MANY = 10**9  # calls after which the disk fails


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server that may be killed."""
    (tmp_path / "server").mkdir()
    server = Server(tmp_path / "server")
    yield server
    server.kill()


@pytest.fixture
def own(tmp_path: Path, server: Server) -> Iterator[Stage]:
    """At that server."""
    stage = Stage(tmp_path, server.new_space())
    yield stage
    stage.close()


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except OSError:
        return True


def number(home: Path, sql: str) -> int:
    """As this machine knows it."""
    for path in home.glob("engines/*/state.db"):
        with (
            contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db,
            contextlib.suppress(sqlite3.Error),
        ):
            return db.execute(sql).fetchone()[0]
    return 0


def living(home: Path) -> int:
    """Processes that run agents."""
    return number(home, "SELECT count(*) FROM processes")


def at_gate(stage: Stage) -> list[object]:
    """One call that does not end by itself and reports its process, and one for whoever continues."""
    pid = stage.root / "pid"
    return [[stage.mark("one", then=f"echo $$ > {pid}; {stage.gate('never')}")], [stage.mark("two")], ["both"]]


@long_form
@pytest.mark.spec("Z8", "Z10")
@pytest.mark.parametrize("fault", ["stopped", "cut off"])
def test_a_worker_that_comes_back_too_late_finds_out_and_takes_other_work(
    own: Stage, server: Server, fault: str
) -> None:
    """Another worker has its agent: it ends the command, says so in one line, and stores nothing more for it."""
    with Wire(server.port) as wire:
        late = own.worker("w1", join=str(own.space).replace(str(server.port), str(wire.port)))
        scripts = {"main": [[away("far")], ["waiting"], ["end"]], "far": at_gate(own)}
        scripts |= {"again": [[away("next")], ["waiting"], ["end"]], "next": [[own.mark("three")], ["so"]]}
        model = own.script(**scripts)
        process = own.start(model)
        until(lambda: own.lines() == ["one"], "the call has not begun")
        other = own.worker("w2")
        if fault == "stopped":
            late.process.send_signal(signal.SIGSTOP)
        else:
            wire.cut()
        ran = ended(process)
        assert ran.rc == 0 and own.lines() == ["one", "two"], ran.err
        (told,) = notices(ran)
        assert told["status"] == "completed" and "unknown" in Path(told["output_file"]).read_text()
        late.process.send_signal(signal.SIGCONT)
        wire.mend()
        until(lambda: "was lost" in late.said, f"it does not say so: {late.said}")
        assert sum("was lost" in line for line in late.said.splitlines()) == 1
        pid = int((own.root / "pid").read_text())
        until(lambda: is_gone(pid), "its command still runs")
        other.process.send_signal(signal.SIGTERM)
        assert other.process.wait(LIMIT) == 143
        again = ended(own.start(model, script="again"))
        assert again.rc == 0 and own.lines() == ["one", "two", "three"], again.err
        until(lambda: "has finished" in late.said, f"it did not finish: {late.said}")


@long_form
@pytest.mark.spec("Z22", "Z8")
@pytest.mark.parametrize("outage", ["short", "longer than a lease"])
def test_an_engine_that_is_killed_costs_nothing(own: Stage, server: Server, outage: str) -> None:
    """The call that runs meanwhile ends, and its result counts when the engine is back."""
    worker = own.worker("w1")
    far = [[own.mark("one", then=own.gate("go"))], [own.mark("two")], ["both"]]
    process = own.start(own.script(main=[[away("far")], ["waiting"], ["end"]], far=far))
    until(lambda: own.lines() == ["one"], "the call has not begun")
    server.kill()
    (own.root / "go").touch()
    server.last(0 if outage == "short" else 9)
    server.start()
    ran = ended(process)
    assert ran.rc == 0 and own.lines() == ["one", "two"], ran.err
    (told,) = notices(ran)
    assert told["status"] == "completed" and "unknown" not in Path(told["output_file"]).read_text()
    assert "was lost" not in worker.said


@long_form
@pytest.mark.spec("Z29", "Z2")
def test_an_engine_that_comes_back_empty_stops_all_with_a_sentence(own: Stage, server: Server) -> None:
    worker = own.worker("w1")
    process = own.start(own.script(main=[[away("far")], ["waiting"], ["end"]], far=at_gate(own)))
    until(lambda: own.lines() == ["one"], "the call has not begun")
    server.kill()
    shutil.rmtree(server.root / "store")
    server.start()
    until(lambda: worker.process.poll() is not None, f"it goes on: {worker.said}")
    assert worker.process.returncode == 1 and "Restore the engine's own backup" in worker.said.splitlines()[-1]
    ran = ended(process)
    assert ran.rc == 1 and "Restore the engine's own backup" in ran.out and "Traceback" not in ran.err + worker.said
    again = own.program.run("-p", "go", "--engine", str(own.space), script=["no"])
    assert again.rc == 1 and "it lacks everything" in again.err and len(again.err.strip().splitlines()) == 1
    until(lambda: is_gone(int((own.root / "pid").read_text())), "its command still runs")


@long_form
@pytest.mark.spec("Z16", "Z10")
def test_of_two_leads_the_one_that_slept_says_so_and_stores_nothing(stage: Stage, tmp_path: Path) -> None:
    """Its lease is over and another machine leads: the first one comes back and ends by itself."""
    model = stage.script(main=[[stage.mark("one", then=stage.gate("go"))], [stage.mark("late")], ["late"]])
    first = stage.start([*model, "--session-id", "11111111-1111-4111-8111-111111111111"])
    until(lambda: stage.lines() == ["one"], "the call has not begun")
    first.send_signal(signal.SIGSTOP)
    (tmp_path / "other").mkdir()
    other = Program(tmp_path / "other")
    try:
        shutil.rmtree(other.project)
        subprocess.run(["git", "clone", "-q", stage.program.project, other.project], check=True, timeout=LIMIT)
        other.env["TEAMWRIGHT_LEASE_SECONDS"] = "4"
        flags = ("--engine", str(stage.space), "--resume", "11111111", "--dangerously-skip-permissions")
        ran = other.run("-p", "SCRIPT:next", *flags, script={"next": [[stage.mark("two")], ["I lead"]]})
        assert ran.rc == 0 and "I lead" in ran.out, ran.err
    finally:
        other.close()
    (stage.root / "go").touch()
    first.send_signal(signal.SIGCONT)
    late = ended(first)
    assert late.rc == 1 and "another one goes on in its place" in late.out, late.out
    assert stage.lines() == ["one", "two"]


@long_form
@pytest.mark.spec("Z16", "Z22")
def test_a_dead_lead_is_outwaited_also_through_an_absence_of_the_engine(own: Stage, server: Server) -> None:
    """After one, everybody has a fresh lease, including the dead: that is not a sign of life."""
    id = "11111111-1111-4111-8111-111111111111"
    model = own.script(main=[[own.mark("one", then=own.gate("never"))], ["never"]], next=[["I lead"]])
    own.program.env["TEAMWRIGHT_LEASE_SECONDS"] = "12"
    first = own.start([*model, "--session-id", id])
    until(lambda: own.lines() == ["one"], "the call has not begun")
    first.kill()
    ended(first)
    (own.root / "other").mkdir()
    env = own.program.env | {
        "TEAMWRIGHT_LEASE_SECONDS": "4",
        "HOME": str(own.root / "other"),
        "TEAMWRIGHT_HOME": str(own.root / "other" / "tw"),
    }
    argv = [sys.executable, "-m", "teamwright", "-p", "SCRIPT:next", "--engine", str(own.space), *model]
    with (own.root / "said").open("w+") as said:
        argv += ["--resume", id, "--dangerously-skip-permissions"]
        second = subprocess.Popen(argv, cwd=own.program.project, env=env, stdout=said, stderr=said)
        until(lambda: living(own.root / "other" / "tw") == 2, "it has not joined")
        server.kill()
        server.last(3)  # more than two thirds of a lease
        server.start()
        assert second.wait(LIMIT) == 0 and "I lead" in (own.root / "said").read_text(), (own.root / "said").read_text()


@long_form
@pytest.mark.spec("Z8", "Z6")
@pytest.mark.parametrize(("lead", "worker"), [("86400", "-86400"), ("-86400", "86400")])
def test_a_clock_that_is_a_day_off_has_no_effect(stage: Stage, lead: str, worker: str) -> None:
    """Nor on who takes over, nor on how long a worker is waited for."""
    late = {"PYTHONPATH": str(CLOCKS), "TEST_CLOCK_OFF": worker}
    first = stage.worker("w1", **late)
    stage.program.env |= {"PYTHONPATH": str(CLOCKS), "TEST_CLOCK_OFF": lead}
    process = stage.start(stage.script(main=[[away("far")], ["waiting"], ["end"]], far=at_gate(stage)))
    until(lambda: stage.lines() == ["one"], "the call has not begun")
    stage.worker("w2", **late)
    first.kill()
    ran = ended(process)
    assert ran.rc == 0 and stage.lines() == ["one", "two"], ran.err
    (told,) = notices(ran)
    assert told["status"] == "completed" and 0 < told["usage"]["duration_ms"] < 10 * 60 * 1000, told
    for one in stage.workers:
        one.stop()
    model = stage.script(main=[[away("far")], ["waiting"], ["end"]], far=["never"])
    settings = '{"teamwright": {"engine": {"workerWaitSeconds": 5}}}'
    ran = ended(stage.start(model, "--settings", settings))
    (told,) = notices(ran)
    assert told["status"] == "failed" and "it waited 5 s for a worker" in told["summary"], told


@long_form
@pytest.mark.spec("Z8", "Z10")
def test_a_worker_whose_disk_is_full_says_so_and_another_one_goes_on(stage: Stage) -> None:
    if shutil.which("cc") is None:
        pytest.skip("needs a compiler")
    shim, count = stage.root / "disk.so", stage.root / "count"
    argv = ["cc", "-shared", "-fPIC", "-O1", "-o", shim, SHIM, "-ldl", "-lpthread"]
    subprocess.run(argv, check=True, timeout=LIMIT)
    count.write_bytes(bytes(8))
    disk = {"LD_PRELOAD": str(shim), "DISK_ROOT": str(stage.root / "w1" / ".teamwright"), "DISK_COUNT": str(count)}
    disk |= {"DISK_AT": str(MANY), "DISK_ERROR": str(errno.ENOSPC), "DISK_TIMES": "0", "DISK_KINDS": ",write,sync,"}
    full = stage.worker("w1", **disk, DISK_LOG=str(stage.root / "faults"))
    process = stage.start(stage.script(main=[[away("far")], ["waiting"], ["end"]], far=at_gate(stage)))
    until(lambda: stage.lines() == ["one"], "the call has not begun")
    stage.worker("w2")
    with count.open("r+b") as file:
        file.write(struct.pack("q", MANY))
    ran = ended(process)
    assert ran.rc == 0 and stage.lines() == ["one", "two"] and notices(ran)[0]["status"] == "completed", ran.err
    assert full.process.wait(LIMIT) == 1 and "disk is full" in full.said.splitlines()[-1], full.said
    assert "Traceback" not in full.said and is_gone(int((stage.root / "pid").read_text()))


@pytest.mark.spec("Z25")
def test_a_worker_of_another_format_is_refused_with_both_numbers(stage: Stage) -> None:
    code = (
        "import anyio, sys\n"
        "from teamwright.store.engine import entry\n"
        "from teamwright.store.engine.wire import nats\n"
        "from teamwright.store.engine.wire.address import read_address\n"
        f"nats.FORMAT = {FORMAT + 1}\n"
        "async def main():\n"
        "    log = await nats.open_log(read_address(sys.argv[1]), 'lead', 'ada')\n"
        "    await log.close()\n"
        "anyio.run(main)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(stage.space)], check=True, timeout=LIMIT)
    argv = [sys.executable, "-m", "teamwright", "worker", "--join", str(stage.space)]
    ran = subprocess.run(argv, env=stage.program.env, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert ran.returncode == 1 and len(ran.stderr.strip().splitlines()) == 1, ran.stderr
    assert f"format {FORMAT + 1}" in ran.stderr and f"knows {FORMAT}" in ran.stderr


@long_form
@pytest.mark.spec("Z8")
def test_an_agent_whose_workers_end_three_times_at_one_place_has_failed(stage: Stage) -> None:
    """Three losses in a row at different places do not count: it made progress in between."""
    main, hangs = [[away("far")], ["waiting"], ["end"]], {"text": "never", "delay": 600}
    process = stage.start(stage.script(main=main, far=[hangs]))
    home = stage.program.state
    asked = "SELECT count(*) FROM ledger JOIN agents ON agents.n = ledger.agent WHERE agents.parent IS NOT NULL"

    def lose(life: int, done: Callable[[], bool] = lambda: True) -> None:
        worker = stage.worker(f"w{life}", lease="3")
        until(lambda: number(home, asked) == life and done(), f"life {life}: {worker.said}")
        worker.kill()

    for life in (1, 2, 3):  # the third is only the second at its place: the first began a transcript
        lose(life)
    stage.script(main=main, far=[[stage.mark("one", then=stage.gate("never"))], hangs])
    lose(4, lambda: stage.lines() == ["one"] and number(home, "SELECT losses FROM remotes") == 0)
    for life in (5, 6, 7, 8):  # the first of these left the result of that call: unknown
        lose(life)
    ran = ended(process)
    (told,) = notices(ran)
    assert told["status"] == "failed" and "3 times at the same place" in told["summary"], told
    assert stage.lines() == ["one"]


@pytest.mark.spec("Z21", "Z22")
@pytest.mark.parametrize(("drain", "signals"), [(3, [signal.SIGTERM]), (30, [signal.SIGTERM, signal.SIGINT])])
def test_a_worker_that_is_asked_to_leave_ends_though_the_engine_is_away(
    own: Stage, server: Server, drain: int, signals: list[signal.Signals]
) -> None:
    """After `drainSeconds`, not after the limit of patience; a second signal means now."""
    home = own.root / "w1" / ".teamwright"
    home.mkdir(parents=True)
    (home / "settings.json").write_text(f'{{"teamwright": {{"engine": {{"drainSeconds": {drain}}}}}}}')
    worker = own.worker("w1")
    own.start(own.script(main=[[away("far")], ["waiting"]], far=at_gate(own)))
    until(lambda: own.lines() == ["one"], "the call has not begun")
    server.kill()
    for number in signals:
        worker.process.send_signal(number)
    assert worker.process.wait(25) in (130, 143), worker.said
    assert is_gone(int((own.root / "pid").read_text())) and "Traceback" not in worker.said


@pytest.mark.spec("Z22")
def test_a_session_that_is_told_to_end_does_not_outwait_an_engine_that_is_away(own: Stage, server: Server) -> None:
    """A call is running, whose end cannot be stored."""
    process = own.start(own.script(main=at_gate(own)))
    until(lambda: own.lines() == ["one"], "the call has not begun")
    server.kill()
    process.send_signal(signal.SIGTERM)
    assert process.wait(45) == 143
    ran = ended(process)
    assert "Traceback" not in ran.err and is_gone(int((own.root / "pid").read_text()))
