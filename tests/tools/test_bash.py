"""The Bash tool as a model meets it."""

import os
import shutil
import stat
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from bash_bench import Bench, words

from teamwright.core.data.event import ToolProgressed
from teamwright.core.errors import ToolError
from teamwright.core.ids import CallId
from teamwright.tools.bash import BashTool

pytestmark = pytest.mark.anyio


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    root = (tmp_path / "project").resolve()
    root.mkdir()
    return Bench(root)


async def test_output_status_and_data(bench: Bench) -> None:
    outcome = await bench("echo out; echo err >&2")
    assert words(outcome) == "out\nerr"
    assert (outcome.is_error, outcome.cwd, outcome.data) == (False, "", {"exitCode": 0, "interrupted": False})
    assert await bench.says("true") == "(no output)"
    outcome = await bench("echo before; exit 3")
    assert words(outcome) == "before\nExit code 3"
    assert (outcome.is_error, outcome.data) == (True, {"exitCode": 3, "interrupted": False})


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cat <<'END'\n$HOME `date`\nEND\necho after", "$HOME `date`\nafter"),
        ("printf 'no newline'", "no newline"),
        ("set -e; false; echo not here", "(no output)\nExit code 1"),
        ("set -u; echo $nope; echo not here", "bash: line 1: nope: unbound variable\nExit code 127"),
        ("set -x; echo a", "++ echo a\na"),
        ("set -x; false", "++ false\nExit code 1"),
        ("false\nnope", "bash: line 2: nope: command not found\nExit code 127"),
        ('echo "$0 $# [$1]"', "bash 0 []"),
        ("exec echo replaced", "replaced"),
        ("trap 'echo bye' EXIT; exit 4", "bye\nExit code 4"),
        ("trap 'echo bye' EXIT; echo hi", "hi\nbye"),
        ('read -r x; echo "[$x] $?"', "[] 1"),
        ("cat | wc -c", "0"),
        ("kill -9 $$", "(no output)\nEnded by signal SIGKILL"),
        ("echo x; kill -TERM $$", "x\nEnded by signal SIGTERM"),
        ("exec 3>&1 6>log; echo three >&3; echo six >&6; cat log", "three\nsix"),
        ("echo 'ünï ✓ \"quoted\"' \\\\ $'a\\tb'", 'ünï ✓ "quoted" \\ a\tb'),
        ("# only a comment", "(no output)"),
        ("test -t 0 || test -t 1 || echo no terminal; tty", "no terminal\nnot a tty\nExit code 1"),
    ],
)
async def test_shell_as_people_know_it(command: str, expected: str, bench: Bench) -> None:
    assert await bench.says(command) == expected


async def test_a_syntax_error_says_where(bench: Bench) -> None:
    text = await bench.says("echo first\nif then\n")
    assert text.startswith("first\n")
    assert "line 2: syntax error near unexpected token `then'" in text
    assert text.endswith("Exit code 2")


async def test_nothing_of_ours_ends_up_in_a_file_of_the_script(bench: Bench) -> None:
    await bench("for n in $(seq 3 100); do eval exec $n'>'file$n; done; cd /")
    assert {path.read_bytes() for path in bench.root.iterdir()} == {b""}


@pytest.mark.spec("A3")
@pytest.mark.parametrize(
    "command",
    ["cd 'a b'", "cd 'a b'; exit 3", "cd 'a b'; false", "set -e; cd 'a b'; false", "cd 'a b'; nope", "pushd 'a b'",
     "cd 'a b'; trap 'echo mine' EXIT", "cd 'a b'\nif then", "cd 'a b'; echo $'/etc\\n\\0/etc'", "set -x; cd 'a b'",
     "cd a\\ b && (cd /; exit 1)", "ln -s 'a b' link; cd link", "sleep 1000 & cd 'a b'"],
)  # fmt: skip
async def test_the_working_directory_is_kept(command: str, bench: Bench) -> None:
    (bench.root / "a b").mkdir()
    outcome = await bench(command)
    assert outcome.cwd == str(bench.root / "a b")
    assert bench.desk.cwd == bench.root / "a b"
    assert await bench.says("pwd") == str(bench.root / "a b")
    assert (await bench("cd ..")).cwd == str(bench.root)


