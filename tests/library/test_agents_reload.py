"""Definitions follow their files: changed ones are read again, the others cost next to nothing."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from agent_house import PROJECT, House

from teamwright.core.data.definition import BUILT_IN
from teamwright.library.agents.book import CROWD, DefinitionBook


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def settled(path: Path) -> None:
    """Wait until the next change of this file must get a new time stamp."""
    limit = time.monotonic() + 10
    while time.time_ns() - path.stat().st_ctime_ns < 60_000_000:
        assert time.monotonic() < limit


@pytest.mark.spec("D13")
def test_definitions_follow_their_files(house: House) -> None:
    book = DefinitionBook(house.places())
    first = book.current()
    assert book.current() is first and "fresh" not in first.by_name
    path = house.write(f"{PROJECT}/fresh.md", description="d", body="You are ONE.")
    one = book.current()
    for n in range(50):  # the same size, and mostly the same tick of the clock
        path.write_text(path.read_text().replace(*(("ONE", "TWO") if n % 2 == 0 else ("TWO", "ONE"))))
        assert book.current().by_name["fresh"].prompt == ("You are TWO." if n % 2 == 0 else "You are ONE.")
    path.write_text(path.read_text().replace("ONE", "TWO"))
    two = book.current()
    assert (one.by_name["fresh"].prompt, two.by_name["fresh"].prompt) == ("You are ONE.", "You are TWO.")
    assert book.current() is two
    settled(path)
    assert book.current() is two and book.current() is two
    house.write(f"{PROJECT}/team/more.md", description="d")
    assert "more" in book.current().by_name
    path.unlink()
    assert "fresh" not in book.current().by_name and book.current().by_name["more"]


@pytest.mark.spec("D13")
def test_only_files_that_changed_are_read_again(house: House) -> None:
    paths = [house.write(f"{PROJECT}/n{n}.md", description="d") for n in range(3)]
    book = DefinitionBook(house.places())
    book.current()
    settled(paths[-1])
    before = book.current()
    paths[1].write_text(paths[1].read_text().replace("help", "hurt"))
    after = book.current()
    assert [after.by_name[f"n{n}"] is before.by_name[f"n{n}"] for n in range(3)] == [True, False, True]


def test_a_look_at_files_that_did_not_change_is_cheap(house: House) -> None:
    for n in range(50):
        path = house.write(f"{PROJECT}/n{n}.md", description="d", tools=["Read"])
    book = DefinitionBook(house.places())
    settled(path)
    same = book.current()
    assert len(same.by_name) == 50 + len(BUILT_IN)
    times: list[int] = []
    for _ in range(20):
        start = time.thread_time_ns()
        assert book.current() is same
        times.append(time.thread_time_ns() - start)
    assert min(times) < 1_000_000


def test_without_files_yaml_is_not_imported(house: House) -> None:
    code = (
        "import sys; from pathlib import Path; from teamwright.library.agents.book import load_definitions\n"
        "from teamwright.library.agents.places import find_places\n"
        "p = Path(sys.argv[1]); places = find_places(cwd=p, project=p, home=p, state=p, trusted=True)\n"
        "found = load_definitions(places)\n"
        "assert found.by_name and 'yaml' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(house.cwd)], check=True, timeout=30)


@pytest.mark.spec("D13")
def test_what_was_read_is_kept_from_one_start_to_the_next(house: House) -> None:
    cache = house.state / "cache"
    files = [house.write(f"{PROJECT}/a{n}.md", name=f"a{n}", description=f"about a{n}") for n in range(CROWD)]
    secret = house.write(f"{PROJECT}/own.md", description="has a server", mcpServers=[{"x": {"command": "sk-secret"}}])
    settled(secret)
    assert len(DefinitionBook(house.places(), cache=cache).current().by_name) == CROWD + 1 + len(BUILT_IN)
    (file,) = cache.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600 and b"sk-secret" not in file.read_bytes()
    # Read from the index if the file is unchanged, from the file if not, and never from a broken index.
    file.write_bytes(file.read_bytes().replace(b'about a1"', b'from the index"'))
    again = DefinitionBook(house.places(), cache=cache).current().by_name
    assert again["a1"].description == "from the index" and again["own"].mcp_servers
    house.write(f"{PROJECT}/a1.md", name="a1", description="changed")
    assert DefinitionBook(house.places(), cache=cache).current().by_name["a1"].description == "changed"
    assert "a1" not in DefinitionBook(house.places(trusted=False), cache=cache).current().by_name
    for nonsense in (b"", b"{", b'{"version": "x", "entries": []}', b"\xff"):
        file.write_bytes(nonsense)
        assert set(DefinitionBook(house.places(), cache=cache).current().by_name) >= {p.stem for p in files}
