"""`teamwright agents`: which agents there are, where they come from, what they shadow, what is broken."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CALL = """
import json, sys
from teamwright.core.errors import UsageError
from teamwright.surfaces.commands.agents import show_agents
try:
    sys.exit(show_agents(**json.loads(sys.argv[1])))
except UsageError as error:
    sys.exit(f"wrong use: {error}")
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def listed(project: Path, **call: Any) -> tuple[int, str, str]:
    """Run the command as a process in the project: (exit status, output, errors)."""
    argv = [sys.executable, "-c", CALL, json.dumps({"flag": None, "trust": True, "as_json": False} | call)]
    env = {"HOME": str(project.parent / "home"), "PATH": "/usr/bin:/bin", "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(argv, cwd=project, env=env, capture_output=True, timeout=60, check=False)
    return ran.returncode, ran.stdout.decode(), ran.stderr.decode()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project in which a file shadows a built-in and the user's, and another is broken."""
    project, home = tmp_path / "project", tmp_path / "home"
    write(home / ".claude/agents/Explore.md", "---\ndescription: the user's\n---\n")
    write(project / ".claude/agents/explore.md", "---\ndescription: Use when: asked\ncolour: x\n---\n")
    write(project / ".claude/agents/broken.md", "---\ndescription: [unclosed\n---\n")
    write(project / ".claude/agents/evil.md", '---\ndescription: "a\\e[2J\\u202e' + "long " * 100 + '\\n\\tend"\n---\n')
    return project


@pytest.mark.spec("D3", "D5", "A12")
def test_table(project: Path) -> None:
    status, out, err = listed(project, flag='{"scout": {"description": "on the way"}}')
    lines = out.splitlines()
    rows = {line.split("  ")[0]: line for line in lines}
    assert status == 0 and lines[0].split() == ["NAME", "FROM", "DESCRIPTION"]
    names = [line.split("  ")[0] for line in lines[1:]]
    assert names.index("Explore") - names.index("explore") in (1, 2)
    assert any(
        "project .claude/agents/explore.md" in x and "[shadows built-in, user] Use when: asked" in x for x in lines
    )
    assert any(x.startswith("explore ") and "shadowed by .claude/agents/explore.md" in x for x in lines)
    assert "user ~/.claude/agents/Explore.md" in rows["Explore"]
    assert rows["Explore"].endswith("shadowed by .claude/agents/explore.md")
    assert "project .claude/agents/broken.md" in rows["broken"] and "broken: line 2: " in rows["broken"]
    assert "flag" in rows["scout"] and rows["scout"].endswith("on the way")
    assert rows["evil"].endswith("…") and "\\x1b[2J\\u202elong" in rows["evil"]
    assert out.replace("\n", "").isprintable() and all(len(line) <= 160 for line in lines)
    assert f"teamwright: {project}/.claude/agents/broken.md, line 2: " in err and "`colour`" in err


@pytest.mark.spec("D3", "D5")
def test_json(project: Path) -> None:
    odd = os.fsencode(project / ".claude/agents") + b"/caf\xe9.md"
    Path(os.fsdecode(odd)).write_text("---\ndescription: d\n---\n")
    status, out, _ = listed(project, as_json=True)
    assert status == 0 and out.isascii() and out.replace("\n", "").isprintable()
    found = json.loads(out)
    mine = str(project / ".claude/agents/explore.md")
    user = str(project.parent / "home/.claude/agents/Explore.md")
    ours, users, winner = [entry for entry in found if entry["name"].lower() == "explore"]
    assert ours.pop("description") and ours == {
        "name": "explore",
        "source": "built-in",
        "path": None,
        "shadowed_by": mine,
    }
    assert users == {
        "name": "Explore",
        "description": "the user's",
        "source": "user",
        "path": user,
        "shadowed_by": mine,
    }
    assert winner == {"name": "explore", "description": "Use when: asked", "source": "project", "path": mine}
    broken = next(entry for entry in found if entry["name"] == "broken")
    assert set(broken) == {"name", "description", "source", "path", "error"} and "line 2" in broken["error"]
    assert [e["error"] for e in found if e["path"] and os.fsencode(e["path"]) == odd]  # such a name cannot be


def test_a_project_that_is_not_trusted_is_left_aside_and_told(project: Path) -> None:
    status, out, err = listed(project, trust=False, as_json=True)
    assert status == 0 and {entry["source"] for entry in json.loads(out)} == {"built-in", "user"}
    assert str(project) in err and "--trust" in err and "broken" in err


def test_a_flag_that_is_no_json_is_wrong_use(project: Path) -> None:
    status, out, err = listed(project, flag="{nonsense")
    assert (status, out) == (1, "") and err.startswith("wrong use: --agents: ")
