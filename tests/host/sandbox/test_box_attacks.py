"""Attacks found by trying: through git that others run, limits of processes, a home, a deep tree."""

import os
import subprocess
from pathlib import Path

import pytest
from box_kit import House

from teamwright.host.sandbox.ground.nested import TooManyError
from teamwright.host.sandbox.guard.git_links import planted_links
from teamwright.osfiles.trees import remove_tree

pytest_plugins = ("box_fixtures",)  # no conftest here: its name would hide the one that all tests use

LINKS = {
    "reflog": "ln -sf $H/.bashrc .git/logs/HEAD",
    "message": "ln -sf $H/.bashrc .git/COMMIT_EDITMSG",
    "index": "cp .git/index i; ln -sf $H/.bashrc .git/index",
    "branch": "ln -sf $H/.bashrc .git/refs/heads/main; ln -sf $H/.bashrc .git/logs/refs/heads/main",
    "directory": "mv .git/logs l; mkdir $P/mine; ln -s $H .git/logs",
    "moved in": "mkdir -p mine/refs/heads; cp .git/logs/HEAD mine/; ln -sf $H/.bashrc mine/refs/heads/main; "
    "touch -h -d 2001-01-01 mine/refs/heads/main; mv .git/logs old; mv mine .git/logs",
    "shut": "ln -sf $H/.bashrc .git/logs/HEAD; chmod 000 .git/logs",
    "pipe": "rm .git/logs/HEAD; mkfifo .git/logs/HEAD",
    "objects": "mkdir mine; rm -rf .git/objects/info; ln -s $H .git/objects/info",
}  # fmt: skip


@pytest.mark.spec("V5")
@pytest.mark.parametrize("attack", LINKS)
def test_git_of_others_writes_nowhere_else(house: House, attack: str) -> None:
    house.repository()
    told = house.one(f"{LINKS[attack]}; echo tried")
    assert told.text.endswith("tried\n") and told.undone and told.changed == (), told
    (house.project / ".git/logs").mkdir(exist_ok=True)
    (house.project / ".git/logs").chmod(0o755)
    if os.path.lexists(house.project / ".git/refs/heads/main"):
        house.git("commit", "-q", "--allow-empty", "-m", "x $(touch evil)")
    assert (house.home / ".bashrc").read_text() == "# mine\n"
    assert not [path for path in house.project.joinpath(".git").rglob("*") if path.is_symlink() or path.is_fifo()]


@pytest.mark.spec("V5")
def test_links_that_were_there_before_stay(mine: House) -> None:
    """Some tools share parts of git directories by links."""
    mine.repository()
    logs = mine.project / ".git/logs"
    logs.rename(mine.base / "logs")
    logs.symlink_to(mine.base / "logs")
    os.utime(logs, (1, 1), follow_symlinks=False)
    subprocess.run(["sleep", "0.1"], check=True)
    told = mine.one("git status --short; git branch b")
    assert told.undone == () and logs.is_symlink()


@pytest.mark.spec("V16")
def test_a_head_that_git_itself_makes_a_link_stays(mine: House) -> None:
    mine.repository()
    told = mine.one("ln -sf refs/heads/main .git/HEAD; git status --short && echo fine")
    assert told.undone == () and told.text.endswith("fine\n")
    told = mine.one("ln -sf refs/../config .git/HEAD; true")
    assert told.undone, told
    assert not (mine.project / ".git/HEAD").is_symlink() or os.readlink(mine.project / ".git/HEAD") == "refs/heads/main"


@pytest.mark.spec("V5")
def test_in_a_crowd_nothing_is_taken_for_harmless(tmp_path: Path) -> None:
    for n in range(60):
        (tmp_path / str(n)).touch()
    assert planted_links(str(tmp_path), 0) == []
    (tmp_path / "link").symlink_to("/etc/passwd")
    assert planted_links(str(tmp_path), 0) == [str(tmp_path / "link")]
    with pytest.raises(TooManyError):
        planted_links(str(tmp_path), 0, most=50)


LIMIT = """import resource, sys
for limit in (resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE):
    try: resource.prlimit(int(sys.argv[1]), limit, (1000, 1000)); print("limited")
    except OSError: print("refused")
    resource.setrlimit(limit, (900, 900)); print(resource.prlimit(0, limit)[0])
"""


@pytest.mark.spec("V19")
def test_nobody_outside_is_ended_by_a_limit(house: House) -> None:
    user = 65534 if house.user == "nobody" else None
    house.write("p/limit.py", LIMIT)
    with subprocess.Popen(["sleep", "60"], user=user, group=user, extra_groups=None if user is None else []) as other:
        before = Path(f"/proc/{other.pid}/limits").read_text()
        told = house.one(f"python3 limit.py {other.pid}; kill -9 -1; echo tried")
        assert Path(f"/proc/{other.pid}/limits").read_text() == before and other.poll() is None
        other.kill()
    assert told.text.split()[:6] == ["refused", "900"] * 3, told


@pytest.mark.spec("V4", "V5")
def test_a_home_that_is_worked_in_keeps_what_runs_by_itself(house: House) -> None:
    for secret in (".ssh", ".netrc"):
        remove_tree(house.home / secret) if (house.home / secret).is_dir() else (house.home / secret).unlink()
    house.write("h/.config/fish/config.fish", "# mine\n")
    house.write("h/.foo/rc", "# mine\n")
    told = house.one(
        """echo evil >> .bashrc; echo evil > .profile; echo evil > .gitconfig; echo evil >> .config/fish/config.fish
        mkdir -p .config/autostart; echo evil > .config/autostart/x; mv .config c; echo evil > .npmrc
        echo evil > .foo/rc; mv .foo foo; mkdir -p .local/bin; echo evil > .local/bin/ls; echo evil > .claude.json
        mkdir .ssh; echo evil > .ssh/authorized_keys
        echo kept > kept""",
        roots=("h",),
    )
    if house.tier == "landlock":  # it contains our own state, which cannot be hidden there: commands need approval
        assert "landlock cannot hide" in told.fault and (house.home / ".bashrc").read_text() == "# mine\n"
        return
    assert not told.fault and (house.home / "kept").exists(), told
    for name in (".bashrc", ".config/fish/config.fish", ".foo/rc"):
        assert (house.home / name).read_text() == "# mine\n"
    made = (".profile", ".gitconfig", ".npmrc", ".config/autostart", ".local/bin", ".claude.json", ".ssh")
    assert not [name for name in made if (house.home / name).exists()]


@pytest.mark.spec("V20")
def test_a_tree_that_is_deeper_than_a_program_counts_is_removed(tmp_path: Path) -> None:
    top = tmp_path / "t"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    remove_tree(top)
    assert not top.exists()
