"""Tells without running git what a repository's own configuration would make git run."""

import os
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teamwright.core.permissions.judge import Verdict, judge
from teamwright.core.permissions.rules import Rules, parse_rules
from teamwright.host.git.config import UNREADABLE, local_settings, programs, read_elsewhere
from teamwright.host.git.config_file import UnreadableError, parse, read_config
from teamwright.host.shell.analysis import read_command
from teamwright.host.shell.cwd import ShellContext


def run(cwd: Path, *args: str) -> str:
    front = ("git", "-c", "user.name=A Person", "-c", "user.email=person@localhost", "-c", "init.defaultBranch=main")
    argv = [*front, "-c", "protocol.file.allow=always", *args]
    return subprocess.run(argv, cwd=cwd, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    top = tmp_path / "repo"
    top.mkdir()
    run(top, "init", "-q")
    (top / "README.md").write_text("hello\n")
    run(top, "add", "-A")
    run(top, "commit", "-q", "-m", "first")
    return top


def add(top: Path, text: str, name: str = "config") -> None:
    with (top / ".git" / name).open("a") as file:
        file.write(text)


NAMES = (Path(__file__).parent / "git_programs.txt").read_text().split()


@pytest.mark.spec("M7")
def test_a_plain_repository_runs_nothing(repo: Path, tmp_path: Path):
    run(repo, "remote", "add", "origin", "https://example.invalid/x.git")
    run(repo, "config", "branch.main.merge", "refs/heads/main")
    run(repo, "config", "user.name", "A Person")
    run(repo, "config", "core.fsmonitor", "true")
    run(repo, "config", "pager.log", "false")
    run(repo, "config", "format.pretty", "%h %s")
    run(repo, "config", "log.showSignature", "false")
    assert programs(str(repo)) == programs(str(repo / "nowhere" / "yet")) == ()
    assert programs(str(tmp_path)) == ()


@pytest.mark.spec("M7")
@pytest.mark.parametrize(
    "name",
    NAMES,
)
def test_each_setting_that_runs_a_program_is_named(repo: Path, name: str):
    run(repo, "config", name, "./evil")
    section, _, rest = name.partition(".")
    sub, _, key = rest.rpartition(".")
    assert programs(str(repo)) == (".".join(filter(None, (section.lower(), sub, key.lower()))),)


@pytest.mark.spec("M7")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("submodule.x.update", "!touch x"),
        ("remote.x.url", "ext::sh -c x"),
        ("remote.x.pushurl", "ext::sh -c x"),
        ("url.ext::sh.insteadOf", "https://a"),
        ("format.pretty", "%h %G?"),
        ("pretty.mine", "format:%-GG"),
        ("tag.sort", "-signature:grade"),
    ],
)
def test_values_that_are_programs_are_named(repo: Path, name: str, value: str):
    run(repo, "config", name, value)
    assert len(programs(str(repo))) == 1


@pytest.mark.spec("M7")
@pytest.mark.parametrize(
    "text",
    [
        '[filter "x"] smudge = y\n',
        "[filter.x]\n\tsmudge=y",
        '[core]\n[FILTER "x"]sMUDGE\n',
        '[a] b = "c\\\n" \\\n ; no comment\n[filter "x"]\r\n\tsmudge = y\r\n',
        '[a] b = c # "\n[filter "x"] smudge = y',
        '\n; [\n# "\n  [filter\t"x"]\n  # c\n  smudge = "y" # d\n',
    ],
)
def test_every_spelling_that_git_reads_is_read(repo: Path, text: str):
    assert run_config(repo, text) == dict(read_config(str(repo / ".git" / "config"))).keys()
    assert programs(str(repo)) == ("filter.x.smudge",)


def run_config(repo: Path, text: str) -> set[str]:
    add(repo, text)
    told = run(repo, "config", "--local", "--list", "-z")
    return {row.partition("\n")[0] for row in told.split("\0") if row}


