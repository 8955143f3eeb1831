"""Repositories that a command makes: nothing that git outside would run stays in them."""

import subprocess
from pathlib import Path

import anyio
import pytest
from box_kit import House, Order, perform_step

pytest_plugins = ("box_fixtures",)
pytestmark = pytest.mark.spec("V5")
FSMONITOR = "git config core.fsmonitor 'touch '$D/n/ran' #'"
MAKE = (
    "git init -q {0}; cd {0}; git config user.name t; git config user.email t@t; touch f; git add f; git commit -qm x"
)
HOOK = "printf '#!/bin/sh\\ntouch %s/n/ran\\n' $D > {0}; chmod +x {0}"


def seen_from_outside(house: House, *places: str) -> None:
    """What a person, or an editor, runs without a thought."""
    for at in ("p", *(f"p/{place}" for place in places)):
        for words in (["status"], ["diff"], ["commit", "-qm", "x", "--allow-empty"], ["fetch", "-q", "origin"]):
            env = {"PATH": "/usr/bin:/bin", "HOME": str(house.home), "GIT_CONFIG_NOSYSTEM": "1"}
            who = ("-c", "user.name=t", "-c", "user.email=t@t", "-c", "safe.directory=*")
            where = house.base / at
            if where.is_dir():
                subprocess.run(["git", *who, *words], cwd=where, env=env, capture_output=True, check=False, timeout=20)
    assert not (house.neighbour / "ran").exists()


@pytest.mark.parametrize(
    ("script", "gone"),
    [
        (f"git init -q s; cd s; {FSMONITOR}", "s/.git/config"),
        (f"git init -q a/b/c/d/e/f; cd a/b/c/d/e/f; {FSMONITOR}", "a/b/c/d/e/f/.git/config"),
        (f"git init -q s; {HOOK.format('s/.git/hooks/pre-commit')}", "s/.git/hooks/pre-commit"),
        (f"git init -q s; cd s; git config core.hooksPath ../h; mkdir ../h; {HOOK.format('../h/pre-commit')}",
         "s/.git/config"),
        ("git init -q s; cd s; git config include.path ../x; git config -f x core.fsmonitor 'touch '$D/n/ran' #'",
         "s/.git/config"),
        (f"git init -q t; cd t; {FSMONITOR}; cd ..; mv t/.git inner; mkdir s; echo 'gitdir: ../inner' > s/.git",
         "inner/config"),
        (f"git init -q t; cd t; {FSMONITOR}; cd ..; mv t/.git inner; mkdir s; ln -s ../inner s/.git", "inner/config"),
        ("mkdir s; echo 'gitdir: '$D/other/.git > s/.git", "s/.git"),
        ("mkdir s; ln -s $D/other/.git s/.git", "s/.git"),
        ("git init -q s; echo $D/other/.git > s/.git/commondir", "s/.git/commondir"),
        ("git init -q --bare s; git -C s config core.fsmonitor 'touch '$D/n/ran' #'", "s/config"),
        ("mkdir -p s/.git; git config -f s/.git/config core.fsmonitor 'touch '$D/n/ran' #'", "s/.git/config"),
        ("git init -q s; mkdir -p s/.git/remotes; echo 'URL: ../t' > s/.git/remotes/origin", "s/.git/remotes/origin"),
    ],
)  # fmt: skip
def test_what_git_would_obey_in_a_new_repository_is_moved_away(house: House, script: str, gone: str) -> None:
    house.repository()
    house.repository("other")
    told = house.one(f"({script}); echo done")
    assert told.text.endswith("done\n") and told.undone == (str(house.project / gone),), told
    assert not (house.project / gone).is_symlink() and not (house.project / gone).exists()
    assert len(house.quarantined()) == 1
    seen_from_outside(house, "s", "a/b/c/d/e/f")


def test_a_new_repository_without_such_things_stays_as_it_is(house: House) -> None:
    house.repository()
    told = house.one(
        f"{MAKE.format('s')}; cd ..; git clone -q s c; git clone -q --bare s b;"
        "git clone -q --no-local --filter=blob:none s partial;"
        "mkdir kept; git init -q --separate-git-dir=$P/kept/x w; git -C c log --oneline | wc -l;"
        "git -C s worktree add -q ../tree"
    )
    assert (told.undone, told.changed) == ((), ()) and told.text.endswith("1\n"), told
    for at in ("s", "c", "b", "w"):
        house.git("rev-parse", "--git-dir", at=f"p/{at}")


