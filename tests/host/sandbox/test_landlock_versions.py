"""Landlock in older kernels: what each version can refuse, and what is closed in place of the rest."""

import gc
import os
import subprocess
import sys
import threading

import pytest
from box_kit import Order, house_for, miss, policy_of, why_not

from teamwright.host.sandbox.landlock import landlock_abi, start
from teamwright.host.sandbox.landlock_rules import attributes, handled_rights, ruleset_for
from teamwright.host.sandbox.launch import Launch

pytest_plugins = ("box_fixtures",)

REFER, TRUNCATE, IOCTL = 1 << 13, 1 << 14, 1 << 15
TRIES = """import os, signal, socket, sys
base, pid = sys.argv[1], int(sys.argv[2])
def attempt(word, action):
    try: action(); print(word)
    except OSError: pass
attempt("write inside", lambda: open(base + "/p/made", "w").close())
attempt("link inside", lambda: os.link(base + "/p/README", base + "/p/.git/linked"))
attempt("write outside", lambda: open(base + "/n/made", "w").close())
attempt("truncate outside", lambda: os.truncate(base + "/n/file", 0))
attempt("secret", lambda: open(base + "/h/.ssh/id").read())
attempt("unix socket", lambda: socket.socket(socket.AF_UNIX).close())
attempt("ip socket", lambda: socket.socket().close())
attempt("signal", lambda: os.kill(pid, 0))
"""


@pytest.mark.spec("V2")
@pytest.mark.parametrize(
    ("abi", "size", "knows"),
    [(1, 8, 0), (2, 8, REFER), (3, 8, REFER | TRUNCATE), (4, 16, REFER | TRUNCATE), (5, 16, REFER | TRUNCATE | IOCTL),
     (6, 24, REFER | TRUNCATE | IOCTL), (9, 24, REFER | TRUNCATE | IOCTL)],
)  # fmt: skip
def test_a_kernel_is_told_only_what_its_version_knows(abi: int, size: int, knows: int) -> None:
    assert handled_rights(abi) == (1 << 13) - 1 | knows
    told = attributes(abi)
    assert len(told) == size and int.from_bytes(told[:8], sys.byteorder) == handled_rights(abi)


@pytest.mark.spec("V2", "V3", "V6")
@pytest.mark.parametrize("abi", [3, 4, 5, 6])
def test_a_box_of_an_older_version_holds_what_it_can(abi: int) -> None:
    if why := why_not("landlock", "me"):
        miss(why)
    if landlock_abi() < abi:
        pytest.skip(f"this kernel has no version {abi}")
    with house_for("landlock", "me") as house:
        house.repository()
        policy = policy_of(Order("landlock", str(house.base), ()))
        argv = (sys.executable, "-I", "-S", "-c", TRIES, str(house.base), str(os.getpid()))
        launch = Launch(argv, str(house.project), {}, {}, subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT)
        program = start(policy, launch.popen, abi)
        out, _ = program.communicate(timeout=20)
        told = set(out.decode().splitlines())
        assert told == {"write inside", "link inside"} | ({"unix socket"} if abi >= 6 else {"signal"}), out
        assert (house.neighbour / "file").read_text() == "theirs\n"


@pytest.mark.spec("V3")
def test_a_root_that_was_made_anew_is_covered_again() -> None:
    if why := why_not("landlock", "me"):
        miss(why)
    with house_for("landlock", "me") as house:
        house.write("elsewhere/file")
        order = {"rules": {"allow_write": [str(house.base / "elsewhere")]}}
        assert house.one("echo one > ../elsewhere/file && echo made", **order).text == "made\n"
        (house.base / "elsewhere/file").unlink()
        (house.base / "elsewhere").rmdir()
        (house.base / "elsewhere").mkdir()
        assert house.one("echo two > ../elsewhere/file && echo made", **order).text == "made\n"


def test_devices_are_named_one_by_one() -> None:
    if why := why_not("landlock", "me"):
        miss(why)
    with house_for("landlock", "me") as house:
        rules = dict(ruleset_for(policy_of(Order("landlock", str(house.base), ()))).rules)
    assert "/dev/null" in rules and "/dev/mem" not in rules and not rules["/dev"] & 2


def test_the_collector_runs_no_finalizer_in_a_restricted_thread() -> None:
    """That thread may not write, so whatever a finalizer wants to save would be lost."""
    if why := why_not("landlock", "me"):
        miss(why)
    seen: list[int] = []

    class Loop:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            seen.append(threading.get_ident())

    threads: list[int] = []
    before = gc.get_threshold()
    with house_for("landlock", "me") as house:
        policy = policy_of(Order("landlock", str(house.base), ()))
        nowhere = subprocess.DEVNULL
        launch = Launch(("true",), str(house.project), {"PATH": os.defpath}, {}, nowhere, nowhere, nowhere)

        def order() -> "subprocess.Popen[bytes]":
            threads.append(threading.get_ident())
            for _ in range(2000):
                Loop()
            return launch.popen()

        gc.set_threshold(10)
        try:
            assert start(policy, order).wait(20) == 0
        finally:
            gc.set_threshold(*before)
    assert gc.isenabled() and threads and not set(seen) & set(threads)
