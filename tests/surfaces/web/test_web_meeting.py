"""How soon the hub knows a session, and how soon a page hears of quickly following changes."""

import json
import os
import signal
import time
from collections.abc import Iterator

import pytest

from program import LIMIT, Program, bash
from teamwright.core.ids import SessionId
from teamwright.store.files.paths import find_transcript, home_from
from teamwright.surfaces.port.doors import address_file
from teamwright.surfaces.web.live.socket import CHECK, pause_for
from web_kit import WebHub, WebSocket

PAUSE = 0.01
ID = "11111111-2222-4333-8444-555555555555"


@pytest.fixture
def hub(program: Program) -> Iterator[WebHub]:
    found = WebHub(program).enter()
    yield found
    found.close()


def wait_until(program: Program, *words: str) -> None:
    """Wait for all of them in the session's transcript."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        path = find_transcript(home_from(program.env), SessionId(ID))
        told = path.read_text() if path is not None else ""
        if all(word in told for word in words):
            return
        time.sleep(PAUSE)
    raise AssertionError(f"{words} never came up")


@pytest.mark.spec("N10")
def test_a_session_that_listens_has_its_door_before_it_hears_its_first_prompt(program: Program) -> None:
    door = address_file(home_from(program.env), SessionId(ID))
    run = program.start("-p", "the first words", "--listen", "--session-id", ID, script=[bash("touch made"), "done"])
    wait_until(program, "the first words")
    assert door.exists()
    os.killpg(run.process.pid, signal.SIGKILL)


@pytest.mark.spec("N10")
def test_a_session_that_does_not_answer_yet_is_told_as_one_that_can_be_steered(program: Program, hub: WebHub) -> None:
    """Its door exists; only a session without a door is watch-only."""
    run = program.start("-p", "go", "--listen", "--session-id", ID, script=[bash("touch made"), "done"])
    wait_until(program, "touch made")
    os.killpg(run.process.pid, signal.SIGSTOP)
    try:
        (session,) = hub.get("/api/now").json["sessions"]
        assert session["id"] == ID and session["steerable"] and session["state"] == "running"
    finally:
        os.killpg(run.process.pid, signal.SIGCONT)
    assert hub.answer(hub.question(), decision="allow").status == 200


@pytest.mark.spec("N12")
@pytest.mark.parametrize(
    ("news", "due", "pause"),
    [(True, 100.06, 0.06), (True, 99.0, 0.0), (True, 200.0, CHECK), (False, 100.06, CHECK)],
)
def test_news_that_came_too_soon_after_the_last_are_told_when_it_is_their_time(
    news: bool, due: float, pause: float
) -> None:
    """A question right after an answer does not wait for the next scan of the files."""
    assert pause_for(news=news, due=due, now=100.0) == pytest.approx(pause)


@pytest.mark.spec("N23")
def test_the_first_message_of_every_socket_is_whole(program: Program, hub: WebHub) -> None:
    """When a page comes back, it drops everything that is not sent again."""
    program.start("-p", "go", "--listen", script=[bash("touch one"), bash("touch two"), "done"])
    live = WebSocket(hub)
    whole = [m["whole"] for m in live.until(lambda m: m.get("questions")) if m["type"] == "now"]
    assert whole[0] and not any(whole[1:])
    live.close()
    again = WebSocket(hub)
    (now,) = [m for m in again.until(lambda m: m["type"] == "now") if m["type"] == "now"]
    assert now["whole"] and len(now["questions"]) == 1
    again.close()


@pytest.mark.spec("N25", "N26")
def test_a_session_that_is_over_in_no_time_has_been_there(program: Program, hub: WebHub) -> None:
    """Neither complaints in an earlier log nor an end before the first look count as a failure to start."""
    file = program.root / "short.json"
    file.write_text(json.dumps([bash("touch made"), "one", "two"]))
    body = {"prompt": "go", "model": f"script/{file}", "trust": False}
    id = hub.post("/api/sessions", body).json["id"]
    assert hub.answer(hub.question(), decision="deny").status == 200
    hub.until(f"/api/sessions/{id}", lambda session: session["state"] == "ended")
    (log,) = home_from(program.env).logs.glob("web-*.log")
    assert "said no" in log.read_text()
    again = hub.post(f"/api/sessions/{id}/say", {"text": "and again"})
    assert again.status == 200, again.json
    items = hub.get(f"/api/sessions/{id}/agents/{id}/items").json["items"]
    assert "and again" in [item["text"] for item in items]
    wrong = hub.post("/api/sessions", body | {"model": "nobody/knows-this"})
    assert wrong.status == 409 and "nobody" in wrong.json["error"]
