"""Language servers as real processes: what an agent is told after an edit, and that they never make an edit fail."""

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from conftest import Walk, Walker
from crew import crew, results
from teamwright.core.data.event import ToolEnded
from teamwright.models.scripted import call

pytestmark = [pytest.mark.anyio, pytest.mark.spec("A16")]
SMALL = Path(__file__).parents[1] / "servers" / "small_lsp.py"


def settings(walker: Walker, *options: str, **more: Any) -> dict[str, Any]:
    args = [str(SMALL), str(walker.home / "lsp.log"), *options]
    server = {"command": sys.executable, "args": args, "extensions": [".txt", "md"], "waitSeconds": 20} | more
    return {"lsp": {"small": server}}


def use(walker: Walker, *options: str, **more: Any) -> None:
    folder = walker.home / ".teamwright"
    folder.mkdir(exist_ok=True)
    (folder / "settings.json").write_text(json.dumps(settings(walker, *options, **more)))


def log(walker: Walker) -> list[str]:
    path = walker.home / "lsp.log"
    return path.read_text().splitlines() if path.exists() else []


def write(name: str, content: str) -> Any:
    return call("Write", file_path=name, content=content)


def edit(name: str, old: str, new: str) -> Any:
    return call("Edit", file_path=name, old_string=old, new_string=new)


async def walked(walker: Walker, *script: Any) -> Walk:
    return await walker.walk([*script, "end"], mode="acceptEdits")


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists() or "zombie" in Path(f"/proc/{pid}/status").read_text()


async def test_what_an_edit_brings_is_told_and_what_was_there_is_not(walker: Walker) -> None:
    use(walker, options={"small": {"deep": 7}})
    walker.env["MY_SEARCH_KEY"] = "sk-secret"
    (walker.project / "a.txt").write_text("fine\nBAD old\nlast\n")
    walk = await walked(
        walker, call("Read", file_path="a.txt"), edit("a.txt", "fine", "fine\nBAD new\nWARN soon\nHINT maybe"),
        edit("a.txt", "last", "the last"), edit("a.txt", "BAD new", "good"), write("b.md", "BAD b"),
    )  # fmt: skip
    _, first, second, third, fourth = (text for text, wrong in walk.results if not wrong)
    told = first.partition("New after this change, says the language server (small):\n")[2]
    assert told == "line 2: error: BAD new [BAD]\nline 3: warning: WARN soon [WARN]"
    assert "says the language server" not in second + third
    assert "line 1: error: BAD b [BAD]" in fourth
    ended = [e for e in walk.of(ToolEnded) if e.data and "diagnostics" in e.data]
    assert ended[0].data["diagnostics"][0] == {"line": 2, "severity": "error", "message": "BAD new"}
    lines = log(walker)
    assert (
        lines[0].startswith("start ") and lines[0].endswith("keys 0") and len([x for x in lines if "start" in x]) == 1
    )
    assert lines[1] == f'root {walker.project.as_uri()} {{"small": {{"deep": 7}}}}'
    assert "answer c1 [7, null]" in lines and any(x.startswith("answer c2") and "made/up" in x for x in lines)
    assert lines[-1] == "exit" and is_gone(int(lines[0].split()[1]))


async def test_without_a_setting_or_for_other_files_nothing_is_started(walker: Walker) -> None:
    assert (await walked(walker, write("a.txt", "BAD"))).results[0] == (
        f"Created {walker.project}/a.txt (1 lines).",
        False,
    )
    use(walker)
    walk = await walked(walker, write("a.py", "BAD"), call("Read", file_path="a.txt"))
    assert not [text for text, _ in walk.results if "language server" in text] and log(walker) == []


async def test_a_server_that_names_no_version_is_understood(walker: Walker) -> None:
    use(walker, "plain")
    walk = await walked(walker, write("a.txt", "BAD one"), edit("a.txt", "BAD one", "BAD one\nBAD two"))
    assert "line 1: error: BAD one" in walk.results[0][0]
    assert "line 2: error: BAD two" in walk.results[1][0] and "BAD one [" not in walk.results[1][0]


async def test_many_are_bounded_and_made_visible(walker: Walker) -> None:
    use(walker)
    walk = await walked(walker, write("a.txt", "\n".join(f"BAD {n} \u202e{'x' * 1000}" for n in range(60))))
    text = walk.results[0][0]
    assert text.count("error: BAD") == 10 and text.endswith("and 50 more") and "\\u202e" in text and len(text) < 5000


@pytest.mark.parametrize("option", ["mute", "dies", "refuses", "odd"])
async def test_no_edit_fails_for_a_server_that_does(walker: Walker, option: str) -> None:
    use(walker, option, waitSeconds=0.5)
    walk = await walked(walker, write("a.txt", "BAD"), edit("a.txt", "BAD", "BAD 2"), edit("a.txt", "BAD 2", "BAD 3"))
    assert [wrong for _, wrong in walk.results] == [False, False, False]
    assert (walker.project / "a.txt").read_text() == "BAD 3"
    starts = [int(x.split()[1]) for x in log(walker) if x.startswith("start")]
    assert 1 <= len(starts) <= 3 and all(map(is_gone, starts))


