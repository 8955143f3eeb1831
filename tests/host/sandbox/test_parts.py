"""Parts of the sandbox that need no box: the system call filter, the macOS profile, the scan of the machine."""

import ast
import os
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from teamwright.core.errors import ToolError
from teamwright.core.sandbox.path_entry import PathEntry
from teamwright.core.sandbox.policy import Policy, policy_for
from teamwright.core.sandbox.rules import SandboxRules
from teamwright.host.sandbox import bwrap
from teamwright.host.sandbox.ground.expand import expand
from teamwright.host.sandbox.ground.terrain import Ground, read_terrain
from teamwright.host.sandbox.launch import Launch
from teamwright.host.sandbox.seatbelt import profile
from teamwright.host.sandbox.seccomp import WITH_NETWORK, WITHOUT_NETWORK, seccomp_filter

SOURCE = Path(__file__).parents[3] / "src/teamwright"
ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def verdict(program: bytes, arch: int, number: int, *args: int) -> int:
    """The kernel's verdict on the filter: 0 for allowed, otherwise the errno."""
    data = struct.pack("=IIQ6Q", number, arch, 0, *args, *[0] * (6 - len(args)))
    steps = list(struct.iter_unpack("=HBBI", program))
    at, value = 0, 0
    for _ in range(1000):
        code, then, otherwise, operand = steps[at]
        at += 1
        if code == 0x20:
            value = struct.unpack_from("=I", data, operand)[0]
        elif code == 0x06:
            return 0 if operand == 0x7FFF0000 else operand & 0xFFFF
        else:
            met = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[code]
            at += then if met else otherwise
    raise AssertionError("it never ends")


CALLS = {"x86_64": (56, 272, 16, 41, 165, 1, 101), "aarch64": (220, 97, 29, 198, 40, 64, 117)}


@pytest.mark.spec("V19")
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_of_calls(machine: str) -> None:
    clone, unshare, ioctl, make_socket, mount, write, ptrace = CALLS[machine]
    open_net, arch = seccomp_filter(WITH_NETWORK, machine), ARCH[machine]
    closed = seccomp_filter(WITHOUT_NETWORK, machine)
    for program in (open_net, closed):
        assert len(program) // 8 <= 4096
        assert verdict(program, arch, write, 1) == verdict(program, arch, ptrace, 16) == 0
        assert verdict(program, arch, clone, 17) == 0 and verdict(program, arch, clone, 0x10000011) == 1
        assert verdict(program, arch, unshare, 0x10000000) == 1 and verdict(program, arch, unshare, 0x400) == 0
        assert verdict(program, arch, 435) == verdict(program, arch, 425) == 38
        assert verdict(program, arch, mount) == 1
        assert verdict(program, arch, ioctl, 0, 0x5412) == verdict(program, arch, ioctl, 0, 0x541C) == 1
        assert verdict(program, arch, ioctl, 0, 0x5412 | 1 << 32) == 1 and verdict(program, arch, ioctl, 0, 0x5401) == 0
        assert verdict(program, arch, make_socket, 1) == verdict(program, arch, make_socket, 16) == 0
        assert verdict(program, arch, make_socket, 40) == verdict(program, arch, make_socket, 17) == 97
        assert verdict(program, 0x40000003, write) == 1, "another architecture"
        assert verdict(program, arch, write | 0x40000000) == 1, "x32"
    assert verdict(open_net, arch, make_socket, 2) == verdict(open_net, arch, make_socket, 10) == 0
    assert verdict(closed, arch, make_socket, 2) == verdict(closed, arch, make_socket, 10) == 97


@pytest.mark.spec("V19")
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_limit_that_marks_a_program_can_be_read_and_not_set(machine: str) -> None:
    program, arch = seccomp_filter(WITHOUT_NETWORK, machine, own_limits=True), ARCH[machine]
    setrlimit, prlimit = {"x86_64": (160, 302), "aarch64": (164, 261)}[machine]
    assert verdict(program, arch, setrlimit, 10, 0x1000) == 1 and verdict(program, arch, setrlimit, 7, 0x1000) == 0
    for new in (0x1000, 1 << 32):
        assert verdict(program, arch, prlimit, 0, 10, new) == 1 and verdict(program, arch, prlimit, 0, 7, new) == 0
    assert verdict(program, arch, prlimit, 0, 10, 0, 0x1000) == 0
    assert verdict(seccomp_filter(WITHOUT_NETWORK, machine), arch, setrlimit, 10, 0x1000) == 0


