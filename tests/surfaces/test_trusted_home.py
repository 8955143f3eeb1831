"""In the home directory, the person's own files apply as everywhere, and nobody is asked to trust them."""

import json
from typing import Any

import pytest

from teamwright.app import open_workspace
from teamwright.surfaces.port.trust_question import open_question, remember

pytestmark = pytest.mark.spec("BR9")
HOOK = {"Stop": [{"hooks": [{"type": "command", "command": "~/.claude/hooks/stop.sh"}]}]}


@pytest.fixture
def options(walker: Any) -> Any:
    for name in (".claude/agents", ".claude/commands", ".claude/hooks", ".claude/skills/s", ".teamwright/agents"):
        (walker.home / name).mkdir(parents=True)
    for name in (".claude/agents/mine.md", ".teamwright/agents/ours.md", ".claude/commands/c.md"):
        (walker.home / name).write_text("---\ndescription: d\n---\nx")
    (walker.home / ".claude/skills/s/SKILL.md").write_text("---\nname: s\ndescription: d\n---\nx")
    (walker.home / ".claude/hooks/stop.sh").write_text("true")
    (walker.home / ".claude/settings.json").write_text(json.dumps({"hooks": HOOK, "permissions": {"deny": ["Task"]}}))
    return walker.options(cwd=walker.home)


def test_nobody_asks_about_the_persons_own_files(options: Any) -> None:
    assert open_question(options) is None
    place = open_workspace(options)
    assert not place.notes and [layer.source for layer in place.settings.layers] == ["user"]


def test_what_only_a_project_has_is_asked_about_alone(walker: Any, options: Any) -> None:
    (walker.home / ".mcp.json").write_text(json.dumps({"mcpServers": {"shelf": {"command": "shelf"}}}))
    asked = open_question(options)
    assert asked is not None
    assert [(part.title, part.lines) for part in asked.found.parts] == [
        ("MCP servers, which are programs", ("shelf: shelf",))
    ]
    assert (asked.found.servers, asked.found.agents, asked.found.settings) == (("shelf",), (), ())
    remember(asked, trusted=True)
    (walker.home / ".claude/agents/mine.md").write_text("---\ndescription: other\n---\nx")  # still nobody's business
    assert open_workspace(options).trusted and open_question(options) is None
    (walker.home / ".mcp.json").write_text(json.dumps({"mcpServers": {"shelf": {"command": "other"}}}))
    again = open_question(options)
    assert again is not None and [change.file for change in again.found.changes] == [".mcp.json"]