@pytest.mark.spec("M7")
@pytest.mark.parametrize(
    "text", ["[core", "x = y\n[a", "[a]\nb c\n", '[a "b\n', '[a]\nb = "c\n', "[a] b = \\q\n", "[a]\n1=2\n"]
)
def test_what_cannot_be_read_counts(repo: Path, text: str):
    add(repo, text)
    assert UNREADABLE in programs(str(repo))


@pytest.mark.spec("M7")
def test_a_pipe_or_an_endless_file_is_not_waited_for(repo: Path):
    config = repo / ".git" / "config"
    config.unlink()
    os.mkfifo(config)
    assert programs(str(repo)) == (UNREADABLE,)
    config.unlink()
    config.symlink_to("/dev/zero")
    assert programs(str(repo)) == (UNREADABLE,)
    config.unlink()
    config.write_text("[a]\n" + "b = c\n" * 200_000)
    assert programs(str(repo)) == (UNREADABLE,)


@pytest.mark.spec("M7")
def test_included_files_and_the_worktrees_own_are_read(repo: Path, tmp_path: Path):
    (tmp_path / "more").write_text('[filter "deep"] clean = x\n[include] path = more\n')
    add(repo, '[includeIf "onbranch:none"] path = ../../more\n')
    assert "filter.deep.clean" in programs(str(repo))
    tree = tmp_path / "tree"
    run(repo, "worktree", "add", "-q", str(tree))
    assert "filter.deep.clean" in programs(str(tree))
    (repo / ".git" / "worktrees" / "tree" / "config.worktree").write_text("[diff] external = y\n")
    assert "diff.external" in programs(str(tree)) and "diff.external" not in programs(str(repo))


@pytest.mark.spec("M7")
def test_files_that_include_each_other_without_end_count(repo: Path):
    add(repo, "[include]\n" + "path = ./config\npath = .//config\n" * 20)
    began = time.monotonic()
    assert UNREADABLE in programs(str(repo))
    assert time.monotonic() - began < 2


@pytest.mark.spec("M7")
def test_a_disguised_bare_repository_is_found(repo: Path):
    docs = repo / "docs"
    (docs / "objects").mkdir(parents=True)
    (docs / "refs").mkdir()
    (docs / "HEAD").symlink_to("refs/heads/main")
    (docs / "config").write_text('[core]\nbare=false\nworktree=..\nfsmonitor="touch x #"\n')
    assert programs(str(docs)) == ("core.worktree", "core.fsmonitor")
    shared = repo / "shared"
    (shared / "x" / "objects").mkdir(parents=True)
    (shared / "x" / "refs").mkdir()
    (shared / "HEAD").write_text("ref: refs/heads/main\n")
    (shared / "commondir").write_text("x\n")
    (shared / "x" / "config").write_text('[diff "a"] textconv = x\n')
    assert programs(str(shared)) == ("diff.a.textconv",)


@pytest.mark.spec("M7")
def test_a_git_directory_that_git_would_pass_over_does_not_hide_the_one_above(repo: Path):
    run(repo, "config", "core.fsmonitor", "x")
    fake = repo / "a" / ".git"
    (fake / "objects").mkdir(parents=True)
    (fake / "refs").mkdir()
    (fake / "HEAD").write_text("nonsense\n")
    assert run(repo / "a", "rev-parse", "--git-dir").strip() == str(repo / ".git")
    assert programs(str(repo / "a")) == ("core.fsmonitor",)


