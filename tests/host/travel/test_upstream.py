"""Workers fetch code from a git remote themselves: from where, with whose permission, and what is checked."""

import subprocess
from pathlib import Path

import pytest

from teamwright.core.data.code import Upstream
from teamwright.core.errors import ToolError
from teamwright.host.git.travel.source import tame_url
from travel_kit import Machines
from worktree_kit import git, new_repo, save


@pytest.fixture
def machines(tmp_path: Path) -> Machines:
    found = Machines(tmp_path, new_repo(tmp_path / "repo"))
    subprocess.run(["git", "init", "-q", "--bare", tmp_path / "up.git"], check=True, timeout=60)
    git(found.repo, "remote", "add", "origin", str(tmp_path / "up.git"))
    git(found.repo, "push", "-q", "origin", "HEAD:refs/heads/main")
    return found


@pytest.mark.spec("Z28")
async def test_a_worker_fetches_from_the_remote_and_the_engine_gets_nothing(machines: Machines):
    (machines.repo / "big").write_bytes(b"x" * 100)
    tip = save(machines.repo)
    with pytest.raises(ToolError, match=r"No branch of origin is known to have the commit .*Push it"):
        await machines.depart(fetch="origin")
    git(machines.repo, "push", "-q", "origin", "HEAD:refs/heads/main")
    journey = await machines.depart(code_mb=0, fetch="origin")
    up = str(machines.top / "up.git")
    assert journey.base == tip and journey.upstream == Upstream(up, "refs/heads/main") and not machines.objects.puts
    room = await machines.room(journey, allowed=(f"{machines.top}/",))
    assert (room.path / "big").read_bytes() == b"x" * 100 and git(room.path, "rev-parse", "HEAD").strip() == tip
    assert "origin" not in git(room.path, "remote")
    (room.path / "new").write_text("work\n")
    landed = await machines.land(await room.back())
    assert git(machines.repo, "show", f"{landed.branch}:new") == "work\n"
    with pytest.raises(ToolError, match="there is no such remote here"):
        await machines.depart(fetch="upstream")


@pytest.mark.spec("Z28")
async def test_a_worker_fetches_only_from_where_its_person_allows(machines: Machines):
    journey = await machines.depart(fetch="origin")
    up = str(machines.top / "up.git")
    for allowed in ((), (up[:-1],), ("https://example.com/",), (f"{up}/",)):
        with pytest.raises(ToolError, match=r"own settings do not allow.*fetchFrom"):
            await machines.room(journey, allowed=allowed)
    assert await machines.room(journey, allowed=(up,))


@pytest.mark.spec("Z28", "Z11")
async def test_what_a_remote_gives_is_checked(machines: Machines, monkeypatch: pytest.MonkeyPatch):
    """A missing commit, objects that git's own check refuses, and addresses that would run programs."""
    (machines.top / "own").write_text("[fetch]\n\tfsckObjects = false\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(machines.top / "own"))
    up, journey = machines.top / "up.git", await machines.depart(fetch="origin")
    raw = b"100644 .git\0" + bytes.fromhex(git(machines.repo, "hash-object", "-w", "--stdin").strip())
    made = ["git", "hash-object", "-t", "tree", "-w", "--stdin", "--literally"]
    tree = subprocess.run(made, cwd=machines.repo, input=raw, check=True, capture_output=True, timeout=60).stdout
    bad = git(machines.repo, "commit-tree", tree.decode().strip(), "-p", "HEAD", "-m", "bad").strip()
    git(machines.repo, "push", "-q", "origin", f"{bad}:refs/heads/evil")
    evil = Upstream(str(up), "refs/heads/evil")
    for upstream, base, words in (
        (evil, bad, "could not be fetched"),
        (Upstream(str(up), "refs/heads/gone"), journey.base, "could not be fetched"),
        (Upstream(str(up), "refs/heads/main"), "0" * 40, "has no commit"),
        (Upstream(f"ext::sh -c touch% {machines.top}/ran", "refs/heads/main"), journey.base, "no git address"),
        (Upstream(str(up), "refs/heads/main:refs/heads/x"), journey.base, "not an address that a lead"),
        (Upstream("file:///etc", "refs/heads/main"), journey.base, "not an address that a lead"),
    ):
        told = type(journey)(journey.project, base, "", (), 0, upstream)
        with pytest.raises(ToolError, match=words):
            await machines.room(told, allowed=(f"{machines.top}/", "ext::", "/etc", "file:///"))
    assert not (machines.top / "ran").exists()


@pytest.mark.spec("Z28", "Z23")
def test_addresses_travel_without_passwords():
    for url, tame in {
        "https://ada:secret@example.com/a/b.git": "https://example.com/a/b.git",
        "https://token@example.com:8443/a": "https://example.com:8443/a",
        "ssh://git:secret@example.com:22/a/b": "ssh://git@example.com:22/a/b",
        "https://[::1]:8443/a": "https://[::1]:8443/a",
        "git@example.com:a/b.git": "git@example.com:a/b.git",
        "/srv/git/a.git": "/srv/git/a.git",
        "file:///srv/git/a.git": "/srv/git/a.git",
    }.items():
        assert tame_url(url) == tame
    for url in (
        "ext::sh -c id",
        "http://example.com/a",
        "git://example.com/a",
        "ssh://-oProxyCommand=id/a",
        "ssh://-oX@example.com/a",
        "-oX@example.com:a",
        "git@-oX:a",
        "git@example.com:-a",
        "https://example.com/a?token=secret",
        "https://example.com/a#b",
        "https://example.com/a/../b",
        "https://example.com/a/%2E./b",
        "ssh://git@example.com/a/../../b",
        "git@example.com:a/../b",
        "https://[::1/a",
        "https://example.com",
        "https://ada:secret@/a",
        "https://ada:x@secret@/a",
        "https://ada:secret?x@example.com/a",
        "file://host/a",
        "/srv/../etc",
        "relative/path",
        "transport::https://example.com/a",
        "https://example.com/a\n--upload-pack=id",
        "",
    ):
        with pytest.raises(ToolError, match="no git address") as caught:
            tame_url(url)
        assert "secret" not in str(caught.value)
