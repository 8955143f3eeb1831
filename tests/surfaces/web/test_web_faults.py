"""The hub beside what cannot be read: damaged transcripts and links, and names that are nobody's."""

import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from program import LIMIT, Program, bash
from teamwright.osfiles.locks import hold
from teamwright.surfaces.web.server.keys import NOTED, Links
from web_kit import OpenHub, WebSocket

pytest_plugins = ("web_fixtures",)
NOBODY = ("", "../x", "ada@crew", "a\0b", "a" * 300)


def terminal(program: Program) -> str:
    return (program.root / "web.err").read_text()


def damage(transcript: Path) -> None:
    lines = transcript.read_bytes().split(b"\n")
    lines[2] = b"{garbage"
    transcript.write_bytes(b"\n".join(lines))


def talk_of(tab: WebSocket, session: str, agent: str) -> dict[str, Any]:
    tab.send({"type": "look", "session": session, "agent": agent})
    return tab.until(lambda m: m["type"] == "talk" and m["agent"] == agent)[-1]


@pytest.mark.spec("N8")
def test_a_tab_may_look_at_agents_that_are_none(program: Program, hub: OpenHub) -> None:
    id = program.prompt(["one"]).result["session_id"]
    web = hub()
    tab = WebSocket(web, key=web.login(web.link("--read-only")["token"]).json["key"])
    for agent in NOBODY:
        assert talk_of(tab, id, agent)["items"] == [], agent
    tab.send({"type": "leave", "session": id, "agent": ""})
    assert talk_of(tab, id, id)["items"]
    assert terminal(program) == ""
    tab.close()


@pytest.mark.spec("N8", "N23")
def test_a_tab_may_look_at_a_damaged_conversation_and_hears_of_others(program: Program, hub: OpenHub) -> None:
    bad = program.prompt(["one"]).result["session_id"]
    damage(program.transcript())
    web = hub()
    tab = WebSocket(web)
    told = talk_of(tab, bad, bad)
    refused = web.get(f"/api/sessions/{bad}/agents/{bad}/items")
    assert told["items"] == [] and refused.status == 409 and told["error"] == refused.json["error"]
    program.start("-p", "go", "--listen", script=[bash("touch made"), "done"])
    tab.until(lambda m: m["type"] == "now" and m["questions"])
    assert terminal(program) == ""
    tab.close()


@pytest.mark.spec("N8")
def test_what_goes_wrong_on_a_socket_closes_it(program: Program, hub: OpenHub) -> None:
    run = program.talk([bash("touch made"), "done"], "--listen")
    run.say("go")
    run.question()
    with closing(sqlite3.connect(program.state / "state.db")) as store:
        store.execute("PRAGMA user_version = 9999")  # of a later program
    tab = WebSocket(hub())
    while tab.next() is not None:
        pass
    assert tab.closed == 1011
    (line,) = terminal(program).splitlines()
    assert line.startswith("teamwright: ") and "state.db" in line
    tab.close()


@pytest.mark.spec("N8", "N2")
def test_damaged_links_let_nobody_in_and_are_told_once(program: Program, hub: OpenHub) -> None:
    web = hub()
    token = web.link()["token"]
    tab = WebSocket(web)
    tab.until(lambda m: m["type"] == "now")
    links = program.state / "web" / "links.json"
    kept = links.read_bytes()
    links.write_text("{broken")
    late = WebSocket(web)
    for found in (web.get("/api/now"), web.get("/api/nothing"), web.login(token), web.post("/api/logout")):
        assert found.status == 503 and "its terminal says" in found.json["error"], found.body
        assert str(program.root) not in found.json["error"]
    for one in (tab, late):
        while one.next() is not None:
            pass
        assert one.closed == 1011
        one.close()
    (line,) = terminal(program).splitlines()
    assert line.startswith(f"teamwright: {links} cannot be read (") and "remove it, and all links are void" in line
    links.write_bytes(kept)
    assert web.get("/api/now").status == 200 and web.login(token).status == 200


@pytest.mark.spec("N8")
@pytest.mark.parametrize("path", ["/api/links", "/api/links/none/revoke", "/api/login"])
def test_links_that_another_process_changes_hold_up_nobody_else(program: Program, hub: OpenHub, path: str) -> None:
    web, told = hub(), list[int]()
    lock = hold(program.state / "web" / "links.lock")
    assert lock is not None

    def ask() -> None:
        told.append(web.post(path, {"token": "x" * 43}).status)

    asking = threading.Thread(target=ask)
    try:
        asking.start()
        asking.join(0.5)  # it comes first
        assert web.get("/api/now").status == 200 and told == []
    finally:
        lock.release()
        asking.join(LIMIT)
    assert told in ([200], [404], [401])


@pytest.mark.spec("N2")
def test_a_key_counts_while_another_process_changes_links(tmp_path: Path) -> None:
    clock = [1_000_000]
    links = Links(tmp_path / "links.json", lambda: clock[0])
    _, token = links.create()
    opened = links.open(token)
    assert opened is not None
    clock[0] += NOTED + 1  # so that its use is noted
    lock = hold(tmp_path / "links.lock")
    assert lock is not None and links.find(opened[1]) is not None
    lock.release()
    found = links.find(opened[1])
    assert found is not None and links.all()[0].last_used == clock[0]


@pytest.mark.spec("N23")
def test_a_hub_that_ends_says_good_bye_to_its_pages(hub: OpenHub) -> None:
    web = hub()
    tab, stranger = WebSocket(web), WebSocket(web, hello=False)
    tab.until(lambda m: m["type"] == "now")
    web.process.terminate()
    began = time.monotonic()
    assert tab.until(lambda m: m["type"] == "bye")[-1]["reason"]
    for one in (tab, stranger):
        assert one.next() is None and one.closed == 1001
        one.close()
    assert web.process.wait(LIMIT) == 0 and time.monotonic() - began < 1.9
