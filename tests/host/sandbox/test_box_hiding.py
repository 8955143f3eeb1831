"""Ways to hide planted names: names of full length, masses of names, disguised git directories."""

import subprocess

import pytest
from box_kit import House

from teamwright.host.sandbox.guard import copies

pytest_plugins = ("box_fixtures",)

LONGEST = "a" * 252  # and `.md`, which makes 255 bytes


@pytest.mark.spec("V4", "V5")
def test_a_name_of_full_length_is_moved_away_too(house: House) -> None:
    house.repository()
    mine = house.write("p/.claude/agents/mine.md", "mine\n")
    told = house.one(
        f"echo evil > .claude/agents/{LONGEST}.md; ln -s $H/.bashrc .git/refs/heads/{LONGEST}.md; echo tried"
    )
    assert told.text.endswith("tried\n") and told.undone and told.changed == (), told
    assert not [path for path in house.project.rglob("*") if path.name.startswith("aaa")]
    assert mine.read_text() == "mine\n"


@pytest.mark.spec("V4")
def test_a_crowd_of_names_hides_nothing(house: House) -> None:
    house.repository()
    large = house.write("p/.git/hooks/large", "x" * (copies.MOST_FILE + 1))
    told = house.one(
        f"cd .git/hooks; seq -f a%06g 1 {copies.MOST_NAMES + 100} | xargs touch; echo evil > pre-commit; echo tried"
    )
    hooks = house.project / ".git/hooks"
    assert told.text.endswith("tried\n") and told.changed == (), told
    assert not (hooks / "pre-commit").exists() and not (hooks / "a000001").exists()
    assert large.stat().st_size == copies.MOST_FILE + 1 and (hooks / "pre-commit.sample").exists()


@pytest.mark.spec("V5")
def test_a_crowd_of_branches_hides_no_link(mine: House) -> None:
    mine.repository()
    told = mine.one(
        "mkdir .git/refs/heads/x; cd .git/refs/heads/x; seq -f a%06g 1 20100 | xargs touch; "
        "ln -sf $H/.bashrc $P/.git/logs/HEAD"
    )
    assert told.undone == (f"{mine.project}/.git/logs/HEAD",) and told.changed == (), told


DISGUISE = """mkdir -p objects refs; echo 'ref: refs/heads/main' > HEAD
printf '[core]\nrepositoryformatversion=0\nbare=false\nworktree=.\nfsmonitor="touch %s/ran; false"\n' $D > config
rm -f .git/HEAD; echo tried"""


@pytest.mark.spec("V5")
def test_a_root_does_not_become_a_git_directory(house: House) -> None:
    house.repository()
    told = house.one(DISGUISE)
    assert told.undone == (f"{house.project}/HEAD",), told
    subprocess.run(["git", "-c", "safe.directory=*", "status"], cwd=house.project, capture_output=True, check=False)
    assert not (house.base / "ran").exists()


@pytest.mark.spec("V4")
def test_a_bare_repository_keeps_what_git_obeys(house: House) -> None:
    house.repository()
    house.git("init", "-q", "--bare", "fixtures/r.git")
    house.git("init", "-q", "--bare", ".bare")
    told = house.one(
        """for at in fixtures/r.git .bare; do
            echo '[core]' >> $at/config; echo evil > $at/hooks/post-update; echo . > $at/commondir
        done; git -C fixtures/r.git hash-object -w --stdin <<< text; echo tried"""
    )
    assert told.text.endswith("tried\n") and told.changed == (), told
    for at in ("fixtures/r.git", ".bare"):
        place = house.project / at
        assert (place / "config").read_text().count("[core]") == 1
        assert not (place / "hooks/post-update").exists() and not (place / "commondir").exists()
    assert [path for path in (house.project / "fixtures/r.git/objects").rglob("*") if path.is_file()]
