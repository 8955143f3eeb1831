"""The hub beside real sessions: watching, answering, steering, and what survives what."""

import json
import os
import re
import signal
import stat
from typing import Any

import anyio
import pytest

from conftest import Walker
from landing_kit import branch
from program import LIMIT, Live, Program, bash, tool
from teamwright.app import open_session
from teamwright.core.permissions.consent import Deny
from teamwright.store.files.paths import home_from
from teamwright.surfaces.headless.door import keep_door
from teamwright.surfaces.port.doors import address_file
from teamwright.surfaces.web.live.socket import MOST_WAITING, Tab, tell_now
from teamwright.surfaces.web.server.keys import Link
from teamwright.surfaces.web.sessions.hub import Hub
from web_kit import OpenHub, WebHub, WebSocket
from worktree_kit import new_repo

pytest_plugins = ("web_fixtures",)


def listening(program: Program, script: Any, *args: str, text: str = "go") -> Live:
    return program.start("-p", text, "--listen", "--output-format", "stream-json", "--verbose", *args, script=script)


@pytest.mark.spec("N1", "N3", "N5", "N9")
def test_one_link_an_empty_shell_and_a_log_without_secrets(program: Program, hub: OpenHub) -> None:
    web = hub()
    assert re.fullmatch(rf"http://127\.0\.0\.1:{web.port}/#t=[\w-]{{43}}", web.info["url"])
    again = json.loads(program.run("web", "--no-open", "--json").out)
    assert again["port"] == web.port and again["token"] != web.info["token"]
    shell = web.get("/", key="")
    assert shell.status == 200 and shell.body == web.get("/s/anything/tasks", key="").body
    for path in ("/api/now", "/api/sessions/x", "/api/nothing"):
        found = web.get(path, key="")
        assert found.status == 401 and found.headers["cache-control"] == "no-store"
    for found in (shell, web.get("/api/now"), web.get("/api/nothing")):
        assert found.headers["x-frame-options"] == "DENY" and "set-cookie" not in found.headers
        assert "trusted-types 'none'" in found.headers["content-security-policy"]
    assert web.login(web.info["token"]).status == 401
    log = program.state / "logs" / "web.log"
    words = log.read_text()
    assert "POST /api/login 200" in words and "POST /api/login 401" in words and "GET /api/now 401" in words
    assert web.key not in words and web.info["token"] not in words and stat.S_IMODE(log.stat().st_mode) == 0o600


@pytest.mark.spec("N7")
@pytest.mark.parametrize("more", [(), ("--remote",), ("--remote", "--cert", "x")])
def test_other_machines_only_by_an_explicit_word(program: Program, more: tuple[str, ...]) -> None:
    done = program.run("web", "--host", "0.0.0.0", "--no-open", *more)
    assert done.rc == 2 and "--" in done.err and not done.out


@pytest.mark.spec("N2", "N6")
def test_a_read_only_link_shows_one_session_and_a_revoked_one_nothing(program: Program, hub: OpenHub) -> None:
    first = program.prompt(["one"]).result["session_id"]
    second = program.prompt(["two"]).result["session_id"]
    web = hub()
    for hours in ("-1", "nan", "1e9"):
        refused = web.program.run("web", "link", f"--hours={hours}")
        assert refused.rc == 2 and "--hours" in refused.err
    made = web.link("--read-only", "--session", first)
    read = web.login(made["token"]).json
    assert read["role"] == "read" and read["session"] == first
    assert [s["id"] for s in web.get("/api/sessions", key=read["key"]).json["sessions"]] == [first]
    assert web.get(f"/api/sessions/{second}", key=read["key"]).status == 404
    assert web.get("/api/links", key=read["key"]).status == 403
    assert web.post(f"/api/sessions/{first}/say", {"text": "x"}, key=read["key"]).status == 403
    live = WebSocket(web, key=read["key"])
    live.until(lambda m: m["type"] == "now")
    listed = json.loads(program.run("web", "links", "--json").out)
    assert {link["role"] for link in listed} == {"full", "read"} and program.run("web", "revoke", made["id"]).rc == 0
    assert web.get("/api/now", key=read["key"]).status == 401
    while live.next() is not None:
        pass
    assert live.closed == 4401
    live.close()


