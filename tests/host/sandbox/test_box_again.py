"""A path of the map vanishes while bubblewrap makes a box: the box is made again, and nothing runs twice.

A script in place of bubblewrap fixes the moment; in one test, real sockets come and go by themselves.
"""

import os
import shlex
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from box_kit import House, Order, Told, bwrap_program, policy_of

from teamwright.core.sandbox.policy import Policy
from teamwright.host.mcp.stdio_client import open_program
from teamwright.host.process.bash import run_script
from teamwright.host.process.capture import Capture
from teamwright.host.process.hook_process import run_hook
from teamwright.host.sandbox.box import Box, Fence

pytest_plugins = ("box_fixtures",)
PATH = "/usr/local/bin:/usr/bin:/bin"
TRIES = 12


def box_in(house: House, moment: str = "exec BWRAP") -> Box:
    """`moment`: the script in place of bubblewrap; it calls the real one by the word BWRAP."""
    bwrap = bwrap_program()
    if moment != "exec BWRAP":
        there = moment.replace("BWRAP", f'{shlex.quote(bwrap)} "$@"')
        stand_in = house.write("bwrap", f"#!/bin/bash\ncd {house.base}\necho >> tries\n{there}\n")
        stand_in.chmod(0o755)
        bwrap = str(stand_in)
    order = Order("bwrap", str(house.base), ())
    state = f"{house.base}/h/.teamwright"

    def look() -> Policy:
        return policy_of(order)

    return Box(Fence("bwrap", f"{state}/quarantine", f"{state}/made", bwrap), look(), again=look)


def env_of(house: House, path: str = PATH) -> dict[str, str]:
    return {"PATH": path, "HOME": "/", "LC_ALL": "C", "H": str(house.home), "N": str(house.neighbour)}


def play(house: House, script: str, box: Box, path: str = PATH) -> Told:
    capture = Capture()

    async def run() -> int | None:
        ended, _ = await run_script(
            script.encode(), cwd=house.project, env=env_of(house, path), limit=60, capture=capture, box=box
        )
        return ended.status

    status = anyio.run(run)
    return Told(capture.text(), status)


def tries(house: House) -> int:
    return len((house.base / "tries").read_text())


@contextmanager
def listening(path: Path) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
        made.listen()
        yield


@pytest.mark.spec("V2", "V10")
@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_a_socket_that_vanishes_at_that_moment_fails_no_command(namespaced: House, shell: str) -> None:
    house, path = namespaced, PATH
    if shell == "sh":
        path = str(house.neighbour)
        for name in ("sh", "cat"):
            house.neighbour.joinpath(name).symlink_to(f"/bin/{name}")
    with listening(house.neighbour / "a"), listening(house.neighbour / "b"):
        box = box_in(house, "[ -e n/a ] && rm n/a || rm -f n/b; exec BWRAP")
        told = play(house, "echo once >> ran; cat ran; echo $H/.ssh/*", box, path)
    assert told.status == 0 and told.text == f"once\n{house.home}/.ssh/*\n", told
    assert tries(house) == 3
    assert box.ended is not None and not box.ended.changed


@pytest.mark.spec("V3", "V6", "V10")
def test_the_box_that_is_made_anew_knows_what_is_there_by_now(namespaced: House) -> None:
    house = namespaced
    late = (
        "import os, socket, sys; s = socket.socket(socket.AF_UNIX); s.bind('n/late'); s.listen(); "
        "os.fork() or (os.close(1), os.close(2), os.read(0, 1))"
    )
    moment = f"if [ -e n/a ]; then rm n/a; python3 -c {shlex.quote(late)} < hold; fi; exec BWRAP"
    hold = house.base / "hold"
    os.mkfifo(hold)
    with listening(house.neighbour / "a"), open(hold, "r+b", buffering=0) as end:
        call = "import socket; socket.socket(socket.AF_UNIX).connect('%s')" % (house.neighbour / "late")
        script = f"python3 -c {shlex.quote(call)} 2>&1 | tail -n1; cat $H/.ssh/id; echo x > $N/planted"
        told = play(house, script, box_in(house, moment))
        end.write(b"x")
    assert "ConnectionRefused" in told.text or "Permission" in told.text, told
    assert "canary" not in told.text and not (house.neighbour / "planted").exists(), told
    assert tries(house) == 2


