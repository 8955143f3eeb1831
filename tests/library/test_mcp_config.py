"""MCP servers as people configure them."""

import json
from pathlib import Path
from typing import Any

import pytest

from teamwright.core.data.extensions.server import Http, Sdk, Sse, Stdio
from teamwright.core.errors import UsageError
from teamwright.library.mcp_config import Written, find_servers, inline_servers, limits, read_server

ENV = {"TOKEN": "t0", "EMPTY": "", "HOST": "example.org"}


def find(project: Path, **more: Any) -> Any:
    return find_servers(project, **{"trusted": True, "env": ENV} | more)


def write(project: Path, servers: Any) -> None:
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))


@pytest.mark.spec("D8")
def test_all_kinds_as_others_write_them(tmp_path: Path) -> None:
    write(tmp_path, {
        "a": {"command": "npx", "args": ["-y", "thing"], "env": {"K": "v"}},
        "b": {"type": "http", "url": "https://x/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}, "timeout": 1500},
        "c": {"type": "sse", "url": "http://localhost/sse"},
        "d": {"url": "https://y/mcp"},
        "e": {"type": "sdk", "name": "e"},
    })  # fmt: skip
    found = find(tmp_path)
    assert not found.problems and {c.source for c in found.configs.values()} == {"project"}
    assert {n: c.reach for n, c in found.configs.items()} == {
        "a": Stdio("npx", ("-y", "thing"), {"K": "v"}),
        "b": Http("https://x/mcp", {"Authorization": "Bearer t0"}),
        "c": Sse("http://localhost/sse"),
        "d": Http("https://y/mcp"),
        "e": Sdk(),
    }
    assert found.configs["b"].call_seconds == 1.5


@pytest.mark.spec("D8")
def test_a_project_has_no_say_before_it_is_trusted(tmp_path: Path) -> None:
    write(tmp_path, {"a": {"command": "a"}})
    assert find(tmp_path, trusted=False).configs == {}


def test_the_nearest_source_wins_and_strict_leaves_the_flags_alone(tmp_path: Path) -> None:
    write(tmp_path, {"x": {"command": "file"}, "file": {"command": "f"}})
    settings = [
        Written("user", "u", {"x": {"command": "user"}, "user": {"command": "u"}}),
        Written("local", "l", {"x": {"command": "local"}}),
    ]
    assert find(tmp_path, settings=settings).configs["x"].reach == Stdio("local")
    assert find(tmp_path, settings=settings[:1]).configs["x"].reach == Stdio("file")
    flag = json.dumps({"mcpServers": {"x": {"command": "flag"}}})
    found = find(tmp_path, settings=settings, flags=[flag])
    assert found.configs["x"].reach == Stdio("flag") and set(found.configs) == {"x", "file", "user"}
    policy = Written("managed", "m", {"policy": {"command": "p"}})
    assert set(find(tmp_path, settings=[*settings, policy], flags=[flag], strict=True).configs) == {"x", "policy"}


def test_flags_are_files_or_json_and_must_be_right(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{"mcpServers": {"a": {"command": "a"}}}')
    assert find(tmp_path, flags=["s.json"]).configs["a"].source == "flag"
    for flag in ("none.json", "{", '{"servers": {}}', "{}"):
        with pytest.raises(UsageError, match="mcp"):
            find(tmp_path, flags=[flag])


def test_a_file_that_cannot_be_read_is_told_and_ignored(tmp_path: Path) -> None:
    for text in ("{", "[]", '{"mcpServers": []}', '"' + "x" * 5_000_000):
        (tmp_path / ".mcp.json").write_text(text)
        found = find(tmp_path)
        assert not found.configs and ".mcp.json" in found.problems[0]
    (tmp_path / ".mcp.json").unlink()
    (tmp_path / ".mcp.json").mkdir()
    assert "regular" in find(tmp_path).problems[0]


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (3, "must be an object"),
        ({}, "`command`"),
        ({"command": ["a"]}, "`command`"),
        ({"command": "a", "args": "b"}, "`args`"),
        ({"command": "a", "env": {"K": 1}}, "`env`"),
        ({"command": "a", "env": {"A=B": "1"}}, "`env`"),
        ({"type": "http", "url": "file:///etc/passwd"}, "`url`"),
        ({"type": "http", "url": "http://x", "headers": {"A": "b\r\nC: d"}}, "`headers`"),
        ({"type": "carrier-pigeon"}, "carrier-pigeon"),
        ({"command": "a", "timeout": -1}, "`timeout`"),
        ({"command": "${NOT_SET}"}, "NOT_SET"),
    ],
)
def test_what_is_wrong_with_one_is_told_with_it(tmp_path: Path, value: Any, fault: str) -> None:
    write(tmp_path, {"bad": value, "good": {"command": "a"}})
    found = find(tmp_path)
    assert fault in found.configs["bad"].fault and not found.configs["good"].fault
    assert len(found.problems) == 1 and ".mcp.json: MCP server bad: " in found.problems[0]


def test_variables() -> None:
    value = {"command": "${HOST}/$HOST", "args": ["${NO:-a b}", "${EMPTY:-d}", "${EMPTY}", "${NO:-}", "${NO:-$TOKEN}"]}
    reach = read_server("x", value, ENV).reach
    assert reach == Stdio("example.org/$HOST", ("a b", "d", "", "", "$TOKEN"))


def test_names_must_be_names() -> None:
    assert read_server("", {"command": "a"}, ENV).fault and read_server("a\x1bb", {"command": "a"}, ENV).fault


def test_inline_servers_of_a_definition() -> None:
    found = inline_servers(["near", {"own": {"command": "a"}, "bad": {}}], ENV)
    assert found["own"].reach == Stdio("a") and found["bad"].fault and set(found) == {"own", "bad"}


def test_limits() -> None:
    assert limits({}) == (30, 600)
    assert limits({"MCP_TIMEOUT": "1500", "MCP_TOOL_TIMEOUT": "x"}) == (1.5, 600)
