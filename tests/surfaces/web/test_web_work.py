"""A team's work over plain HTTP: its mail, its branches, and a refused merge; and a port that is in use."""

import json
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from program import Program, bash, tool
from teamwright.core.data.landing import LandDraft
from teamwright.core.ids import SessionId
from teamwright.runtime.landing.plan import repo_key
from teamwright.store.tables.landing import LandTable
from teamwright.store.tables.state import StateStore
from web_kit import WebHub
from worktree_kit import git, new_repo, save


@pytest.fixture
def hub(program: Program) -> Iterator[WebHub]:
    found = WebHub(program).enter()
    yield found
    found.close()


@pytest.mark.spec("N1")
def test_a_port_that_is_taken_gives_the_next_one_and_that_is_said(program: Program) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        web = WebHub(program, port=port)
        try:
            assert web.port != port and web.enter().get("/api/now").status == 200
            assert (
                f"port {port} is taken by another program: {web.port} is used" in (program.root / "web.err").read_text()
            )
        finally:
            web.close()


def mate(name: str) -> dict[str, Any]:
    return tool("Agent", name=name, team_name="crew", description=name, prompt=f"SCRIPT:{name} begin")


@pytest.mark.spec("N17", "N21")
def test_mail_is_shown_once_with_the_times_of_sending_and_reading(program: Program, hub: WebHub) -> None:
    note = tool("SendMessage", to="bob", summary="a sign", message="The door is <b>open</b>.\u202e")
    script = {
        "main": [[tool("TeamCreate", team_name="crew")], [mate("bob")], [mate("ada")], "all set", *["noted"] * 9],
        "bob": ["ready", *["heard"] * 9],
        "ada": [note, "told", *["more"] * 9],
    }
    id = program.prompt(script).result["session_id"]
    entries = hub.get(f"/api/sessions/{id}/mail").json["entries"]
    (found,) = [e for e in entries if e["summary"] == "a sign"]
    assert (found["from"], found["to"], found["state"]) == ("ada", "bob", "delivered")
    assert found["text"] == "The door is <b>open</b>.\\u202e" and 0 < found["sent_at"] <= found["delivered_at"]
    assert len({e["n"] for e in entries}) == len(entries)
    page = hub.get(f"/api/sessions/{id}/mail?limit=1").json
    assert page["more"] and page["entries"][0]["n"] == entries[-1]["n"]
    assert hub.get(f"/api/sessions/{id}/mail?limit=1&before={entries[-1]['n']}").json["entries"] == [entries[-2]]
    assert {m["name"] for m in hub.get(f"/api/sessions/{id}/team").json["members"]} >= {"ada", "bob"}
    refused = hub.post(f"/api/sessions/{id}/shutdown", {"agent": "bob"})
    assert refused.status == 409 and "ended" in refused.json["error"]


@pytest.mark.spec("N19")
def test_changes_are_those_of_the_command_and_an_unsafe_merge_changes_nothing(program: Program, hub: WebHub) -> None:
    git(program.project, "init", "-q", "-b", "main")
    for name, value in (("user.name", "A Person"), ("user.email", "person@localhost")):
        git(program.project, "config", name, value)
    file = program.project / "old.txt"
    file.write_text("one\ntwo\nthree\n")
    save(program.project)
    agent = tool("Agent", description="mend it", prompt="SCRIPT:mend", isolation="worktree")
    script = {"main": [agent, "done"], "mend": [bash("sed -i s/two/2/ old.txt && git commit -qam digit"), "done"]}
    id = program.prompt(script, "--dangerously-skip-permissions").result["session_id"]
    file.write_text("one\nzwei\nthree\n")
    save(program.project)
    path = f"/api/sessions/{id}/changes"
    listed = hub.get(path).json["worktrees"]
    (told,) = json.loads(program.run("worktrees", "--json").out)
    assert {name: listed[0][name] for name in told} == told and listed[0]["owner"]
    one = f"{path}/{told['name']}"
    preview = hub.get(f"{one}/preview").json
    tried = program.run("worktrees", "merge", told["name"], "--preview", "--json")
    assert preview == json.loads(tried.out) and preview["conflicts"] == ["old.txt"]
    rows = hub.get(f"{one}/diff?path=old.txt").json["rows"]
    assert [(r["kind"], r["text"], r["number"]) for r in rows[1:3]] == [("del", "two", 2), ("add", "2", 2)]
    refused = hub.post(f"{one}/merge")
    assert refused.status == 409 and "old.txt" in refused.json["error"]
    assert file.read_text() == "one\nzwei\nthree\n" and git(program.project, "status", "--porcelain") == ""
    assert hub.post(f"{path}/nothing/merge").status in (404, 409)


