"""TaskCreate, TaskGet, TaskList, TaskUpdate: what a model sends, what it reads, and what others are told."""

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from file_desk import session_context
from msgspec.structs import replace

from conftest import Walker
from crew import agent, bash, crew, ended_calls
from store_kit import Sql
from teamwright.core.data.event import ToolStarted, Warned
from teamwright.core.data.message import Request, Text
from teamwright.core.data.tasks import MOST_TASKS, Actor, Done, Owner, Task
from teamwright.core.errors import ToolError
from teamwright.core.ids import AgentId, SessionId
from teamwright.core.ports import Outcome
from teamwright.models.scripted import call
from teamwright.runtime.agents.resume import Origin
from teamwright.runtime.teams.tasks.board import TaskBoard
from teamwright.store.files import transcripts
from teamwright.store.mirrors.task import TaskMirror
from teamwright.store.tables.state import StateStore
from teamwright.store.tables.tasks import TaskTable
from teamwright.tools.agents.tasks import LOST, TaskCreate, TaskGet, TaskList, TaskUpdate

pytestmark = pytest.mark.anyio


class Crew:
    """The desk of a lead and two others, which records what it is told."""

    def __init__(self) -> None:
        self.guarded = False
        self.refusal: str | None = None
        self.told: list[str] = []

    def list_of(self, agent: AgentId) -> str:
        return "crew"

    def actor(self, agent: AgentId) -> Actor:
        return Actor(agent, agent.lower(), lead=agent == "LEAD")

    def find(self, agent: AgentId, name: str) -> Owner | None:
        return Owner(name, AgentId(name.upper())) if name in self.names(agent) else None

    def names(self, agent: AgentId) -> Sequence[str]:
        return ["lead", "ada", "bob"]

    async def assigned(self, task: Task, by: Actor) -> None:
        self.told.append(f"{task.owner}: #{task.id} by {by.name}")

    async def changed(self, list: str, done: Done, by: Actor) -> None:
        words = [word for word in ("claimed", "completed", "claimable") if getattr(done, word)]
        self.told.append(f"{list} #{done.id} {' '.join(words)}".strip())

    async def creating(self, task: Task, by: Actor) -> str | None:
        self.told.append(f"creating #{task.id} {task.subject}")
        return self.refusal

    async def completing(self, task: Task, by: Actor) -> str | None:
        self.told.append(f"completing #{task.id}")
        return self.refusal


class House:
    def __init__(self, state: StateStore, root: Path) -> None:
        self.state = state
        self.root, self.desk, self.reports, self.calls = root, Crew(), list[str](), 0
        table = TaskTable(state.database)
        self.board = TaskBoard(table, TaskMirror(root, table), self.desk, self.reports.append)
        kinds = (TaskCreate, TaskGet, TaskList, TaskUpdate)
        self.tools = {kind.spec.name: kind() for kind in kinds}

    async def use(self, name: str, who: str = "LEAD", **args: Any) -> Outcome:
        self.calls += 1
        ctx = session_context(self.root, board=self.board)
        ctx.agent, ctx.call_id = AgentId(who), f"c{self.calls}"
        return await self.tools[f"Task{name}"].call(args, ctx)

    async def make(self, subject: str = "x", **args: Any) -> Outcome:
        return await self.use("Create", subject=subject, **{"description": "d"} | args)

    async def update(self, id: Any, who: str = "LEAD", **args: Any) -> Outcome:
        return await self.use("Update", who, taskId=id, **args)

    async def refused(self, name: str, **args: Any) -> str:
        with pytest.raises(ToolError) as caught:
            await self.use(name, **args)
        return str(caught.value)


def words(outcome: Outcome) -> str:
    return "\n".join(block.text for block in outcome.content if isinstance(block, Text))


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    state = await StateStore.open(tmp_path / "state.db")
    await state.register_session(SessionId("s"), "/", 0)
    await state.register_agent(AgentId("ADA"), SessionId("s"), None, "main", "ada", 0)
    yield House(state, tmp_path)
    await state.close()


# --- words and data