@pytest.mark.spec("N8")
def test_wrong_requests_get_a_sentence(program: Program, hub: OpenHub) -> None:
    id = program.prompt(["one"]).result["session_id"]
    web = hub()
    items = f"/api/sessions/{id}/agents/{id}/items"
    for path, status in (
        ("/api/sessions/%00", 404),
        ("/api/sessions/..%2f..%2fetc", 404),
        (f"/api/sessions/{id}/agents/..%2fstate/items", 404),
        (f"{items}?limit=-1", 400),
        (f"{items}?before=zzz", 400),
        (f"{items}?before=99.9", 404),
        (f"{items}/99.9", 404),
        (f"{items}/x", 400),
        (f"/api/sessions/{id}/at?ms=never", 400),
        ("/static/../../etc/passwd", 404),
        ("/etc/passwd", 404),
    ):
        found = web.get(path)
        assert found.status == status and found.json["error"], (path, found.status, found.body)
    for body in (b"{", b"[]", b"\xff", b'{"text": 7}', b'{"text": " "}'):
        assert web.post(f"/api/sessions/{id}/say", body).status == 400
    assert web.post(f"/api/sessions/{id}/say", b"x" * 2_000_000).status == 413
    assert web.ask("DELETE", "/api/now").status == 405


@pytest.mark.spec("N10", "N11", "N12", "N16", "N22")
def test_a_question_is_answered_from_the_page_and_stays_on_record(program: Program, hub: OpenHub) -> None:
    web = hub()
    command = "touch made; " + "true; " * 80 + "echo the-end"
    run = listening(program, [[{"thinking": "hm"}, "I will.", bash(command)], "all done"])
    question = web.question()
    now = web.get("/api/now").json["sessions"][0]
    assert (now["state"], now["steerable"], now["agents"][0]["state"]) == ("waiting", True, "waiting")
    assert question["kind"] == "permission" and command in question["rows"][0]["text"] and question["asked"] > 0
    assert web.answer(question, decision="perhaps").status == 400
    assert web.answer(question, decision="allow").status == 200
    late = web.answer(question, decision="deny")
    assert late.status == 409 and "in the web" in late.json["error"]
    run.seen(type="result")
    assert run.end().rc == 0 and (program.project / "made").exists()
    id = question["session"]
    ended = web.until(f"/api/sessions/{id}", lambda s: s["state"] == "ended")
    assert not ended["steerable"] and ended["questions"] == []
    items = web.get(f"/api/sessions/{id}/agents/{id}/items").json["items"]
    assert [i["type"] for i in items] == ["person", "thought", "agent", "step", "agent"]
    paged, before = list[str](), ""
    while True:
        page = web.get(f"/api/sessions/{id}/agents/{id}/items?limit=2{before}").json
        paged = [i["id"] for i in page["items"]] + paged
        if not page["more"]:
            break
        before = f"&before={page['items'][0]['id']}"
    assert paged == [i["id"] for i in items]
    whole = web.get(f"/api/sessions/{id}/agents/{id}/items/{items[3]['id']}").json
    assert "the-end" in whole["result"] and whole["rows"][0]["text"] == command
    consent = whole["consent"]
    assert (consent["by"], consent["via"], consent["verdict"]) == ("person", "web", "allow")


@pytest.mark.spec("N12")
def test_always_answers_what_it_covers_and_a_no_says_why(program: Program, hub: OpenHub) -> None:
    web = hub()
    run = listening(program, [bash("touch one"), bash("touch one"), bash("mkdir two"), "end"])
    question = web.question()
    assert any("touch" in rule for rule in question["rules"])
    assert web.answer(question, decision="allow", always="all").status == 200
    second = web.until("/api/now", lambda now: any("mkdir" in q["title"] for q in now["questions"]))["questions"][0]
    assert web.answer(second, decision="deny", reason="use the other one").status == 200
    done = run.end()
    assert "use the other one" in done.tool_results[-1][0] and not (program.project / "two").exists()


