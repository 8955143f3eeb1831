"""A team led by Python code: the same paths and checks as for a leading model."""

import subprocess
from pathlib import Path
from typing import Any

import anyio
import pytest

from conftest import Walker
from crew import stage
from teamwright.app import open_session
from teamwright.core.data.event import LettersTaken
from teamwright.core.data.message import Request
from teamwright.core.errors import UsageError
from teamwright.models.scripted import call
from teamwright.runtime.agents.resume import Origin
from teamwright.runtime.session import Session
from teamwright.runtime.teams.team import LedTeam

pytestmark = pytest.mark.anyio
LIMIT = 20.0


def leave(approve: bool, reason: str = "") -> Any:
    """Agree to the shutdown request in the conversation."""
    more = {"reason": reason} if reason else {}
    message = {"type": "shutdown_response", "request_id": r"{{re:(shutdown-[0-9a-f]+)}}", "approve": approve}
    return call("SendMessage", to="team-lead", message=message | more)


async def opened(walker: Walker, scripts: Any, **more: Any) -> Session:
    return await open_session(walker.options(stage({"main": []} | scripts), mode="bypassPermissions", **more))


def state(session: Session, team: str = "crew") -> dict[str, str]:
    return {m.name: m.state for m in session.teamwork.roster.everybody(team)}


@pytest.mark.spec("T9")
async def test_a_team_is_made_works_and_is_waited_for(walker: Walker) -> None:
    done = call("TaskUpdate", taskId="1", status="completed")
    ada = [call("Write", file_path=str(walker.project / "a.txt"), content="a"), "Written.", done, "Task done."]
    with anyio.fail_after(LIMIT):
        async with await opened(walker, {"ada": ada, "ben": ["Nothing to do."]}) as session:
            team = await session.team("crew", "to write")
            first = await team.spawn("ada", "SCRIPT:ada", description="writes")
            second = await team.spawn("ada", "SCRIPT:ben")
            assert (first.name, second.name, first.description) == ("ada", "ada-2", "writes")
            assert [m.name for m in team.members] == ["team-lead", "ada", "ada-2"]
            await team.idle()
            assert state(session) == {"team-lead": "running", "ada": "idle", "ada-2": "idle"}
            assert (walker.project / "a.txt").read_text() == "a"
            task = await team.add_task("Say that it is done", "Really.", owner="ada")
            assert (task.id, task.owner, task.status) == (1, "ada", "pending")
            await team.idle()
            assert [(t.status, t.owner) for t in await team.tasks()] == [("completed", "ada")]


async def test_a_task_waits_for_others_and_an_idle_teammate_takes_it(walker: Walker) -> None:
    done = [call("TaskUpdate", taskId=str(n), status="completed") for n in (1, 2)]
    work = ["Ready.", done[0], "One.", done[1], "Two."]
    with anyio.fail_after(LIMIT):
        async with await opened(walker, {"ada": work}) as session:
            team = await session.team("crew")
            await team.spawn("ada", "SCRIPT:ada")
            await team.idle()
            one = await team.add_task("First")
            two = await team.add_task("Second", blocked_by=[one.id, one.id])
            assert two.blocked_by == (1,)
            await team.idle()
            assert {t.status for t in await team.tasks()} == {"completed"}


async def test_messages_are_stored_and_wake_their_reader(walker: Walker) -> None:
    seen: list[str] = []

    def hear(request: Request) -> str:
        seen.append(request.messages[-1].text)
        return "Heard."

    with anyio.fail_after(LIMIT):
        async with await opened(walker, {"ada": ["Hello.", hear, hear], "ben": ["Hello.", hear]}) as session:
            team = await session.team("crew")
            await team.spawn("ada", "SCRIPT:ada")
            await team.spawn("ben", "SCRIPT:ben")
            await team.idle()
            assert await team.send("ada", "Look at <this>.", "a hint") == ("ada",)
            await team.idle()
            assert await team.send("*", "Good work, all of you, and thank you very much for it, really.") == (
                "ada",
                "ben",
            )
            await team.idle()
    assert 'teammate_id="team-lead"' in seen[0] and 'summary="a hint"' in seen[0] and "<this>" in seen[0]
    assert len(seen) == 3 and 'summary="Good work, all of you, and thank you very much for it, ..."' in seen[1]


@pytest.mark.spec("H1")
async def test_a_shutdown_is_asked_for_refused_approved_and_forced(walker: Walker) -> None:
    ada = ["Hello.", leave(False, "I am not done."), "Going on.", leave(True)]
    with anyio.fail_after(LIMIT):
        async with await opened(walker, {"ada": ada, "ben": ["Hello.", {"text": "...", "delay": 60}]}) as session:
            team = await session.team("crew")
            for name in ("ada", "ben"):
                await team.spawn(name, f"SCRIPT:{name}")
            await team.idle()
            first = await team.shutdown("ada", "for today")
            assert not first and first.reason == "I am not done."
            await team.idle()  # she reads the next request in a turn of its own
            assert await team.shutdown("ada")
            assert not (silent := await team.shutdown("ben", within=0.2)) and "0.2 s" in silent.reason
            assert await team.shutdown("ben", force=True)
            assert state(session) == {"team-lead": "running", "ada": "shutdown", "ben": "shutdown"}
            await team.delete()
            assert session.teamwork.roster.names == frozenset()


