"""If a teammate's agent type is missing when its session resumes, it waits, with its mail and its tasks."""

from pathlib import Path
from typing import Any

import pytest
from team_steps import answers, create, mate, parts, say, scene, state_of, task, tasks, texts, update

from conftest import Walker
from crew import crew
from teamwright.models.scripted import call
from teamwright.runtime.agents.resume import Origin

pytestmark = [pytest.mark.anyio, pytest.mark.spec("T6", "K6", "X2")]


def define(walker: Walker) -> Path:
    file = walker.project / ".claude/agents/painter.md"
    file.parent.mkdir(parents=True)
    file.write_text("---\nname: painter\ndescription: Paints\n---\nYou paint.\n")
    return file


SCRIPTS: dict[str, Any] = {
    "main": [[create(), task("the fence")], mate("ada", subagent_type="painter"), "on"],
    "ada": [update("1", owner="ada"), "begun"],
    "write": [say("ada", "SCRIPT:rest and use the blue one"), "on"],
    "rest": [call("TaskUpdate", taskId="1", status="completed"), "painted"],
}


@pytest.mark.parametrize("gone", [True, False], ids=["without its definition", "without trust"])
async def test_it_waits_until_its_kind_is_back(walker: Walker, gone: bool) -> None:
    file = define(walker)
    async with crew(walker, scene(SCRIPTS), trust=True) as play:
        await play.play()
        assert tasks(walker)["1"]["owner"] == "ada"
    was = file.read_text()
    if gone:
        file.unlink()
    back = Origin(resume=play.session.id)
    async with crew(walker, scene(SCRIPTS), origin=back, trust=gone) as again:
        await again.play("SCRIPT:write")
        assert state_of(again, "ada") == "idle" and not parts(again, "ada") and not parts(again, "rest")
        ((stored, is_error),) = [a for a in answers(again.model.requests[-1], "SendMessage") if "tored" in a[0]]
        assert "cannot read it yet" in stored and "painter" in stored and not is_error
    told = "\n".join(texts(request) for request in again.model.requests)
    assert "ada cannot continue here" in told and ("put it back" if gone else "not trusted") in told
    assert texts(again.model.requests[-1]).count("ada cannot continue here") == 1
    assert tasks(walker)["1"]["owner"] == "ada" and tasks(walker)["1"]["status"] == "in_progress"
    file.write_text(was)
    async with crew(walker, scene(SCRIPTS), origin=back, trust=True) as third:
        await third.play("SCRIPT:nothing")
        assert "use the blue one" in texts(parts(third, "rest")[0]) and state_of(third, "ada") == "idle"
    assert tasks(walker)["1"]["status"] == "completed"