@pytest.mark.spec("K2")
async def test_what_the_model_reads(house: House) -> None:
    assert words(await house.use("List")) == "There are no tasks."
    made = await house.make("  fix\nit ", activeForm="Fixing", metadata={"k": 1})
    assert words(made) == "Task #1 created: fix it" and made.data and made.data["task"]["subject"] == "fix it"
    assert "blocked by #1" in words(await house.make("second", blockedBy=["1"]))
    await house.update("1", "ADA", owner="ada")
    listing = await house.use("List", "BOB")
    assert words(listing) == "#1 [in_progress] fix it (owner ada)\n#2 [pending] second [blocked by #1]"
    assert listing.data and [t["id"] for t in listing.data["tasks"]] == ["1", "2"]
    shown = await house.use("Get", taskId="1")
    assert shown.data and shown.data["task"]["blocks"] == ["2"]
    assert all(part in words(shown) for part in ("#1 [in_progress]", "blocks #2", "Fixing", '{"k":1}', "\nd"))


@pytest.mark.spec("K4")
@pytest.mark.parametrize("ids", [["1", "2"], [1, 2], ["#1", " 2 "], "1, #2", '["1", "2"]', "#1 #2"])
async def test_ids_come_in_many_forms(house: House, ids: Any) -> None:
    for _ in range(3):
        await house.make()
    done = await house.update(3, addBlockedBy=ids)
    assert done.data and done.data["task"]["blockedBy"] == ["1", "2"]
    assert (await house.use("Get", taskId="#3")).data == {"task": done.data["task"]}


@pytest.mark.spec("K3", "K8")
async def test_refusals_are_errors_that_name_their_reason(house: House) -> None:
    for _ in range(3):
        await house.make()
    await house.update(2, addBlockedBy=["1"])
    await house.update(3, status="completed")
    await house.update(1, "ADA", owner="ada", status="in_progress")
    found = [await house.update(id, "BOB", owner="bob", status="in_progress") for id in (1, 2, 3, 99)]
    codes = ["already_claimed", "blocked", "already_resolved", "task_not_found"]
    assert [(o.is_error, o.data and o.data["reason"]) for o in found] == [(True, code) for code in codes]
    assert [code in words(o) for code, o in zip(codes, found, strict=True)] == [True] * 4
    cycle = await house.update(1, addBlockedBy=["2"])
    assert cycle.is_error and "cycle" in words(cycle)
    assert (await house.use("Get", taskId="99")).is_error


@pytest.mark.spec("K8", "K5")
async def test_owners_are_told_and_bells_rung(house: House) -> None:
    await house.make("one")
    await house.make("two", blockedBy=["1"])
    house.desk.told.clear()
    given = await house.update(1, owner="ada")
    assert "Assigned to ada" in words(given) and given.data and given.data["task"]["status"] == "pending"
    assert "once #1 is done" in words(await house.update(2, owner="bob"))  # and told then
    await house.update(1, "ADA", status="in_progress")
    done = await house.update(1, "ADA", status="completed")
    assert "Not blocked any more: #2" in words(done) and done.data and done.data["freed"] == ["2"]
    assert house.desk.told == [
        "ada: #1 by lead", "crew #1", "crew #2", "crew #1 claimed", "bob: #2 by ada", "crew #1 completed",
    ]  # fmt: skip
    await house.update(2, owner="")
    assert house.desk.told[-1] == "crew #2 claimable"


@pytest.mark.spec("T8")
async def test_a_hook_may_refuse_a_task_or_its_end(house: House) -> None:
    house.desk.guarded, house.desk.refusal = True, "too vague"
    assert "too vague" in await house.refused("Create", subject="x", description="d")
    assert words(await house.use("List")) == "There are no tasks."
    house.desk.refusal = None
    await house.make("good")
    house.desk.refusal = "tests are red"
    assert "tests are red" in await house.refused("Update", taskId="2", status="completed")
    shown = await house.use("Get", taskId="2")
    assert shown.data and shown.data["task"]["status"] == "pending"
    assert house.desk.told[:2] == ["creating #1 x", "creating #2 good"] and house.desk.told[-1] == "completing #2"


@pytest.mark.spec("K5", "K6")
async def test_what_the_runtime_does_by_itself_is_followed_like_a_call(house: House) -> None:
    await house.make("one")
    task = await house.board.claim_first("crew", house.desk.actor(AgentId("ADA")))
    file = house.root / "tasks/crew/1.json"
    assert task and json.loads(file.read_text())["owner"] == "ada" and house.desk.told[-1] == "crew #1 claimed"
    freed = await house.board.release_all("crew", AgentId("ADA"), house.desk.actor(AgentId("LEAD")))
    assert [t.id for t in freed] == [1] and json.loads(file.read_text())["status"] == "pending"
    assert house.desk.told[-1] == "crew #1 claimable"
    assert await house.board.take_over("crew", "second") and not file.exists()
    assert (house.root / "tasks/second/1.json").exists()
    await house.board.drop("second")
    assert not (house.root / "tasks/second").exists()


