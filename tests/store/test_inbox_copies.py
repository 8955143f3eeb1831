"""The copy of an inbox: written whole, though only new messages are fetched for it."""

import json
import re
from pathlib import Path

import pytest
from team_house import open_house

from teamwright.store.mirrors.team import TeamMirror

pytestmark = [pytest.mark.anyio, pytest.mark.spec("X1", "X4")]


async def test_a_copy_fetches_what_is_new_and_shows_what_was_read(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        await house.create()
        ada = await house.join("ada")
        lead = await house.teams.find("crew", "team-lead")
        assert lead is not None
        notes = [house.note(lead, ada, f"note {n}") for n in range(60)]
        for note in notes:
            await house.mail.post_mail(note)
        mirror = TeamMirror(tmp_path, house.teams, house.mail)
        file = mirror.path("crew") / "inboxes/ada.json"
        await mirror.write_inbox("crew", "ada")
        assert not any(message["read"] for message in json.loads(file.read_text()))
        await house.state.delivered([note.letter.id for note in notes[:59]])
        await mirror.write_inbox("crew", "ada")
        asked: list[str] = []
        await house.state.database.read(lambda db: db.set_trace_callback(asked.append))
        await house.mail.post_mail(house.note(lead, ada, "the last"))
        await mirror.write_inbox("crew", "ada")
        await house.state.database.read(lambda db: db.set_trace_callback(None))
        fetched = [found[1] for sql in asked if (found := re.search(r"mail\.n IN \(([^)]*)\)", sql))]
        assert [len(numbers.split(",")) for numbers in fetched] == [1]
        shown = json.loads(file.read_text())
        assert [m["text"] for m in shown] == [*(f"note {n}" for n in range(60)), "the last"]
        assert [m["read"] for m in shown] == [True] * 59 + [False] * 2
