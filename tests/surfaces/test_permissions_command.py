"""`teamwright permissions`, `trust` and `untrust`."""

import json
import os
import shutil
import sys

import pytest

from program import Program, bash

LOCAL = ".teamwright/settings.local.json"


def write(program: Program, name: str, value: object) -> None:
    file = program.project / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(value))


@pytest.mark.spec("M5")
def test_rules_are_listed_with_their_source_and_local_ones_removed(program: Program) -> None:
    program.state.mkdir(exist_ok=True)
    (program.state / "settings.json").write_text(json.dumps({"permissions": {"deny": ["Read(.env)"]}}))
    assert program.run("permissions").out == "      RULE        FROM\ndeny  Read(.env)  user\n"
    write(program, LOCAL, {"permissions": {"allow": ["Bash(make *)", "Task(x)"]}, "env": {"A": "b"}})
    untrusted = program.run("permissions")
    assert "make" not in untrusted.out and "is not trusted" in untrusted.err
    assert program.run("permissions", "remove", "Bash(make *)").rc == 2  # not agreed to
    assert program.run("trust").rc == 0
    rows = json.loads(program.run("permissions", "--json").out)
    assert [(row["behaviour"], row["rule"], row["source"]) for row in rows] == [
        ("deny", "Read(.env)", "user"), ("allow", "Bash(make *)", "local"), ("allow", "Agent(x)", "local"),
    ]  # fmt: skip
    removed = program.run("permissions", "remove", "Bash(make *)", "Agent(x)")
    assert removed.rc == 0 and f"removed from {LOCAL}: allow Bash(make *)" in removed.out
    assert json.loads((program.project / LOCAL).read_text()) == {"env": {"A": "b"}}
    assert [row["rule"] for row in json.loads(program.run("permissions", "--json").out)] == ["Read(.env)"]
    for args, words in (
        (("remove", "Bash(make *)"), f"there is no rule Bash(make *) in {LOCAL}"),
        (("remove", "Read(.env)"), "it is in the user settings"),
        (("remove",), "give the rule"),
        (("list", "Bash"), "did you mean"),
    ):
        ran = program.run("permissions", *args)
        assert ran.rc == 2 and words in ran.err, args


@pytest.mark.spec("M12")
def test_a_directory_is_trusted_and_untrusted_by_command(program: Program) -> None:
    hooks = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "echo \x1b[31m"}]}]}}
    write(program, ".claude/settings.json", hooks)
    elsewhere = program.root / "elsewhere"
    elsewhere.mkdir()

    def trusted() -> bool:
        return json.loads(program.run("config", "--json").out)["trusted"]

    assert not trusted()
    said = program.run("trust", str(program.project))
    assert said.rc == 0 and "hooks, which run commands\n  Stop: echo \\x1b[31m" in said.out and trusted()
    write(program, ".claude/settings.json", {"hooks": {}, "model": "x"})
    assert not trusted()  # it has changed
    assert json.loads(program.run("trust", "--json").out)["trusted"] and trusted()
    assert "no longer trusted" in program.run("untrust").out and not trusted()
    assert "was not trusted" in program.run("untrust").out
    assert program.run("trust", str(program.root / "missing")).rc == 2
    assert program.run("untrust", str(elsewhere)).rc == 0


@pytest.mark.spec("M5")
def test_untrusting_takes_saved_rules_with_it(program: Program) -> None:
    write(program, LOCAL, {"permissions": {"allow": ["Bash(make *)"]}})
    assert program.run("trust").rc == 0 and "make" in program.run("permissions").out
    assert program.run("untrust").rc == 0 and "make" not in program.run("permissions").out


@pytest.mark.spec("M12")
@pytest.mark.parametrize("args", [("trust",), ("untrust",), ("permissions", "remove", "Bash")])
def test_agents_do_not_give_themselves_trust(program: Program, args: tuple[str, ...]) -> None:
    line = f"{sys.executable} -m teamwright {' '.join(args)}"
    ran = program.prompt([bash(line), "done"], "--output-format", "stream-json", "--allowed-tools", "Bash")
    ((said, failed),) = ran.tool_results
    assert failed and "is for the person" in said and not (program.state / "trust.json").exists()


@pytest.mark.spec("O2")
def test_whoever_makes_the_home_first_makes_it_private(program: Program) -> None:
    home = program.home / ".teamwright"
    for first in (["trust", "."], ["mcp", "add", "x", "true"], ["agents"]):
        shutil.rmtree(home, ignore_errors=True)
        old = os.umask(0o022)
        try:
            assert program.run(*first).rc == 0
        finally:
            os.umask(old)
        assert [path for path in (home, *home.rglob("*")) if path.exists() and path.stat().st_mode & 0o077] == []
