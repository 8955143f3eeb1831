"""Classes of attacks on a box that no other file tries: races, shared memory, filters, late sockets, odd files."""

import os
import socket
import threading
import time
from pathlib import Path

import pytest
from box_kit import House

pytest_plugins = ("box_fixtures",)  # no conftest here: its name would hide the one that all tests use

RACE = """import os, threading, time
theirs, until = os.environ["D"] + "/n/file", time.monotonic() + 1.5
os.makedirs("a/n"); open("a/n/file", "w").close()
def swap():
    n = 0
    while time.monotonic() < until:
        for target in ("a/n/file", theirs):
            os.symlink(target, f"l{n}"); os.rename(f"l{n}", "link"); n += 1
        os.rename("a", "b"); os.symlink(os.environ["D"], "a"); os.unlink("a"); os.rename("b", "a")
thread = threading.Thread(target=swap); thread.start()
tried = 0
while thread.is_alive():
    for path in ("link", "a/n/file"):
        try:
            with open(path, "w") as file: file.write("evil")
        except OSError: pass
        tried += 1
print("tried", tried > 100)
"""


@pytest.mark.spec("V3")
def test_a_link_that_is_swapped_while_it_is_written_through(house: House) -> None:
    house.write("p/race.py", RACE)
    told = house.one("python3 race.py")
    assert told.text.endswith("tried True\n"), told
    assert (house.neighbour / "file").read_text() == "theirs\n"


@pytest.mark.spec("V3")
def test_shared_memory_of_the_machine_is_not_written(house: House) -> None:
    name = f"by-a-test-{os.getpid()}"
    house.one(f"echo x > /dev/shm/{name}; echo x > /dev/mqueue/{name}; echo x > /var/lock/{name}; true")
    assert not [place for place in ("/dev/shm", "/dev/mqueue", "/var/lock") if Path(place, name).exists()]


@pytest.mark.spec("V4")
def test_attributes_name_no_filter_that_git_outside_would_run(house: House) -> None:
    house.repository()
    evil = f"sh -c 'touch {house.base}/ran; cat'"
    house.one(
        f"""echo '* filter=evil diff=evil merge=evil' > .gitattributes; cp .gitattributes .git/info/attributes
        git config filter.evil.clean "{evil}"; git config --worktree filter.evil.clean "{evil}"
        git config diff.evil.textconv "{evil}"; git config core.fsmonitor "{evil}"; git config alias.status "!{evil}"
        echo '[filter "evil"]' > mine; echo "clean = {evil}" >> mine; git config include.path ../mine
        GIT_CONFIG=.git/config git config core.pager "{evil}"; true"""
    )
    house.write("p/README", "two\n")
    house.git("add", "-A")
    house.git("diff", "--cached")
    house.git("commit", "-q", "-m", "second")
    assert not (house.base / "ran").exists() and "evil" not in (house.project / ".git/config").read_text()


@pytest.mark.spec("V10")
def test_sockets_that_come_later_or_by_a_link(namespaced: House, tmp_path: Path) -> None:
    """In the places where programs make sockets; elsewhere, one that appears while the command runs may be seen."""
    first, late = namespaced.home / "first.sock", tmp_path / "late.sock"
    reach = "import socket, sys; s = socket.socket(1); s.connect(sys.argv[1]); print('con' 'nected')"
    namespaced.write("p/reach.py", reach)
    (namespaced.project / "link").symlink_to(first)
    with socket.socket(socket.AF_UNIX) as early, socket.socket(socket.AF_UNIX) as later:
        early.bind(str(first))
        early.listen()

        def come() -> None:
            end = time.monotonic() + 20
            while not (namespaced.project / "began").exists() and time.monotonic() < end:
                time.sleep(0.01)
            later.bind(str(late))
            later.listen()
            namespaced.write("p/go")

        thread = threading.Thread(target=come)
        thread.start()
        told = namespaced.one(
            f"touch began; for i in $(seq 500); do [ -e go ] && break; sleep 0.02; done; "
            f"for s in {first} link {late}; do python3 reach.py $s; done; echo tried"
        )
        thread.join()
    assert told.text.endswith("tried\n") and "connected" not in told.text, told


ODD = {
    "pipes": "rm -f .mcp.json .git/config; mkfifo .mcp.json .git/config .claude .git/commondir",
    "holes": "rm -f .mcp.json; truncate -s 1T .mcp.json; truncate -s 1T .git/config; truncate -s 1T .git/commondir",
    "crowd": "mkdir .idea; cd .idea; for i in $(seq 2000); do : > $i; done",
    "bytes": "mkdir -p .claude/$'\\xff\\n'; echo x > .claude/$'\\xff\\n'/f; mkdir .idea; : > .idea/$'\\xfe'",
}


@pytest.mark.spec("V4", "V5")
@pytest.mark.parametrize("attack", ODD)
def test_odd_files_at_protected_names_hold_nobody_up(house: House, attack: str) -> None:
    house.repository()
    house.write("p/.mcp.json", "{}")
    config = (house.project / ".git/config").read_bytes()
    told = house.one(f"{ODD[attack]}; true", limit=60)
    assert told.changed == () and told.fault == "", told
    assert (house.project / ".git/config").read_bytes() == config and (house.project / ".mcp.json").read_text() == "{}"
    assert not [name for name in (".idea", ".claude", ".git/commondir") if os.path.lexists(house.project / name)]