@pytest.mark.spec("N13", "N14", "N17")
def test_a_waiting_session_is_spoken_to_and_steered(program: Program, hub: OpenHub) -> None:
    web = hub()
    run = listening(program, [bash("touch made"), "noted", "again"])
    question = web.question()
    path = f"/api/sessions/{question['session']}"
    letter = web.post(f"{path}/say", {"text": "and be brief"}).json["letter"]
    gone = web.post(f"{path}/say", {"text": "never mind"}).json["letter"]
    assert [q["text"] for q in web.get(path).json["queue"]] == ["and be brief", "never mind"] and letter
    assert web.post(f"{path}/withdraw", {"letter": gone}).status == 200
    assert web.post(f"{path}/withdraw", {"letter": gone}).status == 409
    assert web.post(f"{path}/mode", {"mode": "acceptEdits"}).status == 200
    assert web.until(path, lambda s: s["mode"] == "acceptEdits")
    assert web.post(f"{path}/mode", {"mode": "bypassPermissions"}).status == 409
    assert web.post(f"{path}/mode", {"mode": "wild"}).status == 400
    assert web.post(f"{path}/model", {"model": "nobody/knows-this"}).status == 409
    assert web.post(f"{path}/background").status == 409 and web.post(f"{path}/stop").status == 400
    assert web.post(f"{path}/tasks", {"subject": "Look at the tests", "description": "all"}).status == 200
    assert web.post(f"{path}/tasks", {"subject": "Then fix", "blockedBy": ["1"]}).status == 200
    assert web.post(f"{path}/tasks/2", {"blockedBy": ["2"]}).status == 409
    assert web.post(f"{path}/tasks/1", {"status": "completed"}).status == 200
    assert web.post(f"{path}/tasks/9", {"status": "completed"}).status == 409
    board = web.get(f"{path}/tasks").json
    assert [(t["subject"], t["status"]) for t in board["tasks"]] == [
        ("Look at the tests", "completed"),
        ("Then fix", "pending"),
    ]
    assert web.post(f"{path}/interrupt").status == 200
    run.seen(type="result")
    web.until("/api/now", lambda now: not now["questions"])
    run.end()
    assert not (program.project / "made").exists()


@pytest.mark.spec("N15", "N23", "N29")
def test_the_socket_tells_what_changes_and_text_is_text(program: Program, hub: OpenHub) -> None:
    web = hub()
    run = listening(program, [bash("touch made"), "the \u202eend\x1b[31m of <b>it</b>"])
    question = web.question()
    id = question["session"]
    live = WebSocket(web, origin=f"http://127.0.0.1:{web.port}")
    (now,) = [m for m in live.until(lambda m: m["type"] == "now") if m["type"] == "now"]
    assert [q["id"] for q in now["questions"]] == [question["id"]]
    live.send({"type": "look", "session": id, "agent": id})
    talk = live.until(lambda m: m["type"] == "talk")[-1]
    assert [i["type"] for i in talk["items"]] == ["person", "step"] and talk["items"][1]["asked"]
    web.answer(question, decision="allow")
    said: list[str] = []

    def all_is_said(message: dict[str, Any]) -> bool:  # what is still written may come first
        said[:] = [i["text"] for i in message.get("items", ()) if i["type"] == "agent" and not i.get("streaming")]
        return message["type"] == "put" and bool(said)

    heard, (text,) = live.until(all_is_said), said
    assert text == "the \\u202eend\\x1b[31m of <b>it</b>"
    (gone,) = [m["answered"] for m in heard if question["id"] in m.get("gone", ())]
    assert gone == {question["id"]: {"verdict": "allow", "by": "person", "via": "web"}}
    run.end()
    live.close()
    foreign, wrong = WebSocket(web, origin="http://evil.example"), WebSocket(web, key="wrong" * 9)
    assert foreign.status == 403 and wrong.next() is None and wrong.closed == 4401
    foreign.close()
    wrong.close()