@pytest.mark.spec("M7")
@pytest.mark.parametrize("version", ["2", "4"])
def test_a_submodule_brings_its_own_configuration(repo: Path, tmp_path: Path, version: str):
    other = tmp_path / "other"
    run(tmp_path, "clone", "-q", str(repo), str(other))
    run(other, "config", "--unset", "remote.origin.url")
    for name in ("a", "ab", "b/c"):
        (repo / name).parent.mkdir(exist_ok=True)
        (repo / name).write_text("x") if "/" not in name else run(repo, "submodule", "add", "-q", str(other), name)
    run(repo, "add", "-A")
    run(repo, "update-index", "--index-version", version)
    assert programs(str(repo)) == programs(str(repo / "b" / "c")) == ()
    run(repo / "b" / "c", "config", "core.fsmonitor", "touch x")
    assert [name.partition(" ")[0] for name in programs(str(repo))] == ["core.fsmonitor"]
    assert programs(str(repo / "b" / "c")) == ("core.fsmonitor",)


@pytest.mark.spec("M7")
def test_a_hook_that_also_reading_sets_off_is_named(repo: Path):
    hook = repo / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n")
    assert programs(str(repo)) == ()
    hook.chmod(0o755)
    assert programs(str(repo)) == ("hooks/post-index-change",)


@pytest.mark.spec("M7")
def test_a_change_is_seen_though_size_and_time_are_the_same(repo: Path):
    config = repo / ".git" / "config"
    config.write_text("[core]\n\tfsmonitor = 1\n")
    os.utime(config, (1, 1))
    assert programs(str(repo)) == ()
    config.write_text("[core]\n\tfsmonitor = x\n")
    os.utime(config, (1, 1))
    assert programs(str(repo)) == ("core.fsmonitor",)


_PIECES = st.sampled_from(
    ["[core]", '[a "b"]', "[a.B]", "key", "Key2", "=", " ", "\t", "\n", '"', "\\", "\\\n",
     "#", ";", "x", "]", "\r\n", "é", "-", '\\"', "\\n", "."]
)  # fmt: skip


@pytest.mark.spec("M7")
@settings(max_examples=120, deadline=None, database=None)
@given(st.lists(_PIECES, max_size=14).map("".join))
def test_the_parser_agrees_with_git(tmp_path_factory: pytest.TempPathFactory, text: str):
    file = tmp_path_factory.getbasetemp() / "fuzzed"
    file.write_bytes(text.encode())
    argv = ["git", "config", "--file", str(file), "--no-includes", "--list", "-z"]
    ran = subprocess.run(argv, capture_output=True, check=False)
    told = [row.partition("\n") for row in os.fsdecode(ran.stdout).split("\0") if row]
    try:
        ours = list(parse(text.replace("\r\n", "\n")))
    except UnreadableError:
        return  # being stricter than git is safe
    assert ran.returncode == 0
    assert ours == [(name, value if mark else None) for name, mark, value in told]


@pytest.mark.spec("M7")
def test_asking_again_costs_next_to_nothing(repo: Path):
    add(repo, "".join(f'[branch "b{n}"]\n\tremote = origin\n\tmerge = refs/heads/b{n}\n' for n in range(500)))
    old = time.time() - 100
    os.utime(repo / ".git" / "config", (old, old))
    deep = repo / "a" / "b" / "c"
    deep.mkdir(parents=True)
    programs(str(deep))
    while time.time_ns() - (repo / ".git" / "config").stat().st_ctime_ns < 300_000_000:
        programs(str(deep))
    began = time.process_time()
    for _ in range(100):
        programs(str(deep))
    assert (time.process_time() - began) / 100 < 0.002
    assert ("branch.b1.remote", "origin") in local_settings(str(deep))


# --- what git shows although it lies elsewhere


def judged(command: str, top: Path, home: Path, mode: str = "default", *, deny: str = "") -> Verdict:
    facts = read_command(command, "Bash", ShellContext(str(top), str(home), (str(top),)))
    rules = Rules(deny=parse_rules([deny] if deny else [], "user", str(top), str(home))[0])
    return judge(facts, mode=mode, rules=rules, roots=(str(top),))  # pyright: ignore[reportArgumentType]


@pytest.fixture
def private(repo: Path, tmp_path: Path) -> Path:
    """A repository of the person's, not worked in."""
    other = tmp_path / "private"
    run(tmp_path, "clone", "-q", str(repo), str(other))
    return other


