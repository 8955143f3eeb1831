"""The store of checkpoints: one copy of each content, lines torn by a kill, damage, limits, copies for forks."""

from pathlib import Path

import pytest

from teamwright.core.errors import StoreError
from teamwright.store.files.checkpoints import CheckpointEntry, Checkpoints, share
from teamwright.store.files.paths import SessionFiles

pytestmark = pytest.mark.spec("RW7")


@pytest.fixture
def kept(tmp_path: Path) -> Checkpoints:
    return Checkpoints(SessionFiles(tmp_path / "one.jsonl"))


def test_the_same_content_is_kept_once_and_privately(kept: Checkpoints) -> None:
    assert kept.read() == []
    names = {kept.put(b"a"), kept.put(b"a"), kept.put(b"b")}
    assert len(names) == 2 and {path.name for path in kept.folder.iterdir()} == names
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in kept.folder.iterdir())
    assert sorted(map(kept.get, names)) == [b"a", b"b"]


def test_lines_come_in_the_order_of_time_and_a_torn_one_costs_itself_alone(kept: Checkpoints) -> None:
    kept.append([CheckpointEntry(5, "/b", mark="-"), CheckpointEntry(3, "/a")])
    index = kept.folder / "index.jsonl"
    with index.open("ab") as file:
        file.write(b'{"at":4,"path":"/half')
    kept.append([CheckpointEntry(9, "/c", copy="x", mode=0o755)])
    assert [(entry.at, entry.path) for entry in kept.read()] == [(3, "/a"), (5, "/b"), (9, "/c")]
    assert kept.read()[-1].mode == 0o755


def test_lines_of_an_older_version_are_read(kept: Checkpoints) -> None:
    kept.append([])
    (kept.folder / "index.jsonl").write_bytes(
        b'{"at":1,"path":"/a","copy":"0011223344556677"}\n{"at":2,"path":"/b","lost":true}\n'
    )
    (kept.folder / "0011223344556677").write_bytes(b"old")
    first, second = kept.read()
    assert first.is_before and kept.get(first.copy) == b"old" and not kept.names_hash(first.copy) and second.lost


def test_a_damaged_or_missing_copy_is_an_error(kept: Checkpoints) -> None:
    name = kept.put(b"content")
    (kept.folder / name).write_bytes(b"conten")
    with pytest.raises(StoreError, match="damaged"):
        kept.get(name)
    (kept.folder / name).unlink()
    for look in (kept.get, kept.names_hash):
        with pytest.raises(StoreError, match=name):
            look(name)


def test_a_session_keeps_so_much_and_no_more(tmp_path: Path) -> None:
    kept = Checkpoints(SessionFiles(tmp_path / "one.jsonl"), most=3)
    kept.put(b"x")
    kept.put(b"ab")
    with pytest.raises(StoreError, match="have reached 3 bytes"):
        kept.put(b"c")
    assert kept.put(b"ab")


def test_a_copy_of_a_session_has_its_own_index(kept: Checkpoints, tmp_path: Path) -> None:
    target = SessionFiles(tmp_path / "two.jsonl")
    share(SessionFiles(tmp_path / "one.jsonl"), target)
    assert not Checkpoints(target).folder.exists()
    kept.append([CheckpointEntry(1, "/a", copy=kept.put(b"a"))])
    share(SessionFiles(tmp_path / "one.jsonl"), target)
    other = Checkpoints(target)
    other.append([CheckpointEntry(2, "/b")])
    assert len(kept.read()) == 1 and len(other.read()) == 2 and other.get(other.read()[0].copy) == b"a"
