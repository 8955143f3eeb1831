"""Before trusting a directory, a person sees in one table what is read from it and what is not used."""

import json
import shutil

import pytest
from test_bring import FIXTURES

from program import Program
from teamwright.tools.bounds import counted


@pytest.mark.spec("BR9")
def test_the_table_counts_what_is_read_and_names_what_is_not(program: Program) -> None:
    shutil.copytree(FIXTURES / "shop", program.project, dirs_exist_ok=True)
    (program.home / ".claude/agents").mkdir(parents=True)
    (program.home / ".claude/agents/mine.md").write_text("---\ndescription: d\nmood: bad\n---\nx")
    for n in range(3):
        text = "---\ndescription: d\nsubtask: true\n---\nYou help."
        (program.project / f".claude/agents/extra{n}.md").write_text(text)
    out = program.run("trust").out.splitlines()
    start = out.index("what is read, and what is not used")
    table = out[start + 2 : out.index("", start)]
    rows = {row[2:23].strip(" ·"): row[23:].split(maxsplit=1) for row in table}
    assert [counted(row) for row in table] == table  # the app shows it unchanged: no run of blanks becomes a count
    assert rows["agents"] == ["5", "field `subtask` of 3 files"] and rows["skills and commands"] == ["3"]
    assert rows["hooks"] == ["4"] and rows["MCP servers"] == ["1"] and rows["permission rules"][0] == "11"
    assert rows["instruction files"] == ["3"] and "`cleanupPeriodDays`" in rows["other settings"][1]
    assert "mood" not in "\n".join(out)  # the person's own files do not count as the directory's


@pytest.mark.spec("BR9")
def test_what_runs_by_new_ways_is_shown_as_well(program: Program) -> None:
    (program.project / ".claude").mkdir()
    hook = {"hooks": [{"type": "prompt", "prompt": "Is all well? $ARGUMENTS"}]}
    settings = {"apiKeyHelper": "./key.sh --now", "hooks": {"Stop": [hook]}}
    (program.project / ".claude/settings.json").write_text(json.dumps(settings))
    (program.project / "key.sh").write_text("echo k")
    parts = json.loads(program.run("trust", "--json").out)["contents"]
    assert parts["keys for the model, which a command gives"] == ["./key.sh --now"]
    assert parts["hooks, which run commands"] == ["Stop: a model is asked: Is all well? $ARGUMENTS"]
    (program.project / "key.sh").write_text("echo other")
    assert "has changed since you trusted it" in program.prompt(["hi"]).err
