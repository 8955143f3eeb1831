"""The texts are enough: with a model that follows only them, work is done, plans are approved, members shut down."""

from typing import Any

import pytest
from sandbox_kit import need, use
from team_steps import create, mate, shutdown, state_of, task, tasks, texts, until

from conftest import Walker
from crew import crew
from literal_reader import Reader
from teamwright.models.scripted import ScriptedModel, call
from worktree_kit import git, new_repo

pytestmark = pytest.mark.anyio


def reader(*opening: Any) -> ScriptedModel:
    return ScriptedModel(Reader([*opening, "The team is at work."]))


def order(command: str) -> str:
    return f"Please run: `{command}`"


@pytest.mark.spec("K2", "K5", "K8", "K10")
async def test_tasks_of_a_team_are_done_by_whom_they_are_for(walker: Walker) -> None:
    made = [
        task("one", order("echo one >> log"), owner="ada"),
        task("two", order("echo two >> log"), owner="ben"),
        task("three", order("echo three >> log"), blockedBy=["1", "2"], owner="ada"),
        task("four", order("echo four >> log")),
    ]
    model = reader(create(), made, [mate("ada", prompt="Work."), mate("ben", prompt="Work.")])
    async with crew(walker, model) as play:
        await play.play("Let two work through the list.")
    assert {(t["status"], t["owner"]) for n, t in tasks(walker).items() if n != "4"} == {
        ("completed", "ada"),
        ("completed", "ben"),
    }
    lines = (walker.project / "log").read_text().split()
    assert sorted(lines) == ["four", "one", "three", "two"] and lines.index("three") > lines.index("two")


@pytest.mark.spec("H2", "K2")
async def test_a_plan_is_handed_in_approved_and_carried_out(walker: Walker) -> None:
    made = task("paint", order("echo blue > wall"), owner="cleo")
    async with crew(walker, reader(create(), made, mate("cleo", prompt="Do your task.", mode="plan"))) as play:
        await play.play("Have cleo paint the wall, after you have seen her plan.")
    assert (walker.project / "wall").read_text() == "blue\n" and tasks(walker)["1"]["status"] == "completed"


@pytest.mark.spec("H2")
async def test_a_plan_that_was_only_written_is_asked_for_once(walker: Walker) -> None:
    """It went idle with the plan as its words: it is told how to submit it, and then does."""
    obey = Reader([create(), mate("cleo", prompt=order("echo blue > wall"), mode="plan"), "The team is at work."])
    said: list[str] = []

    def play_it(request: Any) -> Any:
        told = [t for m in request.messages for t in [m.text] if "no plan of yours waits for an answer" in t]
        if any("a teammate in the team" in part for part in request.system) and not told:
            said.append("words")
            return "My plan: I paint it blue."
        return obey(request)

    async with crew(walker, ScriptedModel(play_it)) as play:
        await play.play("Have cleo paint the wall.")
    assert said == ["words"] and (walker.project / "wall").read_text() == "blue\n"


@pytest.mark.spec("H1")
async def test_one_that_is_asked_to_shut_down_does(walker: Walker) -> None:
    ada = mate("ada", prompt=order("echo here >> log"))
    async with crew(walker, reader(create(), ada, "She works.", shutdown("ada", reason="we are done"))) as play:
        await play.play("Let ada say that she is here.")
        await play.play("Send her home.")
        await until(lambda: state_of(play, "ada") == "shutdown")
    assert (walker.project / "log").read_text() == "here\n"


@pytest.mark.spec("W9", "W3")
async def test_work_in_a_worktree_is_merged_by_the_lead(walker: Walker) -> None:
    walker.project.rmdir()
    new_repo(walker.project)
    save = "echo new > new.txt && git add new.txt && git commit -qm new"
    model = reader(
        create(),
        [task("write", order(save), owner="ada"), mate("ada", prompt="Do your task.", isolation="worktree")],
        "She works.",
        shutdown("ada"),
    )
    async with crew(walker, model) as play:
        await play.play("Have ada write new.txt.")
        await play.play("Send her home and bring her work in.")
        await until(lambda: state_of(play, "ada") == "shutdown")
        await play.play("Anything left?")
    assert (walker.project / "new.txt").read_text() == "new\n" and "new" in git(
        walker.project, "log", "-1", "--oneline"
    )


@pytest.mark.spec("Q4")
async def test_a_background_job_is_heard_of_and_nothing_is_waited_for(walker: Walker) -> None:
    start = call("Bash", command="echo finished", run_in_background=True)
    async with crew(walker, reader(start)) as play:
        await play.play("Start it, and tell me when it is over.")
    assert len(play.model.requests) == 3 and "finished" in texts(play.model.requests[-1])


@pytest.mark.spec("H2", "M2")
async def test_in_the_app_the_person_approves_and_the_plan_is_carried_out(walker: Walker) -> None:
    from teamwright import Allow

    asked: list[Any] = []

    async def yes(question: Any) -> Any:
        asked.append(question.args)
        return Allow()

    async with crew(walker, ScriptedModel(Reader([])), mode="plan", answer=yes) as play:
        await play.play(order("echo blue > wall"))
    assert asked[0] == {"plan": "1. Do what I was asked for."} and (walker.project / "wall").read_text() == "blue\n"


@pytest.mark.spec("M2", "H2")
async def test_without_a_person_the_plan_is_the_answer(walker: Walker) -> None:
    async with crew(walker, ScriptedModel(Reader([])), mode="plan") as play:
        await play.play("Paint the wall.")
    first = play.model.requests[0].messages[0].text
    assert "answer with the plan" in first and "ExitPlanMode" not in first and len(play.model.requests) == 1


@pytest.mark.spec("M10", "V1", "A15")
@pytest.mark.parametrize(("sandbox", "ran"), [(True, True), (False, False)])
async def test_in_the_sandbox_it_proves_its_work(walker: Walker, sandbox: bool, ran: bool) -> None:
    """Nobody is there to be asked, and yet all commands run: the prompt has to say so."""
    use(walker, need("bwrap"))
    async with crew(walker, ScriptedModel(Reader([])), mode="default", sandbox=sandbox) as play:
        await play.play("Prove it: run: `echo passed | tee proof`")
    assert (walker.project / "proof").exists() == ran and len(play.model.requests) == 1 + ran
