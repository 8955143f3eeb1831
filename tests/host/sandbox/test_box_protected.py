"""A box can neither change nor plant what runs by itself later: hooks, configuration, settings."""

import os
from pathlib import Path

import anyio
import pytest
from box_kit import House, Order, perform_step, snapshot

from teamwright.host.sandbox.guard.claims import Claims

pytest_plugins = ("box_fixtures",)  # no conftest here: its name would hide the one that all tests use

WATCHED = (".git/hooks", ".git/config", ".claude", ".mcp.json", ".teamwright")
FILES = ".git/hooks/post-checkout .git/config .claude/settings.json .mcp.json .teamwright/settings.json"
ATTACKS = {
    "append": f"for f in {FILES}; do echo evil >> $f; done",
    "new": "echo evil > .git/hooks/pre-commit; mkdir -p .claude/agents; echo evil > .claude/agents/a.md",
    "replace": f"for f in {FILES}; do cp $f t; echo evil >> t; mv -f t $f; done",
    "remove": "rm -rf .git/hooks .git/config .claude .mcp.json .teamwright",
    "rename": "mv .git .git2 && mkdir -p .git/hooks && echo evil > .git/hooks/pre-commit; mv .claude c "
    "&& mkdir .claude && echo evil > .claude/settings.json; mv .mcp.json m && echo evil > .mcp.json",
    "links": "mkdir mine; echo evil > mine/settings.json; rm -rf .claude && ln -sfn mine .claude; "
    "ln -sf mine/settings.json .mcp.json",
    "moved and linked": "mv .git g; ln -s g .git; echo evil >> .git/config; echo evil > .git/hooks/pre-commit",
    "made a file": "mv .git g; echo 'gitdir: g' > .git; echo evil >> g/config; echo evil > g/hooks/pre-commit",
    "hard link": "ln .git/config mine && echo evil >> mine; ln .mcp.json m2 && echo evil > m2; "
    "ln .claude/settings.json .git/x",
    "modes": "chmod 777 .git/hooks/post-checkout .git/config .mcp.json .claude",
    "exchange": "mkdir other; echo evil > other/settings.json; python3 -c 'import ctypes; "
    'c = ctypes.CDLL(None); c.renameat2(-100, b"other", -100, b".claude", 2)\'',
}  # fmt: skip


def furnish(house: House) -> None:
    house.repository()
    house.write("p/.claude/settings.json", '{"env": {}}')
    house.write("p/.mcp.json", "{}")
    house.write("p/.teamwright/settings.json", "{}")
    house.write("p/.git/hooks/post-checkout", "#!/bin/sh\n").chmod(0o755)


def watched(house: House) -> dict[str, object]:
    paths = {name: house.project / name for name in WATCHED}
    return {name: (p.stat().st_mode, p.read_bytes()) if p.is_file() else snapshot(p) for name, p in paths.items()}


@pytest.mark.spec("V4")
@pytest.mark.parametrize("attack", ATTACKS)
def test_protected_names_stay_as_they_are(mine: House, attack: str) -> None:
    furnish(mine)
    before = watched(mine)
    told = mine.play(f"{ATTACKS[attack]}\necho tried", "git status --short; git log --oneline | wc -l")
    assert told[0].text.endswith("tried\n") and watched(mine) == before, told
    assert told[1].text.endswith("1\n") and not (mine.project / ".git").is_symlink(), "it is still a repository"
    held = not [path for path in told[0].undone if not path.endswith("/.git/g")]  # a link that `ln` made inside
    assert held == (mine.tier == "bwrap"), "bubblewrap holds them, landlock puts them back"
    assert told[0].changed == ()


@pytest.mark.spec("V4")
def test_all_at_once_as_any_user(house: House) -> None:
    furnish(house)
    before = watched(house)
    house.one("\n".join(text for name, text in ATTACKS.items() if name not in ("remove", "links")))
    assert watched(house) == before


SHUT = {
    "hooks": "echo evil > .git/hooks/pre-commit; echo evil >> .git/config; chmod 300 .git/hooks; chmod 555 .git",
    "everything": "echo evil > .git/hooks/pre-commit; chmod 000 .git/hooks .git .",
}


@pytest.mark.spec("V4")
@pytest.mark.parametrize("attack", SHUT)
def test_what_a_program_shuts_by_its_mode_is_put_right_all_the_same(house: House, attack: str) -> None:
    furnish(house)
    before = watched(house)
    told = house.one(f"{SHUT[attack]}\necho tried")
    house.project.chmod(0o755)
    (house.project / ".git").chmod(0o755)
    assert told.text.endswith("tried\n") and told.changed == () and watched(house) == before, told


