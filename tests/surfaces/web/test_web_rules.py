"""The hub's rules as tables: who may talk to it, which links work, what a page gets of a conversation."""

from pathlib import Path

import anyio
import pytest

from teamwright.core.data.event import Record, Streamed, TurnEnded
from teamwright.core.data.extensions.server import ELICITATION
from teamwright.core.data.message import TextDelta
from teamwright.core.data.tasks import Task, TaskId
from teamwright.core.ids import AgentId, CallId, QuestionId
from teamwright.core.permissions.consent import Question
from teamwright.surfaces.port.joined import joined
from teamwright.surfaces.view.shapes import Note, Spoken, Step
from teamwright.surfaces.web.live.feed import Feed
from teamwright.surfaces.web.reading.changes import rows_in
from teamwright.surfaces.web.server.guard import Doorman, Rate
from teamwright.surfaces.web.server.keys import KEY_LIFE, TOKEN_LIFE, Links
from teamwright.surfaces.web.sessions import shown
from teamwright.surfaces.web.sessions.fold import numbered
from teamwright.surfaces.web.sessions.graph import MOST, draw

PORT = 7433


@pytest.mark.spec("N4", "N7")
@pytest.mark.parametrize(
    ("headers", "heard"),
    [
        ({"Host": f"127.0.0.1:{PORT}"}, True),
        ({"Host": f"LOCALHOST:{PORT}"}, True),
        ({"Host": f"[::1]:{PORT}"}, True),
        ({"Host": "tunnel.example"}, True),
        ({"Host": ""}, False),
        ({}, False),
        ({"Host": "127.0.0.1"}, False),
        ({"Host": f"127.0.0.1:{PORT + 1}"}, False),
        ({"Host": f"evil.example:{PORT}"}, False),
        ({"Host": f"127.0.0.1.evil.example:{PORT}"}, False),
        ({"Host": f"0.0.0.0:{PORT}"}, False),
        ({"Host": f"127.0.0.1:{PORT}", "Origin": f"http://127.0.0.1:{PORT}"}, True),
        ({"Host": f"127.0.0.1:{PORT}", "Origin": "null"}, False),
        ({"Host": f"127.0.0.1:{PORT}", "Origin": "http://evil.example"}, False),
        ({"Host": f"127.0.0.1:{PORT}", "Origin": f"file://127.0.0.1:{PORT}"}, False),
        ({"Host": f"127.0.0.1:{PORT}", "Sec-Fetch-Site": "cross-site"}, False),
        ({"Host": f"127.0.0.1:{PORT}", "Sec-Fetch-Site": "same-origin"}, True),
    ],
)
def test_only_our_own_page_is_heard(headers: dict[str, str], heard: bool) -> None:
    assert (Doorman(PORT, names=["tunnel.example"]).refuses(headers) == "") == heard


@pytest.mark.spec("N8")
def test_a_peer_has_so_many_requests_a_minute() -> None:
    clock = [0.0]
    rate = Rate(60, lambda: clock[0])
    assert [rate.takes("a") for _ in range(61)] == [True] * 60 + [False]
    assert rate.takes("b")
    clock[0] = 1.0
    assert [rate.takes("a"), rate.takes("a")] == [True, False]


@pytest.mark.spec("N2")
def test_a_token_opens_once_and_in_time_and_a_key_ends_without_use(tmp_path: Path) -> None:
    clock = [1_000_000]
    links = Links(tmp_path / "web" / "links.json", lambda: clock[0])
    link, token = links.create()
    stored = (tmp_path / "web" / "links.json").read_text()
    assert token not in stored and (tmp_path / "web" / "links.json").stat().st_mode & 0o777 == 0o600
    opened = links.open(token)
    assert opened is not None and opened[0].id == link.id and links.open(token) is None
    key = opened[1]
    elsewhere = Links(tmp_path / "web" / "links.json", lambda: clock[0])
    assert elsewhere.find(key) is not None and elsewhere.find(key + "x") is None and elsewhere.open("") is None
    clock[0] += KEY_LIFE - 1
    assert links.find(key) is not None  # and that use counts
    clock[0] += KEY_LIFE
    assert links.find(key) is not None
    clock[0] += KEY_LIFE + 1
    assert links.find(key) is None
    _, late = links.create()
    clock[0] += TOKEN_LIFE + 1
    assert links.open(late) is None


@pytest.mark.spec("N2", "N6")
def test_a_revoked_link_is_void_at_once_and_a_read_only_one_ends(tmp_path: Path) -> None:
    clock = [1_000_000]
    links = Links(tmp_path / "links.json", lambda: clock[0])
    link, token = links.create(role="read", session="s", hours=1)
    opened = links.open(token)
    assert opened is not None and opened[0].role == "read" and opened[0].session == "s"
    clock[0] += 3_600_001
    assert links.find(opened[1]) is None
    other, token = links.create()
    opened = links.open(token)
    assert opened is not None
    assert Links(tmp_path / "links.json", lambda: clock[0]).revoke(other.id)
    assert links.find(opened[1]) is None and not links.holds(other.id) and not links.revoke(link.id)


def graph_of(waits: dict[int, tuple[int, ...]], chosen: int | None = None):
    tasks = [Task(TaskId(id), f"task {id}") for id in waits]
    named = {TaskId(id): tuple(map(TaskId, before)) for id, before in waits.items()}
    return draw(tasks, named, None if chosen is None else TaskId(chosen))