# --- bad input


@pytest.mark.parametrize(
    ("args", "part"),
    [
        ({"subject": " \n "}, "subject is empty"),
        ({"subject": "x" * 201}, "201 characters"),
        ({"activeForm": "x" * 201}, "activeForm"),
        ({"description": "é" * 40_000}, "80,000 bytes"),
        ({"description": "\ud800"}, "surrogate"),
        ({"metadata": {"k": "x" * 20_000}}, "16,384"),
        ({"metadata": {"k": "\ud800"}}, "metadata"),
        ({"metadata": [1]}, "metadata"),
        ({"blocks": ["one"]}, "'one' is no task's id"),
        ({"blocks": ["-1"]}, "no task's id"),
        ({"blocks": ["1" * 30]}, "no task's id"),
        ({"blocks": ["٣"]}, "no task's id"),
        ({"blocks": [{"id": 1}]}, "blocks"),
    ],
)
async def test_what_cannot_be_kept_is_refused_in_words(house: House, args: dict[str, Any], part: str) -> None:
    assert part in await house.refused("Create", **{"subject": "x", "description": "d"} | args)
    assert words(await house.use("List")) == "There are no tasks."


async def test_an_update_must_make_sense(house: House) -> None:
    await house.make()
    assert "Nothing to change" in await house.refused("Update", taskId="1")
    assert "no task's id" in await house.refused("Update", taskId="first", status="completed")
    assert "status" in await house.refused("Update", taskId="1", status="finished")
    unknown = await house.refused("Update", taskId="1", owner="e\x1bve")
    assert "lead, ada, bob" in unknown and "\x1b" not in unknown
    assert "not both" in await house.refused("Update", taskId="1", owner="ada", status="completed")


@pytest.mark.spec("A12")
async def test_hidden_characters_of_a_task_are_seen(house: House) -> None:
    await house.make("a\x1b[2Jb\u202ec", description="\x07")
    for outcome in (await house.use("List"), await house.use("Get", taskId="1")):
        assert "a\\x1b[2Jb\\u202ec" in words(outcome) and "\x07" not in words(outcome)


async def test_a_long_list_is_shown_in_bounds_open_ones_first(house: House) -> None:
    for n in range(1, 504):
        await house.make(f"task {n}", description="d" * 2000 if n == 503 else "d")
        if n <= 5:
            await house.update(n, status="completed")
    listing = await house.use("List")
    assert listing.data and listing.data["total"] == 503 and len(listing.data["tasks"]) == 500
    assert [t["id"] for t in listing.data["tasks"]][:3] == ["1", "2", "6"]
    assert "... and 3 more" in words(listing) and len(words(listing)) <= 30_000 < MOST_TASKS * 10
    assert len(listing.data["tasks"][-1]["description"]) <= 500


async def test_files_that_cannot_follow_are_reported_and_fail_nothing(house: House) -> None:
    (house.root / "tasks").write_text("in the way")
    assert words(await house.make()) == "Task #1 created: x"
    assert len(house.reports) == 1 and "in the way" in house.reports[0]


async def test_a_call_that_is_cancelled_after_it_was_stored_is_still_told(house: House) -> None:
    class Slow(Crew):
        async def changed(self, list: str, done: Done, by: Actor) -> None:
            scope.cancel()
            await super().changed(list, done, by)

    house.board.scope = house.desk = Slow()
    with anyio.CancelScope() as scope:
        await house.make()
        await anyio.lowlevel.checkpoint()
    assert house.desk.told == ["crew #1 claimable"] and (house.root / "tasks/crew/1.json").exists()


# --- in a session


def list_once(request: Request) -> Any:
    """A model that lists the tasks when it is spoken to."""
    return call("TaskList") if request.messages[-1].text == "more" else "end"


