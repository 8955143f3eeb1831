"""How the app shows transcripts of which it folds only the end."""

from pathlib import Path
from typing import cast

import anyio
import pytest

from teamwright.core.data.event import AgentStarted, Durable, LettersTaken, Record, Rendered, TurnEnded
from teamwright.core.data.message import user
from teamwright.core.ids import AgentId, SessionId
from teamwright.runtime.past.replay import Past, read_all
from teamwright.runtime.port import END, Live, SessionPort
from teamwright.store.files.paths import Home
from teamwright.store.files.transcripts import Transcript
from teamwright.surfaces.terminal.follow import NEWEST, EventFollower
from teamwright.surfaces.view.view import SessionFold

pytestmark = pytest.mark.anyio
SESSION = SessionId("11111111-2222-4333-8444-555555555555")
MAIN, ADA, BOB = AgentId(SESSION), AgentId("ada"), AgentId("bob")


class Shelf:
    """A session that has ended: only its files are left."""

    def __init__(self, root: Path) -> None:
        self.home = Home(root)
        self.files = self.home.files(Path("/shop"), SESSION)

    def write(self, agent: AgentId, began: int, events: list[Durable]) -> None:
        path = self.files.transcript if agent == MAIN else self.files.agent(agent)
        transcript = Transcript.create(path)
        parent = None if agent == MAIN else MAIN
        for event in (AgentStarted(SESSION, "/shop", "1", parent=parent), Rendered("p", "m", "start"), *events):
            transcript.append(event, began)
        transcript.close()

    async def begin(self, newest: int = END) -> tuple[Past, Live]:
        past, _ = read_all(self.home, SESSION, {MAIN: END}, newest)
        send, receive = anyio.create_memory_object_stream[Record]()
        send.close()
        return past, receive


def turns(many: int) -> list[Durable]:
    return [event for n in range(many) for event in (LettersTaken((), user(f"prompt {n}")), TurnEnded("done"))]


@pytest.mark.spec("AP10")
async def test_agents_stand_in_the_order_in_which_they_started(tmp_path: Path) -> None:
    shelf, view = Shelf(tmp_path), SessionFold(MAIN)
    shelf.write(MAIN, 1, turns(1))
    shelf.write(ADA, 2, turns(1))
    shelf.write(BOB, 3, turns(NEWEST))  # whose beginning is passed over

    def heard(*, ended: bool, asked: bool) -> None:
        pass

    await EventFollower(cast("SessionPort", shelf), view, heard, lambda: None).follow()
    assert list(view.agents) == [MAIN, ADA, BOB] and view.talk(BOB).dropped
