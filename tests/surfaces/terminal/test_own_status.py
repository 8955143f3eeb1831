"""The person's own status line: what the command reads, what of its output is shown, when it runs, its errors."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from stage import Stage, staged

from place_kit import until
from program import alive
from teamwright.core.data.event import JobProgressed, Record
from teamwright.core.data.letter import Figures
from teamwright.core.data.message import Usage
from teamwright.core.ids import JobId
from teamwright.models.scripted import call
from teamwright.runtime.port import SessionFacts
from teamwright.store.files.paths import home_from
from teamwright.surfaces.terminal.margins.own_status import read_output, status_input
from teamwright.surfaces.view.shapes import Note
from teamwright.surfaces.view.totals import Totals

PLACES = {"session": "s", "transcript": "/t.jsonl", "project": "/p"}


def settings(place: Path, command: str, padding: int = 0) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps({"statusLine": {"type": "command", "command": command, "padding": padding}}))


def own(walker: Any, command: str, **more: Any) -> None:
    settings(home_from(walker.env).root / "settings.json", command, **more)


def faults(stage: Stage) -> list[str]:
    return [item.text for item in stage.items if isinstance(item, Note) and "statusLine" in item.text]


@pytest.mark.spec("SE7")
def test_the_command_reads_what_such_scripts_know() -> None:
    facts = SessionFacts("anthropic/opus", "plan", "/p/sub", usd=0.5, window=50_000, room=200_000)
    totals = Totals(Usage(10, 20, 30, 40), Usage(1, 2, 3, 4), api_ms=9, added=5, removed=6)
    read = status_input(facts, totals, PLACES, 77)
    assert (read["session_id"], read["transcript_path"], read["cwd"]) == ("s", "/t.jsonl", "/p/sub")
    assert read["model"] == {"id": "anthropic/opus", "display_name": "opus"} and read["version"]
    assert read["workspace"] == {"current_dir": "/p/sub", "project_dir": "/p"}
    cost = {"total_cost_usd": 0.5, "total_duration_ms": 77, "total_api_duration_ms": 9}
    assert read["cost"] == cost | {"total_lines_added": 5, "total_lines_removed": 6}
    window = read["context_window"]
    assert (window["used_percentage"], window["remaining_percentage"], window["context_window_size"]) == (
        25,
        75,
        200_000,
    )
    assert (window["total_input_tokens"], window["total_output_tokens"]) == (80, 20)
    assert window["current_usage"]["cache_read_input_tokens"] == 3 and read["exceeds_200k_tokens"] is False
    unknown = status_input(SessionFacts("m", "default", "/"), Totals(), PLACES, 0)["context_window"]
    assert unknown["context_window_size"] is None and unknown["used_percentage"] is None


@pytest.mark.spec("SE7")
@pytest.mark.parametrize(
    ("out", "shown"),
    [
        ("\x1b[1;32mgreen\x1b[0m plain\n", ["green plain"]),
        ("one\ntwo\nthree\nfour\n", ["one", "two", "three"]),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", ["link"]),
        ("\x1b]0;title\x07a\x1b[2Jb\x1b[10;10Hc\x1b(Bd\x0f", ["abcd"]),
        ("[bold]not markup[/bold]", ["[bold]not markup[/bold]"]),
        ("\n\n", []),
        ("", []),
    ],
)
def test_colours_stay_and_nothing_else_reaches_the_terminal(out: str, shown: list[str]) -> None:
    assert [line.plain for line in read_output(out)] == shown


@pytest.mark.spec("SE7")
def test_what_is_left_of_escapes_is_written_out_and_lines_are_bounded() -> None:
    (line,) = read_output("a\x1b[3\x1bPq\x07\u202eb\x9b31m" + "x" * 5_000)
    assert line.plain.isprintable() and len(line.plain) < 1_200


@pytest.mark.anyio
@pytest.mark.spec("SE7")
async def test_its_output_is_shown_and_follows_the_session(walker: Any) -> None:
    seen = walker.project / "seen.json"
    own(
        walker,
        f"cat > {seen}; printf '\\033[32mmy line\\033[0m '; grep -o 'total_lines_added\":[0-9]*' {seen}",
        padding=2,
    )
    (walker.project / "a.txt").write_text("one\n")
    edits = [[call("Read", file_path="a.txt")], [call("Edit", file_path="a.txt", old_string="one", new_string="two")]]
    async with staged(walker, [*edits, "Done."], mode="acceptEdits") as stage:
        await stage.shows('  my line total_lines_added":0')
        await stage.until(lambda: stage.screen.rstrip().endswith("accept edits"), "a line without what the other tells")
        await stage.say("go")
        await stage.shows('my line total_lines_added":1')
        read = json.loads(seen.read_text())
        assert read["session_id"] == stage.session.id and read["workspace"]["project_dir"] == str(walker.project)
        assert read["transcript_path"].endswith(f"{stage.session.id}.jsonl")


@pytest.mark.anyio
@pytest.mark.spec("SE7")
async def test_a_fault_is_told_once_and_the_built_in_line_stays(walker: Any) -> None:
    own(walker, "echo ha''lf; echo 'no \x1b[31mjq' >&2; exit 3")
    async with staged(walker, ["Hello.", "Again."]) as stage:
        await stage.until(lambda: faults(stage), "a fault")
        await stage.say("hi")
        await stage.shows("Hello.")
        await stage.rests()
        assert len(faults(stage)) == 1 and "exit status 3: no " in faults(stage)[0]
        assert "half" not in stage.screen and "script/given" in stage.screen.split("\n")[-1]


@pytest.mark.anyio
@pytest.mark.spec("SE7")
async def test_a_command_that_hangs_holds_nothing_up_and_ends_with_the_app(walker: Any) -> None:
    pid = walker.project / "pid"
    own(walker, f"echo $$ > {pid}; sleep 1000")
    async with staged(walker, ["Hello."]) as stage:
        await stage.until(lambda: pid.exists() and pid.read_text().strip(), "a start")
        await stage.say("hi")
        await stage.shows("Hello.")
    until(lambda: not alive(int(pid.read_text())), "its end")


@pytest.mark.anyio
@pytest.mark.spec("SE7")
async def test_it_runs_about_three_times_a_second_and_not_at_rest(walker: Any) -> None:
    runs = walker.project / "runs"
    own(walker, f"echo run >> {runs}; echo line")
    async with staged(walker) as stage:
        await stage.shows("line")
        before, began = count(runs), time.monotonic()
        progress = JobProgressed(JobId("j"), "d", Figures())
        while time.monotonic() - began < 1.2:
            stage.view.apply(Record(stage.view.main, 0, 0, progress))
            stage.app.hint("busy")
            await stage.pilot.pause(0.02)
        assert 2 <= count(runs) - before <= 5
        await stage.pilot.pause(1.2)
        rests = count(runs)
        await stage.pilot.pause(1.2)
        assert count(runs) == rests


def count(file: Path) -> int:
    return file.read_text().count("\n")


@pytest.mark.anyio
@pytest.mark.spec("SE7")
@pytest.mark.parametrize("trusted", [True, False])
async def test_a_projects_command_runs_only_if_the_project_is_trusted(walker: Any, trusted: bool) -> None:
    settings(walker.project / ".claude" / "settings.json", "echo theirs; touch ran")
    own(walker, "echo mine; touch mine")
    async with staged(walker, trust=trusted) as stage:
        await stage.shows("theirs" if trusted else "mine")
        assert (walker.project / "ran").exists() is trusted and (walker.project / "mine").exists() is not trusted