@pytest.mark.spec("V3")
def test_the_profile_for_macos_names_paths_as_parameters() -> None:
    access = (("/", "read"), ("/Users/u/.ssh", "none"), ("/tmp/p", "write"), ('/tmp/p/"odd', "read"))
    text, paths = profile(Policy(access, absent=("/tmp/p/.mcp.json",), tmp="/tmp/t"), proxy_port=4711)  # pyright: ignore[reportArgumentType]
    assert "odd" not in text and '/tmp/p/"odd' in paths and '/private/tmp/p/"odd' in paths
    lines = text.splitlines()
    hidden, opened = paths.index("/Users/u/.ssh"), paths.index("/tmp/p")
    assert f'(deny file-read* file-write* (subpath (param "P{hidden}")))' in lines
    assert any(line.startswith("(allow file-write*") and f'"P{opened}"' in line for line in lines)
    assert lines.index("(deny file-write*)") < next(n for n, line in enumerate(lines) if f'"P{opened}"' in line)
    assert '(allow network-outbound (remote ip "localhost:4711"))' in lines and "(deny network*)" in lines


# --- the machine as it is found


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    for name in ("p", "h/.ssh", "t", "h/.teamwright", "h/.claude/skills"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "h/.npmrc").write_text("registry=https://x\n")
    base = str(tmp_path.resolve())
    return Ground((f"{base}/p",), f"{base}/p", f"{base}/h", f"{base}/h/.teamwright", f"{base}/t", path="/usr/bin")


@pytest.mark.spec("V6")
def test_files_that_only_may_hold_a_secret_are_looked_into(ground: Ground) -> None:
    home = ground.home
    assert f"{home}/.npmrc" not in read_terrain(ground, SandboxRules()).hidden
    Path(home, ".npmrc").write_text("//x/:_authToken=abc\n")
    Path(home, ".pypirc").write_text("[pypi]\npassword = x\n")
    found = read_terrain(ground, SandboxRules())
    assert {f"{home}/.npmrc", f"{home}/.pypirc", f"{home}/.ssh", f"{home}/.claude"} <= set(found.hidden)
    assert f"{home}/.claude/skills" in found.shown


@pytest.mark.spec("V6")
def test_a_secret_that_leads_to_the_home_hides_nothing_else(ground: Ground) -> None:
    Path(ground.home, ".aws").symlink_to("/")
    Path(ground.home, ".gnupg").symlink_to(ground.home)
    assert not {"/", ground.home} & set(read_terrain(ground, SandboxRules()).hidden)


@pytest.mark.spec("V6")
def test_programs_in_a_hidden_place_are_shown(ground: Ground, tmp_path: Path) -> None:
    venv = tmp_path / "venv/bin"
    venv.mkdir(parents=True)
    (Path(ground.home) / ".ssh/bin").mkdir()
    path = f"{venv}:{ground.home}/.ssh/bin:relative:/tmp"
    theirs = Ground(ground.roots, ground.project, ground.home, ground.state, ground.tmp, path=path)
    shown = read_terrain(theirs, SandboxRules()).shown
    assert str(tmp_path.resolve() / "venv") in shown and f"{ground.home}/.ssh/bin" in shown
    assert not {f"{ground.home}/.ssh", "/tmp", "/"} & set(shown)


@pytest.mark.spec("V18")
def test_what_a_servers_command_names_is_shown_but_no_secret_and_no_shared_place(ground: Ground) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as theirs, tempfile.TemporaryDirectory(dir="/tmp") as python:
        for name in (f"{theirs}/tool/bin", f"{theirs}/data", f"{python}/bin"):
            Path(name).mkdir(parents=True)
        Path(f"{python}/bin/python3").touch()
        Path(f"{theirs}/tool/bin/python").symlink_to(f"{python}/bin/python3")
        with tempfile.NamedTemporaryFile(dir="/tmp") as loose:
            secret = f"{ground.home}/.ssh/key"
            Path(secret).touch()
            named = (f"{theirs}/tool/bin/python", loose.name, f"{theirs}/data", secret, "/tmp", f"{theirs}/missing")
            shown = set(read_terrain(replace(ground, programs=named), SandboxRules()).shown)
    assert {f"{theirs}/tool", python, f"{theirs}/data", loose.name} <= shown
    assert not {"/tmp", "/", theirs, f"{ground.home}/.ssh", secret, f"{theirs}/missing"} & shown


