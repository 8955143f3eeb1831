"""How the program ends: its status, what it leaves running (nothing), and which handles may be closed."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from program import ARGV, LIMIT, Live, Program, alive, bash, wait_file

STUBBORN = "trap '' TERM INT HUP; echo $$ > pid; while :; do sleep 0.2; done"


def pid_in(program: Program, live: Live) -> int:
    """The pid that the command writes once it runs."""
    live.wait_for(lambda line: line["type"] == "assistant")
    return int(wait_file(program.project / "pid"))


def stream(program: Program, command: str) -> Live:
    return program.start(
        "-p", "go", "--output-format", "stream-json", "--dangerously-skip-permissions", script=[bash(command), "never"]
    )


@pytest.mark.spec("A3")
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=str
)
def test_a_signal_ends_the_program_and_a_tool_that_ignores_it(
    program: Program, number: signal.Signals, status: int
) -> None:
    live = stream(program, STUBBORN)
    pid = pid_in(program, live)
    live.process.send_signal(number)
    assert live.process.wait(6) == status
    assert not alive(pid)
    ran = live.end()
    assert ran.result["subtype"] == "error_during_execution" and "Traceback" not in ran.err
    again = program.prompt(["one", "two", "went on"], "--continue", text="more")
    assert again.rc == 0  # the session can go on


@pytest.mark.spec("A3")
def test_a_child_that_left_the_group_is_gone_too(program: Program) -> None:
    live = stream(program, "setsid sh -c \"trap '' TERM; echo \\$\\$ > pid; sleep 100\" & wait")
    pid = pid_in(program, live)
    live.process.send_signal(signal.SIGTERM)
    assert live.process.wait(6) == 143 and not alive(pid)
    live.end()


@pytest.mark.spec("A3")
def test_a_second_signal_ends_it_at_once(program: Program) -> None:
    live = stream(program, STUBBORN)
    pid = pid_in(program, live)
    for _ in range(2):
        live.process.send_signal(signal.SIGINT)
    assert live.process.wait(6) == 130 and not alive(pid)


def test_a_reader_that_goes_away_ends_the_work_and_its_tools(program: Program) -> None:
    """As in `teamwright ... | head -1`."""
    argv = [*ARGV, "-p", "go", "--output-format", "stream-json", "--dangerously-skip-permissions"]
    argv += program.model([[bash("echo $$ > pid")], *[[bash("echo x")]] * 200, "end"])
    errors = program.root / "stderr"
    with (
        errors.open("wb") as file,
        subprocess.Popen(
            argv, cwd=program.project, env=program.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=file
        ) as process,
    ):
        assert process.stdout
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(LIMIT) == 1
    assert "Traceback" not in errors.read_text() and "Exception ignored" not in errors.read_text()
    assert program.transcript().read_text().count('"tool_ended"') < 200  # it did not continue to work for nobody


@pytest.mark.parametrize("format", ["text", "json"])
def test_a_closed_output_is_no_traceback(program: Program, format: str) -> None:
    read, write = os.pipe()
    os.close(read)
    argv = [*ARGV, "-p", "go", "--output-format", format, *program.model(["words"])]
    done = subprocess.run(
        argv, cwd=program.project, env=program.env, stdin=subprocess.DEVNULL, stdout=write, stderr=subprocess.PIPE,
        timeout=LIMIT, check=False,
    )  # fmt: skip
    os.close(write)
    assert done.returncode == 1 and b"Traceback" not in done.stderr and b"Exception ignored" not in done.stderr


def test_a_silent_pipe_beside_a_prompt_does_not_hang(program: Program) -> None:
    live = program.start("-p", "go", "--output-format", "stream-json", script=["the answer"], pipe=True)
    (result,) = live.results(1)  # standard input is open all the while
    assert live.process.wait(LIMIT) == 0 and result["result"] == "the answer"


def test_a_prompt_comes_from_the_pipe_and_joins_the_argument(program: Program) -> None:
    echo = [{"tool": "Bash", "input": {"command": "echo '{{re:(?s)(.+)}}'"}}, "done"]
    ran = program.run("-p", "--output-format", "stream-json", script=echo, input=b"from the pipe\n")
    assert ran.rc == 0 and ran.tool_results[0][0] == "from the pipe"
    both = program.run("-p", "first", "--output-format", "stream-json", script=echo, input="zweitens ü\n".encode())
    assert both.tool_results[0][0] == "first\n\nzweitens ü"


def test_a_file_as_standard_input(program: Program) -> None:
    file = program.root / "prompt"
    file.write_bytes(b"bytes that are no text: \xff\xfe")
    with file.open("rb") as source:
        done = subprocess.run(
            [*ARGV, "-p", *program.model(["read it"])], cwd=program.project, env=program.env, stdin=source,
            capture_output=True, timeout=LIMIT, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, b"read it\n")


@pytest.mark.spec("O6")
def test_the_status_of_each_end(program: Program) -> None:
    assert program.prompt(["fine"]).rc == 0
    limited = program.prompt([bash("echo")] * 5, "--max-turns", "1")
    assert limited.rc == 1 and limited.result["subtype"] == "error_max_turns"
    refused = program.prompt([{"blocks": ["no"], "stop": "refusal"}])
    assert refused.rc == 1 and refused.result["stop_reason"] == "refusal"
    failed = program.run("-p", "go", script=[{"error": {"fault": "not_found", "message": "no such model"}}])
    assert (failed.rc, failed.out, failed.err) == (1, "", "teamwright: no such model\n")


def test_nothing_but_the_state_is_left_behind(program: Program, tmp_path: Path) -> None:
    temp = tmp_path / "tmp"
    temp.mkdir()
    ran = program.prompt([bash("echo hello"), "done"], env={"TMPDIR": str(temp)})
    assert ran.rc == 0 and list(temp.iterdir()) == []
    assert sorted(p.name for p in program.home.iterdir()) == [".teamwright"]
    assert list(program.project.iterdir()) == []
    for path in program.state.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


# --- streams and places that cannot be used


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("args", [["-p", "hi"], ["sessions"], ["--version"]])
def test_streams_that_are_closed_are_taken_by_no_file(program: Program, args: list[str], closed: str) -> None:
    argv = [*ARGV, *args, *program.model(["hello"])] if "-p" in args else [*ARGV, *args]
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh", *argv]
    ran = subprocess.run(shell, cwd=program.project, env=program.env, capture_output=True, timeout=LIMIT, check=False)
    assert ran.returncode == 0 and ran.stderr == b""
    assert (ran.stdout == b"") is (">&-" in closed.replace("2>&-", ""))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize(
    "args", [["-p", "hi"], ["-p", "hi", "--output-format", "stream-json", "--verbose"], ["config"], ["--version"]]
)
def test_a_full_disk_under_the_output_is_one_sentence(program: Program, args: list[str]) -> None:
    argv = [*ARGV, *args, *program.model(["hello"])] if "-p" in args else [*ARGV, *args]
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run(
            argv, cwd=program.project, env=program.env, stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE,
            timeout=LIMIT, check=False,
        )  # fmt: skip
    assert ran.returncode == 1 and ran.stderr == b"teamwright: the output cannot be written: No space left on device\n"


def test_a_path_that_the_machine_refuses_is_one_sentence(program: Program) -> None:
    ran = program.run("sessions", env={"TEAMWRIGHT_HOME": str(program.root / ("a" * 300))})
    assert ran.rc == 1 and "cannot be used: File name too long. Check the permissions" in ran.err