@pytest.mark.spec("N24")
def test_what_a_stopped_browser_does_not_read_is_dropped_and_told_afresh() -> None:
    tab = Tab(Link("l", "full", 0))
    place = ("session", "agent")
    for n in range(100):
        tab.put({"type": "put", "items": ["x" * 50_000], "n": n}, place)
    kept = list(iter(tab.take, None))
    assert sum(map(len, kept)) <= MOST_WAITING and json.loads(kept[-1])["type"] == "lag"
    assert tab.lagging == {place} and len([d for d in kept if b'"lag"' in d]) == 1


@pytest.mark.spec("N24", "N23")
def test_a_socket_that_is_not_read_delays_no_agent_and_hears_the_end(program: Program, hub: OpenHub) -> None:
    web = hub()
    live = WebSocket(web)
    live.until(lambda m: m["type"] == "now")
    pause = bash("touch go")
    run = listening(program, [pause, *[["x" * 15_000, bash("true")]] * 30, "the end"])
    question = web.question()
    live.send({"type": "look", "session": question["session"], "agent": question["session"]})
    live.until(lambda m: m["type"] == "talk")
    assert web.answer(question, decision="allow").status == 200
    assert run.end().rc == 0  # nothing was read meanwhile

    def tells_the_end(message: dict[str, Any]) -> bool:
        return message["type"] in ("talk", "put") and any(item["text"] == "the end" for item in message["items"])

    live.until(tells_the_end)
    live.close()


@pytest.mark.spec("N24")
def test_an_overview_waits_for_a_browser_that_does_not_read() -> None:
    tab = Tab(Link("l", "full", 0))

    def now(n: int) -> dict[str, Any]:
        return {
            "at": n,
            "sessions": [{"id": f"s{k}", "n": n, "text": "x" * 10_000} for k in range(10)],
            "questions": [],
        }

    for n in range(200):
        tell_now(tab, now(n), lambda _: None)
        tab.put({"type": "board", "session": "s"})
    kept = list(iter(tab.take, None))
    assert sum(map(len, kept)) < MOST_WAITING and sum(b'"board"' in data for data in kept) == 1
    tell_now(tab, now(200), lambda _: None)
    assert {s["n"] for s in json.loads(tab.take() or b"")["sessions"]} == {200}


@pytest.mark.spec("N19", "N20", "N21")
def test_cost_and_the_past_come_from_the_log(program: Program, hub: OpenHub) -> None:
    script = [
        tool("TaskCreate", subject="first", description="d"),
        tool("TaskCreate", subject="second", description="d"),
    ]
    id = program.prompt([*script, "done"]).result["session_id"]
    web = hub()
    told = json.loads(program.run("cost", id, "--json").out)
    cost = web.get(f"/api/sessions/{id}/cost").json
    assert {name: cost[name] for name in told} == told
    assert sum(p["output_tokens"] for p in cost["series"]) == cost["output_tokens"]
    moments = web.get(f"/api/sessions/{id}/moments").json
    kinds = [m["kind"] for m in moments["moments"]]
    assert kinds.count("task") == 2 and kinds[0] == "prompt" and "turn_end" in kinds
    begin, end = (web.get(f"/api/sessions/{id}/at?ms={moments[n]}").json for n in ("from", "to"))
    assert begin["tasks"] == [] and [t["subject"] for t in end["tasks"]] == ["first", "second"]
    early = web.get(f"/api/sessions/{id}/agents/{id}/items?until={moments['from']}").json["items"]
    assert "done" not in [i["text"] for i in early]
    assert web.get(f"/api/sessions/{id}/changes").json["worktrees"] == []
    assert web.get(f"/api/sessions/{id}/changes/none/diff?path=/etc/passwd").status in (404, 409)