@pytest.mark.spec("V22")
def test_what_a_project_opens_lies_in_it(ground: Ground, tmp_path: Path) -> None:
    (Path(ground.project) / "out").symlink_to(ground.home)
    (Path(ground.project) / "build").mkdir()
    entries = tuple(PathEntry(f"{ground.project}/{name}", ground.project) for name in ("out", "build", "..", "*"))
    assert read_terrain(ground, SandboxRules(allow_write=entries)).allow_write == (f"{ground.project}/build",)
    assert read_terrain(ground, SandboxRules(allow_write=(PathEntry("/usr", ground.project),))).allow_write == ()


def test_wildcards_of_settings(tmp_path: Path) -> None:
    for name in ("a/x.pem", "a/b/y.pem", "a/b/c/z.pem", "a/b/c/d/deep.pem", "a/.env"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    names = {str(Path(path).relative_to(tmp_path)) for path in expand(f"{tmp_path}/a/**/*.pem")}
    assert names == {"a/x.pem", "a/b/y.pem", "a/b/c/z.pem", "a/b/c/d/deep.pem"}
    assert [Path(path).name for path in expand(f"{tmp_path}/a/.e[nm]v")] == [".env"]
    assert list(expand(f"{tmp_path}/a/**")) == [f"{tmp_path}/a"] and list(expand("/no/such")) == ["/no/such"]


@pytest.mark.spec("V4", "M3")
@pytest.mark.parametrize("pattern", ["keys/x.pem", "keys/*.pem", "**/*.pem", "*/x.pem"])
def test_a_pattern_counts_in_all_worktrees(ground: Ground, pattern: str) -> None:
    project = Path(ground.project)
    here, *trees = [project, project / ".teamwright/worktrees/v", project / ".teamwright/worktrees/w"]
    for tree in (here, *trees):
        (tree / "keys").mkdir(parents=True)
        (tree / "keys/x.pem").write_text("")
    (trees[0] / "own").mkdir()
    (trees[0] / "own/x.pem").write_text("")
    rules = SandboxRules(deny_read=(f"{project}/{pattern}",), deny_write=(f"{project}/{pattern}",))
    for root in (here, *trees):
        found = read_terrain(replace(ground, roots=(str(root),)), rules)
        denied = {str(tree / "keys/x.pem") for tree in (here, *trees)}
        denied |= {str(trees[0] / "own/x.pem")} if root == trees[0] and "*" in pattern[:2] else set()
        assert set(found.deny_read) == denied <= {name.path for name in found.deny_write}


def test_worktrees_are_not_walked_before_each_command(ground: Ground) -> None:
    """Each kept one may be as large as the project."""
    listed: list[str] = []
    sys.addaudithook(lambda event, args: listed.append(str(args[0])) if event == "os.scandir" else None)
    for name in ("v", "w"):
        Path(ground.project, ".teamwright/worktrees", name, "a/b").mkdir(parents=True)
    read_terrain(ground, SandboxRules())
    listed.clear()
    read_terrain(ground, SandboxRules(deny_read=(f"{ground.project}/**/*.pem", f"{ground.project}/*/*/x")))
    assert f"{ground.project}/.teamwright" in listed and not [path for path in listed if path.endswith("/a")]


@pytest.mark.spec("V17")
def test_a_git_file_that_names_any_directory_is_not_followed(ground: Ground, tmp_path: Path) -> None:
    """Otherwise a program could write one, and open that directory to the next program."""
    root = Path(ground.project)
    (root / ".git").write_text(f"gitdir: {ground.home}\n")
    assert read_terrain(ground, SandboxRules()).repositories == ()
    fake = root / "fake/worktrees/one"
    fake.mkdir(parents=True)
    (fake / "gitdir").write_text(f"{root}/.git\n")
    (fake / "commondir").write_text(f"{ground.home}\n")
    (root / ".git").write_text(f"gitdir: {fake}\n")
    assert read_terrain(ground, SandboxRules()).repositories == ()
    (root / ".git").unlink()
    (root / ".git").symlink_to(ground.home)
    found = read_terrain(ground, SandboxRules())
    assert found.repositories == () and [name.path for name in found.names if name.state == "link"] == [f"{root}/.git"]


@pytest.mark.spec("V16")
def test_a_root_below_its_project_has_the_repository_around_it(ground: Ground) -> None:
    subprocess.run(["git", "init", "-q", ground.project], check=True)
    sub = Path(ground.project, "sub")
    sub.mkdir()
    inner = Ground((str(sub),), ground.project, ground.home, ground.state, ground.tmp)
    policy = policy_for(SandboxRules(), (str(sub),), "default", read_terrain(inner, SandboxRules()))
    access = dict(policy.access)
    assert access[f"{ground.project}/.git"] == "write" and access[f"{ground.project}/.git/config"] == "read"
    alone = Ground((str(sub),), str(sub), ground.home, ground.state, ground.tmp)
    assert read_terrain(alone, SandboxRules()).repositories == ()


@pytest.mark.spec("V25")
def test_many_directories_are_bounded_and_what_was_not_seen_is_read_only(ground: Ground) -> None:
    for n in range(60):
        for m in range(45):
            os.makedirs(f"{ground.project}/d{n:02}/e{m:02}")
    os.makedirs(f"{ground.project}/node_modules/x/y")
    began = time.monotonic()
    found = read_terrain(ground, SandboxRules())
    assert time.monotonic() - began < 5 and found.unseen and f"{ground.project}/d00" not in found.unseen
    assert not [path for path in found.unseen if "node_modules" in path], "packages can still be installed"


@pytest.mark.spec("V6")
def test_thousands_of_denied_files_are_hidden_by_their_directories(ground: Ground, tmp_path: Path) -> None:
    place = tmp_path / "keys"
    place.mkdir()
    for n in range(600):
        (place / f"{n}.pem").write_text("")
    found = read_terrain(ground, SandboxRules(deny_read=(f"{tmp_path}/keys/*.pem",)))
    assert found.deny_read == (str(place.resolve()),)


# --- the one door

STARTERS = {
    "host/sandbox/launch.py": "the door itself",
    "host/process/run.py": "what agents, hooks and servers run, in a box if there is one; our watch",
    "host/process/child.py": "ripgrep and the reader of PDF files: our own programs, by fixed words",
    "host/process/local_child.py": "a teammate: ourselves",
    "host/process/rows.py": "`ps`, where there is no /proc",
    "host/git/program.py": "our own git, which is guarded by itself",
    "host/panes/launcher.py": "a teammate in a pane: ourselves",
    "host/panes/base.py": "tmux and iTerm2",
    "host/git/worktrees/record.py": "`ps`, where there is no /proc",
    "host/process/identity.py": "`ps`, where there is no /proc",
    "host/sandbox/tiers.py": "`bwrap --version`",
    "host/sandbox/connections/netns.py": "the holder of a network: our own program",
    "host/git/history.py": "our own git, which only reads, guarded like the other",
    "host/clipboard.py": "the person's clipboard, by fixed words",
    "surfaces/terminal/prompt/editor.py": "the person's own editor",
    "host/process/browser.py": "the person's browser, with an address",
    "surfaces/terminal/slash/mcp.py": "ourselves: signing in to a server",
    "surfaces/terminal/slash/web.py": "the hub of the page: ourselves",
    "surfaces/web/doing/start.py": "a session: ourselves",
    "surfaces/commands/engine/running.py": "the person's nats-server, which takes our place",
    "surfaces/commands/engine/server.py": "`nats-server --version`",
    "surfaces/demo/shop.py": "the demo's own files",
    "surfaces/demo/kill.py": "the demo: ourselves",
    "surfaces/demo/workers.py": "the demo: ourselves as engine, lead and workers",
}
MODULES = ("subprocess", "anyio", "asyncio", "os", "pty")
WORDS = ("Popen", "run", "call", "check", "getoutput", "open_process", "create_subprocess", "posix_spawn", "exec",
         "spawn", "system", "popen", "fork")  # fmt: skip


def starts_programs(path: Path) -> bool:
    """Judged by the names of what it calls; `anyio.run` starts none."""
    for node in ast.walk(ast.parse(path.read_text())):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Name) and called.id == "Popen":
            return True
        if not isinstance(called, ast.Attribute) or not isinstance(called.value, ast.Name):
            continue
        module = called.value.id
        if module in MODULES and called.attr.startswith(WORDS) and (module, called.attr) != ("anyio", "run"):
            return True
    return False


@pytest.mark.spec("V19")
def test_programs_start_only_where_it_is_known() -> None:
    """A new place would bypass the sandbox: it must go through `run` with a box, or say here why not."""
    found = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if starts_programs(path)}
    assert found == set(STARTERS), found ^ set(STARTERS)


@pytest.mark.spec("V10")
def test_more_sockets_than_bubblewrap_can_hide_are_named_as_the_cause(tmp_path: Path) -> None:
    sockets = tuple(str(tmp_path / f"{number}") for number in range(3_000))
    for path in sockets:
        os.close(os.open(path, os.O_CREAT))
    policy = Policy((("/", "read"),), tmp="", cache="", masks=sockets)
    with pytest.raises(ToolError, match=r"hides 3000 sockets of other programs.*allowAllUnixSockets"):
        bwrap.start("/nowhere/bwrap", policy, Launch(("true",), "/", {}, {}, 0, 1, 2), None)