@pytest.mark.spec("N6", "N19")
def test_a_link_for_one_session_has_no_changes_of_others(program: Program, hub: WebHub) -> None:
    git(program.project, "init", "-q", "-b", "main")
    for name, value in (("user.name", "A Person"), ("user.email", "person@localhost")):
        git(program.project, "config", name, value)
    (program.project / "old.txt").write_text("one\n")
    save(program.project)
    work = [tool("EnterWorktree", name="mine"), bash("echo new > new.txt"), "done"]
    mine = program.prompt(work, "--dangerously-skip-permissions").result["session_id"]
    work = [tool("EnterWorktree", name="theirs"), bash("echo hush > new.txt"), "done"]
    program.prompt(work, "--dangerously-skip-permissions")
    path = f"/api/sessions/{mine}/changes"
    assert {tree["name"] for tree in hub.get(path).json["worktrees"]} == {"mine", "theirs"}
    key = hub.login(hub.link("--session", mine)["token"]).json["key"]
    assert [tree["name"] for tree in hub.get(path, key=key).json["worktrees"]] == ["mine"]
    assert hub.get(f"{path}/mine/diff?path=new.txt", key=key).json["rows"]
    for page in ("", "/diff?path=new.txt", "/preview"):
        assert hub.get(f"{path}/theirs{page}", key=key).status == 404, page
    for act in ("merge", "remove"):
        assert hub.post(f"{path}/theirs/{act}", key=key).status == 404, act
    assert hub.post(f"{path}/mine/remove", key=key).status == 200


@pytest.mark.spec("N8", "N19")
def test_a_new_file_is_shown_and_a_link_is_not_followed(program: Program, hub: WebHub) -> None:
    git(program.project, "init", "-q", "-b", "main")
    for name, value in (("user.name", "A Person"), ("user.email", "person@localhost")):
        git(program.project, "config", name, value)
    (program.project / "old.txt").write_text("one\n")
    save(program.project)
    (program.root / "secret").write_text("hush\n")
    agent = tool("Agent", description="add some", prompt="SCRIPT:add", isolation="worktree")
    command = f"echo added > new.txt && ln -s {program.root}/secret link && ln -s {program.root} folder"
    script = {"main": [agent, "done"], "add": [bash(command), "done"]}
    id = program.prompt(script, "--dangerously-skip-permissions").result["session_id"]
    path = f"/api/sessions/{id}/changes"
    one = f"{path}/{hub.get(path).json['worktrees'][0]['name']}/diff?path="
    assert [row["text"] for row in hub.get(f"{one}new.txt").json["rows"]] == ["added"]
    assert [row["text"] for row in hub.get(f"{one}link").json["rows"]] == [f"{program.root}/secret"]
    assert b"hush" not in hub.get(f"{one}folder/secret").body


async def give_up(home: Path, repo: Path, session: str, names: Iterable[str]) -> None:
    """Queue branches for a session, and take them back."""
    state = await StateStore.open(home / "state.db")
    try:
        table = LandTable(state.database)
        for name in names:
            draft = LandDraft(repo_key(repo / ".git"), "main", name, "a" * 40, "", session=SessionId(session))
            await table.change((await table.queue(draft)).id, "waiting", "given_up")
    finally:
        await state.close()


@pytest.mark.spec("LQ15", "N6")
def test_a_link_for_one_session_shows_its_landings_behind_many_of_others(program: Program, hub: WebHub) -> None:
    program.project.rmdir()
    repo = new_repo(program.project)
    id = program.prompt(["done"]).result["session_id"]
    other = "11111111-1111-4111-8111-111111111111"
    anyio.run(give_up, program.state, repo, id, ["mine"])
    anyio.run(give_up, program.state, repo, other, [f"other{n}" for n in range(55)])
    key = hub.login(hub.link("--session", id)["token"]).json["key"]
    shown = hub.get(f"/api/sessions/{id}/changes", key=key).json["landing"]
    assert [entry["branch"] for entry in shown] == ["mine"]
    assert len(hub.get(f"/api/sessions/{id}/changes").json["landing"]) == 50


@pytest.mark.spec("N26")
def test_what_a_session_of_the_page_says_is_bounded_and_goes_with_it(program: Program, hub: WebHub) -> None:
    id = program.prompt(["one", "two"]).result["session_id"]
    log = program.state / "logs" / f"web-{id[:8]}.log"
    log.write_bytes(b"old words\n" * 200_000)
    assert hub.post(f"/api/sessions/{id}/say", {"text": "again"}).status == 200
    hub.until(f"/api/sessions/{id}", lambda s: s["state"] == "ended")
    assert b"old words" not in log.read_bytes()
    done = program.run("sessions", "delete", id)
    assert done.rc == 0 and not log.exists(), done.err
