"""A program that runs already exchanges a name for a link at the moment at which bubblewrap looks for it.

The moment is made sure of: in the place of bubblewrap stands a script that exchanges the name and then starts it.
"""

import shlex
import subprocess
from pathlib import Path

import anyio
import pytest
from box_kit import House, Order, Told, box_of, bwrap_program, policy_of
from msgspec.structs import replace

from teamwright.core.sandbox.policy import Policy
from teamwright.host.process.bash import run_script
from teamwright.host.process.capture import Capture
from teamwright.host.process.hook_process import run_hook
from teamwright.host.sandbox.box import Box
from teamwright.host.sandbox.bwrap_check import check_text

pytest_plugins = ("box_fixtures",)
ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/", "LC_ALL": "C"}


def caught_at(house: House, moment: str, order: Order) -> Box:
    stand_in = house.write("bwrap", f'#!/bin/sh\n{moment}\nexec {shlex.quote(bwrap_program())} "$@"\n')
    stand_in.chmod(0o755)
    box = box_of(order)
    return Box(replace(box.fence, bwrap=str(stand_in)), box.policy)


def play(house: House, moment: str, script: str, **more: str) -> Told:
    order = Order("bwrap", str(house.base), ())
    capture = Capture()

    async def run() -> int | None:
        env = ENV | {"H": str(house.home), "N": str(house.neighbour)} | more
        box = caught_at(house, moment, order)
        ended, _ = await run_script(script.encode(), cwd=house.project, env=env, limit=20, capture=capture, box=box)
        return ended.status

    status = anyio.run(run)
    return Told(capture.text(), status)


@pytest.mark.spec("V6")
@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_a_name_that_becomes_a_link_shows_no_secret(namespaced: House, shell: str) -> None:
    house = namespaced
    house.repository()
    house.write("p/.claude/settings.json", "{}")
    path = {}
    if shell == "sh":
        for name in ("sh", "cat"):
            house.neighbour.joinpath(name).symlink_to(f"/bin/{name}")
        path = {"PATH": str(house.neighbour)}
    moment = f"cd {house.project}; mv .claude aside; ln -s ../h/.ssh .claude"
    told = play(house, moment, "cat $H/.ssh/id; cat .claude/id", **path)
    assert told.status == 126 and "Nothing was run" in told.text and "canary" not in told.text, told
    assert play(house, ":", "echo fine", **path).text == "fine\n"


@pytest.mark.spec("V3", "V4")
def test_a_repository_that_becomes_a_link_opens_no_other(namespaced: House) -> None:
    house = namespaced
    for place in ("p", "p/sub", "n"):
        house.repository(place)
    moment = f"cd {house.project}; mv sub/.git aside; ln -s ../../n/.git sub/.git"
    told = play(house, moment, "echo planted > $N/.git/planted")
    assert told.status == 126 and not (house.neighbour / ".git/planted").exists(), told


@pytest.mark.spec("V6")
def test_a_hook_does_not_begin_either(namespaced: House) -> None:
    house = namespaced
    house.write("p/.claude/settings.json", "{}")
    box = caught_at(
        house, f"cd {house.project}; mv .claude aside; ln -s ../h/.ssh .claude", Order("bwrap", str(house.base), ())
    )

    async def run() -> tuple[int | None, str]:
        ended = await run_hook(f"cat {house.home}/.ssh/id", b"", cwd=house.project, env=ENV, limit=20, box=box)
        return ended.status, ended.out

    assert anyio.run(run) == (126, "")


@pytest.mark.spec("V6")
def test_a_right_place_with_the_wrong_content(namespaced: House) -> None:
    """Between two looks of one call of the kernel there is room for an exchange, too."""
    house = namespaced
    house.write("p/.claude/settings.json", "{}")
    policy = policy_of(Order("bwrap", str(house.base), ()))
    claude = str(house.project / ".claude")
    assert _checked(policy, [claude, claude]) and not _checked(policy, [str(house.home / ".ssh"), claude])


@pytest.mark.spec("V6")
def test_odd_names_are_known_again(namespaced: House) -> None:
    odd = str(namespaced.project / "a b\tc\n'd\\e#f")
    Path(odd).mkdir()
    policy = Policy((("/", "read"), (str(namespaced.project), "write"), (odd, "read")), tmp="", cache="")
    assert _checked(policy, [odd, odd]) and not _checked(policy, [odd, str(namespaced.home)])


def _checked(policy: Policy, bind: list[str]) -> bool:
    text = check_text(policy, Path("/proc/self/mountinfo").read_text(errors="surrogateescape"))
    argv = [bwrap_program(), "--dev-bind", "/", "/", "--bind", *bind, "--", "bash", "-c", f"{text} echo fine"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=20)
    return done.stdout == "fine\n"


@pytest.mark.spec("V6")
def test_the_shell_that_checks_is_none_that_programs_can_write(namespaced: House) -> None:
    """A project's own directory stands first in PATH where its virtual environment is in use."""
    house = namespaced
    house.write("p/.claude/settings.json", "{}")
    for place in ("p/bin/bash", "p/bin/sh"):
        house.write(place, "#!/bin/sh\necho mine\n").chmod(0o755)
    told = play(house, ":", "echo fine", PATH=f"{house.project}/bin:/usr/bin:/bin")
    assert told.text == "fine\n", told
