"""What the hub refuses, and what it does when two want the same at once."""

import json
import socket
import threading
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path

import pytest

from program import LIMIT, Program, bash
from web_kit import OpenHub, Reply, WebHub, WebSocket

pytest_plugins = ("web_fixtures",)
PING = b"\x89\x80\0\0\0\0"


def said(web: WebHub, id: str) -> list[str]:
    return [i["text"] for i in web.get(f"/api/sessions/{id}/agents/{id}/items").json["items"]]


@pytest.mark.spec("N6")
def test_a_full_link_for_one_session_acts_on_it_alone(program: Program, hub: OpenHub) -> None:
    first = program.prompt(["one"]).result["session_id"]
    second = program.prompt(["two"]).result["session_id"]
    web = hub()
    key = web.login(web.link("--session", first)["token"]).json["key"]
    for path in (f"/api/sessions/{second}", "/api/links", "/api/places"):
        assert web.get(path, key=key).status in (403, 404), path
    for path, body in (
        (f"/api/sessions/{second}/say", {"text": "x"}),
        (f"/api/sessions/{second}/resume", {}),
        (f"/api/sessions/{first}/../{second}/say", {"text": "x"}),
        ("/api/sessions", {"prompt": "x", "trust": False}),
        ("/api/links", {}),
    ):
        assert web.post(path, body, key=key).status in (403, 404), path
    assert said(web, second) == said(web, second)[:2]
    assert web.post(f"/api/sessions/{first}/say", {"text": "of mine"}, key=key).status == 200
    web.until(f"/api/sessions/{first}/agents/{first}/items", lambda x: "of mine" in str(x["items"]))


@pytest.mark.spec("N8")
def test_requests_without_a_key_are_counted_too(hub: OpenHub) -> None:
    web = hub()
    statuses: list[int] = []
    while 429 not in statuses and len(statuses) < 3_000:  # ten more are allowed each second
        statuses.append(web.get("/api/now", key="x" * 40).status)
    assert set(statuses[:600]) == {401} and statuses[-1] == 429
    assert web.get("/api/now").status == 200


@pytest.mark.spec("N8")
def test_sockets_count_as_requests_of_their_peer(hub: OpenHub) -> None:
    web = hub()
    statuses: list[int] = []
    while 429 not in statuses and len(statuses) < 20:  # a tenth of a second later one more is allowed
        while web.get("/api/now", key="x" * 40).status != 429:
            pass
        tab = WebSocket(web)
        statuses.append(tab.status)
        tab.close()
    assert statuses[-1] == 429 and web.get("/api/now").status == 200


@pytest.mark.spec("N8")
def test_a_peer_has_few_sockets_that_never_gave_a_key(hub: OpenHub) -> None:
    web = hub()
    silent = [WebSocket(web, hello=False) for _ in range(40)]
    try:
        assert [one.status for one in silent] == [101] * 32 + [429] * 8
        silent[0].send({"type": "hello", "key": web.key})
        silent[0].until(lambda m: m["type"] == "now")
        tab = WebSocket(web)
        silent.append(tab)
        tab.until(lambda m: m["type"] == "now")
    finally:
        for one in silent:
            one.close()


@pytest.mark.spec("N8")
@pytest.mark.parametrize(
    "head",
    [b"".join(b"a%d: b\r\n" % n for n in range(5_000)), b"a: " + b"b" * 20_000 + b"\r\n", b"Content-Length: z\r\n"],
    ids=["many", "long", "odd"],
)
def test_headers_that_no_server_takes_are_an_answer_and_nothing_on_the_terminal(
    program: Program, hub: OpenHub, head: bytes
) -> None:
    web = hub()
    with socket.create_connection(("127.0.0.1", web.port), LIMIT) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + head + b"\r\n")
        assert client.recv(100).split()[1] == b"400"
    assert web.get("/api/sessions").status == 200
    assert (program.root / "web.err").read_text() == ""


