"""A path hidden by name stays hidden if a directory above it would be renamed; and sockets with odd names."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from box_kit import House, house_for, miss, why_not

pytest_plugins = ("box_fixtures",)
CONNECT = (
    'python3 -c "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print(s.recv(9))" '
)


@pytest.fixture
def held(user: str) -> Iterator[House]:
    """Only namespaces hold what is hidden within a root."""
    if why := why_not("bwrap", user):
        miss(f"bwrap as {user}: {why}")
    with house_for("bwrap", user) as made:
        yield made


@contextmanager
def answering(path: str) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path)
        made.listen()
        Path(path).chmod(0o777)
        yield


@pytest.mark.spec("V6")
@pytest.mark.parametrize("move", ["mv sub other", "mv -T sub/deep other", "mkdir other; mv sub other/x"])
def test_a_directory_above_what_is_denied_keeps_its_name(held: House, move: str) -> None:
    held.write("p/sub/deep/secret", "canary-denied\n")
    told = held.play(
        f"{move}; mv -T sub .h; ln -s sub l; mv l/deep d; true",
        "cat -- $(find . -type f) 2>/dev/null; grep -r canary .; true",
        rules={"deny_read": [f"{held.base}/p/sub/deep/secret"]},
    )
    assert "canary" not in "".join(one.text for one in told), told
    assert (held.project / "sub/deep/secret").exists()


@pytest.mark.spec("V6")
def test_a_home_that_is_worked_in_keeps_its_secrets_where_they_are(held: House) -> None:
    held.write("h/.config/gh/hosts.yml", "canary-gh\n")
    held.write("h/.local/share/keyrings/login.keyring", "canary-keyring\n")
    told = held.play(
        'mv .config c; mv .local l; mv .local/share s; python3 -c \'import os; os.rename(".config", "c2")\'; true',
        "grep -r canary . 2>/dev/null; true",
        roots=("h",),
    )
    assert "canary" not in told[1].text, told


@pytest.mark.spec("V10")
def test_a_directory_above_a_socket_keeps_its_name(held: House) -> None:
    (held.project / "run/inner").mkdir(parents=True)
    with answering(f"{held.project}/run/inner/s"):
        told = held.play("mv run r2; mv run/inner r3; true", *(f"{CONNECT} {at}" for at in ("r2/inner/s", "r3/s")))
    assert all(one.status for one in told[1:]), told


@pytest.mark.spec("V10")
def test_a_socket_that_was_bound_by_a_relative_name_or_a_link(held: House) -> None:
    """The kernel reports the name as it was given."""
    link = held.base / "t/link"
    (held.base / "real").mkdir()
    link.symlink_to(held.base / "real")
    before = Path.cwd()
    os.chdir(held.project)
    try:
        with answering("relative"), answering(f"{link}/s"):
            told = held.play(*(f"{CONNECT} {at}" for at in (f"{held.project}/relative", f"{held.base}/real/s")))
            assert all(one.status and "refused" in one.text for one in told), told
    finally:
        os.chdir(before)


@pytest.mark.spec("V10")
def test_a_socket_of_a_program_that_stands_elsewhere(namespaced: House) -> None:
    before = Path.cwd()
    os.chdir(namespaced.neighbour)
    try:
        with answering("relative"):
            told = namespaced.one(f"{CONNECT} {namespaced.neighbour}/relative")
    finally:
        os.chdir(before)
    assert told.status and "refused" in told.text, told


@pytest.mark.spec("V10")
def test_a_socket_in_what_is_shown_of_a_hidden_place(namespaced: House) -> None:
    """A project below /tmp is not hidden with it, and neither are the sockets there."""
    house = namespaced
    inner = house.home / ".teamwright/shown"  # hidden as our own state, then shown again
    inner.mkdir()
    with answering(f"{inner}/s"):
        told = house.one(f"ls {inner}; {CONNECT} {inner}/s", rules={"allow_read": [str(inner)]})
    assert told.text.startswith("s\n") and told.status and "refused" in told.text, told


@pytest.mark.spec("V10")
def test_the_last_of_many_sockets_is_masked_too(namespaced: House) -> None:
    with ExitStack() as stack:
        for number in range(300):
            stack.enter_context(answering(f"{namespaced.neighbour}/s{number:03}"))
        told = namespaced.one(f"{CONNECT} {namespaced.neighbour}/s299")
    assert told.status and "refused" in told.text, told
