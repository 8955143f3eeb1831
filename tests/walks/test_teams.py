"""The life of a team in one process: made, joined, idle, woken, taken over, ended."""

import asyncio
import contextvars
import json
import stat
import subprocess
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from team_steps import (
    TEAM,
    agree,
    answers,
    config,
    create,
    home,
    kinds,
    last,
    mate,
    member,
    members,
    say,
    shutdown,
    state_of,
)

from conftest import Walker
from crew import LIMIT, after, agent, bash, crew, ended_calls, marking, write_agent
from teamwright import current_agent, current_teammate, tool
from teamwright.core.data.event import AgentStarted
from teamwright.core.data.message import Request
from teamwright.core.ids import AgentId
from teamwright.core.ports import ToolContext
from teamwright.models.scripted import call

pytestmark = pytest.mark.anyio


def git(walker: Walker) -> None:
    """Make the project a repository with one commit."""
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], [*who, "commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run(["git", *words], cwd=walker.project, check=True)


# --- making and ending


@pytest.mark.spec("T1", "T2")
async def test_a_team_is_on_the_disk_when_the_call_returns(walker: Walker) -> None:
    async with crew(walker, {"main": [create(), "made"]}) as play:
        await play.play()
        made = config(walker)
        assert made["name"] == TEAM and made["description"] == "a scripted team" and made["createdAt"]
        assert [m["agentId"] for m in made["members"]] == [made["leadAgentId"]] == ["team-lead@crew"]
        assert (home(walker) / "tasks" / TEAM).is_dir()
        for path in (home(walker) / "teams").rglob("*"):
            assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    data = ended_calls(play)[0].data
    assert data["name"] == TEAM and data["team_name"] == TEAM and data["members"][0]["name"] == "team-lead"
    assert json.loads(Path(data["team_file_path"]).read_text())["leadAgentId"] == data["lead_agent_id"]


@pytest.mark.spec("T2", "R5", "O4", "E1")
async def test_a_teammate_is_announced_and_listed(walker: Walker) -> None:
    async with crew(walker, {"main": [create(), mate("ada"), "on"], "ada": ["ready"]}) as play:
        await play.play()
        entry = members(walker)["ada"]
    data = ended_calls(play)[1].data
    assert data["status"] == "teammate_spawned" and data["teammate_id"] == "ada@crew" and data["name"] == "ada"
    assert data["team_name"] == TEAM and data["color"] and data["model"] and data["plan_mode_required"] is False
    assert entry["agentId"] == "ada@crew" and entry["agentType"] == "general-purpose" and entry["joinedAt"]
    assert entry["prompt"] == "SCRIPT:ada" and entry["color"] == data["color"] and entry["model"] == data["model"]
    assert entry["backendType"] == "in-process" and entry["cwd"] == str(walker.project)
    assert entry["planModeRequired"] is False and members(walker)["team-lead"]["color"] != entry["color"]


@pytest.mark.spec("T1")
async def test_a_team_with_somebody_at_work_stays_and_one_with_idle_members_goes(walker: Walker) -> None:
    asked, done = anyio.Event(), anyio.Event()
    delete = call("TeamDelete")
    scripts = {
        "main": [create(), mate("ada"), after(asked, delete), marking(done, "later"), delete, "gone"],
        "ada": [after_marking(asked, done, "ready")],
    }
    async with crew(walker, scripts) as play:
        await play.play()
        assert state_of(play, "ada") == "nobody" and not play.session.teamwork.teammates.running
    refused, gone = answers(last(play), "TeamDelete")
    assert refused[1] and "ada" in refused[0] and "shut" in refused[0]
    assert not gone[1] and not list((home(walker) / "teams").iterdir()) and not (home(walker) / "tasks" / TEAM).exists()
    assert kinds(play)[-1] == "shutdown"


def after_marking(first: anyio.Event, then: anyio.Event, step: Any) -> Any:
    """Report that it was requested, then wait."""

    async def play(request: Request) -> Any:
        first.set()
        return await after(then, step)(request)

    return play


@pytest.mark.spec("T3")
async def test_names_are_made_unique_and_safe_and_colours_differ(walker: Walker) -> None:
    wanted = ["ada", "ada", "Ada", "../../etc", "team-lead", "te\u0430m", "\x1b[31m", "x" * 300, "a/b"]
    scripts = {"main": [create("my/../team"), [mate(n, "one") for n in wanted], "on"], "one": ["ready"]}
    async with crew(walker, scripts) as play:
        await play.play()
        (team,) = play.session.teamwork.roster.names
        got = list(members(walker, team))
    names = [c.data["name"] for c in ended_calls(play)[1:]]
    assert sorted(got) == sorted(["team-lead", *names]) and len(set(map(str.casefold, got))) == len(got)
    assert {"ada", "ada-2", "ada-3"} <= set(map(str.casefold, names)) and all(
        len(n) <= 64 and n.isprintable() and "/" not in n for n in names
    )
    assert "/" not in team and ".." not in team and not (walker.home / "etc").exists()
    colours = [m["color"] for m in members(walker, team).values()]
    assert len(set(colours)) == len(colours)


@pytest.mark.spec("T3", "X6", "T5")
async def test_a_name_given_again_is_a_new_incarnation_with_an_empty_history(walker: Walker) -> None:
    asked, waits = anyio.Event(), anyio.Event()
    on = marking(waits, "on")
    scripts = {
        "main": [
            create(), mate("ada"), "on", shutdown("ada"), on, say("ada", "late"), mate("ada", "again"), "on",
        ],
        "ada": ["what-the-first-knew", after(waits, agree())],
        "again": [marking(asked, "new")],
    }  # fmt: skip
    async with crew(walker, scripts) as play:
        await play.play()
        with anyio.fail_after(LIMIT):
            await asked.wait()
        assert list(members(walker)) == ["team-lead", "ada"]
    (late,) = [text for text, is_error in answers(last(play), "SendMessage") if is_error]
    assert "shut down" in late and "pawn" in late
    assert "what-the-first-knew" not in str(play.requests("again")[0].messages)
    started = [r.agent for r in play.records if isinstance(r.event, AgentStarted) and r.event.name == "ada"]
    assert ended_calls(play)[-1].data["teammate_id"] == "ada@crew" and len(set(started)) == 2


# --- who it is


def looking() -> tuple[Any, dict[str, list[tuple[str, str]]]]:
    """A tool that records who runs it: directly, in a thread, in a callback and in a thread of its own."""
    seen: dict[str, list[tuple[str, str]]] = {}
    both = anyio.Event()

    def note(who: str) -> None:
        seen.setdefault(who, []).append((current_agent.get(AgentId("")), current_teammate.get(AgentId(""))))

    @tool(parallel=True)
    async def look(who: str, ctx: ToolContext) -> str:
        """Look who runs this."""
        note(who)
        if who in ("ada", "bob") and sorted(k for k in seen if k in ("ada", "bob")) == ["ada", "bob"]:
            both.set()
        if who in ("ada", "bob"):
            with anyio.fail_after(LIMIT):
                await both.wait()
        await anyio.to_thread.run_sync(note, who)
        asyncio.get_running_loop().call_soon(note, who)
        await anyio.sleep(0)
        context = contextvars.copy_context()
        thread = threading.Thread(target=lambda: context.run(note, who))
        thread.start()
        await anyio.to_thread.run_sync(thread.join)
        assert ctx.agent == current_agent.get()
        return "looked"

    return look, seen


@pytest.mark.spec("T4")
async def test_two_teammates_never_see_each_others_identity(walker: Walker) -> None:
    """In their tools, these tools' threads and callbacks, their sub-agents, and what these run."""
    look, seen = looking()
    names = "echo $TEAMWRIGHT_AGENT_NAME $TEAMWRIGHT_TEAM $TEAMWRIGHT_AGENT_ID $TEAMWRIGHT_PARENT_SESSION_ID"
    scripts = {
        "main": [call("look", who="main"), create(), [mate("ada"), mate("bob")], "on"],
        "ada": [call("look", who="ada"), bash(names), agent("child_ada"), "ready"],
        "bob": [call("look", who="bob"), bash(names), agent("child_bob"), "ready"],
        "child_ada": [call("look", who="child_ada"), bash(names), "done"],
        "child_bob": [call("look", who="child_bob"), bash(names), "done"],
    }
    async with crew(walker, scripts, own_tools=[look], allowed_tools=["look"]) as play:
        await play.play()
        ids = {name: member(play, name).agent for name in ("ada", "bob")}
        session = play.session.id
    assert set(seen["main"]) == {(session, "")}
    for name, id in ids.items():
        assert set(seen[name]) == {(id, id)} and len(seen[name]) == 4
        ((own, of),) = set(seen[f"child_{name}"])
        assert of == id and own not in (*ids.values(), session)
        said = answers(last(play, name), "Bash")[0][0]
        assert said.split() == [name, TEAM, id, session]
        said = answers(last(play, f"child_{name}"), "Bash")[0][0]
        assert said.split()[1:] == [TEAM, own, session]
    assert current_agent.get(None) is None


@pytest.mark.spec("T4", "L6")
async def test_a_teammate_keeps_its_history_and_knows_how_teams_talk(walker: Walker) -> None:
    write_agent(walker, "painter", "tools: Read, Bash", body="You paint walls.")
    scripts = {
        "main": [create(), mate("ada", subagent_type="painter"), "on", say("ada", "and now?"), "on"],
        "ada": [bash("echo wall-is-blue"), "ready", "blue, as I said"],
    }
    async with crew(walker, scripts, append_system_prompt="Not for others.") as play:
        await play.play()
    first, *_, second = play.requests("ada")
    main = play.requests()[0]
    assert first.messages[0].text.startswith('<teammate-message teammate_id="team-lead"') and len(first.messages) == 1
    assert second.messages[: len(first.messages)] == first.messages and "wall-is-blue" in str(second.messages)
    assert second.system == first.system and second.tools == first.tools
    system = "\n".join(first.system)
    assert main.system[0] == first.system[0] and "SendMessage" in system and "You paint walls." in system
    assert system.index("SendMessage") < system.index("You paint walls.")
    offered = {spec.name for spec in first.tools}
    assert {"Read", "Bash", "SendMessage", "TaskList", "TaskUpdate"} <= offered
    assert not offered & {"Write", "Edit", "TeamCreate", "TeamDelete"}


@pytest.mark.spec("P10", "R12")
async def test_a_teammate_adds_nobody_and_starts_nothing_in_the_background(walker: Walker) -> None:
    write_agent(walker, "slow", "background: true")
    scripts = {
        "main": [create(), mate("ada"), "on"],
        "ada": [
            [
                mate("eve", "child"), mate("eve", "child", team_name=TEAM), agent("child", run_in_background=True),
                agent("child", subagent_type="fork"), agent("child", subagent_type="slow"),
                call("TeamCreate", team_name="x"),
            ],
            "done",
        ],
        "child": ["worked"],
    }  # fmt: skip
    async with crew(walker, scripts, fork=True) as play:
        await play.play()
        assert list(members(walker)) == ["team-lead", "ada"]
    got = answers(last(play, "ada"), "Agent")
    assert [is_error for _, is_error in got] == [True] * 4 + [False] and "flat" in got[0][0] and "flat" in got[1][0]
    assert "background" in got[2][0] and "background" in got[3][0] and "worked" in got[4][0]
    assert answers(last(play, "ada"), "TeamCreate")[0][1]


@pytest.mark.spec("R12", "R5")
async def test_a_name_without_a_team_is_a_sub_agent_and_a_team_needs_a_name(walker: Walker) -> None:
    scripts = {
        "main": [mate("ada", "child"), [agent("child", team_name=TEAM), mate("b", "child", team_name="nowhere")], "on"],
        "child": ["worked"],
    }
    async with crew(walker, scripts) as play:
        await play.play()
        assert not play.session.teamwork.roster.names
    alone, nameless, nowhere = ended_calls(play)
    assert alone.data["status"] == "completed" and nameless.is_error and nowhere.is_error
    assert (
        "team" in str(nameless.content) and "nowhere" in str(nowhere.content) and "TeamCreate" in str(nowhere.content)
    )


@pytest.mark.spec("T4", "P7", "W1")
async def test_what_a_definition_says_holds_for_a_teammate(walker: Walker) -> None:
    """Its permission mode, its limits, a worktree of its own."""
    git(walker)
    write_agent(walker, "reader", "permissionMode: plan", "isolation: worktree", "tools: Read, Bash, Write")
    scripts = {
        "main": [create(), mate("ada", subagent_type="reader"), "on"],
        "ada": [[bash("pwd"), bash("touch made"), call("Write", file_path="made", content="x")], "done"],
    }
    async with crew(walker, scripts) as play:
        await play.play()
        entry = members(walker)["ada"]
    assert "/.teamwright/worktrees/" in entry["cwd"] and not (walker.project / "made").exists()
    pwd, touch = answers(last(play, "ada"), "Bash")
    assert pwd == (entry["cwd"], False) and touch[1] and "plan" in touch[0]
    assert answers(last(play, "ada"), "Write")[0][1]