async def test_a_directory_with_a_newline_in_its_name(bench: Bench) -> None:
    await bench("mkdir $'a\\nb\\n'; cd $'a\\nb\\n'")
    assert bench.desk.cwd == bench.root / "a\nb\n"


async def test_a_directory_whose_name_is_no_text(bench: Bench) -> None:
    outcome = await bench("mkdir $'\\xff'; cd $'\\xff'")
    assert bench.desk.cwd == bench.root
    assert "is not UTF-8" in words(outcome)
    words(outcome).encode()


@pytest.mark.spec("A3")
@pytest.mark.parametrize("command", ["exec true", "kill -9 $$"])
async def test_a_shell_that_cannot_tell_leaves_the_directory_as_it_was(command: str, bench: Bench) -> None:
    (bench.root / "sub").mkdir()
    outcome = await bench("cd sub; " + command)
    assert (outcome.cwd, bench.desk.cwd) == ("", bench.root)


@pytest.mark.spec("A3")
@pytest.mark.parametrize("forged", ["$PWD/../..", "$PWD/out", "$PWD/sub/../out/bin", "/proc/self/cwd", "sub"])
async def test_a_forged_report_leads_nowhere_else(forged: str, bench: Bench) -> None:
    """A command can find the file into which the shell writes its directory."""
    (bench.root / "sub").mkdir()
    (bench.root / "out").symlink_to("/usr")
    find = "for fd in /proc/self/fd/*; do case $(readlink $fd) in *memfd*) box=${fd##*/};; esac; done"
    outcome = await bench(f'{find}; eval "printf \'%s\\0\' \\"{forged}\\" >&$box"; kill -9 $$')
    assert f"The working directory is {bench.root} again" in words(outcome)
    assert bench.desk.cwd == bench.root


async def test_leaving_the_working_directories_leads_back(bench: Bench) -> None:
    (bench.root / "sub").mkdir()
    await bench("cd sub")
    outcome = await bench("cd /; pwd; exit 2")
    again = f"The working directory is {bench.root} again: / is outside the working directories."
    assert words(outcome) == f"/\n{again}\nExit code 2"
    assert (outcome.cwd, bench.desk.cwd) == (str(bench.root), bench.root)
    outcome = await bench("cd ..")
    assert outcome.cwd == "", "it has not moved"
    sibling = bench.root.parent / "project-2"
    sibling.mkdir()
    assert "outside" in await bench.says(f"cd {sibling}")
    bench.desk.roots = (bench.root, sibling)
    assert (await bench(f"cd {sibling}")).cwd == str(sibling)


async def test_a_directory_that_vanished(bench: Bench) -> None:
    outcome = await bench("mkdir gone; cd gone; rmdir ../gone")
    assert words(outcome).endswith(f"{bench.root} again: the directory in which the command ended is gone.")
    assert bench.desk.cwd == bench.root
    await bench("mkdir later; cd later")
    (bench.root / "later").rmdir()
    outcome = await bench("pwd")
    assert (
        words(outcome)
        == f"{bench.root}\nThe working directory {bench.root}/later was gone; the command ran in {bench.root}."
    )
    assert outcome.cwd == str(bench.root)
    shutil.rmtree(bench.root)
    with pytest.raises(ToolError, match="does not exist any more"):
        await bench("pwd")


@pytest.mark.spec("A9")
@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        ({"command": "echo a\0b"}, "NUL"),
        ({"command": "echo \ud800"}, "surrogate"),
        ({"command": "  \n"}, "empty"),
        ({"command": 3}, "do not fit"),
        ({"command": "true", "timeout": "soon"}, "do not fit"),
    ],
)
async def test_what_cannot_be_run_is_told_in_words(args: dict[str, Any], complaint: str, bench: Bench) -> None:
    with pytest.raises(ToolError, match=complaint):
        await bench(**args)


