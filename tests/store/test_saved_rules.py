"""Rules in a settings file: merged into what is there, and the file replaced as a whole."""

import json
import multiprocessing
from pathlib import Path

import pytest

from teamwright.core.errors import StoreError
from teamwright.store.settings.saved_rules import change_rules
from teamwright.store.settings.schema import LOCAL

pytestmark = pytest.mark.spec("M5")


def read(file: Path) -> object:
    return json.loads(file.read_text())


def test_rules_are_merged_into_what_is_there(tmp_path: Path) -> None:
    file, state = tmp_path / LOCAL, tmp_path / "state"
    assert change_rules(file, "allow", add=["Bash(make *)"], state=state)
    assert read(file) == {"permissions": {"allow": ["Bash(make *)"]}} and file.stat().st_mode & 0o777 == 0o600
    file.write_text(json.dumps({"env": {"A": "b"}, "permissions": {"deny": ["Read(.env)"], "allow": ["Edit"]}}))
    assert change_rules(file, "allow", add=["Bash(make *)", "Edit"], state=state)
    allow = ["Edit", "Bash(make *)"]
    assert read(file) == {"env": {"A": "b"}, "permissions": {"deny": ["Read(.env)"], "allow": allow}}
    assert not change_rules(file, "allow", add=["Edit"], state=state)
    assert change_rules(file, "allow", remove=["Edit", "Bash(make *)", "Other"], state=state)
    assert read(file) == {"env": {"A": "b"}, "permissions": {"deny": ["Read(.env)"]}}
    assert not change_rules(file, "ask", remove=["Other"], state=state)
    assert [path.name for path in file.parent.iterdir()] == ["settings.local.json"]


@pytest.mark.parametrize("text", ["{", "[]", '{"permissions": []}', '{"permissions": {"allow": "Edit"}}'])
def test_a_file_that_cannot_be_read_is_not_written_over(tmp_path: Path, text: str) -> None:
    file = tmp_path / LOCAL
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(StoreError, match="Nothing was changed"):
        change_rules(file, "allow", add=["Edit"], state=tmp_path / "state")
    assert file.read_text() == text


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    elsewhere, project = tmp_path / "elsewhere", tmp_path / "project"
    elsewhere.mkdir()
    project.mkdir()
    (project / ".teamwright").symlink_to(elsewhere)
    with pytest.raises(StoreError, match="is a link"):
        change_rules(project / LOCAL, "allow", add=["Edit"], state=tmp_path / "state")
    assert not list(elsewhere.iterdir())


def _add(file: Path, state: Path, name: str) -> None:
    for n in range(10):
        change_rules(file, "allow", add=[f"Bash({name} {n})"], state=state)


def test_what_two_processes_add_at_once_is_all_there(tmp_path: Path) -> None:
    file, state = tmp_path / LOCAL, tmp_path / "state"
    spawned = multiprocessing.get_context("spawn")
    both = [spawned.Process(target=_add, args=(file, state, name)) for name in ("a", "b")]
    for one in both:
        one.start()
    for one in both:
        one.join(60)
    assert [one.exitcode for one in both] == [0, 0]
    assert len(json.loads(file.read_text())["permissions"]["allow"]) == 20
