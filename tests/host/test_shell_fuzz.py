"""Shell commands under random wrapping and noise, judged and compared with real bash."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shell_bench import Bench

EXAMPLES = int(os.environ.get("TEAMWRIGHT_EXAMPLES", "150"))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("shell"))


WRAPS = [
    "{}", "ls; {}", "{} && ls", "ls | {}", "({})", "{{ {}; }}", "echo $({})", "echo \"`{}`\"", "timeout 9 {}",
    "env A=b {}", "nice {}", "if ls; then {}; fi",
    "for x in a; do {}; done", "cat <({})", "! {}", "x=$({})", "{} > /dev/null", "ls || {} &", "xargs {}", "nohup {}",
    "while {}; do ls; done",
]  # fmt: skip
SIMPLE_ONLY = {"timeout 9 {}", "env A=b {}", "nice {}", "xargs {}", "nohup {}"}


@st.composite
def wrapped(draw: st.DrawFn, command: str) -> str:
    text, simple = command, True
    for wrap in draw(st.lists(st.sampled_from(WRAPS), max_size=5)):
        if wrap in SIMPLE_ONLY and not simple:
            continue
        if "`" in wrap and "`" in text:
            continue
        text = wrap.format(text)
        simple = simple and wrap in SIMPLE_ONLY
    return text


@pytest.mark.spec("M3", "M7")
@settings(max_examples=EXAMPLES, deadline=None)
@given(text=wrapped("sh run.sh"))
def test_wrapping_never_hides_a_denied_command(bench: Bench, text: str) -> None:
    assert bench.kind(text, "bypassPermissions", deny=["Bash(sh *)"]) == "deny", text
    assert bench.kind(text, allow=["Bash(echo *)", "Bash(ls *)"]) == "ask", text


@pytest.mark.spec("M7")
@settings(max_examples=EXAMPLES, deadline=None)
@given(
    joint=st.sampled_from([";", "&&", "||", "|", "&", "\n", " ;\n", "|&"]),
    tail=wrapped("sh run.sh"),
    noise=st.text("ab '\"\\\n$(){};&|<>`#*~", max_size=8),
)
def test_nothing_rides_on_an_allowed_command(bench: Bench, joint: str, tail: str, noise: str) -> None:
    """Whatever is added is either part of a word (then bash runs nothing more), or the line needs approval."""
    text = f"echo a {joint} {tail}"
    assert bench.kind(text, allow=["Bash(echo *)"]) == "ask", text
    assert bench.kind(f"{noise}{joint}sh run.sh", "dontAsk") in ("deny", "allow")


@pytest.mark.spec("M7")
@settings(max_examples=EXAMPLES, deadline=None)
@given(text=st.text("ls ho'\"\\\n$(){};&|<>`#*~=[]!-", max_size=40))
def test_no_text_makes_the_judge_fail(bench: Bench, text: str) -> None:
    assert bench.kind(text, "bypassPermissions", deny=["Bash(rm *)"]) in ("allow", "ask", "deny")


PIECES = ["echo", "a", "zz", " ", "  ", "\n", ";", "&&", "||", "|", "&", "(", ")", "{", "}", "{ ", "; }", "$(", "`",
    "<(", ">(", "'", '"', "\\", "\\\n", "$", "${x:-", "}", "$((", "))", "x=", "x=zz", "$x", "<<E\n", "\nE\n",
    "<<'E'\n", "<<-E\n", "\tE", "<<<", "> f", "#", "!", "[[ ", " ]]", "[ ", " ]", "if ", "; then ", "; fi",
    "for x in ", "; do ", "; done", "while ", "case a in a) ", ";; esac", "eval ", "bash -c ", "f() ", "$'", "$\"",
    "*", "?", "~", "time ", "env ", "command ", "cd .", "\\'", "\\\"", "E", "\tzz", "=~", "[", "]", ",",
    ".."]  # fmt: skip


@pytest.fixture(scope="module")
def trap(bench: Bench) -> Path:
    """A directory of programs: one that must never run, and otherwise only programs that read."""
    programs = bench.root.parent / "bin"
    programs.mkdir()
    (programs / "zz").write_text(f"#!/bin/bash\n: > {bench.root.parent}/sprung\n")
    (programs / "zz").chmod(0o755)
    for name in ("env", "bash", "cat", "ls"):
        (programs / name).symlink_to(shutil.which(name) or "/bin/" + name)
    assert springs(bench, programs, "zz") and springs(bench, programs, "echo $(zz)")
    return programs


def springs(bench: Bench, trap: Path, text: str) -> bool:
    """Does real bash run the program, or write anything, given this text?"""
    place, sprung = bench.root / "src", bench.root.parent / "sprung"
    env = {"PATH": str(trap), "HOME": str(bench.home)}
    subprocess.run(
        ["/bin/bash", "-c", text],
        cwd=place,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        check=False,
    )
    found = sprung.exists() or {p.name for p in place.iterdir()} != {"a.py"}
    sprung.unlink(missing_ok=True)
    return found


@pytest.mark.spec("M7")
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pieces=st.lists(st.sampled_from(PIECES), min_size=2, max_size=14))
def test_what_passes_unasked_runs_nothing_in_real_bash(bench: Bench, trap: Path, pieces: list[str]) -> None:
    """If the judge lets it through, bash must not see more in it than the judge did."""
    text = "echo " + "".join(pieces)
    if bench.judge(text, cwd=bench.root / "src").kind == "allow":
        assert not springs(bench, trap, text), text