async def test_a_command_of_two_megabytes(bench: Bench) -> None:
    blob = "0123456789abcdef" * (1 << 17)
    outcome = await bench(f"cat > big <<'END'\n{blob}\nEND\nwc -c < big; cat")
    assert words(outcome) == str(len(blob) + 1)
    assert (bench.root / "big").read_text() == blob + "\n"


async def test_the_command_does_not_show_in_the_list_of_processes(bench: Bench) -> None:
    outcome = await bench("pgrep -f strange-name-of-a-server; echo done")
    assert words(outcome) == "done", "pkill -f would have killed its own shell"


@pytest.mark.spec("A3")
async def test_the_time_limit(bench: Bench) -> None:
    started = time.monotonic()
    outcome = await bench("echo begun; sleep 1000 & echo $! > pid; cd /; sleep 1000", timeout=400)
    assert words(outcome).startswith("begun\n")
    ended, _, advice = words(outcome).rpartition(" If it needs more time: ")
    assert ended.endswith("Timed out after 0.4 s; it and everything it started was stopped.")
    assert advice == "a longer `timeout` (milliseconds, 600000 at most)."  # if nothing may run in the background
    assert outcome.is_error
    assert outcome.data == {"exitCode": None, "interrupted": True}
    assert time.monotonic() - started < 5
    assert not alive(int((bench.root / "pid").read_text()))


@pytest.mark.spec("A3")
async def test_a_command_that_ignores_sigterm_and_hides(bench: Bench) -> None:
    (bench.root / "deaf").write_text("trap '' TERM HUP INT; echo $$ >> pids; exec sleep 1000")
    script = """
    trap '' TERM
    env -i PATH="$PATH" setsid -f bash deaf >/dev/null 2>&1
    ( ( bash deaf & ) & )
    nohup bash deaf >/dev/null 2>&1 & disown
    while :; do sleep 1000; done
    """
    outcome = await bench(script, timeout=1000)
    assert "Timed out" in words(outcome)
    pids = [int(pid) for pid in (bench.root / "pids").read_text().split()]
    assert len(set(pids)) == 3
    assert not any(alive(pid) for pid in pids)


@pytest.mark.spec("A3")
async def test_a_cancelled_call_leaves_nothing(bench: Bench) -> None:
    pid_file = bench.root / "pid"
    async with anyio.create_task_group() as group:
        group.start_soon(bench, "sh -c 'echo $$ > tmp; mv tmp pid; exec sleep 1000'")
        with anyio.fail_after(10):
            while not pid_file.exists():
                await anyio.sleep(0.005)
        group.cancel_scope.cancel()
    assert not alive(int(pid_file.read_text()))


@pytest.mark.spec("A3")
async def test_nothing_runs_on_behind_a_foreground_call(bench: Bench) -> None:
    outcome = await bench("sleep 1000 >/dev/null 2>&1 & echo $!")
    assert not alive(int(words(outcome)))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.spec("A5")
async def test_huge_output_is_bounded_and_kept_in_a_private_file(bench: Bench) -> None:
    outcome = await bench("seq 1 3000000")
    text = words(outcome)
    assert text.startswith("1\n2\n3\n")
    assert text.endswith("\n2999999\n3000000")
    assert 7_500 < len(text) < 8_400, "it is sent with every later request"
    assert text.index("left out") < 2_100
    assert outcome.data
    path = Path(outcome.data["outputFile"])
    assert f"left out; the whole output is in {path} ...]" in text
    assert path.stat().st_size == 22_888_896
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.spec("A5")
async def test_huge_output_without_a_line_end_or_a_place_to_keep_it(bench: Bench) -> None:
    bench.desk.spill = None
    outcome = await bench("head -c 5000000 /dev/zero | tr '\\0' x; exit 1")
    assert words(outcome).removesuffix("Exit code 1").count("x") == 30_000
    assert "[... 4,970,000 bytes (0 lines) left out ...]" in words(outcome)
    assert words(outcome).endswith("\nExit code 1")


