"""Commands that run unasked: those that change files in acceptEdits, and more that only read."""

import os
import subprocess
from pathlib import Path

import pytest
from shell_bench import Bench

from teamwright.host.shell.programs.awk import is_plain_program
from teamwright.host.shell.programs.sed import sed_use


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    found = Bench(tmp_path.resolve())
    (found.root / ".git").rmdir()
    subprocess.run(["git", "init", "-q", found.root], check=True)
    return found


@pytest.mark.spec("M11")
@pytest.mark.parametrize(
    "command",
    [
        "mkdir -p d/e && touch d/a && mv d/a d/b", "cp b.txt c.txt", "rm b.txt", "rm -rf src", "rmdir src/none",
        "sed -i s/a/b/ b.txt", "sed -i.bak -e 1d src/*.py", "git mv b.txt c.txt", "git rm -r src", "ln -s b.txt link",
        "rm leak", "rm way", "rm *.txt", "for f in *.txt; do mv \"$f\" \"old-$f\"; done", "cp -r src other",
    ],
)  # fmt: skip
def test_accept_edits_lets_files_be_moved_and_removed(bench: Bench, command: str) -> None:
    assert bench.kind(command, "acceptEdits") == "allow"
    assert bench.kind(command) == "ask" and bench.kind(command, "plan") == "deny"


@pytest.mark.spec("M11", "A6")
@pytest.mark.parametrize(
    "command",
    [
        "rm -r .git", "mv .git gone", "rm ../outside/secret", "cp b.txt ../x", "mv b.txt .git/hooks/x", "rm -r .",
        "rm -r ../project", "sed -i s/a/b/ ../outside/secret", "touch way/x", "cp b.txt leak", "ln -s ../outside x",
        "rm $x", "rm \"$x\"", "mv b.txt way", "mkdir -p a/../../x", "sed -i 'w x' b.txt", "git rm '*'",
        "touch x; rm *", "ln -s src x; touch x/y", "rm way; mkdir way; touch way/x", "cp --backup b.txt c.txt",
        "chmod 600 b.txt", "rm -r src/.", "git -C src mv a.py b.py", "for f in src b.txt; do ln -s $f new; done",
        "for f in src b.txt; do mv $f new; done",
    ],
)  # fmt: skip
def test_accept_edits_reaches_nothing_else(bench: Bench, command: str) -> None:
    assert bench.kind(command, "acceptEdits") != "allow"


@pytest.mark.spec("M11", "A6")
def test_what_lies_below_counts(bench: Bench) -> None:
    (bench.root / "app/.vscode").mkdir(parents=True)
    assert bench.kind("rm -r app", "acceptEdits") == "ask"
    (bench.root / "app/.vscode").rmdir()
    assert bench.kind("rm -r app", "acceptEdits") == "allow"
    assert bench.kind("rm -r app", "acceptEdits", deny=["Edit(app/keep)"]) == "ask"
    assert bench.kind("mv app x", "acceptEdits", deny=["Read(app/keep)"]) == "allow"
    (bench.root / "app/keep").write_text("")
    assert bench.kind("mv app x", "acceptEdits", deny=["Read(app/keep)"]) == "ask"
    assert bench.kind("cp -r app x", "acceptEdits", deny=["Read(keep)"]) == "ask"
    (bench.root / "app/link").symlink_to("../src")
    assert bench.kind("rm -r app", "acceptEdits") == "allow" and bench.kind("mv app x", "acceptEdits") == "ask"
    os.link(bench.outside / "secret", bench.root / "twin")
    assert bench.kind("touch twin", "acceptEdits") == "ask" and bench.kind("rm twin", "acceptEdits") == "allow"


@pytest.mark.spec("M11")
def test_a_rule_still_allows_the_command_itself(bench: Bench) -> None:
    assert bench.kind("rm ../x", allow=["Bash(rm *)"]) == "allow"
    assert bench.kind("rm b.txt", "acceptEdits", ask=["Bash(rm *)"]) == "ask"
    assert bench.kind("rm b.txt", "acceptEdits", deny=["Bash(rm *)"]) == "deny"
    assert bench.kind("rm b.txt", "acceptEdits", deny=["Edit(b.txt)"]) == "deny"