@pytest.mark.spec("V2")
def test_a_path_that_was_allowed_and_is_gone_fails_no_command(namespaced: House) -> None:
    """Both before bubblewrap is started and while it works."""
    house = namespaced
    house.write("h/.teamwright/x")
    for early in (True, False):
        gone = house.write("p/.mcp.json", "{}")
        box = box_in(house, "rm -f p/.mcp.json; exec BWRAP")
        if early:
            gone.unlink()
        assert play(house, "echo fine", box) == Told("fine\n", 0)


@pytest.mark.spec("V2")
def test_it_is_tried_so_many_times_and_never_without(namespaced: House) -> None:
    house = namespaced
    told = play(house, "echo ran > ran", box_in(house, "echo 'bwrap: no such luck' >&2; exit 1"))
    assert told == Told("bwrap: no such luck\n", 1) and tries(house) == TRIES
    assert not (house.project / "ran").exists()


@pytest.mark.spec("V2")
@pytest.mark.parametrize("status", ["exit 1", "exit 126", "kill -9 $$"])
def test_what_has_begun_does_not_begin_again(namespaced: House, status: str) -> None:
    house = namespaced
    told = play(house, "echo once >> ran", box_in(house, f"BWRAP; {status}"))
    assert told.text == "" and (house.project / "ran").read_text() == "once\n" and tries(house) == 1


@pytest.mark.spec("V2")
def test_a_script_cannot_make_believe_that_it_never_began(namespaced: House) -> None:
    """An sh keeps the gate's pipe, but what it puts back there is not the word that was in it."""
    house = namespaced
    for name in ("sh", "cat", "ls"):
        house.neighbour.joinpath(name).symlink_to(f"/bin/{name}")
    refill = 'for f in /proc/self/fd/*; do [ -p "$f" ] && echo x > "$f"; done 2>/dev/null'
    told = play(house, f"echo once >> ran; {refill}; exit 1", box_in(house), str(house.neighbour))
    assert told.status == 1 and (house.project / "ran").read_text() == "once\n", told


@pytest.mark.spec("V2", "V18")
def test_hooks_and_servers_begin_all_the_same(namespaced: House) -> None:
    house = namespaced
    env = env_of(house)

    async def run() -> None:
        with listening(house.neighbour / "a"):
            box = box_in(house, "rm -f n/a; exec BWRAP")
            ended = await run_hook("cat; echo once >> ran", b"said", cwd=house.project, env=env, limit=60, box=box)
        assert (ended.status, ended.out, ended.err) == (0, "said", "")
        with listening(house.neighbour / "b"):
            box = box_in(house, "rm -f n/b; exec BWRAP")
            with anyio.fail_after(60):
                async with open_program(("sh", "-c", "echo up; exec cat"), env, house.project, box=box) as server:
                    await server.send(b"hello")
                    assert [await server.lines.receive(), await server.lines.receive()] == [b"up", b"hello"]

    anyio.run(run)
    assert (house.project / "ran").read_text() == "once\n" and tries(house) == 4


@pytest.mark.spec("V6", "V18")
def test_a_hook_begins_in_another_box_when_a_name_changed_in_the_first(namespaced: House) -> None:
    house = namespaced
    house.write("p/.claude/settings.json", "{}")
    moment = "if [ $(wc -l < tries) = 1 ]; then mv p/.claude aside; ln -s ../h/.ssh p/.claude; trap back EXIT; fi"

    async def run() -> tuple[int | None, str, str]:
        box = box_in(house, f"back() {{ rm p/.claude; mv aside p/.claude; }}\n{moment}\nBWRAP")
        ended = await run_hook(
            "cat; echo once >> ran", b"said", cwd=house.project, env=env_of(house), limit=60, box=box
        )
        return ended.status, ended.out, ended.err

    assert anyio.run(run) == (0, "said", "")
    assert (house.project / "ran").read_text() == "once\n" and tries(house) == 2


@pytest.mark.spec("V10")
def test_sockets_that_come_and_go(namespaced: House) -> None:
    house = namespaced
    began = time.monotonic()
    assert play(house, "echo fine", box_in(house)) == Told("fine\n", 0)
    often = 2 * (time.monotonic() - began)
    stop = threading.Event()

    def churn() -> None:
        number = 0
        while not stop.is_set():
            path = house.neighbour / f"s{(number := number + 1)}"
            with listening(path):
                stop.wait(often)
                path.unlink()

    churning = threading.Thread(target=churn)
    churning.start()
    try:
        told = [play(house, f"echo {n} >> ran; echo {n}", box_in(house)) for n in range(40)]
    finally:
        stop.set()
        churning.join()
    assert told == [Told(f"{n}\n", 0) for n in range(40)]
    assert (house.project / "ran").read_text().split() == [str(n) for n in range(40)]