async def test_a_teammate_in_a_worktree_and_in_plan_mode(walker: Walker) -> None:
    for args in (
        ["init", "-q"],
        ["-c", "user.name=T", "-c", "user.email=t@x", "commit", "-q", "--allow-empty", "-m", "0"],
    ):
        subprocess.run(["git", *args], cwd=walker.project, check=True, timeout=30)
    write = [call("Write", file_path="a.txt", content="a"), "Tried."]
    with anyio.fail_after(LIMIT):
        async with await opened(walker, {"ada": write, "ben": write}) as session:
            team = await session.team("crew")
            ada = await team.spawn("ada", "SCRIPT:ada", isolation="worktree")
            ben = await team.spawn("ben", "SCRIPT:ben", mode="plan")
            await team.idle()
    assert (Path(ada.worktree) / "a.txt").is_file() and ben.plan_mode_required
    assert not (walker.project / "a.txt").exists()


async def test_what_cannot_be_done_is_said_in_words(walker: Walker) -> None:
    with anyio.fail_after(LIMIT):
        async with await opened(walker, {"ada": [{"text": "...", "delay": 60}]}) as session:
            with pytest.raises(UsageError, match="empty"):
                await session.team("  ")
            team = await session.team("crew")
            for wrong, words in [
                (team.spawn("", "x"), "needs a name"),
                (team.spawn("ada", ""), "prompt is empty"),
                (team.spawn("ada", "x", kind="nobody"), "no agent 'nobody'"),
                (team.spawn("ada", "x", isolation="worktree"), "git"),
                (team.send("ada", "x"), "no 'ada' in the team crew"),
                (team.send("team-lead", "x"), "oneself"),
                (team.send("ada", " "), "empty"),
                (team.shutdown("ada"), "no teammate 'ada'"),
                (team.shutdown("team-lead"), "no teammate 'team-lead'"),
                (team.add_task(" "), "1 to 200"),
                (team.add_task("x" * 201), "1 to 200"),
                (team.add_task("x", blocked_by=[7]), "#7"),
                (team.add_task("x", owner="ada"), "no teammate 'ada'"),
            ]:
                with pytest.raises(UsageError, match=words):
                    await wrong
            assert await team.tasks() == []
            await team.spawn("ada", "SCRIPT:ada")
            with pytest.raises(UsageError, match="still work"):
                await team.delete()
            async with await opened(walker, {}) as other:
                assert (await other.team("crew")).name == "crew-2"


@pytest.mark.spec("T11")
async def test_teams_may_be_made_at_the_same_time(walker: Walker) -> None:
    with anyio.fail_after(LIMIT):
        async with await opened(walker, {"ada": ["Hello."]}) as session:
            made: list[LedTeam] = []

            async def make(name: str) -> None:
                made.append(await session.team(name))

            async with anyio.create_task_group() as group:
                for name in ("one", "two", "three", "one"):
                    group.start_soon(make, name)
            assert sorted(team.name for team in made) == ["one", "one", "three", "two"]
            await made[0].spawn("ada", "SCRIPT:ada")
            await made[0].idle()


@pytest.mark.spec("T11")
async def test_of_several_teams_each_call_means_its_own(walker: Walker) -> None:
    with anyio.fail_after(LIMIT):
        async with await opened(walker, {"ada": ["Hello."], "ben": ["Hello."]}) as session:
            one, two = await session.team("one"), await session.team("two")
            await one.spawn("ada", "SCRIPT:ada")
            await two.spawn("ben", "SCRIPT:ben")
            await session.idle()
            task = await one.add_task("Only here", owner="ada")
            assert [t.id for t in await one.tasks()] == [task.id] and await two.tasks() == []
            with pytest.raises(UsageError, match="no 'ben' in the team one"):
                await one.send("ben", "Hello")
            await one.idle()
            await one.delete()
            assert session.teamwork.roster.names == frozenset({"two"})
            with pytest.raises(UsageError, match="does not lead the team one"):
                await one.send("ada", "Hello")


@pytest.mark.spec("T6")
async def test_a_resumed_session_has_its_team_again(walker: Walker) -> None:
    heard: list[int] = []

    def hear(request: Request) -> str:
        heard.append(len(request.messages))
        return "Heard."

    scripts = {"ada": ["Hello.", hear]}
    with anyio.fail_after(LIMIT):
        async with await opened(walker, scripts) as session:
            team = await session.team("crew")
            await team.spawn("ada", "SCRIPT:ada")
            await team.add_task("Later", owner="ada")
            await session.idle()
        async with await opened(walker, scripts, origin=Origin(session.id)) as again:
            watch = again.watch(deltas=False)
            team = await again.team("crew")
            assert [m.name for m in team.members] == ["team-lead", "ada"] and len(await team.tasks()) == 1
            await team.send("ada", "Do you remember?")
            await team.idle()
        taken = [r async for r in watch if isinstance(r.event, LettersTaken)]
    assert heard[-1] >= 3 and any("Do you remember?" in r.event.message.text for r in taken)