@pytest.mark.spec("LQ15")
def test_the_landing_queue_is_told_with_the_changes(program: Program, hub: OpenHub) -> None:
    program.project.rmdir()
    repo = new_repo(program.project)
    branch(repo, "feature", {"a.txt": "a"})
    id = program.prompt(["done"]).result["session_id"]
    assert program.run("land", "feature", "--check", "exit 1").rc == 1
    web = hub()
    (entry,) = web.get(f"/api/sessions/{id}/changes").json["landing"]
    assert (entry["branch"], entry["target"], entry["state"]) == ("feature", "main", "sent_back")
    assert entry["reason"] == "the check failed (exit code 1)"
    key = web.login(web.link("--session", id)["token"]).json["key"]
    assert web.get(f"/api/sessions/{id}/changes", key=key).json["landing"] == []  # a person queued it


@pytest.mark.spec("N25", "N26")
def test_a_killed_hub_ends_no_session_and_its_keys_work_again(program: Program, hub: OpenHub) -> None:
    web = hub()
    script = program.root / "new.json"
    script.write_text(json.dumps([bash("touch made-by-page"), "done"]))
    made = web.post("/api/sessions", {"prompt": "go", "model": f"script/{script}", "mode": "default"})
    assert made.status == 200, made.body
    id = made.json["id"]
    question = web.question()
    web.close(kill=True)
    again = WebHub(program, port=web.port)
    again.key = web.key
    try:
        assert again.question()["id"] == question["id"]
        assert again.answer(question, decision="allow").status == 200
        again.until(f"/api/sessions/{id}", lambda s: s["state"] == "ended")
        assert (program.project / "made-by-page").exists()
    finally:
        again.close()


@pytest.mark.spec("N25")
def test_a_killed_session_is_gone_and_resumed_by_a_word(program: Program, hub: OpenHub) -> None:
    web = hub()
    run = listening(program, [bash("touch made"), "back again"])
    id = web.question()["session"]
    os.killpg(run.process.pid, signal.SIGKILL)
    web.until(f"/api/sessions/{id}", lambda s: s["state"] == "gone" and not s["steerable"])
    assert web.post(f"/api/sessions/{id}/interrupt").status == 409
    assert web.post(f"/api/sessions/{id}/say", {"text": "go on"}).status == 200
    web.until(f"/api/sessions/{id}/agents/{id}/items", lambda page: any(i["text"] == "go on" for i in page["items"]))


@pytest.mark.anyio
@pytest.mark.spec("N31")
async def test_without_a_page_the_doors_are_left(walker: Walker) -> None:
    async def no(_: object) -> Deny:
        return Deny("no")

    session = await open_session(walker.options(["hi"], answer=no))
    home = home_from(walker.env)
    hub = Hub(home, walker.env, linger=0.2)
    with anyio.fail_after(LIMIT):
        async with session, anyio.create_task_group() as group:
            group.start_soon(keep_door, session, home, walker.env)
            while not address_file(home, session.id).exists():
                await anyio.sleep(0.005)
            group.start_soon(hub.run)
            await session.ask("hello")
            while not hub.guests:
                await hub.now()
            assert [s["id"] for s in (await hub.now())["sessions"]] == [session.id]
            while hub.guests:
                await anyio.sleep(0.02)
            group.cancel_scope.cancel()


@pytest.mark.spec("N12")
def test_an_agents_own_question_reaches_whoever_comes_to_the_door(program: Program, hub: OpenHub) -> None:
    web = hub()
    options = [{"label": "red", "description": "warm"}, {"label": "blue", "description": "cold"}]
    asked = {"question": "Which colour?", "header": "Colour", "options": options, "multiSelect": False}
    run = listening(program, [tool("AskUserQuestion", questions=[asked]), "done"])
    question = web.question()
    assert question["kind"] == "ask" and question["parts"][0]["options"][1]["label"] == "blue"
    assert web.answer(question, decision="allow", answers={"Which colour?": "blue"}).status == 200
    done = run.end()
    assert "Which colour? blue" in done.tool_results[0][0]
