"""docs/compare.md: each test that it names exists, and so does everything that its commands run."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "compare.md").read_text()


def test_what_shows_a_feature_exists() -> None:
    features = PAGE.partition("| | there |")[2]
    named = re.findall(r"`((?:[a-z_]+/)+(?:test_\w+\.py|snapshots)?)`", features)
    assert len(named) > 30
    assert [name for name in named if not (ROOT / "tests" / name).exists()] == []


def test_no_figure_without_a_command_that_exists() -> None:
    figures = PAGE.partition("## Figures")[2].partition("## Features")[0]
    alone = figures.partition("| what | figure | command |")[2]
    rows = [line for line in alone.splitlines() if line.startswith("| ") and not line.startswith("|---")]
    assert len(rows) > 4
    for row in rows:
        command = row.strip("| ").split("|")[-1].strip().strip("`").split()
        if command[0] == "make":
            assert f"\n{command[1]}: " in (ROOT / "Makefile").read_text(), row
        else:
            assert command[0] == "python" and (ROOT / command[1]).is_file(), row
    assert (ROOT / "bench" / "beside.py").is_file() and "python bench/beside.py" in figures
