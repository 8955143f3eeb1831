"""A session in which nothing was said leaves nothing behind; anything that was said or made keeps it."""

import json
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from conftest import Walker
from hook_kit import hook, use_hooks
from program import Program
from teamwright.app import open_session
from teamwright.core.data.letter import PERSON, Letter, Prompt
from teamwright.core.data.message import Text
from teamwright.core.data.op import Say, SetMode
from teamwright.core.ids import new_letter_id
from teamwright.runtime.agents.resume import Origin
from teamwright.runtime.session import Session
from teamwright.store.files.paths import find_transcript, home_from

pytestmark = pytest.mark.anyio
ID = "0b5a0f5e-7f0e-4c6b-9d6c-0a4d5a1c2e3f"


def left(walker: Walker, id: str) -> list[str]:
    """Everything that names the session on disk and in the store, except its lock."""
    home = home_from(walker.env)
    files = [path for path in home.projects.rglob("*") if id in path.name]
    with sqlite3.connect(home.state) as db:
        rows = [f"{table} {row}" for table in ("sessions", "agents") for row in db.execute(f"SELECT id FROM {table}")]
    return [str(path) for path in files] + [row for row in rows if id in row]


async def opened_and_left(walker: Walker, doing: Callable[[Session], Awaitable[object]] | None = None) -> str:
    async with await open_session(walker.options(["hello"])) as session:
        if doing is not None:
            await doing(session)
    return session.id


@pytest.mark.spec("SE8")
async def test_a_session_that_is_opened_and_left_leaves_nothing(walker: Walker) -> None:
    assert left(walker, await opened_and_left(walker)) == []
    assert left(walker, await opened_and_left(walker, lambda session: session.submit(SetMode("plan")))) == []


@pytest.mark.spec("SE8")
@pytest.mark.parametrize("what", ["a prompt", "a shell line", "a question beside", "a team", "an unread prompt"])
async def test_what_was_said_or_made_keeps_it(walker: Walker, what: str) -> None:
    async def unread(session: Session) -> None:
        session.main.close()  # it reads nothing more
        await session.main.inbox.post(Letter(new_letter_id(), session.main.id, PERSON, Prompt((Text("later"),))))

    doings: dict[str, Callable[[Session], Awaitable[object]]] = {
        "a prompt": lambda session: session.ask("hi"),
        "a shell line": lambda session: session.say(Say((Text("!ls"),), quiet=True)),
        "a question beside": lambda session: session.aside("why?"),
        "a team": lambda session: session.team("crew"),
        "an unread prompt": unread,
    }
    id = await opened_and_left(walker, doings[what])
    assert left(walker, id)
    async with await open_session(walker.options(["again"], origin=Origin(id))) as session:
        assert session.id == id
    assert left(walker, id)  # even if nothing was said now


@pytest.mark.spec("SE8")
async def test_an_id_that_was_given_can_be_given_again(walker: Walker) -> None:
    for _ in range(2):
        async with await open_session(walker.options(["hello"], origin=Origin(id=ID))) as session:
            assert session.id == ID
    assert left(walker, ID) == []


@pytest.mark.spec("SE8")
async def test_hooks_of_its_start_and_end_have_their_transcript(walker: Walker) -> None:
    seen = walker.project / "seen"
    command = f'grep -o \'[^"]*jsonl\' | while read -r file; do test -s "$file" && echo yes >> {seen}; done'
    use_hooks(walker, SessionStart=[hook(command)], SessionEnd=[hook(command)])
    id = await opened_and_left(walker)
    assert seen.read_text() == "yes\n" and left(walker, id) == []  # the start is told with the first prompt
    assert left(walker, await opened_and_left(walker, lambda session: session.ask("hi")))
    assert seen.read_text() == "yes\n" * 3


@pytest.mark.spec("SE8", "CL4")
async def test_what_a_kill_leaves_is_not_listed(walker: Walker, tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    program = Program(tmp_path / "second")
    async with await open_session(walker.options(["hello"])) as session:
        file = find_transcript(home_from(walker.env), session.id)
        assert file is not None
        place = program.state / "projects" / file.parent.name
        place.mkdir(parents=True)
        (place / file.name).write_bytes(file.read_bytes())  # as if it had been killed now
    assert program.run("sessions", "--all").out.startswith("no sessions")
    assert json.loads(program.run("sessions", "--all", "--json").out) == []
