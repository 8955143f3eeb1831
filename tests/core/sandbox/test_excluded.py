"""Which command lines leave the sandbox by `excludedCommands`, and which paths permission rules name for it."""

import pytest

from teamwright.core.permissions.rules import Rule, parse_rule
from teamwright.core.sandbox.rules import SandboxRules, excluded, rule_paths
from teamwright.host.shell.analysis import read_command
from teamwright.host.shell.cwd import ShellContext

AROUND = ShellContext(cwd="/tmp", home="/root", roots=("/tmp",))


def leaves(line: str, *patterns: str) -> bool:
    return excluded(read_command(line, "Bash", AROUND), SandboxRules(excluded=patterns or ("docker *",)))


@pytest.mark.spec("V13")
@pytest.mark.parametrize(
    "line",
    [
        "docker ps",
        "docker ps -a 2>&1",
        "docker ps | docker load",
        "docker ps && docker images; docker info || docker info",
        "docker run 'a b' \"c d\"",
        "docker ps\ndocker images",
    ],
)
def test_a_line_of_excluded_commands_leaves(line: str) -> None:
    assert leaves(line)


@pytest.mark.spec("V13")
@pytest.mark.parametrize(
    "line",
    [
        "ls",
        "",
        "dockerx ps",
        "docker ps; ls",
        "docker ps | sh",
        "docker ps && sh -c 'id'",
        "docker $(id)",
        "docker `id`",
        'docker "$(id)"',
        "docker $HOME",
        "docker ps > x",
        "docker ps >> x",
        "docker ps 2> x",
        "docker ps 2>&11",
        "docker ps < x",
        "docker ps <<X\nhi\nX",
        "docker ps <<< x",
        "docker ps &",
        "docker ps & ls",
        "cd x && docker ps",
        "A=1 docker ps",
        "A='; id' bash -c 'docker ps'",
        "PATH=. docker ps",
        "export A=1; docker ps",
        "timeout 5 docker ps",
        "env docker ps",
        "sudo docker ps",
        "command docker ps",
        "exec docker ps",
        "xargs docker ps",
        "docker() { sh other.sh; }; docker ps",
        "function docker { sh x; }; docker ps",
        "alias docker=sh; docker ps",
        "(docker ps)",
        "{ docker ps; }",
        "docker {a,b}",
        "docker ps <(id)",
        "docker ps \\\n; ls",
        "docker ps # $(x)",
        "docker 'unclosed",
        "! docker ps",
        "./docker ps",
    ],
)
def test_anything_else_keeps_the_whole_line_inside(line: str) -> None:
    assert not leaves(line)


@pytest.mark.spec("V13")
def test_a_wildcard_for_all_takes_no_wrapper_and_no_state_along() -> None:
    assert leaves("make all", "*")
    for line in ("sudo make", "env make", "cd x", "A=1", "A=1 make", "eval make", ". x", "xargs rm"):
        assert not leaves(line, "*"), line
    assert leaves("sudo systemctl restart x", "sudo systemctl *")


def test_nothing_is_excluded_by_default() -> None:
    assert not excluded(read_command("docker ps", "Bash", AROUND), SandboxRules())


@pytest.mark.spec("V3", "V6")
@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("Edit(//srv/x)", "/srv/x"),
        ("Edit(~/x/**)", "/home/u/x/**"),
        ("Edit(/src/**)", "/p/src/**"),
        ("Edit(./src)", "/p/src"),
        ("Edit(a/b)", "/p/a/b"),
        ("Edit(.env)", "/p/**/.env"),
        ("Edit(../n/x)", "/n/x"),
    ],
)
def test_paths_of_permission_rules(text: str, path: str) -> None:
    rule = parse_rule(text, "user", "/p", "/home/u")
    assert isinstance(rule, Rule) and rule_paths([rule], "Edit") == (path,) and rule_paths([rule], "Read") == ()


def test_a_rule_for_a_whole_tool_names_no_path() -> None:
    rules = [parse_rule(text, "user", "/p", "/home/u") for text in ("Edit", "Edit(//)")]
    assert rule_paths([rule for rule in rules if isinstance(rule, Rule)], "Edit") == ()