@pytest.mark.spec("V4")
@pytest.mark.parametrize("stand_in", ["ln -s mine .git", "echo 'gitdir: mine' > .git", "mv mine .git"])
def test_a_repository_that_was_removed_is_not_replaced_by_another(house: House, stand_in: str) -> None:
    furnish(house)
    before = watched(house)
    told = house.one(f"cp -r .git mine; echo evil >> mine/config; echo evil > mine/hooks/x; rm -rf .git; {stand_in}")
    assert watched(house) == before and told.changed == (), told
    assert (house.project / ".git").is_dir() and not (house.project / ".git").is_symlink()


@pytest.mark.spec("V5")
def test_a_planted_name_goes_also_from_a_directory_that_was_shut(house: House) -> None:
    house.repository()
    told = house.one("mkdir .claude; echo evil > .claude/settings.json; echo e > .git/commondir; chmod 000 .git .")
    house.project.chmod(0o755)
    (house.project / ".git").chmod(0o755)
    assert {Path(path).name for path in told.undone} == {".claude", "commondir"} and told.changed == (), told
    assert not (house.project / ".claude").exists() and not (house.project / ".git/commondir").exists()


MISSING = (
    ".claude", ".mcp.json", ".teamwright", ".git/commondir", ".git/config.worktree", ".vscode", ".idea", ".codex",
    ".hg/hgrc",
)  # fmt: skip
PLANT = """mkdir -p .claude/agents .teamwright .idea .codex .hg; echo evil > .codex/config.toml; echo evil > .hg/hgrc
echo evil > .claude/settings.json; echo evil > .mcp.json
ln -s /etc .vscode
mkdir e; echo evil > e/config; echo ../e > .git/commondir; echo x > .git/config.worktree; echo kept > kept"""


@pytest.mark.spec("V5")
def test_protected_names_do_not_come_to_be(house: House) -> None:
    house.repository()
    told = house.one(PLANT)
    assert not [name for name in MISSING if os.path.lexists(house.project / name)]
    assert {Path(path).name for path in told.undone} >= {".claude", ".mcp.json", "commondir", ".vscode"}
    assert (house.project / "kept").read_text() == "kept\n" and "kept" in house.git("status", "--short")
    kept = {path.name.split(".undone")[0]: path for path in house.quarantined()}
    assert (kept[".claude"] / "settings.json").read_text() == "evil\n" and kept[".vscode"].is_symlink()


@pytest.mark.spec("V5")
def test_in_a_git_directory_it_is_gone_before_the_command_ends(house: House) -> None:
    """An editor runs git within a second, and would run what a planted configuration names."""
    house.repository()
    script = "mkdir e; echo ../e > .git/commondir; "
    script += "for i in $(seq 150); do [ -e .git/commondir ] || break; sleep 0.02; done; echo $i"
    told = house.one(script)
    assert int(told.text.split()[-1]) < 140 and told.undone == (f"{house.project}/.git/commondir",)


@pytest.mark.spec("V5")
def test_it_leaves_no_traces(house: House) -> None:
    house.repository()
    before = snapshot(house.project)
    told = house.play("true", "ls -la > /dev/null; git log > /dev/null; exit 3")
    assert snapshot(house.project) == before and [one.status for one in told] == [0, 3]
    assert house.quarantined() == [] and [one.undone for one in told] == [(), ()]


@pytest.mark.spec("V5")
def test_what_lives_on_is_told_of_and_left_to_the_person(mine: House) -> None:
    mine.repository()
    told = mine.one(PLANT + "; git commit -q --allow-empty -m x; true", lives_on=True)
    assert f"{mine.project}/.mcp.json" in told.appeared and (mine.project / ".mcp.json").exists()
    assert not (mine.project / ".git/commondir").exists()
    if mine.tier == "bwrap":
        assert mine.git("rev-list", "--count", "HEAD") == "1\n", "its git directory is read-only"


@pytest.mark.spec("V5")
def test_a_quarantine_that_cannot_be_written(mine: House) -> None:
    """What was planted is moved aside all the same; under another name nothing obeys it."""
    (mine.home / ".teamwright/quarantine").write_text("in the way")
    told = mine.one("echo evil > .mcp.json")
    assert told.undone == (f"{mine.project}/.mcp.json",) and not (mine.project / ".mcp.json").exists()
    assert [p.read_text() for p in mine.project.glob(".mcp.json.undone-*")] == ["evil\n"]


