"""MCP servers in `~/.claude.json`, as another program writes it."""

import json
from pathlib import Path
from typing import Any

import pytest

from teamwright.library.claude.servers import read_claude_servers

BOTH = ("user", "local")
SERVER = {"type": "stdio", "command": "notes", "args": ["--all"], "env": {}}


def read(home: Path, folder: Path = Path("/srv/shop"), sources: tuple[str, ...] = BOTH) -> Any:
    return read_claude_servers(home, [folder], sources)


def write(home: Path, **values: Any) -> None:
    (home / ".claude.json").write_text(json.dumps({"numStartups": 90, "tipsHistory": {"a": 1}} | values))


@pytest.mark.spec("BR1")
def test_servers_of_the_person_and_of_this_directory(tmp_path: Path) -> None:
    here = {"mcpServers": {"db": SERVER}, "disabledMcpServers": ["notes"], "disabledMcpjsonServers": ["web"]}
    write(tmp_path, mcpServers={"notes": SERVER}, projects={"/srv/shop": here, "/srv/other": {"mcpServers": {"x": {}}}})
    found = read(tmp_path)
    assert (found.user, found.local, found.problem) == ({"notes": SERVER}, {"db": SERVER}, "")
    assert found.off == {"notes"} and found.off_shared == {"web"}
    assert read(tmp_path, Path("/srv")).local == {} and read(tmp_path, sources=("local",)).user == {}


@pytest.mark.parametrize(
    "values",
    [
        {"mcpServers": [], "projects": {"/srv/shop": []}},
        {"mcpServers": None, "projects": {"/srv/shop": {"mcpServers": 7, "disabledMcpServers": {"a": 1}}}},
        {"projects": {"/srv/shop": {"disabledMcpServers": [None, 3]}}},
    ],
)
def test_what_does_not_fit_is_left_out(tmp_path: Path, values: dict[str, Any]) -> None:
    write(tmp_path, **values)
    found = read(tmp_path)
    assert (found.user, found.local, found.off, found.problem) == ({}, {}, frozenset(), "")


@pytest.mark.parametrize("text", ["{", "[]", "", '{"projects": []}', '{"projects": ' + '{"a":' * 5000])
def test_a_file_that_cannot_be_read_is_named_and_costs_nothing_else(tmp_path: Path, text: str) -> None:
    (tmp_path / ".claude.json").write_text(text)
    found = read(tmp_path)
    assert str(tmp_path / ".claude.json") in found.problem and found.user == {}


def test_there_need_not_be_one(tmp_path: Path) -> None:
    assert read(tmp_path).problem == ""
    (tmp_path / ".claude.json").mkdir()
    assert "regular" in read(tmp_path).problem