@pytest.mark.spec("A5")
async def test_output_that_cannot_be_kept_is_still_shown(bench: Bench) -> None:
    (bench.root / "file").write_text("")
    bench.desk.spill = bench.root / "file" / "below"
    outcome = await bench("seq 1 100000")
    assert "left out; they could not be kept: Not a directory ...]" in words(outcome)
    assert words(outcome).endswith("100000")


@pytest.mark.spec("A5", "A12")
@pytest.mark.parametrize("size", [20_000, 400_000])
async def test_binary_output(size: int, bench: Bench) -> None:
    outcome = await bench(f"head -c {size} /dev/urandom")
    text = words(outcome)
    assert len(text) < 31_000
    assert not [c for c in text if (ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0]
    text.encode()


@pytest.mark.spec("A12")
@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        (r"\033[31mred\033[0m", "red"),
        (r"\033]0;owned\007title", "title"),
        (r"10%%\r50%%\r100%%\ndone", "100%\ndone"),
        (r"bell\007 back\010", r"bell\x07 back\x08"),
        (r"\033[", r"\x1b["),
        (r"\302\233csi", r"\x9bcsi"),
        (r"\342\200\256rtl", r"\u202ertl"),
        (r"dos\r\n", "dos"),
        (r"\377\376", "��"),
    ],
)
async def test_no_control_sequence_gets_through(printed: str, shown: str, bench: Bench) -> None:
    assert await bench.says(f"printf '{printed}'") == shown


@pytest.mark.spec("A10")
async def test_the_environment_is_chosen(tmp_path: Path) -> None:
    env = {
        "PATH": os.environ["PATH"],
        "HOME": "/h",
        "MY_API_KEY": "k",
        "OPENAI_API_KEY": "s",
        "BASH_ENV": "/etc/profile",
    }
    bench = Bench(tmp_path.resolve(), env, ("MY_API_KEY",))
    told = dict(line.split("=", 1) for line in (await bench.says("env")).splitlines())
    assert told["MY_API_KEY"] == "k"
    assert (told["HOME"], told["TEAMWRIGHT_AGENT_ID"], told["TERM"], told["PAGER"]) == ("/h", "a1", "dumb", "cat")
    assert not {"OPENAI_API_KEY", "BASH_ENV"} & told.keys()
    assert told["PWD"] == str(tmp_path.resolve())


async def test_each_shell_is_fresh(bench: Bench) -> None:
    await bench("x=1; export Y=2; f() { echo f; }; set -f")
    assert (
        await bench.says('echo "[$x][$Y]" $-; type f 2>&1') == "[][] hBc\nbash: line 1: type: f: not found\nExit code 1"
    )


async def test_progress_is_told_while_it_runs(bench: Bench) -> None:
    await bench("echo quick")
    assert bench.events == []
    await bench("printf 'one\\n\\033[1mtwo\\033[0m\\n'; until [ -e go ]; do sleep 0.02; done", timeout=600)
    assert bench.events == [ToolProgressed(CallId("c1"), "two", "one\ntwo\n")]


@pytest.mark.skipif(sys.platform != "linux", reason="needs a PATH without bash")
async def test_without_bash_there_is_sh(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "cat", "mkdir"):
        (programs / name).symlink_to(shutil.which(name) or "")
    root = (tmp_path / "project").resolve()
    root.mkdir()
    bench = Bench(root, {"PATH": str(programs)})
    outcome = await bench("mkdir sub; cd sub; cat; echo ${BASH_VERSION:-no bash}; exit 3")
    assert words(outcome) == "no bash\nExit code 3"
    assert outcome.cwd == str(root / "sub")
    assert await bench.says("cat <<END\nhere\nEND\ncd ..") == "here"
    assert bench.desk.cwd == root


async def test_no_shell_at_all(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="sh could not be started"):
        await Bench(tmp_path.resolve(), {"PATH": str(tmp_path)})("true")


async def test_the_schema_that_a_model_sees() -> None:
    schema = BashTool().spec.schema
    assert list(schema["properties"]) == ["command", "description", "timeout"]
    assert schema["required"] == ["command"]
    assert not BashTool().spec.parallel