@pytest.mark.spec("V4")
def test_a_protected_name_that_is_a_link(house: House) -> None:
    house.write("p/shared/settings.json", "{}")
    (house.project / ".claude").symlink_to("shared")
    (house.project / ".mcp.json").symlink_to("../n/file")
    told = house.one(
        "echo evil > shared/settings.json; rm .claude; mkdir .claude; "
        "echo evil > .claude/settings.json; ln -sf /etc/passwd .mcp.json"
    )
    assert (
        os.readlink(house.project / ".claude") == "shared" and os.readlink(house.project / ".mcp.json") == "../n/file"
    )
    assert (house.project / "shared/settings.json").read_text() == "{}" and len(told.undone) >= 2


@pytest.mark.spec("V4")
def test_hooks_path_and_included_configuration(house: House) -> None:
    house.repository()
    house.write("p/.githooks/pre-commit", "#!/bin/sh\n")
    house.write("p/extra", "[core]\n")
    house.git("config", "core.hooksPath", ".githooks")
    house.git("config", "include.path", "../extra")
    house.git("config", "includeIf.gitdir:/.path", "../missing")
    house.write("h/.gitconfig", "[include]\npath = ../p/theirs\n")
    house.write("p/theirs", "[core]\n")
    house.one(
        "echo evil > .githooks/pre-commit; echo evil > .githooks/new; echo evil >> extra; "
        "echo evil > missing; echo evil >> theirs; true"
    )
    assert (house.project / ".githooks/pre-commit").read_text() == "#!/bin/sh\n" and os.listdir(
        house.project / ".githooks"
    ) == ["pre-commit"]
    assert (house.project / "extra").read_text() == (house.project / "theirs").read_text() == "[core]\n"
    assert not (house.project / "missing").exists()


@pytest.mark.spec("V4")
def test_nested_repositories(house: House) -> None:
    house.repository()
    for at in ("p/a", "p/deps/od d", "p/x/y/z"):
        house.repository(at)
    before = {at: (house.base / at / ".git/config").read_bytes() for at in ("p/a", "p/deps/od d", "p/x/y/z")}
    script = """for d in a "deps/od d" x/y/z; do (cd "$d"; echo 2 >> README; git commit -qam second && echo done)
    echo evil >> "$d/.git/config"; echo evil > "$d/.git/hooks/pre-commit"; echo e > "$d/.git/commondir"
    mv "$d/.git" "$d/g"; done
    mv x w; mkdir -p x/y/z/.git; echo evil > x/y/z/.git/config; true"""
    told = house.one(script)
    assert told.text.count("done") == 3, told
    for at, config in before.items():
        git = house.base / at / ".git"
        assert (git / "config").read_bytes() == config and not (git / "hooks/pre-commit").exists()
        assert not (git / "commondir").exists()


@pytest.mark.spec("V16")
def test_git_works_inside(house: House) -> None:
    house.repository()
    house.write("p/.git/hooks/pre-commit", "#!/bin/sh\necho x > $D/n/hooked; touch hooked\n").chmod(0o755)
    told = house.play(
        "git status --short; echo 2 >> README; git add README; git commit -q -m second; git log --oneline | wc -l",
        "git checkout -q -b topic; git checkout -q main; git merge -q topic && echo merged",
        "echo 3 >> README; git stash -q; git stash pop -q; git diff --stat | tail -1; "
        "git rebase -q HEAD~1 2>&1; git gc -q && echo packed",
    )
    assert (
        told[0].text.endswith("2\n")
        and "merged" in told[1].text
        and "1 file changed" in told[2].text
        and "packed" in told[2].text
    )
    assert (house.project / "hooked").exists() and not (house.neighbour / "hooked").exists()
    assert [one.undone for one in told] == [(), (), ()]


@pytest.mark.spec("V17")
def test_a_worktree_has_its_tree_alone(house: House) -> None:
    house.repository()
    one, two = "p/.teamwright/worktrees/one", "p/.teamwright/worktrees/two"
    for at in (one, two):
        house.git("worktree", "add", "-q", str(house.base / at))
    git = house.project / ".git"
    before = (
        (git / "HEAD").read_bytes(),
        (git / "index").read_bytes(),
        snapshot(house.base / two),
        snapshot(git / "worktrees/two"),
    )
    reach = """echo x > $P/planted; echo x > $P/.git/HEAD; rm -f $P/.git/index; echo x > $P/.git/config
    echo x > $P/.git/hooks/pre-commit
    echo x > ../two/planted; echo x > $P/.git/worktrees/two/HEAD; rm -rf $P/.git/worktrees/two
    echo /tmp > $P/.git/worktrees/one/commondir; echo 'gitdir: /tmp' > .git; mv .git g; cat $P/README"""
    told = house.play(
        "echo 1 > mine; git add mine; git commit -q -m work && echo committed; git branch b",
        reach,
        "git log --oneline | wc -l; git status --short",
        roots=(one,),
    )
    assert "committed" in told[0].text and told[1].text.endswith("one\n") and told[2].text.startswith("2"), told
    assert (
        (git / "HEAD").read_bytes(),
        (git / "index").read_bytes(),
        snapshot(house.base / two),
        snapshot(git / "worktrees/two"),
    ) == before
    assert not (house.project / "planted").exists() and not (git / "hooks/pre-commit").exists()
    assert (git / "worktrees/one/commondir").read_text() == "../..\n" and (house.base / one / ".git").is_file()
    told = house.play(
        "for d in .teamwright/worktrees/*; do echo x > $d/planted; done; echo x > .git/worktrees/one/HEAD; true"
    )
    assert not list(house.project.rglob("planted")) and "ref:" in (git / "worktrees/one/HEAD").read_text()


