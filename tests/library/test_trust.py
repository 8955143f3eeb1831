"""Trust: given to one real directory, remembered privately, with a line about what was left aside."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from teamwright.core.errors import StoreError
from teamwright.library.trust.decision import (
    TrustContents,
    is_trusted,
    only_linked,
    trust,
    untrust,
    untrusted_line,
    what_would_run,
)


def test_trust_is_for_exactly_one_real_directory(tmp_path: Path) -> None:
    state, project = tmp_path / "state", tmp_path / "a" / "b"
    (project / "c").mkdir(parents=True)
    (tmp_path / "link").symlink_to(project)
    assert not is_trusted(project, state=state)
    trust(tmp_path / "link", state=state)
    assert is_trusted(project, state=state) and is_trusted(tmp_path / "link", state=state)
    assert not is_trusted(project.parent, state=state) and not is_trusted(project / "c", state=state)
    assert untrust(project, state=state) and not is_trusted(tmp_path / "link", state=state)
    assert not untrust(project, state=state)


def test_a_link_that_is_turned_elsewhere_loses_its_trust(tmp_path: Path) -> None:
    state, link = tmp_path / "state", tmp_path / "link"
    for name in ("good", "bad"):
        (tmp_path / name).mkdir()
    link.symlink_to(tmp_path / "good")
    trust(link, state=state)
    link.unlink()
    link.symlink_to(tmp_path / "bad")
    assert not is_trusted(link, state=state)


def test_a_listed_directory_that_became_a_link_is_not_trusted_by_its_target(tmp_path: Path) -> None:
    state, listed, evil = tmp_path / "state", tmp_path / "a" / "good", tmp_path / "evil"
    (evil / "good").mkdir(parents=True)
    listed.mkdir(parents=True)
    assert is_trusted(listed, state=state, listed=[listed]) and only_linked(listed, [listed]) is None
    listed.rmdir()
    listed.symlink_to(evil)
    for path in (listed, evil):
        assert not is_trusted(path, state=state, listed=[listed]) and only_linked(path, [listed]) == listed
    listed.unlink()
    listed.parent.rmdir()
    listed.parent.symlink_to(evil)  # a directory above it
    assert not is_trusted(listed, state=state, listed=[listed])
    assert is_trusted(listed, state=state, listed=[evil / "good"])  # by its real name it is


def test_the_flag_and_the_users_list_leave_no_record(tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert is_trusted(tmp_path, state=state, flag=True)
    assert is_trusted(tmp_path, state=state, listed=[Path("/other"), tmp_path / "x" / ".."])
    assert not is_trusted(tmp_path / "x", state=state, listed=[tmp_path])
    assert not is_trusted(tmp_path, state=state) and not state.exists()


def test_records_are_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        trust(tmp_path, state=tmp_path / "state")
    finally:
        os.umask(before)
    modes = {
        p.relative_to(tmp_path).as_posix(): stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "state").rglob("*")
    }
    assert modes == {"state/run": 0o700, "state/run/trust.lock": 0o600, "state/trust.json": 0o600}
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700


@pytest.mark.parametrize("text", ["{broken", '{"directories": []}', "\xff"])
def test_damaged_records_trust_nothing_and_are_not_overwritten(tmp_path: Path, text: str) -> None:
    (tmp_path / "trust.json").write_text(text, encoding="latin-1")
    assert not is_trusted(tmp_path, state=tmp_path)
    for act in (trust, untrust):
        with pytest.raises(StoreError, match=r"trust\.json"):
            act(tmp_path, state=tmp_path)
    assert (tmp_path / "trust.json").read_text(encoding="latin-1") == text


def test_processes_that_trust_at_once_lose_nothing(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from teamwright.library.trust.decision import trust\n"
        "for n in range(20): trust(Path(f'/p/{sys.argv[1]}/{n}'), state=Path(sys.argv[2]))"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(k), str(tmp_path)]) for k in range(3)]
    assert [p.wait(timeout=60) for p in running] == [0, 0, 0]
    assert len(json.loads((tmp_path / "trust.json").read_text())["directories"]) == 60
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run", "trust.json"]


def hostile(project: Path) -> None:
    def write(name: str, text: str = "") -> None:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)

    stop = [{"hooks": [{"type": "command", "command": "make lint"}, {"type": "http", "url": "http://x"}, 3]}, "x"]
    write(".claude/settings.json", json.dumps({"hooks": {"Stop": stop, "SessionStart": []}}))
    write(".teamwright/settings.local.json", json.dumps({"hooks": {"Stop": []}}))
    write(".claude/agents/one.md")
    write(".claude/agents/team/deep.md")
    write(".teamwright/agents/one.md")
    write(".claude/agents/notes.txt")
    write(".claude/skills/paint/SKILL.md")
    write(".claude/skills/empty/README.md")
    write(".claude/commands/go.md")
    write(".mcp.json", json.dumps({"mcpServers": {"near": {"command": "x", "args": ["-y"]}}}))


def test_what_would_run_lists_names_of_every_kind(tmp_path: Path) -> None:
    hostile(tmp_path)
    assert what_would_run(tmp_path) == TrustContents(
        project=tmp_path,
        settings=(".claude/settings.json", ".teamwright/settings.local.json"),
        agents=("one", "team/"),
        skills=("paint",),
        commands=("go",),
        hooks=("Stop", "SessionStart"),
        servers=("near",),
    )


def test_one_line_says_what_was_not_loaded_and_how_to_trust(tmp_path: Path) -> None:
    hostile(tmp_path)
    line = untrusted_line(what_would_run(tmp_path))
    assert line and "\n" not in line and str(tmp_path) in line and "--trust" in line and "teamwright trust" in line
    for word in ("settings (", "agents (one", "skills (paint)", "commands (go)", "hooks (Stop", "MCP servers (near)"):
        assert word in line


def test_nothing_found_means_no_line(tmp_path: Path) -> None:
    (tmp_path / "CLAUDE.md").write_text("words")
    (tmp_path / ".claude").mkdir()
    assert untrusted_line(what_would_run(tmp_path)) is None
    assert untrusted_line(what_would_run(tmp_path / "missing")) is None


def test_bad_files_neither_hang_nor_reach_the_terminal_raw(tmp_path: Path) -> None:
    (tmp_path / ".claude" / "agents").mkdir(parents=True)
    (tmp_path / ".claude" / "agents" / "\x1b[2J.md").touch()
    os.mkfifo(tmp_path / ".claude" / "settings.json")
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"\\u202ex": 1, "b": 2, "c": 3, "d": 4, "e": 5}}')
    found = what_would_run(tmp_path)
    line = untrusted_line(found)
    assert line and line.isprintable() and "and 2 more" in line and found.settings == (".claude/settings.json",)
    (tmp_path / ".mcp.json").write_text("[" * 10_000)
    assert what_would_run(tmp_path).servers == ()
