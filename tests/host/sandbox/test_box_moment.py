"""A running program replaces a name by a link at the moment when bubblewrap looks it up.

A script in place of bubblewrap fixes the moment: it replaces the name and then starts the real one.
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


def play(house: House, moment: str, script: str, order: Order | None = None, **more: str) -> Told:
    order = order or Order("bwrap", str(house.base), ())
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

    async def run() -> tuple[int | None, str, str]:
        ended = await run_hook(f"cat {house.home}/.ssh/id", b"", cwd=house.project, env=ENV, limit=20, box=box)
        return ended.status, ended.out + ended.err, ended.fault

    status, told, fault = anyio.run(run)
    assert (status, told) == (None, "") and "Nothing was run" in fault, fault


@pytest.mark.spec("V6")
def test_a_right_place_with_the_wrong_content(namespaced: House) -> None:
    """Between two lookups within one system call there is room for a swap, too."""
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
    argv = [bwrap_program(), "--dev-bind", "/", "/", "--ro-bind", *bind, "--", "bash", "-c", f"{text} echo fine"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=20)
    return done.stdout == "fine\n"


@pytest.mark.spec("V6")
def test_the_shell_that_checks_is_none_that_programs_can_write(namespaced: House) -> None:
    """If a project's virtual environment is in use, the project's own directory comes first in PATH."""
    house = namespaced
    house.write("p/.claude/settings.json", "{}")
    for place in ("p/bin/bash", "p/bin/sh"):
        house.write(place, "#!/bin/sh\necho mine\n").chmod(0o755)
    told = play(house, ":", "echo fine", PATH=f"{house.project}/bin:/usr/bin:/bin")
    assert told.text == "fine\n", told


@pytest.mark.spec("V4")
@pytest.mark.parametrize("victim", [".claude", ".git/hooks", "sub", "."])
def test_a_mount_on_top_of_another_is_noticed(namespaced: House, victim: str) -> None:
    """A writable directory bound over one that is not: the right content is still there, below it."""
    house = namespaced
    house.repository()
    (house.project / "sub/.git").mkdir(parents=True)
    house.write("p/.claude/settings.json", "{}")
    moment = f"cd {house.project}; mv sub/.git aside; ln -s ../{victim} sub/.git"
    told = play(house, moment, "echo planted > .claude/settings.json; echo planted > .git/hooks/pre-commit")
    assert told.status == 126 and "Nothing was run" in told.text, told
    assert (house.project / ".claude/settings.json").read_text() == "{}"
    assert not (house.project / ".git/hooks/pre-commit").exists()


@pytest.mark.spec("V6")
@pytest.mark.parametrize("kind", ["file", "directory"])
def test_what_is_hidden_in_a_root_is_hidden_by_its_own_name(namespaced: House, kind: str) -> None:
    house = namespaced
    house.write("p/sub/secret" if kind == "file" else "p/sub/secret/key", "canary-denied\n")
    order = Order("bwrap", str(house.base), (), rules={"deny_read": [f"{house.base}/p/sub/secret"]})
    moment = f"cd {house.project}; cp -r sub ../n/; mv sub aside; ln -s ../n/sub sub"
    told = play(house, moment, "grep -r canary aside", order=order)
    assert told.status == 126 and "canary" not in told.text, told
    assert "canary" not in play(house, ":", "echo fine; grep -r canary sub", order=order).text


@pytest.mark.spec("V6")
@pytest.mark.parametrize("name", ["BASH_ENV", "LD_PRELOAD", "LD_LIBRARY_PATH", "BASH_FUNC_read%%", "PATH"])
def test_nothing_of_a_root_runs_before_the_check(namespaced: House, name: str) -> None:
    """A project's settings may contain variables that make a shell run that project's code when it starts."""
    house = namespaced
    house.write("p/.claude/settings.json", "{}")
    mine = house.write("p/bin/mine", "echo before the check\n")
    house.write("p/bin/bash", "#!/bin/sh\necho before the check\n").chmod(0o755)
    values = {"LD_LIBRARY_PATH": f"{house.project}/bin", "BASH_FUNC_read%%": "() { echo before the check; }"}
    value = values.get(name, f"{house.project}/bin" if name == "PATH" else str(mine))
    if name == "LD_LIBRARY_PATH":
        house.write("p/bin/libc.so.6", "not a library")
    moment = f"cd {house.project}; mv .claude aside; ln -s ../h/.ssh .claude"
    told = play(house, moment, "true", **{name: value})
    assert told.status == 126 and "before the check" not in told.text and "Nothing was run" in told.text, told


@pytest.mark.spec("V21")
def test_variables_that_change_a_start_are_there_afterwards(namespaced: House) -> None:
    house = namespaced
    mine = house.write("p/mine", "echo sourced\n")
    env = {"BASH_ENV": str(mine), "LD_LIBRARY_PATH": "/x y", "ENV": "e"}
    told = play(house, ":", 'echo "$LD_LIBRARY_PATH"; env | grep -c "^_box"; bash -c :; echo $ENV', **env)
    assert told.text == "sourced\n/x y\n0\nsourced\ne\n", told


@pytest.mark.spec("V2", "V18")
def test_a_hook_whose_box_cannot_be_made_has_not_answered(namespaced: House) -> None:
    """The status would be bubblewrap's, and a hook that never ran would count as one that did not object."""
    house = namespaced
    box = caught_at(house, "echo no luck >&2; exit 1", Order("bwrap", str(house.base), ()))

    async def run() -> tuple[int | None, str]:
        ended = await run_hook("exit 0", b"", cwd=house.project, env=ENV, limit=20, box=box)
        return ended.status, ended.fault

    assert anyio.run(run) == (None, "its sandbox could not be made: no luck")