@pytest.mark.spec("V17")
def test_trees_in_which_others_work_are_left_alone(mine: House) -> None:
    """Landlock puts names back, but not what another agent did meanwhile in its own tree."""
    mine.repository()
    mine.git("worktree", "add", "-q", str(mine.project / ".teamwright/worktrees/one"))
    order = Order(mine.tier, str(mine.base), (), busy=("p/.teamwright/worktrees/one",))

    async def meanwhile() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(
                perform_step, order, "touch began; for i in $(seq 500); do [ -e go ] && break; sleep 0.02; done"
            )
            with anyio.fail_after(20):
                while not (mine.project / "began").exists():
                    await anyio.sleep(0.01)
            mine.write("p/.teamwright/worktrees/one/theirs", "work")
            mine.git("add", "theirs", at="p/.teamwright/worktrees/one")
            mine.git("commit", "-q", "-m", "work", at="p/.teamwright/worktrees/one")
            mine.write("p/go")

    anyio.run(meanwhile)
    assert (mine.project / ".teamwright/worktrees/one/theirs").read_text() == "work"
    assert mine.git("status", "--short", at="p/.teamwright/worktrees/one") == ""


@pytest.mark.spec("V5")
def test_names_that_we_make_ourselves_are_left_alone(mine: House) -> None:
    mine.repository()
    made = str(mine.home / ".teamwright/made")
    order = Order(mine.tier, str(mine.base), ())

    async def meanwhile() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(
                perform_step,
                order,
                "touch began; echo evil > .mcp.json; for i in $(seq 500); do [ -e go ] && break; sleep 0.02; done",
            )
            with anyio.fail_after(20):
                while not (mine.project / "began").exists():
                    await anyio.sleep(0.01)
            tree = f"{mine.project}/.teamwright/worktrees/one"
            Claims(made).take(tree, f"{mine.project}/.git/worktrees/one")
            mine.git("worktree", "add", "-q", str(mine.project / ".teamwright/worktrees/one"))
            mine.write("p/go")

    anyio.run(meanwhile)
    assert (mine.project / ".teamwright/worktrees/one/README").exists() and not (mine.project / ".mcp.json").exists()
    assert mine.git("status", "--short", at="p/.teamwright/worktrees/one") == ""


@pytest.mark.spec("V4")
def test_two_boxes_on_one_root(mine: House) -> None:
    """The second begins after the first has changed a name: once both end, the name is as it was before the first."""
    furnish(mine)
    before = watched(mine)
    order = Order(mine.tier, str(mine.base), ())
    wait = "for i in $(seq 500); do [ -e {} ] && break; sleep 0.02; done"

    async def both() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(
                perform_step,
                order,
                f"echo evil >> .git/config; echo evil > .claude/new; touch began; {wait.format('second')}",
            )
            with anyio.fail_after(20):
                while not (mine.project / "began").exists():
                    await anyio.sleep(0.01)
            group.start_soon(perform_step, order, f"touch second; {wait.format('go')}; echo evil >> .mcp.json")
            with anyio.fail_after(20):
                while not (mine.project / "second").exists():
                    await anyio.sleep(0.01)
            mine.write("p/go")

    anyio.run(both)
    assert watched(mine) == before


@pytest.mark.spec("V25")
def test_three_hundred_repositories(namespaced: House) -> None:
    namespaced.repository()
    for n in range(300):
        git = namespaced.project / f"deps/{n}/.git"
        (git / "hooks").mkdir(parents=True)
        (git / "config").write_text("[core]\n")
        (git / "HEAD").write_text("ref: refs/heads/main\n")
    told = namespaced.one(
        "echo evil >> deps/7/.git/config; echo evil > deps/7/.git/hooks/pre-commit; "
        "echo x > deps/7/f; mv deps/7/.git g; true"
    )
    assert not told.fault
    assert (namespaced.project / "deps/7/.git/config").read_text() == "[core]\n" and (
        namespaced.project / "deps/7/f"
    ).exists()
    assert not (namespaced.project / "deps/7/.git/hooks/pre-commit").exists()
