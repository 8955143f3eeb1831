"""`teamwright mcp`: list, add, remove, test."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from program import Program

SMALL = Path(__file__).parent.parent / "servers" / "small_mcp.py"


@pytest.mark.spec("D8")
def test_added_listed_tried_and_removed(program: Program) -> None:
    log = program.root / "near.log"
    added = program.run("mcp", "add", "-s", "user", "near", "-e", "TOKEN=s3cret", sys.executable, str(SMALL), str(log))
    assert added.rc == 0, added.err
    file = program.state / "settings.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.read_text())["mcp"]["near"]["env"] == {"TOKEN": "s3cret"}
    (row,) = json.loads(program.run("mcp", "list", "--json").out)
    assert (row["name"], row["source"], row["type"], row["error"]) == ("near", "user", "stdio", None)
    shown = program.run("mcp")
    assert "near" in shown.out and "s3cret" not in shown.out and not log.exists()
    tried = program.run("mcp", "test", "--json")
    (state,) = json.loads(tried.out)
    assert tried.rc == 0 and state["status"] == "connected" and "mcp__near__echo" in state["tools"]
    assert log.read_text().splitlines()[-1].startswith("end")
    assert program.run("mcp", "remove", "near").rc == 0
    assert json.loads(file.read_text()) == {"mcp": {}}
    assert "no MCP servers" in program.run("mcp", "list").out


@pytest.mark.spec("A10")
def test_a_list_shows_no_key_in_a_command_line(program: Program) -> None:
    words = ["--token", "s3cret-1", "--api-key=s3cret-2", "-H", "Authorization: Basic s3cret-3", "--port", "80"]
    assert program.run("mcp", "add", "-s", "user", "near", "--", "serve", *words).rc == 0
    for more in ((), ("--json",)):
        shown = program.run("mcp", "list", *more).out
        assert "serve --token" in shown and "--port 80" in shown and "s3cret" not in shown


def test_urls_headers_and_what_follows_two_dashes(program: Program) -> None:
    assert program.run("mcp", "add", "web", "https://u:p@x.org/mcp?key=k", "-H", "X: y").rc == 2  # no words after a URL
    assert program.run("mcp", "add", "-H", "Authorization: Bearer ${T}", "web", "https://u:p@x.org/mcp?key=k").rc == 0
    assert program.run("mcp", "add", "-t", "sse", "-s", "project", "old", "http://x/sse").rc == 0
    assert program.run("mcp", "add", "tool", "--scope", "local", "--", "npx", "-y", "--json", "x").rc == 0
    local = json.loads((program.project / ".teamwright" / "settings.local.json").read_text())["mcp"]
    assert local["web"]["headers"] == {"Authorization": "Bearer ${T}"}
    assert local["tool"] == {"command": "npx", "args": ["-y", "--json", "x"]}
    (program.project / ".git").mkdir()
    assert json.loads(program.run("mcp", "list", "--json").out) == []  # not trusted
    rows = json.loads(program.run("mcp", "list", "--json", "--trust", env={"T": "t0p"}).out)
    assert {r["name"]: (r["source"], r["where"]) for r in rows} == {
        "web": ("local", "https://x.org/mcp"), "old": ("project", "http://x/sse"), "tool": ("local", "npx -y --json x"),
    }  # fmt: skip


def test_git_leaves_out_what_is_the_persons_own(program: Program) -> None:
    subprocess.run(["git", "init", "-q"], cwd=program.project, check=True)
    assert program.run("mcp", "add", "-H", "Authorization: Bearer s3cret", "web", "https://x.org/mcp").rc == 0
    assert program.run("mcp", "add", "-s", "project", "old", "http://x/mcp").rc == 0
    seen = subprocess.run(["git", "status", "--short", "-uall"], cwd=program.project, capture_output=True, check=True)
    assert b".mcp.json" in seen.stdout and b"settings.local.json" not in seen.stdout


def test_wrong_use_and_files_that_must_not_be_written_over(program: Program) -> None:
    (program.project / ".mcp.json").write_text("{ this is somebody's")
    for args in (("add", "x"), ("add", "-t", "http", "x", "ftp://y"), ("remove", "none"), ("test", "none"),
                 ("add", "-e", "NOVALUE", "x", "y"), ("remove",), ("dance",)):  # fmt: skip
        ran = program.run("mcp", *args)
        assert ran.rc in (1, 2) and ran.err, args
    ran = program.run("mcp", "add", "-s", "project", "x", "y")
    assert ran.rc and (program.project / ".mcp.json").read_text() == "{ this is somebody's"
    assert program.run("mcp", "add", "x", "y").rc == 0
    assert "already" in program.run("mcp", "add", "x", "z").err


def test_a_server_that_fails_fails_the_test(program: Program) -> None:
    config = json.dumps({"mcpServers": {"bad": {"command": "/no/such\x1b[31m"}}})
    ran = program.run("mcp", "test", "bad", "--mcp-config", config)
    assert ran.rc == 1 and "failed" in ran.out and "no program" in ran.out


def test_a_server_that_nobody_reaches_is_told_in_words(program: Program) -> None:
    web, ends = {"type": "http", "url": "http://me:s3cret@127.0.0.1:1/mcp"}, {"command": "false"}
    ran = program.run("mcp", "test", "--mcp-config", json.dumps({"mcpServers": {"web": web, "ends": ends}}))
    assert ran.rc == 1 and "no connection to 127.0.0.1:1: the connection was refused" in ran.out
    assert "s3cret" not in ran.out and "the connection ended before it answered" in ran.out


@pytest.mark.spec("BR1")
def test_servers_that_another_program_keeps_for_the_person(program: Program) -> None:
    here = {"mcpServers": {"db": {"command": "db"}}, "disabledMcpServers": ["gone"]}
    kept = {
        "mcpServers": {"notes": {"command": "notes"}, "gone": {"command": "x"}},
        "projects": {str(program.project): here},
    }
    (program.home / ".claude.json").write_text(json.dumps(kept))
    rows = program.run("mcp", "list").out.splitlines()
    assert [row.split()[:4] for row in rows[1:]] == [
        ["notes", "user,", "~/.claude.json", "stdio"],
        ["db", "local,", "~/.claude.json", "stdio"],
        ["gone", "user,", "~/.claude.json", "stdio"],
    ]
    assert rows[3].endswith("turned off")
    before = (program.home / ".claude.json").read_bytes()
    refused = program.run("mcp", "remove", "notes")
    assert refused.rc == 2 and f"it is in {program.home / '.claude.json'} (" in refused.err
    assert (program.home / ".claude.json").read_bytes() == before


@pytest.mark.spec("BR1")
def test_an_address_without_its_variable_is_still_an_address(program: Program) -> None:
    server = {"type": "http", "url": "https://x.example/mcp", "headers": {"Authorization": "Bearer ${SHOP_TOKEN}"}}
    (program.home / ".claude.json").write_text(json.dumps({"mcpServers": {"web": server}}))
    ran = program.run("mcp", "list", "--json")
    (row,) = json.loads(ran.out)
    assert (row["type"], row["where"]) == ("http", "https://x.example/mcp")
    assert row["error"].startswith("needs SHOP_TOKEN,") and ran.err.count("SHOP_TOKEN") == 2


@pytest.mark.spec("BR1")
def test_what_is_added_where_nobody_trusts_says_so(program: Program) -> None:
    ran = program.run("mcp", "add", "notes", "notes-server")
    assert f"{program.project} is not trusted, so notes is not used yet. `teamwright trust`" in ran.out
