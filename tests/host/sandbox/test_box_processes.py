"""Processes of a box: they end with it, reach nobody outside, and inherit nothing of ours."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import anyio
import msgspec
import pytest
from box_kit import House, Order, box_of, perform_step

from teamwright.host.process.capture import Capture
from teamwright.host.process.hook_process import run_hook
from teamwright.host.process.run import run

pytest_plugins = ("box_fixtures",)  # no conftest here: its name would hide the one that all tests use


def survivors(word: str) -> list[str]:
    """Living processes whose command line contains the word."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and word.encode() in (entry / "cmdline").read_bytes():
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                found += [entry.name] if state not in "ZX" else []
        except OSError:
            continue
    return found


def gone(word: str, seconds: float = 10) -> bool:
    until = time.monotonic() + seconds
    while survivors(word) and time.monotonic() < until:
        time.sleep(0.02)
    return survivors(word) == []


LEFT = """for i in 1 2 3; do setsid nohup sh -c 'trap "" TERM HUP; exec sleep {0}' >/dev/null 2>&1 & done
(setsid sleep {0} &); env -i setsid -f sleep {0} >/dev/null 2>&1; (exec -a kthreadd sleep {0} &)
sleep 0.1; echo left"""


@pytest.mark.spec("V19")
def test_nothing_outlives_a_command(house: House) -> None:
    seconds = f"9876{os.getpid() % 1000}1"
    told = house.one(LEFT.format(seconds))
    assert told.text == "left\n" and survivors(seconds) == []