@pytest.mark.spec("N18")
@pytest.mark.parametrize(
    "waits",
    [
        {},
        {1: ()},
        {1: (), 2: (1,), 3: (1,), 4: (2, 3)},
        {1: (2,), 2: ()},
        {n: tuple(range(1, n)) for n in range(1, 12)},
    ],
)
def test_a_task_stands_right_of_all_it_waits_for(waits: dict[int, tuple[int, ...]]) -> None:
    graph = graph_of(waits)
    x = {node.id: node.x for node in graph.nodes}
    assert len({(node.x, node.y) for node in graph.nodes}) == len(waits)
    assert {(e.from_, e.to) for e in graph.edges} == {(str(b), str(id)) for id, all_b in waits.items() for b in all_b}
    assert all(x[edge.from_] < x[edge.to] for edge in graph.edges)
    assert graph == graph_of(dict(reversed(waits.items())))


@pytest.mark.spec("N18")
def test_of_very_many_tasks_only_the_paths_of_the_chosen_one_are_drawn() -> None:
    waits: dict[int, tuple[int, ...]] = dict.fromkeys(range(1, MOST + 3), ()) | {5: (4,), 6: (5,)}
    assert graph_of(waits).nodes == ()
    assert {node.id for node in graph_of(waits, 5).nodes} == {"4", "5", "6"}


@pytest.mark.spec("N15", "N16")
def test_what_is_written_is_appended_and_then_replaced(tmp_path: Path) -> None:
    feed = Feed(None, "s", AgentId("a"), tmp_path)  # type: ignore[arg-type]
    said = Spoken("person", "hello", n=2)
    assert [m["type"] for m in feed.compare(list(numbered([said])))] == ["put"]
    stream = Spoken("agent", "one", streaming=True)
    (put,) = feed.compare(list(numbered([said, stream])))
    assert put["items"][0]["id"] == "0.0" and put["items"][0]["after"] == "2.0"
    stream.text += " two\u202e"
    (append,) = feed.compare(list(numbered([said, stream])))
    assert append["type"] == "append" and append["item"] == "0.0" and append["text"] == " two\\u202e"
    whole = Spoken("agent", "one two", n=3)
    step = Step(CallId("c"), "Bash", "ls", {}, n=3)
    dropped, put = feed.compare(list(numbered([said, whole, step])))
    assert dropped["items"] == ["0.0"] and [i["id"] for i in put["items"]] == ["3.0", "3.1"]
    step.status = "ok"
    (put,) = feed.compare(list(numbered([said, whole, step])))
    assert [(i["id"], i["status"]) for i in put["items"]] == [("3.1", "ok")]
    assert feed.compare(list(numbered([said, whole, step]))) == []
    (dropped,) = feed.compare(list(numbered([said])))  # the person went back
    assert dropped["items"] == ["3.0", "3.1"]


@pytest.mark.spec("N16")
def test_ids_are_the_line_and_the_place_in_it() -> None:
    items = [Spoken("person", "a", n=2), Note("info", "live"), Spoken("agent", "b", n=3), Spoken("agent", "c", n=3)]
    assert [id for id, _ in numbered(items)] == ["2.0", "0.0", "3.0", "3.1"]


@pytest.mark.spec("N19")
def test_a_diff_becomes_rows() -> None:
    told = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -2,2 +2,3 @@ head\n same\n-old\x1b\n+new\n+more\n\\ No newline\n"
    rows = rows_in(told)
    assert [(r["kind"], r["text"], r.get("number")) for r in rows] == [
        ("dim", "⋯", None),
        ("plain", "same", 2),
        ("del", "old\\x1b", 3),
        ("add", "new", 3),
        ("add", "more", 4),
    ]


def asked(tool: str, args: dict[str, object]) -> Question:
    return Question(QuestionId("q"), AgentId("a"), "ada", CallId("c"), tool, args, "why not")


@pytest.mark.anyio
@pytest.mark.spec("N12")
async def test_an_agents_questions_and_a_servers_form_have_fields() -> None:
    options = [{"label": "red", "description": "a rose"}, {"label": "blue", "description": "the sea"}]
    parts = [{"question": "Which?", "header": "colour", "options": options}]
    told = await shown.asked(asked("AskUserQuestion", {"questions": parts}), "s", 7)
    assert told["kind"] == "ask" and [o["label"] for o in told["parts"][0]["options"]] == ["red", "blue"]
    schema = {"properties": {"n": {"type": "integer"}, "c": {"enum": ["x", "y"]}, "odd": 3}, "required": ["n"]}
    told = await shown.asked(asked(ELICITATION, {"schema": schema, "message": "tell"}), "s", 7)
    kinds = [(part["name"], part["kind"], part["required"]) for part in told["parts"]]
    assert told["kind"] == "form" and kinds == [("n", "integer", True), ("c", "choice", False), ("odd", "text", False)]


@pytest.mark.anyio
@pytest.mark.spec("N24")
async def test_text_in_quick_succession_comes_as_one_piece() -> None:
    def piece(text: str, agent: str = "a") -> Record:
        return Record(AgentId(agent), 0, 1, Streamed(TextDelta(0, text)))

    ended = Record(AgentId("a"), 3, 2, TurnEnded("done"))
    put, live = anyio.create_memory_object_stream[Record](10)
    for record in (piece("one "), piece("x", "b"), piece("two"), ended, piece("late")):
        put.send_nowait(record)
    put.close()
    with anyio.fail_after(5):
        found = [record async for record in joined(live, 10_000)]
    assert found == [piece("one two"), piece("x", "b"), ended, piece("late")]
    live.close()


@pytest.mark.anyio
@pytest.mark.spec("N15")
async def test_a_piece_that_nothing_follows_comes_when_its_time_is_up() -> None:
    put, live = anyio.create_memory_object_stream[Record](10)
    put.send_nowait(Record(AgentId("a"), 0, 1, Streamed(TextDelta(0, "one"))))
    with anyio.fail_after(5):
        async for record in joined(live, 20):
            assert isinstance(record.event, Streamed)
            break
    put.close()
    live.close()
