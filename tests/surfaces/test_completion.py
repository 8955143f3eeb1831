"""`teamwright completion`: what each shell offers, as the shell itself reports it; and the manual pages."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from program import Program

pytestmark = pytest.mark.spec("CL6")
LIMIT = 60.0
MAN = Path(__file__).parent.parent.parent / "scripts" / "man"
# Zsh completes only in a terminal: this makes one, and reads until it shows the expected words.
ZSH = r"""
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PROMPT=; autoload -U compinit && compinit -D; source $1; bindkey '^I' list-choices; print re''ady"
zpty -r shell seen '*ready*'
zpty -w -n shell "teamwright $2"$'\t'
zpty -r shell seen "*$3*"
print -r -- $seen
zpty -d shell
"""


def needs(shell: str) -> str:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    return found


def script(program: Program, tmp_path: Path, shell: str) -> Path:
    done = program.run("completion", shell)
    assert done.rc == 0 and not done.err
    file = tmp_path / f"teamwright.{shell}"
    file.write_text(done.out)
    return file


def run(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout


def in_bash(file: Path, *typed: str) -> set[str]:
    words = " ".join(f"'{word}'" for word in ("teamwright", *typed))
    asked = f"COMP_WORDS=({words}); COMP_CWORD={len(typed)}; _teamwright"
    lines = f'source "{file}"; {asked}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    return set(run(needs("bash"), "--norc", "-c", lines).split())


def test_bash_offers_commands_options_and_their_values(program: Program, tmp_path: Path) -> None:
    file = script(program, tmp_path, "bash")
    assert in_bash(file, "work") == {"worker", "workers", "worktrees"}
    assert in_bash(file, "--output-f") == {"--output-format"}
    assert in_bash(file, "--output-format", "") == {"text", "json", "stream-json"}
    assert in_bash(file, "sessions", "") >= {"list", "delete", "--older-than", "--json"}
    assert in_bash(file, "sessions", "--older-than", "") == set()
    assert in_bash(file, "mcp", "--transport", "s") == {"stdio", "sse"}
    assert in_bash(file, "completion", "") >= {"bash", "zsh", "fish"}


def test_fish_offers_the_same(program: Program, tmp_path: Path) -> None:
    fish, file = needs("fish"), script(program, tmp_path, "fish")

    def offered(line: str) -> set[str]:
        found = run(fish, "--no-config", "-c", f"source {file}; complete -C '{line}'")
        return {text.split("\t")[0] for text in found.splitlines()}

    assert "worktrees" in offered("teamwright work") and "sessions" not in offered("teamwright work")
    assert offered("teamwright --output-format ") >= {"text", "json", "stream-json"}
    assert offered("teamwright sessions --old") == {"--older-than"}
    assert "--older-than" not in offered("teamwright mcp --")


def test_zsh_offers_the_same(program: Program, tmp_path: Path) -> None:
    zsh, file = needs("zsh"), script(program, tmp_path, "zsh")

    def offered(typed: str, last: str) -> str:
        return run(zsh, "-f", "-c", ZSH, "zsh", str(file), typed, last)

    assert "attach" in offered("", "agents' git worktrees")
    assert "--all" in offered("sessions --", "last used more than")
    assert "json" in offered("--output-format ", "stream-json")


def test_an_unknown_shell_is_one_line(program: Program) -> None:
    done = program.run("completion", "tcsh")
    assert done.rc == 2 and "'tcsh' is not one of bash, zsh, fish" in done.err and done.err.count("\n") == 1


def test_manual_pages_are_as_the_parsers_are() -> None:
    done = subprocess.run([sys.executable, MAN, "--check"], capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stdout


def test_manual_pages_can_be_formatted() -> None:
    groff = needs("groff")
    for page in sorted((MAN.parent.parent / "man").glob("*.1")):
        done = subprocess.run([groff, "-man", "-Tutf8", "-ww", page], capture_output=True, text=True, check=False)
        assert done.returncode == 0 and not done.stderr and "OPTIONS" in re.sub(".\x08", "", done.stdout), page.name