def lead(top: Path, private: Path, how: str) -> None:
    """What an archive may hold, whoever made it."""
    git, other = top / ".git", private / ".git"
    if how in ("file", "link"):
        git.rename(top / "old")
    match how:
        case "file":
            git.write_text(f"gitdir: {other}\n")
        case "link":
            git.symlink_to(other)
        case "common":
            (git / "commondir").write_text(f"{other}\n")
        case "alternates":
            (git / "objects/info/alternates").write_text("# theirs\n../../../private/.git/objects\n")
        case "excluded":
            (git / "info/exclude").unlink()
            (git / "info/exclude").symlink_to(private / "README.md")
        case "packs":
            (git / "objects/pack").rmdir()
            (git / "objects/pack").symlink_to(other / "objects/pack")
        case _:
            run(top, "config", how, str(private / "README.md"))


LEADS = (
    "file", "link", "common", "alternates", "excluded", "packs", "blame.ignoreRevsFile", "core.excludesFile",
    "core.attributesFile", "diff.orderFile", "mailmap.file",
)  # fmt: skip


@pytest.mark.spec("M7", "M11")
@pytest.mark.parametrize("how", LEADS)
def test_what_git_would_show_from_elsewhere_is_read_there(repo: Path, private: Path, tmp_path: Path, how: str):
    for command in ("git log -p", "git status", "git check-ignore -v x", "git blame README.md"):
        assert judged(command, repo, tmp_path / "home").kind == "allow"
    lead(repo, private, how)
    for command in ("git log -p", "git status", "git check-ignore -v x", "git blame README.md", f"git -C {repo} log"):
        verdict = judged(command, repo, tmp_path / "home")
        assert verdict.kind == "ask" and f"{private}" in verdict.reason, verdict
        assert judged(command, repo, tmp_path, "bypassPermissions", deny=f"Read(/{private}/**)").kind == "deny"
        assert judged(command, repo, tmp_path, "bypassPermissions").kind == "allow"


@pytest.mark.spec("M7")
def test_a_worktree_and_a_submodule_are_where_their_repository_says(repo: Path, private: Path, tmp_path: Path):
    tree, sub = tmp_path / "tree", repo / "sub"
    run(repo, "worktree", "add", "-q", str(tree))
    run(repo, "submodule", "add", "-q", str(private), "sub")
    (repo / ".git/hooks/post-commit").symlink_to("/usr/bin/true")
    (repo / "inner").mkdir()
    for place in (repo, tree, sub, repo / "inner"):
        assert read_elsewhere(str(place)) == (), place
    tree.rename(tmp_path / "copy")
    assert read_elsewhere(str(tmp_path / "copy")) == (f"{repo}/.git/worktrees/tree", f"{repo}/.git")


@pytest.mark.spec("M7", "M11")
def test_settings_of_a_person_are_read_where_they_are(repo: Path, tmp_path: Path):
    home = tmp_path / "home"
    shown = (
        "git config --list", "git config -l --show-origin", "git config --global --list", "git var -l",
        "git config --get-regexp token", "git config github.token", "git config --get http.https://x.extraHeader",
    )  # fmt: skip
    plain = ("git config user.name", "git config --get core.editor", "git config --local -l", "git var GIT_EDITOR")
    for command in (*shown, *plain):
        assert judged(command, repo, home).kind == "allow", command  # there are none
    (home / ".config/git").mkdir(parents=True)
    for file in (home / ".gitconfig", home / ".config/git/config"):
        file.write_text("[github]\n\ttoken = x\n")
        for command in shown:
            assert judged(command, repo, home).kind == "ask", command
            assert judged(command, repo, home, "bypassPermissions", deny=f"Read(/{file})").kind == "deny", command
        assert all(judged(command, repo, home, deny=f"Read(/{file})").kind == "allow" for command in plain)
        file.unlink()
