"""What a real browser lets other sites, other host names, used links and watchers do to the hub."""

import http.server
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from browser_kit import EVIL, OpenPage, asking
from program import Program
from web_kit import WebHub


class _Quiet(http.server.BaseHTTPRequestHandler):
    """An empty page of another site."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>elsewhere</title>")

    def log_message(self, format: str, *args: Any) -> None:
        del format, args


@pytest.fixture
def elsewhere() -> Iterator[int]:
    """The port of another site on this machine."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join(10)


ATTACK = """async ([hub, key, session, question]) => {
  const told = {};
  const path = `http://${hub}/api/sessions/${session}/questions/${question}`;
  const body = JSON.stringify({ decision: "allow" });
  const headers = { Authorization: `Bearer ${key}` };
  const send = async (name, how) => {
    try {
      told[name] = (await fetch(path, { method: "POST", body, ...how })).status;
    } catch {
      told[name] = "refused";
    }
  };
  await send("with the key", { headers });
  await send("as a form", { mode: "no-cors", headers: { "Content-Type": "text/plain" } });
  told.read = await fetch(`http://${hub}/api/now`, { headers }).then((a) => a.status, () => "refused");
  told.socket = await new Promise((done) => {
    const socket = new WebSocket(`ws://${hub}/api/live`);
    socket.onopen = () => done("open");
    socket.onerror = () => done("refused");
  });
  const frame = document.createElement("iframe");
  const shown = new Promise((done) => (frame.onload = () => done()));
  frame.src = `http://${hub}/`;
  document.body.append(frame);
  await shown;
  told.frame = (() => { try { return frame.contentDocument ? "ours" : "blocked"; } catch { return "blocked"; } })();
  return told;
}"""


@pytest.mark.spec("N4", "N5")
@pytest.mark.parametrize("host", ["127.0.0.1", EVIL])
def test_another_site_can_neither_post_nor_listen_nor_frame(
    program: Program, web: WebHub, chromium: Any, elsewhere: int, host: str
) -> None:
    asking(program, "touch stolen")
    question = web.question()
    context = chromium.new_context()
    try:
        tab = context.new_page()
        tab.goto(f"http://{host}:{elsewhere}/")
        told = tab.evaluate(ATTACK, [f"127.0.0.1:{web.port}", web.key, question["session"], question["id"]])
    finally:
        context.close()
    assert told == {
        "with the key": "refused",
        "as a form": "refused",
        "read": "refused",
        "socket": "refused",
        "frame": "blocked",
    }
    assert [q["id"] for q in web.get("/api/now").json["questions"]] == [question["id"]]
    assert not (program.project / "stolen").exists()
    log = (program.state / "logs" / "web.log").read_text()
    assert f"/questions/{question['id']} 403" in log and "/api/live 403" in log  # they arrived, and were refused


@pytest.mark.spec("N4")
def test_a_name_that_was_bound_to_this_machine_gets_nothing(web: WebHub, chromium: Any) -> None:
    context = chromium.new_context()
    try:
        tab = context.new_page()
        assert tab.goto(f"http://{EVIL}:{web.port}/").status == 403
        ask = """(key) => fetch("/api/now", { headers: { Authorization: `Bearer ${key}` } }).then((a) => a.status)"""
        assert tab.evaluate(ask, web.key) == 403 and tab.evaluate("localStorage.length") == 0
    finally:
        context.close()


@pytest.mark.spec("N2", "N6", "N30")
def test_a_link_opens_one_browser_and_a_watcher_can_do_nothing(program: Program, web: WebHub, page: OpenPage) -> None:
    asking(program, "touch watched")
    id = web.session()
    token = web.link("--read-only", "--session", id)["token"]
    tab = page(f"/s/{id}/a/{id}", token=token)
    tab.get_by_text("You are watching").first.wait_for()
    tab.get_by_text("touch watched").first.wait_for()
    assert "#" not in tab.url and tab.title() == "(1) Teamwright"
    for path in (f"/s/{id}/a/{id}", f"/s/{id}/team", f"/s/{id}/tasks", "/new", "/links"):
        tab.goto(f"http://127.0.0.1:{web.port}{path}")
        tab.get_by_role("navigation").get_by_role("link", name="Settings").wait_for()
        for name in ("Allow once", "Send", "Interrupt", "Stop main", "Add a task", "Start", "New link"):
            assert tab.get_by_role("button", name=name, exact=True).count() == 0, (path, name)
    tab.keyboard.press("y")
    again = page("/", token=token)
    again.get_by_text("This link was used already").wait_for()
    assert again.evaluate("localStorage.getItem('teamwright.key')") is None
    assert web.get("/api/now").json["questions"] and not (program.project / "watched").exists()
