"""An imported session continues where it stopped, and sends no request before a person does."""

import pytest

from claude_kit import ID, Sheet, use
from conftest import Walker
from teamwright.app.brought.importing import import_session
from teamwright.core.data.message import ToolResult
from teamwright.library.claude.sessions import find_sessions
from teamwright.models.scripted import ScriptedModel
from teamwright.runtime.agents.resume import Origin
from teamwright.store.files.paths import Home

pytestmark = pytest.mark.anyio


@pytest.mark.spec("BR8")
@pytest.mark.parametrize("ends", ["answered", "asked", "called"])
async def test_the_model_reads_what_was_said_before(walker: Walker, ends: str) -> None:
    sheet = Sheet(walker.project)
    sheet.say("Count.")
    sheet.reply("One.", use("t1", command="two"))
    sheet.result("t1", "two it is")
    if ends != "called":
        sheet.reply("Three.")
    if ends == "asked":
        sheet.say("And then?")
    sheet.write(walker.home)
    (found,) = find_sessions(walker.home / ".claude/projects", walker.project)
    assert import_session(found, Home(walker.home / ".teamwright")).status == "imported"
    model = ScriptedModel(lambda _: "Four.")
    walk = await walker.walk(model, ["Go on."], origin=Origin(resume=ID))
    (request,) = model.requests  # no request was sent by itself
    assert walk.ends[0].text == "Four."
    first, reply, result, *rest = request.messages
    assert first.text == "Count." and reply.calls[0].name == "Bash" and isinstance(result.blocks[0], ToolResult)
    assert request.messages[-1].text == "Go on." and [m.role for m in rest][-1] == "user"