async def test_a_missing_program_is_a_line_in_the_log(walker: Walker) -> None:
    use(walker, command="/no/such/program", waitSeconds=0.5)
    walk = await walked(walker, write("a.txt", "BAD"), write("b.txt", "BAD"))
    assert [wrong for _, wrong in walk.results] == [False, False]
    logs = [path.read_text() for path in walker.home.rglob("*.log") if path.is_file()]
    assert any("language server small: there is no program" in text for text in logs)


async def test_what_comes_too_late_is_told_after_the_next_edit(walker: Walker) -> None:
    async def go(_: Any) -> Any:
        (walker.home / "lsp.log.go").touch()
        with anyio.fail_after(20):
            while '"BAD one"' not in "".join(log(walker)):
                await anyio.sleep(0.01)
        return edit("a.txt", "BAD one", "BAD one\nok")

    use(walker, "late", waitSeconds=2)
    async with crew(walker, {"main": [write("a.txt", "BAD one"), go, "end"]}, mode="acceptEdits") as walk:
        await walk.play()
        first, second = (results(r.messages[-1])[0][0] for r in walk.requests()[1:])
    assert "language server" not in first and "line 1: error: BAD one" in second


async def test_a_server_that_does_not_want_to_end_is_ended(walker: Walker) -> None:
    use(walker, "stays")
    await walked(walker, write("a.txt", "BAD"))
    (pid,) = [int(x.split()[1]) for x in log(walker) if x.startswith("start")]
    assert is_gone(pid)


async def test_a_project_that_is_not_trusted_starts_none(walker: Walker) -> None:
    (walker.project / ".teamwright").mkdir()
    (walker.project / ".teamwright" / "settings.json").write_text(json.dumps(settings(walker)))
    walk = await walked(walker, write("a.txt", "BAD"))
    assert log(walker) == [] and any("language servers (small)" in note for note in walk.session.notes)
    trusted = await walker.walk([write("b.txt", "BAD"), "end"], mode="acceptEdits", trust=True)
    assert "line 1: error: BAD" in trusted.results[0][0]


async def test_files_that_cannot_be_text_are_left_alone(walker: Walker) -> None:
    use(walker)
    (walker.project / "a.txt").write_bytes(b"\xff\xfe\x00B")
    (walker.project / "b.txt").write_text("x" * (2 << 20))
    walk = await walked(walker, call("Read", file_path="b.txt", limit=1), write("b.txt", "y" * (2 << 20)))
    assert not walk.results[1][1] and log(walker) == [] and (walker.project / "b.txt").stat().st_size == 2 << 20


async def test_a_notebook_counts_as_the_file_that_it_is(walker: Walker) -> None:
    use(walker, extensions=[".IPYNB"])
    cell = {"cell_type": "code", "id": "one", "metadata": {}, "outputs": [], "execution_count": None, "source": ["x"]}
    book = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (walker.project / "n.ipynb").write_text(json.dumps(book, indent=1))
    change = call("NotebookEdit", notebook_path="n.ipynb", cell_id="one", new_source="BAD cell")
    walk = await walked(walker, call("Read", file_path="n.ipynb"), change)
    assert "error: " in walk.results[1][0] and "BAD cell" in walk.results[1][0]


async def test_what_a_trusted_projects_server_starts_is_guarded(walker: Walker) -> None:
    (walker.project / ".teamwright").mkdir()
    (walker.project / "lsp.sh").write_text("#!/bin/sh\nexit 1\n")
    server = {"lsp": {"own": {"command": "./lsp.sh", "extensions": [".zig"]}}}
    (walker.project / ".teamwright" / "settings.json").write_text(json.dumps(server))
    script = [call("Read", file_path="lsp.sh"), edit("lsp.sh", "exit 1", "exit 0"), "end"]
    walk = await walker.walk(script, mode="acceptEdits", trust=True)
    assert [wrong for _, wrong in walk.results] == [False, True] and "exit 1" in (walker.project / "lsp.sh").read_text()


async def test_another_root_has_a_server_of_its_own_that_stands_in_the_project(walker: Walker, tmp_path: Path) -> None:
    """The directory that it is started from is guarded there."""
    use(walker)
    other = tmp_path / "other"
    other.mkdir()
    script = [write("a.txt", "BAD"), write(str(other / "b.txt"), "BAD b"), "end"]
    walk = await walker.walk(script, mode="acceptEdits", add_dirs=[str(other)])
    assert all("line 1: error: BAD" in text for text, _ in walk.results)
    roots = [line.split()[1] for line in log(walker) if line.startswith("root")]
    assert roots == [walker.project.as_uri(), other.as_uri()]
    assert {line for line in log(walker) if line.startswith("cwd")} == {f"cwd {walker.project}"}