def test_what_a_person_has_in_a_deep_repository_stays(house: House) -> None:
    house.repository()
    deep = "p/a/b/c/d/e/f"
    house.repository(deep)
    house.git("config", "core.fsmonitor", "false-program", at=deep)
    house.write(f"{deep}/.git/hooks/pre-commit", "#!/bin/sh\n").chmod(0o755)
    told = house.play("touch a/b/c/d/e/f/x a/y; mkdir a/b/z", "git init -q a/b/z")
    assert [one.undone for one in told] == [(), ()]
    told = house.play(
        "git -C a/b/c/d/e/f config core.editor evil", "cd a/b/c/d/e; mv f g; mkdir f; mv g/.git f; touch f/.git/x"
    )
    assert told[0].undone == (f"{house.base}/{deep}/.git/config",)


def test_a_repository_at_the_root_itself(house: House) -> None:
    house.write("p/file")
    told = house.one(f"git init -q; {FSMONITOR}")
    assert told.undone == (str(house.project / ".git/config"),)
    seen_from_outside(house)


def test_what_becomes_a_repository_in_two_commands(house: House) -> None:
    house.repository()
    told = house.play(
        f"git init -q s; cd s; {FSMONITOR}; mv .git ../plain; cd ..; rm plain/HEAD",
        "mkdir t; mv plain t/.git; echo 'ref: refs/heads/main' > t/.git/HEAD",
    )
    assert [one.undone for one in told] == [(), (str(house.project / "t/.git/config"),)]
    seen_from_outside(house, "t")


def test_where_an_index_leads_it_is_gone_before_the_command_ends(house: House) -> None:
    """An editor runs git a second after the index has changed, and git looks into what the index names."""
    house.repository()
    wait = (
        "for i in $(seq 250); do [ -e {0}/.git/config ] || break; sleep 0.02; done; [ -e {0}/.git/config ] || echo gone"
    )
    told = house.play(
        f"({MAKE.format('d')}; {FSMONITOR}); git add d 2>/dev/null; {wait.format('d')}",
        f"({MAKE.format('e')}); git add e 2>/dev/null; (cd e; {FSMONITOR}); {wait.format('e')}",
    )
    assert ["gone" in one.text for one in told] == [True, True], told
    assert [one.undone for one in told] == [(str(house.project / at / ".git/config"),) for at in "de"]
    seen_from_outside(house, "d", "e")


def test_another_program_that_still_runs_made_it(mine: House) -> None:
    mine.repository()
    order = Order(mine.tier, str(mine.base), (), lives_on=True)
    make = (
        "git init -q d; cd d; git config user.name t; git config user.email t@t; touch f; git add f; git commit -qm x"
    )
    script = f"({make}; {FSMONITOR}); touch began; for i in $(seq 500); do [ -e go ] && break; sleep 0.02; done"

    async def both() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(perform_step, order, script)
            with anyio.fail_after(20):
                while not (mine.project / "began").exists():
                    await anyio.sleep(0.01)
            await perform_step(Order(mine.tier, str(mine.base), ()), "git add d")
            with anyio.fail_after(20):
                while (mine.project / "d/.git/config").exists():
                    await anyio.sleep(0.01)
            seen_from_outside(mine)
            mine.write("p/go")

    anyio.run(both)
    assert not (mine.project / "d/.git/config").exists()


@pytest.mark.parametrize("name", ["remotes", "branches"])
def test_old_names_of_remotes_do_not_come_to_be(house: House, name: str) -> None:
    house.repository()
    house.git("config", "core.bare", "false")
    subprocess.run(["rm", "-rf", str(house.project / ".git/branches")], check=True)
    told = house.one(f"mkdir .git/{name}; echo 'URL: /elsewhere' > .git/{name}/origin")
    assert not (house.project / ".git" / name).exists() and told.undone == (str(house.project / ".git" / name),)


def test_more_directories_than_are_searched_are_told(mine: House) -> None:
    mine.repository()
    told = mine.one("seq -f d%g 10001 | xargs mkdir")
    assert told.changed == (str(mine.project),) and Path(mine.project / "d7").is_dir()