@pytest.mark.spec("N3", "N8")
def test_a_message_that_is_nested_too_deeply_is_not_understood(program: Program, hub: OpenHub) -> None:
    id = program.prompt(["one"]).result["session_id"]
    web, deep = hub(), b"\x81\xfe" + (60_000).to_bytes(2, "big") + bytes(4) + b"[" * 60_000
    stranger, tab = WebSocket(web, hello=False), WebSocket(web)
    stranger.raw(deep)
    assert stranger.next() is None and stranger.closed == 4401
    tab.raw(deep)
    tab.send({"type": "look", "session": id, "agent": id})
    assert tab.until(lambda m: m["type"] == "talk")
    assert "Traceback" not in (program.root / "web.err").read_text()
    for one in (stranger, tab):
        one.close()


@pytest.mark.spec("N3")
def test_pings_keep_no_socket_open_that_never_gives_a_key(hub: OpenHub) -> None:
    silent, stop = WebSocket(hub(), hello=False), threading.Event()

    def ping() -> None:
        while not stop.wait(0.5):
            silent.raw(PING)

    pinging = threading.Thread(target=ping, daemon=True)
    pinging.start()
    try:
        assert silent.next() is None and silent.closed == 4401
    finally:
        stop.set()
        pinging.join(LIMIT)
        silent.close()


@pytest.mark.spec("N9")
def test_the_log_names_the_link_of_what_was_refused(program: Program, hub: OpenHub) -> None:
    web = hub()
    made = web.link("--read-only")
    read = web.login(made["token"]).json["key"]
    assert web.post("/api/sessions", {"prompt": "x"}, key=read).status == 403
    bad = WebSocket(web, key="wrong" * 9)
    assert bad.next() is None
    bad.close()
    log = program.state / "logs" / "web.log"
    web.until("/api/now", lambda _: "GET /api/live 401" in log.read_text())
    assert f"{made['id']} POST /api/sessions 403" in log.read_text()


@pytest.mark.spec("N8", "N26")
def test_a_prompt_may_be_long_and_hold_anything(program: Program, hub: OpenHub) -> None:
    id = program.prompt(["one", "again"]).result["session_id"]
    web = hub()
    assert web.post("/api/sessions", {"prompt": "x", "model": "a\0b", "trust": False}).status == 400
    long = "x" * 200_000 + " -- the end\0"
    assert web.post(f"/api/sessions/{id}/say", {"text": long}).status == 200
    web.until(f"/api/sessions/{id}/agents/{id}/items", lambda x: x["items"][-1]["type"] == "agent")
    last = web.get(f"/api/sessions/{id}/agents/{id}/items").json["items"][-2]
    assert last["type"] == "person" and last["cut"]
    whole = web.get(f"/api/sessions/{id}/agents/{id}/items/{last['id']}").json
    assert "-- the end" in str(whole)
    assert b"-- the end" not in b"".join(
        path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()
    )


@pytest.mark.spec("N13", "N26")
def test_what_two_tabs_say_to_an_ended_session_is_both_read(program: Program, hub: OpenHub) -> None:
    id = program.prompt(["one", bash("touch made"), "done", "done"]).result["session_id"]
    web = hub()
    found: list[Reply] = []

    def say(words: str) -> None:
        found.append(web.post(f"/api/sessions/{id}/say", {"text": words}))

    tabs = [threading.Thread(target=say, args=(words,)) for words in ("from the desk", "from the phone")]
    for tab in tabs:
        tab.start()
    for tab in tabs:
        tab.join(LIMIT)
    assert [one.status for one in found] == [200, 200]
    assert web.answer(web.question(), decision="allow").status == 200
    for words in ("from the desk", "from the phone"):
        web.until(f"/api/sessions/{id}/agents/{id}/items", lambda x, words=words: words in str(x["items"]))


@pytest.mark.spec("N13")
def test_words_for_a_sub_agent_of_an_ended_session_do_not_go_to_the_main_agent(program: Program, hub: OpenHub) -> None:
    id = program.prompt(["one"]).result["session_id"]
    web = hub()
    told = web.post(f"/api/sessions/{id}/say", {"text": "for ada", "agent": "somebody-else"})
    assert told.status == 409 and "resume" in told.json["error"]
    assert "for ada" not in said(web, id)