@pytest.mark.spec("V19")
@pytest.mark.parametrize("moment", ["at the start", "while it runs"])
def test_kill_9_of_ours_leaves_nothing(mine: House, moment: str) -> None:
    mine.repository()
    seconds = f"9875{os.getpid() % 1000}{len(moment)}"
    script = LEFT.format(seconds) + f"; touch began; exec sleep {seconds}"
    order = Order(mine.tier, str(mine.base), (script,))
    kit = Path(__file__).with_name("box_kit.py")
    driver = subprocess.Popen([sys.executable, str(kit)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert driver.stdin
    driver.stdin.write(msgspec.json.encode(order))
    driver.stdin.close()
    until = time.monotonic() + 20

    def seen() -> bool:
        return (mine.project / "began").exists() if moment == "while it runs" else bool(survivors(seconds))

    while not seen() and time.monotonic() < until:
        time.sleep(0.001)
    driver.kill()
    driver.wait()
    assert gone(seconds) and not (mine.project / ".git/commondir").exists()


DOORS = """import ctypes, fcntl, os, pty, socket, termios
lines = dict(line.split(":\\t") for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
print("caps", lines["CapEff"].strip("0") or "none", "nnp", lines["NoNewPrivs"], "seccomp", lines["Seccomp"])
libc = ctypes.CDLL(None, use_errno=True)
number = {"x86_64": (250, 321, 298, 323, 165, 308, 304), "aarch64": (219, 280, 241, 282, 40, 268, 265)}
number = number[os.uname().machine]
for name, call in zip(("keyctl", "bpf", "perf", "userfaultfd", "mount", "setns", "handles"), number):
    print(name, "open" if libc.syscall(call, 0, 0, 0, 0, 0) >= 0 or ctypes.get_errno() != 1 else "shut")
for name, call in (("uring", 425), ("clone3", 435)):
    print(name, "open" if libc.syscall(call, 0, 0, 0) >= 0 or ctypes.get_errno() != 38 else "shut")
for flag in (0x10000000, 0x20000000, 0x00020000, 0x40000000):
    print("namespace", flag, "open" if libc.unshare(flag) == 0 else "shut")
for family in (40, 17, 38, 44, 31):
    try: socket.socket(family, socket.SOCK_RAW); print("family", family, "open")
    except OSError: print("family", family, "shut")
for protocol in (4, 9, 12, 15, 16):
    try: socket.socket(16, socket.SOCK_RAW, protocol); print("netlink", protocol, "open")
    except OSError: print("netlink", protocol, "shut")
print("addresses", "listed" if socket.socket(16, socket.SOCK_RAW, 0) and socket.if_nameindex() else "none")
m, s = pty.openpty()
for request in (termios.TIOCSTI, 0x541C, termios.TIOCSTI | (1 << 32)):
    print("keystroke", "open" if libc.ioctl(s, ctypes.c_ulong(request), b"x") == 0 else "shut")
for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory", "/sys/kernel/uevent_helper",
             "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/pids/cgroup.procs", "/dev/mem", "/dev/sda", "/dev/vda",
             "/dev/kmsg", "/proc/sysrq-trigger"):
    try: os.close(os.open(path, os.O_WRONLY)); print(path, "open")
    except OSError: print(path, "shut")
for path in ("/dev/vda", "/dev/sda", "/dev/mem"):
    try: os.close(os.open(path, os.O_RDONLY)); print(path, "open")
    except OSError: print(path, "shut")
import resource
most = resource.getrlimit(resource.RLIMIT_NPROC)[0]
print("core", resource.getrlimit(resource.RLIMIT_CORE), "processes", most <= 8192)
"""  # fmt: skip


@pytest.mark.spec("V19")
def test_the_doors_of_the_kernel_are_shut(house: House) -> None:
    house.write("p/doors.py", DOORS)
    told = house.one("python3 doors.py")
    assert "caps none nnp 1 seccomp 2\n" in told.text and "core (0, 0) processes True" in told.text, told
    assert " open" not in told.text, told


@pytest.mark.spec("V19")
def test_a_setuid_program_gains_nothing(house: House) -> None:
    told = house.one("su -c id root </dev/null; sudo -n id; ping -c1 127.0.0.1; cat /etc/shadow; id -u")
    assert "root:" not in told.text or house.user == "me"
    assert told.text.split()[-1] == ("65534" if house.user == "nobody" else str(os.geteuid()))


@pytest.mark.spec("V19", "V21")
def test_nobody_outside_can_be_signalled_traced_or_read(house: House) -> None:
    user = 65534 if house.user == "nobody" else None
    with subprocess.Popen(["sleep", "60"], env={"KEY": "canary-key"}, user=user) as other:
        script = f"""kill -9 {other.pid}; kill -9 {os.getpid()}; kill -0 1
        cat /proc/*/environ | tr '\\0' '\\n' | grep canary
        python3 -c "import ctypes; print('trace', ctypes.CDLL(None).ptrace(16, {other.pid}, 0, 0))"
        ls /proc/{other.pid}/fd; cat /proc/{other.pid}/mem; echo tried"""
        told = house.one(script)
        assert told.text.endswith("tried\n") and "canary" not in told.text and "trace 0" not in told.text
        assert other.poll() is None
        other.kill()


THREADS = """import ctypes, os
libc, pid = ctypes.CDLL(None, use_errno=True), os.getppid()
tgkill = {"x86_64": 234, "aarch64": 131}[os.uname().machine]
shell = pid
while pid > 1:
    for tid in os.listdir(f"/proc/{pid}/task") if pid != shell else ():
        if libc.syscall(tgkill, pid, int(tid), 0) == 0: print("signal reaches", pid, tid)
        try: os.close(os.open(f"/proc/{pid}/task/{tid}/mem", os.O_RDWR)); print("memory of", pid, tid)
        except OSError: pass
    with open(f"/proc/{pid}/stat") as file: pid = int(file.read().rpartition(")")[2].split()[1])
print("tried")
"""


@pytest.mark.spec("V19")
def test_no_thread_of_ours_is_in_reach_of_a_program(house: House) -> None:
    """The thread that starts programs is in their domain: whoever reaches it reaches our whole process."""
    house.write("p/threads.py", THREADS)
    for told in house.play("python3 threads.py", "python3 threads.py"):
        assert told.text == "tried\n", told


@pytest.mark.spec("V19")
def test_a_program_cannot_take_off_the_mark_by_which_we_find_it(mine: House) -> None:
    """After we are killed, what is left is found by this mark."""
    if mine.tier == "bwrap":
        pytest.skip("a namespace needs no mark")
    told = mine.one("ulimit -x; ulimit -x 7; prlimit --pid $$ --locks=7:7; ulimit -n 100; ulimit -x; ulimit -n")
    before, *_, after, files = told.text.split()
    assert before == after != "7" and files == "100", told


@pytest.mark.spec("V19")
def test_no_handle_of_ours_is_inherited(mine: House) -> None:
    """Except the standard ones and the pipe into which a shell writes where it ended."""
    with (mine.base / "secret").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        told = mine.one("ls -l /proc/$$/fd")
    lines = told.text.splitlines()
    assert not [line for line in lines if "secret" in line or "-box" in line or "-calls" in line], told
    assert sum("memfd" in line for line in lines) == 1 and not [line for line in lines if "socket:" in line], told


@pytest.mark.spec("V7")
def test_there_is_no_network_without_one(house: House) -> None:
    script = """import socket, sys
for family, kind in ((2, 1), (2, 2), (10, 1), (2, 3)):
    try:
        s = socket.socket(family, kind); s.settimeout(2)
        place = ("127.0.0.1" if family == 2 else "::1", int(sys.argv[1]))
        s.connect(place) if kind == 1 else s.sendto(b"x", place)
    except OSError as error: print("refused", error.errno)
try:
    s = socket.socket(1); s.connect("\\0" + sys.argv[2]); print("reached")
except OSError as error: print("refused", error.errno)
try: socket.getaddrinfo("example.com", 80); print("resolved")
except OSError: print("refused")
"""
    house.write("p/reach.py", script)
    name = f"teamwright-test-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind("\0" + name)
        abstract.listen()
        server.setblocking(False)
        abstract.setblocking(False)
        told = house.one(
            f"python3 reach.py {server.getsockname()[1]} {name}; (exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]})"
        )
        assert "reached" not in told.text and "resolved" not in told.text and told.text.count("refused") >= 5, told
        for one in (server, abstract):
            with pytest.raises(BlockingIOError):
                one.accept()


@pytest.mark.spec("V10")
def test_sockets_of_the_machine_by_path(namespaced: House) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        path = namespaced.project / "agent.sock"
        server.bind(str(path))
        server.listen()
        call = f"python3 -c \"import socket; s=socket.socket(1); s.connect('{path}'); print('connected')\""
        own = "s.bind('x'); s.listen(); c=socket.socket(1); c.connect('x'); print('own')"
        own = f'python3 -c "import socket; s=socket.socket(1); {own}"'
        told = namespaced.play(call, own)
        assert "connected" not in told[0].text and told[1].text == "own\n"
        assert "connected" in namespaced.one(call, rules={"sockets": [str(path)]}).text
        assert "connected" in namespaced.one(call, rules={"all_sockets": True}).text


@pytest.mark.spec("V19")
def test_a_command_has_time_to_obey_before_it_is_killed(mine: House) -> None:
    """bubblewrap is spared the first signal: if it died, everything inside would die at once."""
    told = mine.one(
        "trap 'echo obeyed > obeyed; exit 7' TERM; touch began; for i in $(seq 1000); do sleep 0.02; done", limit=1.0
    )
    assert (mine.project / "obeyed").read_text() == "obeyed\n" and told.status is not None


@pytest.mark.spec("V19")
def test_a_box_does_not_outlive_a_cancellation(mine: House) -> None:
    seconds = f"9874{os.getpid() % 1000}2"
    order = Order(mine.tier, str(mine.base), ())

    async def cancelled() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(
                perform_step, order, f"echo evil > .mcp.json; touch began; {LEFT.format(seconds)}; sleep {seconds}"
            )
            with anyio.fail_after(20):
                while not (mine.project / "began").exists():
                    await anyio.sleep(0.01)
            group.cancel_scope.cancel()

    anyio.run(cancelled)
    assert survivors(seconds) == [] and not (mine.project / ".mcp.json").exists()


@pytest.mark.spec("V18")
def test_hooks_run_in_a_box_with_their_input_and_answers(mine: House) -> None:
    async def hook() -> None:
        env = {"PATH": os.environ["PATH"]}
        box = box_of(Order(mine.tier, str(mine.base), (), lives_on=True))
        command = f"cat; echo complaint >&2; touch hooked; echo x > {mine.neighbour}/planted; exit 2"
        ended = await run_hook(command, b'{"a": 1}', cwd=mine.project, env=env, limit=20, box=box)
        assert (ended.status, ended.out) == (2, '{"a": 1}') and ended.err.startswith("complaint") and box.ended

    anyio.run(hook)
    assert (mine.project / "hooked").exists() and not (mine.neighbour / "planted").exists()


SERVER = """import json, sys
for line in sys.stdin:
    try: open(sys.argv[1], "w"); said = "wrote"
    except OSError: said = "refused"
    print(json.dumps({"said": said, "got": json.loads(line)}), flush=True)
"""


@pytest.mark.spec("V18")
def test_servers_run_in_a_box_behind_their_pipes(mine: House) -> None:
    from teamwright.host.mcp.stdio_client import open_program

    mine.write("p/server.py", SERVER)

    async def talk() -> None:
        box = box_of(Order(mine.tier, str(mine.base), (), lives_on=True))
        argv, env = ("python3", "server.py", f"{mine.neighbour}/planted"), {"PATH": os.environ["PATH"]}
        with anyio.fail_after(20):
            async with open_program(argv, env, mine.project, box=box) as pipes:
                await pipes.send(b'{"id": 1}')
                assert json.loads(await pipes.lines.receive()) == {"said": "refused", "got": {"id": 1}}

    anyio.run(talk)
    assert not (mine.neighbour / "planted").exists()


@pytest.mark.spec("V2")
def test_a_box_that_cannot_be_made_runs_nothing(namespaced: House) -> None:
    """Both if bubblewrap fails halfway and if it is missing."""

    async def attempt(program: str) -> tuple[str, int | None]:
        order = Order("bwrap", str(namespaced.base), ())
        box = box_of(order)
        box.fence = msgspec.structs.replace(box.fence, bwrap=program)
        capture = Capture()
        env = {"PATH": os.environ["PATH"]}
        argv = ["sh", "-c", f"echo ran > {namespaced.neighbour}/ran"]
        ended = await run(argv, cwd=namespaced.project, env=env, limit=20, capture=capture, box=box)
        return capture.text(), ended.status

    half = namespaced.write("h/bwrap", "#!/bin/sh\necho bwrap: no >&2; exit 1\n")
    half.chmod(0o755)
    assert anyio.run(attempt, str(half)) == ("bwrap: no\n", 1)
    with pytest.raises(Exception, match="could not be started"):
        anyio.run(attempt, "/nowhere/bwrap")
    assert not (namespaced.neighbour / "ran").exists() and signal.getsignal(signal.SIGCHLD) is not None


@pytest.mark.spec("V19")
def test_a_program_has_a_session_of_its_own(mine: House) -> None:
    """Our session would be number 0 in its namespace, and the program could hold our terminal."""
    assert mine.one("python3 -c 'import os; print(os.getsid(0) > 0)'; tty <&2; cat /dev/tty").text.startswith("True\n")
