"""Networks of roots, with real namespaces: root and an unprivileged user take each walk of net_walk.py."""

import json
import os
import shutil
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import anyio
import pytest
from box_kit import miss
from net_kit import PATIENCE
from net_walk import BWRAP

from teamwright.host.sandbox.connections.netns import find_nsenter

HERE = Path(__file__).parent
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
LIBRARIES = [path for path in sys.path if path.endswith(("/src", "-packages"))]
ENV = {"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join([*LIBRARIES, str(HERE)]), "PYTHONDONTWRITEBYTECODE": "1"}
NO_NETWORK = (
    "no bwrap"
    if not Path(BWRAP).exists()
    else "no nsenter"
    if not find_nsenter()
    else "no curl" * (not shutil.which("curl"))
)


# setpriv itself may still start what its user may not
AGAIN = "import net_walk, subprocess, sys; subprocess.run([sys.executable, '-c', ''], check=True)"


def _makes_one(start: list[str]) -> bool:
    argv = [*start, BWRAP, "--dev-bind", "/", "/", "--unshare-net", "--unshare-user", "--", "true"]
    argv = [word for word in argv if start or word != "--unshare-user" or os.geteuid()]
    return subprocess.run(argv, capture_output=True, timeout=PATIENCE, check=False).returncode == 0


@cache
def starter(user: str) -> tuple[list[str], str]:
    """argv of a Python that runs as this user, or why there is none."""
    if sys.platform != "linux" or NO_NETWORK:
        return [], NO_NETWORK or "only Linux has network namespaces"
    if user == "ourselves":
        return ([sys.executable], "") if _makes_one([]) else ([], "bwrap cannot make a network namespace here")
    if not shutil.which("setpriv"):
        return [], "only setpriv makes another user of root"
    if not _makes_one(NOBODY):
        return [], "bwrap cannot make a network namespace for an ordinary user here"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, f"/usr/bin/{version}", f"/usr/local/bin/{version}"):
        if Path(python).exists():
            argv = [*NOBODY, python]
            told = subprocess.run([*argv, "-c", AGAIN], env=ENV, capture_output=True, timeout=60, check=False)
            if told.returncode == 0:
                return argv, ""
    return [], "the interpreter lies where no other user can read it"


@pytest.fixture(params=["ourselves", "nobody"] if os.geteuid() == 0 else ["ourselves"])
def python(request: pytest.FixtureRequest) -> list[str]:
    argv, why_not = starter(request.param)
    if why_not:
        miss(why_not)
    return argv


def walk(python: list[str], name: str) -> dict[str, Any]:
    done = subprocess.run(
        [*python, str(HERE / "net_walk.py"), name], env=ENV, cwd="/", capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.spec("V7")
def test_the_boxes_of_one_root_share_a_loopback_that_nobody_else_has(python: list[str]):
    seen = walk(python, "shared")
    assert seen["one"] == "hello from the box\n" and seen["two"] == "other from the box\n"
    assert seen["connect"] == "hello from the box" and seen["machine"] == "nothing"


@pytest.mark.spec("V7")
def test_nothing_gets_out_by_itself(python: list[str]):
    seen = walk(python, "outward")
    assert seen["arrived"] == []
    told = seen["told"]
    assert told.pop("udp") == "6"  # to its own loopback, where nobody listens
    assert len(told) == 11 and all(word.endswith(("Error", "error")) for word in told.values()), told


@pytest.mark.spec("V7", "V8")
def test_programs_in_a_box_reach_what_is_allowed_through_the_proxy(python: list[str]):
    seen = walk(python, "proxied")
    assert seen["tls"] == "from-site" and seen["http"] == "b'from-site'\n" and seen["paths"] == ["/tls", "/py"]
    assert "403 Forbidden" in seen["refused"] and "evil.example:80" in seen["refused"] and "403" in seen["tunnel"]
    assert "from-site" not in seen["direct"]
    assert seen["told"] == [["call-9", "evil.example", 80], ["call-9", "evil.example", 443]]


@pytest.mark.spec("V8")
def test_a_port_of_this_machine_is_found_at_the_same_port_in_there(python: list[str]):
    seen = walk(python, "forwarded")
    assert "refused" in seen["before"] and "refused" in seen["inside"][2] and seen["two"] == []
    assert seen["inside"][:2] == ["from-site\n", "from-site\n"]


@pytest.mark.spec("V8")
def test_a_proxy_of_the_person_takes_the_place_of_ours(python: list[str]):
    seen = walk(python, "other_proxy")
    assert seen == {"told": "from-site", "line": "GET http://whatever.example/x HTTP/1.1", "named": False}


@pytest.mark.spec("V7")
def test_a_box_inherits_no_handle(python: list[str]):
    """Only three streams and the one that reads the directory, even if our children cannot read our /proc."""
    assert [Path(fd).name for fd in walk(python, "handles")["fds"]] == ["0", "1", "2", "3"]


@pytest.mark.spec("V7")
def test_a_network_whose_holder_dies_is_made_again_and_that_is_told(python: list[str]):
    seen = walk(python, "holder_dies")
    assert "lo:" not in seen["late"] and "nsenter" in seen["late"] and "has ended" in seen["order"]
    assert "made anew" in seen["notice"] and seen["after"] == "" and "lo:" in seen["works"]


@pytest.mark.spec("V7")
def test_a_network_that_cannot_be_made_is_an_error_of_the_command(python: list[str]):
    seen = walk(python, "cannot_be_made")
    assert len(seen["words"]) == 3 and all("could not be made" in words for words in seen["words"])
    assert "/nowhere/python" in seen["words"][2] and seen["left"] == []
    assert seen["alone"].count(":") == 1 and "lo:" in seen["alone"] and seen["env"] == {}  # without nsenter


@pytest.mark.spec("V7")
async def test_killing_us_leaves_no_holder(python: list[str]):
    argv = [*python, str(HERE / "net_walk.py"), "until_killed"]
    with subprocess.Popen(argv, env=ENV, cwd="/", stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout
            with anyio.fail_after(PATIENCE):
                line = await anyio.to_thread.run_sync(program.stdout.readline, abandon_on_cancel=True)
            [holder] = json.loads(line)["holders"]
            handle = os.pidfd_open(holder)
            os.kill(holder, signal.SIGSTOP)  # so that it cannot end by itself: the kernel ends it with us
        finally:
            program.send_signal(signal.SIGKILL)
        with anyio.fail_after(PATIENCE):
            await anyio.wait_readable(handle)
        os.close(handle)