@pytest.mark.spec("N13")
def test_words_for_whom_nobody_can_reach_are_refused_with_the_truth(program: Program, hub: OpenHub) -> None:
    run = program.talk([bash("touch made"), "done"])
    run.say("go")
    run.question()
    web = hub()
    path = f"/api/sessions/{web.session()}"
    for words in ({"text": "x"}, {"text": "x", "agent": "somebody"}):
        told = web.post(f"{path}/say", words)
        assert told.status == 409 and "runs without a door" in told.json["error"], words
    assert "runs without a door" in web.post(f"{path}/resume").json["error"]


NOTES_STORES = """
import os, sys
log = os.open(os.environ["OPENED_STORES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
sys.addaudithook(lambda event, args: event == "sqlite3.connect" and os.write(log, f"{args[0]}\\n".encode()))
"""


def test_requests_that_come_at_once_open_the_store_once(program: Program, hub: OpenHub) -> None:
    id = program.prompt(["one"]).result["session_id"]
    opened = program.root / "opened"
    (program.root / "sitecustomize.py").write_text(NOTES_STORES)  # a hub's open files are shown to root alone
    program.env |= {"OPENED_STORES": str(opened), "PYTHONPATH": str(program.root)}
    web = hub()
    paths = [f"/api/sessions/{id}/{page}" for page in ("tasks", "mail", "cost") * 4]
    tabs = [threading.Thread(target=web.get, args=(path,)) for path in paths]
    for tab in tabs:
        tab.start()
    for tab in tabs:
        tab.join(LIMIT)
    assert opened.read_text().split().count(str(program.state / "state.db")) == 1


@pytest.mark.spec("N1", "N6")
@pytest.mark.parametrize(
    "more",
    [("--read-only",), ("--hours", "1"), ("links", "x"), ("--session", "none"), ("--cert", "none", "--key", "none")],
)
def test_a_hub_that_does_not_start_makes_no_link(program: Program, more: tuple[str, ...]) -> None:
    done = program.run("web", "--port", "0", "--no-open", *more)
    assert done.rc in (1, 2) and done.err.startswith("teamwright: ") and not done.out
    assert json.loads(program.run("web", "links", "--json").out) == []


@pytest.mark.spec("N1")
@pytest.mark.parametrize("hours", ["nan", "inf", "-1", "many", "1e-300"])
def test_a_link_is_valid_for_a_number_of_hours(program: Program, hub: OpenHub, hours: str) -> None:
    hub()
    done = program.run("web", "link", "--hours", hours)
    assert done.rc == 2 and "--hours" in done.err and "Traceback" not in done.err


@pytest.mark.spec("N2", "N8")
def test_a_link_ends_with_the_link_that_made_it(hub: OpenHub) -> None:
    web = hub()
    for hours in (True, 1e-300, -1, "1", None, 9_000):
        refused = web.post("/api/links", {"hours": hours})
        assert refused.status == 400 and "hours" in refused.json["error"], hours
    made = web.login(web.link("--hours", "1")["token"]).json
    for hours, ends in ((0, made["expires"]), (2, made["expires"]), (0.5, made["expires"] - 1_700_000)):
        token = web.post("/api/links", {"hours": hours}, key=made["key"]).json["url"].partition("#t=")[2]
        assert web.login(token).json["expires"] <= ends, hours
    later = web.post("/api/links", {"hours": 2}).json["url"].partition("#t=")[2]
    assert web.login(later).json["expires"] > made["expires"]


@pytest.mark.spec("N23")
def test_a_hub_that_ends_answers_what_was_asked_or_nothing(program: Program, hub: OpenHub) -> None:
    id = program.prompt(["one"]).result["session_id"]
    web = hub()
    statuses: list[int] = []

    def ask() -> None:
        with suppress(OSError, HTTPException):
            while True:
                statuses.append(web.get(f"/api/sessions/{id}/cost").status)

    tabs = [threading.Thread(target=ask) for _ in range(4)]
    for tab in tabs:
        tab.start()
    web.until("/api/now", lambda _: len(statuses) > 20)
    web.close()
    for tab in tabs:
        tab.join(LIMIT)
    assert set(statuses) == {200}
