"""The map of a box: what each layer adds, what is left out, and that a deny never opens anything."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from teamwright.core.sandbox.hosts import Hosts
from teamwright.core.sandbox.policy import (
    MOST_NESTED,
    Access,
    Name,
    Policy,
    Repository,
    Terrain,
    access_of,
    holds,
    policy_for,
)
from teamwright.core.sandbox.rules import SandboxRules

ROOT = "/home/u/p"
RANK: dict[Access, int] = {"none": 0, "read": 1, "write": 2}
GIT = Repository(
    f"{ROOT}/.git",
    tuple(Name(f"{ROOT}/.git/{name}", "there") for name in ("hooks", "config"))
    + tuple(Name(f"{ROOT}/.git/{name}", "missing") for name in ("config.worktree", "commondir")),
)
LAND = Terrain(
    project=ROOT,
    home="/home/u",
    state="/home/u/.teamwright",
    hidden=("/home/u/.ssh", "/home/u/.netrc"),
    shared=("/tmp", "/var/tmp"),
    runtime=("/run",),
    names=(Name(f"{ROOT}/.claude", "there"), Name(f"{ROOT}/.mcp.json", "missing")),
    repositories=(GIT,),
    tmp="/tmp/teamwright-1/p",
    cache="/home/u/.teamwright/sandbox/p",
)


def made(land: Terrain = LAND, mode: str = "default", lives_on: bool = False, **rules: Any) -> Policy:
    return policy_for(SandboxRules(**rules), (ROOT,), mode, land, lives_on=lives_on)


@pytest.mark.spec("V3", "V4", "V6", "V20")
@pytest.mark.parametrize(
    ("path", "default", "plan", "lives_on"),
    [
        ("/etc/passwd", "read", "read", "read"),
        ("/home/u/notes", "read", "read", "read"),
        ("/home/u/.ssh/id", "none", "none", "none"),
        ("/home/u/.sshx", "read", "read", "read"),
        ("/home/u/.netrc", "none", "none", "none"),
        ("/home/u/.teamwright/state.db", "none", "none", "none"),
        ("/home/u/.teamwright/sandbox/p/pip", "write", "write", "write"),
        ("/tmp/other", "none", "none", "none"),
        ("/tmp/teamwright-1/p/x", "write", "write", "write"),
        ("/run/docker.sock", "none", "none", "none"),
        (ROOT, "write", "read", "write"),
        (f"{ROOT}/src/a.py", "write", "read", "write"),
        (f"{ROOT}/.claude/settings.json", "read", "read", "read"),
        (f"{ROOT}/.git/index", "write", "read", "read"),
        (f"{ROOT}/.git/hooks/pre-commit", "read", "read", "read"),
        (f"{ROOT}/.git/config", "read", "read", "read"),
    ],
)
def test_the_longest_path_decides(path: str, default: Access, plan: Access, lives_on: Access) -> None:
    assert access_of(made(), path) == default
    assert access_of(made(mode="plan"), path) == plan
    assert access_of(made(lives_on=True), path) == lives_on


@pytest.mark.spec("V5")
def test_missing_names_are_undone_or_told() -> None:
    now, later = made(), made(lives_on=True)
    in_git = (f"{ROOT}/.git/commondir", f"{ROOT}/.git/config.worktree")
    assert now.absent == (*in_git, f"{ROOT}/.mcp.json") and now.told == ()
    assert later.absent == in_git and later.told == (f"{ROOT}/.mcp.json",)
    assert now.watched == (f"{ROOT}/.git",)


@pytest.mark.spec("V25")
def test_a_usual_box_has_few_entries_and_none_that_says_nothing() -> None:
    policy = made(replace(LAND, shown=("/usr/bin",), allow_read=("/home/u/notes",), allow_write=(f"{ROOT}/src",)))
    paths = [path for path, _ in policy.access]
    assert "/usr/bin" not in paths and f"{ROOT}/src" not in paths and "/home/u/notes" not in paths
    assert f"{ROOT}/.git" in paths, "only a mount point cannot be renamed"
    assert len(paths) <= 15


@pytest.mark.spec("V9", "V11")
def test_plan_reaches_no_host_and_dont_ask_asks_for_none() -> None:
    hosts = Hosts(("example.com",), (), ask=True)
    assert made(hosts=hosts).hosts == hosts and made(mode="plan", hosts=hosts).hosts == Hosts()
    assert made(mode="dontAsk", hosts=hosts).hosts == Hosts(("example.com",))


def test_without_a_fence_for_files_only_the_network_is_left() -> None:
    policy = made(open_files=True, hosts=Hosts(("example.com",)))
    assert policy.access == (("/", "write"),) and policy.absent == () and policy.hosts.allowed == ("example.com",)


@pytest.mark.spec("V10")
def test_sockets_are_masked_unless_they_are_allowed() -> None:
    land = replace(LAND, sockets=("/var/x.sock", "/home/u/agent"), opened=("/home/u/agent",))
    assert made(land).masks == ("/var/x.sock",) and made(land).sockets == ("/home/u/agent",)
    free = made(land, all_sockets=True)
    assert free.masks == () and access_of(free, "/run/docker.sock") == "read"


@pytest.mark.spec("V4")
def test_a_directory_above_a_protected_name_cannot_be_moved_aside() -> None:
    closed = replace(LAND, deny_write=(Name(f"{ROOT}/a/b/closed", "there"),))
    access = dict(made(closed).access)
    assert access[f"{ROOT}/a"] == access[f"{ROOT}/a/b"] == "write" and access[f"{ROOT}/a/b/closed"] == "read"


@pytest.mark.spec("V4")
def test_nested_repositories_are_guarded_by_name_and_if_there_are_many_as_a_whole() -> None:
    def nested(n: int) -> Repository:
        git = f"{ROOT}/deps/{n}/.git"
        return Repository(git, (Name(f"{git}/config", "there"), Name(f"{git}/commondir", "missing")), nested=True)

    few = made(replace(LAND, repositories=(GIT, nested(1))))
    assert access_of(few, f"{ROOT}/deps/1/.git/index") == "write"
    assert access_of(few, f"{ROOT}/deps/1/.git/config") == "read" and f"{ROOT}/deps/1/.git" in few.watched
    assert {f"{ROOT}/deps", f"{ROOT}/deps/1"} <= set(dict(few.access)), "nobody moves the directories above it aside"
    many = made(replace(LAND, repositories=(GIT, *map(nested, range(MOST_NESTED + 1)))))
    assert access_of(many, f"{ROOT}/deps/1/.git/index") == "read"
    assert dict(many.access)[f"{ROOT}/deps/1/.git"] == "read" and f"{ROOT}/deps/1/.git/config" not in dict(many.access)


@pytest.mark.spec("V17")
def test_a_linked_worktree_has_its_own_directory_and_what_is_shared() -> None:
    tree, common = "/home/u/main/.teamwright/worktrees/one", "/home/u/main/.git"
    names = tuple(Name(f"{common}/{n}", "there") for n in ("hooks", "config", "HEAD", "index", "worktrees"))
    own = f"{common}/worktrees/one"
    land = replace(
        LAND,
        project="/home/u/main",
        names=(Name(f"{tree}/.git", "there"),),
        repositories=(Repository(own, names, common),),
    )
    policy = policy_for(SandboxRules(), (tree,), "default", land)
    wanted: dict[str, Access] = {
        f"{tree}/a": "write",
        f"{tree}/.git": "read",
        "/home/u/main/a": "read",
        "/home/u/main/.teamwright/worktrees/two/a": "read",
        f"{common}/objects/aa": "write",
        f"{common}/HEAD": "read",
        f"{common}/index": "read",
        f"{common}/worktrees/two/HEAD": "read",
        f"{own}/HEAD": "write",
        f"{own}/commondir": "read",
        f"{own}/gitdir": "read",
    }
    assert {path: access_of(policy, path) for path in wanted} == wanted
    assert policy.walked == (common,) and not [path for path in policy.kept if path.startswith(f"{common}/HEAD")]


@pytest.mark.spec("V4")
def test_a_protected_link_is_kept_by_what_it_says_and_its_target_by_a_mount() -> None:
    land = replace(LAND, names=(Name(f"{ROOT}/.claude", "link", f"{ROOT}/mine", "mine"),))
    policy = made(land)
    assert policy.links == ((f"{ROOT}/.claude", "mine"),) and access_of(policy, f"{ROOT}/mine/settings.json") == "read"


def test_landlock_cannot_hide_what_lies_in_a_root() -> None:
    assert holds(made(), "landlock") == "" and holds(made(), "bwrap") == ""
    inside = made(replace(LAND, deny_read=(f"{ROOT}/keys",)))
    assert f"{ROOT}/keys" in holds(inside, "landlock") and holds(inside, "bwrap") == holds(inside, "seatbelt") == ""
    assert holds(made(), "none")


def test_a_home_or_project_in_a_hidden_place_is_shown_but_its_secrets_are_not() -> None:
    land = replace(LAND, project="/tmp/x/p", home="/tmp/x/h", hidden=("/tmp/x/h/.ssh",), state="/tmp/x/h/.teamwright")
    policy = policy_for(SandboxRules(), ("/tmp/x/p",), "default", land)
    told = [access_of(policy, path) for path in ("/tmp/x/h/a", "/tmp/x/h/.ssh", "/tmp/x/p/a", "/tmp/x/other")]
    assert told == ["read", "none", "write", "none"]


PARTS = st.sampled_from(["a", "b", ".git", "p", "config"])
PATHS = st.lists(PARTS, min_size=1, max_size=4).map("/".join).map(lambda path: f"{ROOT}/{path}") | st.sampled_from(
    ["/home/u", "/home", "/home/u/x", ROOT, "/tmp/teamwright-1", "/home/u/.ssh/k"]
)
MANY = st.lists(PATHS, max_size=3).map(tuple)


@given(MANY, MANY, MANY, MANY, PATHS, st.lists(PATHS, min_size=1), st.booleans(), st.sampled_from(["default", "plan"]))
def test_a_deny_never_widens(
    write: tuple[str, ...],
    read: tuple[str, ...],
    denied: tuple[str, ...],
    closed: tuple[str, ...],
    more: str,
    looked_at: list[str],
    lives_on: bool,
    mode: str,
) -> None:
    names = tuple(Name(path, "there") for path in closed)
    land = replace(LAND, allow_write=write, allow_read=read, deny_read=denied, deny_write=names)
    before = made(land, mode, lives_on)
    for narrower in (
        replace(land, deny_read=(*denied, more)),
        replace(land, deny_write=(*names, Name(more, "there"))),
        replace(land, unseen=(more,)),
        replace(land, names=(*land.names, Name(more, "there"))),
    ):
        after = made(narrower, mode, lives_on)
        for path in (*looked_at, more, f"{more}/below", *(path for path, _ in before.access)):
            assert RANK[access_of(after, path)] <= RANK[access_of(before, path)], path


@given(MANY, MANY, PATHS, st.booleans())
def test_what_is_denied_for_writing_cannot_be_written(
    write: tuple[str, ...], read: tuple[str, ...], closed: str, lives_on: bool
) -> None:
    land = replace(LAND, allow_write=write, allow_read=read, deny_write=(Name(closed, "there"),))
    assert access_of(made(land, lives_on=lives_on), closed) != "write"
