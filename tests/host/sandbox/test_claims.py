"""Names that we claim ourselves while commands run: those of living processes, since the command began."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from teamwright.host.sandbox.guard.claims import Claims

pytestmark = pytest.mark.spec("V5", "V17")


@pytest.fixture
def claims(tmp_path: Path) -> Claims:
    return Claims(str(tmp_path / "made"))


def test_a_name_is_held_until_it_is_released_and_for_whoever_began_before_that(claims: Claims) -> None:
    assert claims.since() == claims.since(time.time()) == ()
    began = time.time()
    claims.take("/a", "/odd\nname")
    assert set(claims.since()) == {"/a", "/odd\nname"}
    claims.release("/a", "/never")
    assert claims.since() == ("/odd\nname",) and set(claims.since(began)) == {"/a", "/odd\nname"}
    assert claims.since(time.time()) == ("/odd\nname",), "who begins after the release does not leave it alone"


def test_what_a_dead_process_held_is_free(claims: Claims) -> None:
    code = f"from teamwright.host.sandbox.guard.claims import Claims; Claims({claims.place!r}).take('/theirs')"
    began = time.time()
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert claims.since() == claims.since(time.time()) == () and claims.since(began) == ("/theirs",)


def test_old_notes_are_swept_and_odd_files_harm_nobody(claims: Claims) -> None:
    claims.take("/old", "/held")
    claims.release("/old")
    (Path(claims.place) / "nonsense").write_bytes(b"\xff")
    for file in Path(claims.place).iterdir():
        head, _, path = file.read_text(errors="replace").partition("\n")
        if path:
            file.write_text(f"{head.split()[0]} 1.0\n{path}")
    claims.take("/new")
    assert set(claims.since()) == {"/held", "/new"} and len(list(Path(claims.place).iterdir())) == 3
