"""What a resume reads of jobs, agents and their processes costs the same in a home with many of them."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from teamwright.core.data.job import JobResult
from teamwright.core.ids import AgentId, CallId, JobId, SessionId
from teamwright.store.db.database import open_database
from teamwright.store.db.schema import STEPS
from teamwright.store.db.schema_later import JOB_OWNERS
from teamwright.store.tables.jobs import NONE, JobRow, JobTable, NewAgent
from teamwright.store.tables.processes import ProcessTable
from teamwright.store.tables.state import StateStore

pytestmark = [pytest.mark.anyio, pytest.mark.one_machine]
SESSIONS = [SessionId(f"{n}1111111-1111-4111-8111-111111111111") for n in range(3)]


@pytest.fixture
async def state(tmp_path: Path) -> AsyncIterator[StateStore]:
    """Sessions that each have an agent ada, which has begun another one, and a command."""
    state = await StateStore.open(tmp_path / "state.db")
    for n, session in enumerate(SESSIONS):
        await state.register_session(session, "/", 1)
        await state.register_agent(AgentId(session), session, None, "main", "main", 0)
        await begin(state, session, f"ada-{n}", owner=session, agent="ada")
        await begin(state, session, f"help-{n}", owner=f"ada-{n}", agent="help")
        await begin(state, session, f"told-{n}", owner=f"help-{n}")
        await begin(state, session, f"lasts-{n}", owner=f"help-{n}")
        await JobTable(state.database).finish(JobId(f"told-{n}"), 1, "completed", JobResult(), owed=False)
    yield state
    await state.close()


async def begin(state: StateStore, session: SessionId, id: str, *, owner: str, agent: str = "") -> None:
    kind = "agent" if agent else "shell"
    row = JobRow(
        JobId(id), 1, AgentId(owner), kind, CallId("c"), id, "running", True, NONE, None, JobResult(), 5, None
    )  # fmt: skip
    made = NewAgent(AgentId(id), session, AgentId(owner), agent, agent, 1) if agent else None
    await JobTable(state.database).begin(replace(row, call=CallId(f"call-{id}")), session, agent=made)


async def plans_of(state: StateStore, sqls: list[str]) -> list[str]:
    return await state.database.read(
        lambda db: [row[3] for sql in sqls for row in db.execute(f"EXPLAIN QUERY PLAN {sql}")]
    )


@pytest.mark.spec("A2", "B4")
async def test_what_became_of_a_call_and_of_jobs_is_found_without_a_look_at_all_others(state: StateStore) -> None:
    table, sqls = JobTable(state.database), list[str]()
    await state.database.read(lambda db: db.set_trace_callback(sqls.append))
    found = await table.begun_by(AgentId("help-1"), CallId("call-lasts-1"))
    untold = await table.untold_below(AgentId("ada-1"))
    await state.database.read(lambda db: db.set_trace_callback(None))
    assert found is not None and found.id == "lasts-1" and (found.session, found.home) == (SESSIONS[1],) * 2
    assert [row.id for row in untold] == ["help-1", "lasts-1"]
    asked = [sql for sql in sqls if "FROM jobs" in sql]
    plans = await plans_of(state, asked)
    assert len(asked) == 2
    assert not [line for line in plans if "SCAN jobs" in line or "SCAN agents" in line or "AUTOMATIC" in line], plans


@pytest.mark.spec("T6")
async def test_whom_living_processes_run_is_found_by_the_processes(state: StateStore, tmp_path: Path) -> None:
    """Leases of earlier agents stay."""
    table, sqls = ProcessTable(state.database, tmp_path / "run"), list[str]()
    own = await table.register(SESSIONS[0])
    await table.claim_agent(AgentId("ada-0"), own.id)
    await state.database.read(lambda db: db.set_trace_callback(sqls.append))
    assert await table.held() == ["ada-0"]
    await state.database.read(lambda db: db.set_trace_callback(None))
    plans = await plans_of(state, [sql for sql in sqls if "leases" in sql])
    assert plans and not [line for line in plans if "SCAN leases" in line], plans


@pytest.mark.spec("Z1")
async def test_a_home_from_before_gets_the_indexes(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    await (await open_database(path, STEPS[: STEPS.index(JOB_OWNERS)])).close()
    await (await open_database(path)).close()
    with closing(sqlite3.connect(path)) as db:
        names = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}
    assert {"jobs_by_owner", "agents_by_parent"} <= names