@pytest.mark.spec("M7")
def test_git_with_a_directory_is_git_to_a_rule(bench: Bench) -> None:
    assert bench.kind("git -C src add a.py", allow=["Bash(git add *)"]) == "allow"
    assert bench.kind("git -C .. add a.py", allow=["Bash(git add *)"]) == "ask"
    assert bench.kind("git -C src -c core.editor=x add a.py", allow=["Bash(git add *)"]) == "ask"
    assert bench.kind("git -C src push", "bypassPermissions", deny=["Bash(git push *)"]) == "deny"


@pytest.mark.spec("M7")
def test_a_path_for_python_is_covered_where_the_project_is_run_anyway(bench: Bench) -> None:
    allow = ["Bash(python -m pytest *)", "Bash(black *)"]
    assert bench.kind("PYTHONPATH=src python -m pytest -q", allow=allow) == "allow"
    for command in (
        "PYTHONPATH=../outside python -m pytest", "PYTHONPATH=$x python -m pytest", "PYTHONPATH=src black .",
        "PYTHONHOME=src python -m pytest", "PYTHONPATH=src python -m json.tool",
    ):  # fmt: skip
        assert bench.kind(command, allow=allow) == "ask", command


@pytest.mark.spec("M7", "M3")
def test_what_a_loop_goes_over_proves_nothing_to_a_rule_that_restricts(bench: Bench) -> None:
    for command in ("for f in ls; do $f x; done", "for f in push; do git $f; done", "$(pwd) x"):
        assert bench.kind(command, "bypassPermissions", deny=["Bash(touch *)", "Bash(git push *)"]) != "allow", command


@pytest.mark.spec("M3", "M7")
@pytest.mark.parametrize("rules", [{"deny": ["Bash(touch *)"]}, {"ask": ["Bash(touch *)"]}, {"deny": ["Read(.env)"]}])
def test_what_cannot_be_read_needs_approval_where_a_rule_restricts(bench: Bench, rules: dict[str, list[str]]) -> None:
    assert bench.kind("ls \\ #; x", "bypassPermissions") == "allow"
    assert bench.kind("ls \\ #; x", "bypassPermissions", **rules) == "ask"


@pytest.mark.spec("M7")
@pytest.mark.parametrize(
    ("program", "plain"),
    [
        ("{print $1}", True), ("$1 > 2 {print}", True), ('/a"b/ {n++} END {print n}', True), ("{print > 1}", False),
        ('{print | "x"}', False), ('BEGIN {system("x")}', False), ('{getline x < "f"}', False), ("{print a/b}", True),
        ('{ if (x) /"/; system("y") #"/ }', False), ('{x++ /system("y")/ 1}', False), ("{print a\n> f}", False),
        ("BEGIN {ARGV[1]=1}", False), ("@load \"x\"", False), ("/[a-z]+/", True), ("/[/]/", False),
    ],
)  # fmt: skip
def test_a_program_of_awk_is_read(program: str, plain: bool) -> None:
    assert is_plain_program(program) is plain


@pytest.mark.spec("M7")
@pytest.mark.parametrize(
    ("words", "plain"),
    [
        (["s/a/b/g"], True), (["-n", "/x/,$p"], True), (["-e", "1d", "-e", "$!N", "f"], True), (["s/a/b/w f"], False),
        (["s/a/b/e"], False), (["1e x"], False), (["r f"], False), (["{p;p}"], True), (["{w f}"], False),
        (["s/[/]/w f"], False), ([":a;N;$!ba;s/\\n/ /g"], True), (["-f", "x"], False), (["a text; w f"], True),
        (["p", "f", "-i"], True), (["p", "--follow-symlinks"], False), (["y/a/b/;W f"], False), (["s|a|b|I"], True),
    ],
)  # fmt: skip
def test_a_script_of_sed_is_read(words: list[str], plain: bool) -> None:
    assert (sed_use(words) is not None) is plain