@pytest.mark.spec("K2", "K9")
async def test_a_session_has_a_list_that_all_its_agents_share(walker: Walker) -> None:
    def update(id: str, **args: Any) -> Any:
        return call("TaskUpdate", taskId=id, **args)

    scripts = {
        "main": [
            [call("TaskCreate", subject=f"job {n}", description="d") for n in range(1, 6)],
            agent("child", name="ada"),
            call("TaskList"), update("1", owner="ada"), update("2", status="deleted"), "end",
        ],
        "child": [
            call("TaskList"),
            update("3", owner="ada"), update("3", status="completed"), update("4", owner="main"), "ok",
        ],
    }  # fmt: skip
    async with crew(walker, scripts, mode="plan") as session:
        await session.play()
    results = ["\n".join(c.text for c in e.content if isinstance(c, Text)) for e in ended_calls(session)]
    assert [f"Task #{n} created: job {n}" for n in range(1, 6)] == results[:5]  # in the order of the calls
    assert "#3 [completed] job 3 (owner ada)\n#4 [pending] job 4 (owner main)" in results[6]
    assert "Assigned to ada" in results[7]
    files = {p.name: json.loads(p.read_text()) for p in (walker.home / ".teamwright/tasks" / session.id).iterdir()}
    assert sorted(files) == ["1.json", "3.json", "4.json", "5.json"] and files["3.json"]["owner"] == "ada"
    assert not any(e.is_error for e in ended_calls(session))


@pytest.mark.spec("K1", "T6")
@pytest.mark.parametrize("stored", [True, False])
async def test_after_a_crash_the_outcome_is_looked_up(walker: Walker, stored: bool) -> None:
    """Killed between the store and the result, or before the store."""
    creates = [call("TaskCreate", subject=f"job {n}", description="d") for n in (1, 2)]
    first = await walker.walk([creates, "end"])
    (file,) = (walker.home / ".teamwright/projects").glob("*/*.jsonl")
    at = [n for n, line in transcripts.read(file) if isinstance(line.event, ToolStarted)][-1]
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:at]))
    if not stored:
        state = await StateStore.open(walker.home / ".teamwright/state.db")
        for table, column in (("tasks", "id"), ("task_calls", "task")):
            await state.database.write(Sql(f"DELETE FROM {table} WHERE {column} = 2"))
        await state.close()
    again = await walker.walk(list_once, ["more"], origin=Origin(resume=first.session.id))
    answered = again.model.requests[0].messages[2].blocks[-1]
    assert words(Outcome(answered.content)) == (
        "Task #2 had been created before the program ended." if stored else LOST.format("The program ended")
    )
    assert answered.is_error != stored
    assert again.results[-1][0].count("\n") == (1 if stored else 0)
    names = sorted(p.name for p in (walker.home / ".teamwright/tasks" / first.session.id).iterdir())
    assert names == (["1.json", "2.json"] if stored else ["1.json"])


@pytest.mark.spec("K7")
async def test_a_file_that_was_edited_is_reported_at_the_next_start(walker: Walker) -> None:
    first = await walker.walk([call("TaskCreate", subject="good", description="d"), "end"])
    file = walker.home / ".teamwright/tasks" / first.session.id / "1.json"
    file.write_text(file.read_text().replace("pending", "completed"))
    (file.parent / "77.json").write_text("{ not json")
    again = await walker.walk(list_once, ["more"], origin=Origin(resume=first.session.id))
    assert again.results[-1] == ("#1 [pending] good", False) and '"pending"' in file.read_text()
    assert sum("1.json" in note or "77.json" in note for note in again.session.notes) == 2
    assert not again.of(Warned) and (file.parent / "77.json").exists()


async def test_the_tools_are_there_for_everybody(walker: Walker) -> None:
    wanted = {"TaskCreate", "TaskGet", "TaskList", "TaskUpdate"}
    for more in ({}, {"coordinator": True}):
        async with crew(walker, {"main": [agent("child"), "end"], "child": [bash("true"), "ok"]}, **more) as session:
            await session.play()
        for script in ("main", "child"):
            assert wanted <= {tool.name for tool in session.requests(script)[0].tools}
    specs = {tool.name: tool for tool in session.requests("main")[0].tools}
    assert [specs[name].parallel for name in sorted(wanted)] == [False, True, True, False]
    assert specs["TaskUpdate"].schema["required"] == ["taskId"]
    assert specs["TaskCreate"].schema["properties"]["blocks"]["items"] == {"type": "string"}
    assert replace(specs["TaskGet"], description="") != specs["TaskGet"]
