"""The life of a team in one process: made, joined, idle, woken, taken over, ended."""

import asyncio
import contextvars
import stat
import subprocess
import threading
from typing import Any

import anyio
import pytest
from team_steps import (
    TEAM,
    agree,
    answers,
    config,
    create,
    heard,
    home,
    kinds,
    last,
    mate,
    member,
    members,
    say,
    scene,
    shutdown,
    state_of,
    task,
    texts,
    until,
)

from conftest import Walker
from crew import LIMIT, after, agent, bash, crew, ended_calls, events_of, marking, write_agent
from teamwright import current_agent, current_teammate, tool
from teamwright.core.errors import UsageError
from teamwright.core.event import AgentStarted, Resumed, TeamChanged
from teamwright.core.ids import AgentId
from teamwright.core.message import Request
from teamwright.core.op import Compact, Interrupt
from teamwright.core.ports import ToolContext
from teamwright.models.scripted import call
from teamwright.runtime.resume import Origin

pytestmark = pytest.mark.anyio


def git(walker: Walker) -> None:
    """The project becomes a repository with one commit."""
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
        assert state_of(play, "ada") == "nobody" and not play.session.teamwork.recruiter.residents
    refused, gone = answers(last(play), "TeamDelete")
    assert refused[1] and "ada" in refused[0] and "shut" in refused[0]
    assert not gone[1] and not list((home(walker) / "teams").iterdir()) and not (home(walker) / "tasks" / TEAM).exists()
    assert kinds(play)[-1] == "shutdown"


def after_marking(first: anyio.Event, then: anyio.Event, step: Any) -> Any:
    """Tell that it was asked, then wait."""

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
        (team,) = play.session.teamwork.teams.names
        got = list(members(walker, team))
    names = [c.data["name"] for c in ended_calls(play)[1:]]
    assert got == ["team-lead", *names] and len(set(map(str.casefold, got))) == len(got)
    assert names[:2] == ["ada", "ada-2"] and all(len(n) <= 64 and n.isprintable() and "/" not in n for n in names)
    assert "/" not in team and ".." not in team and not (walker.home / "etc").exists()
    colours = [m["color"] for m in members(walker, team).values()]
    assert len(set(colours)) == len(colours)


@pytest.mark.spec("T3", "X6", "T5")
async def test_a_name_given_again_is_a_new_incarnation_with_an_empty_history(walker: Walker) -> None:
    asked = anyio.Event()
    scripts = {
        "main": [
            create(), mate("ada"), "on", shutdown("ada"), "on", say("ada", "late"), mate("ada", "again"), "on",
        ],
        "ada": ["what-the-first-knew", agree()],
        "again": [marking(asked, "new")],
    }  # fmt: skip
    async with crew(walker, scripts) as play:
        await play.play()
        assert asked.is_set() and list(members(walker)) == ["team-lead", "ada"]
    (late,) = [text for text, is_error in answers(last(play), "SendMessage") if is_error]
    assert "shut down" in late and "pawn" in late
    assert "what-the-first-knew" not in str(play.requests("again")[0].messages)
    started = [r.agent for r in play.records if isinstance(r.event, AgentStarted) and r.event.name == "ada"]
    assert ended_calls(play)[-1].data["teammate_id"] == "ada@crew" and len(set(started)) == 2


# --- who it is


@pytest.mark.spec("T4")
async def test_two_teammates_never_see_each_others_identity(walker: Walker) -> None:
    """In their tools, in the threads and callbacks of these, in their sub-agents, and in what these run."""
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
        assert not play.session.teamwork.teams.names
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


# --- idle and awake


@pytest.mark.spec("T5", "O1", "L1")
async def test_the_life_of_a_teammate_is_told_in_order(walker: Walker) -> None:
    scripts = {
        "main": [create(), mate("ada"), "on", say("ada", "more"), "on", shutdown("ada"), "on"],
        "ada": ["ready", "worked", agree()],
    }
    async with crew(walker, scripts) as play:
        await play.play()
        assert state_of(play, "ada") == "shutdown" and list(members(walker)) == ["team-lead"]
    assert kinds(play) == ["spawn", "idle", "wake", "idle", "wake", "shutdown"]
    assert {e.team for e in play.of(TeamChanged)} == {TEAM}


@pytest.mark.spec("T9")
async def test_whoever_drives_a_session_can_wait_until_all_teammates_are_idle(walker: Walker) -> None:
    go = anyio.Event()
    scripts = {"main": [create(), [mate("ada"), mate("bob")], "on"], "ada": ["ready"], "bob": [after(go, "ready")]}
    async with crew(walker, scripts) as play:
        await play.say("go")
        await until(lambda: state_of(play, "ada") == "idle" and state_of(play, "bob") == "running")
        team = await play.session.team(TEAM)
        with anyio.move_on_after(0.05) as early:
            await team.idle()
        go.set()
        with anyio.fail_after(LIMIT):
            await team.idle()
        assert early.cancelled_caught and state_of(play, "bob") == "idle"


@pytest.mark.spec("T12", "Q3", "T6")
async def test_a_session_ends_by_itself_and_its_teammates_wake_in_the_next_one(walker: Walker) -> None:
    scripts = {
        "main": [create(), [mate("ada"), mate("bob")], "on"],
        "ada": [say("bob", "hint"), "what-ada-knows"],
        "bob": ["ready"],
    }
    async with crew(walker, scripts) as first:
        await first.play()  # returns only when nobody has anything left to do
        ada = member(first, "ada")
        assert state_of(first, "ada") == state_of(first, "bob") == "idle"
        assert "hint" in texts(last(first, "bob"))
    assert {m["state"] for m in members(walker).values()} == {"idle", "running"}
    before = len(first.requests())

    def wake(request: Request) -> Any:
        return say("ada", "once more") if not answers(request, "SendMessage") else "on"

    scripts = {"main": [wake] * (before + 4), "ada": ["x", "x", "I still know"], "bob": ["x"] * 9}
    async with crew(walker, scripts, origin=Origin(resume=first.session.id)) as play:
        await play.play("again")
        assert member(play, "ada").agent == ada.agent
    (request,) = play.requests("ada")
    assert "what-ada-knows" in str(request.messages) and "once more" in texts(request) and not play.requests("bob")
    started = [type(e) for e in events_of(walker, ada.agent)]
    assert started.count(AgentStarted) == 1 and started.count(Resumed) == 1


@pytest.mark.spec("T13", "L1")
async def test_interrupting_a_teammate_ends_its_turn_and_nothing_else(walker: Walker) -> None:
    asked, never = anyio.Event(), anyio.Event()
    scripts = {
        "main": [create(), mate("ada"), "on", say("ada", "go on"), "on"],
        "ada": [after_marking(asked, never, "x"), "went on"],
    }

    async def ada(request: Request) -> Any:
        if "go on" in texts(request):
            return "went on"
        return await after_marking(asked, never, "x")(request)

    async with crew(walker, scripts | {"ada": [ada, ada]}) as play:
        await play.say("go")
        with anyio.fail_after(LIMIT):
            await asked.wait()
        await play.submit(Interrupt(member(play, "ada").agent))
        await heard(play, "main", "interrupted")
        with anyio.fail_after(LIMIT):
            await play.session.idle()
    notices = [t for t in texts(last(play)).splitlines() if "idle_notification" in t]
    assert "&quot;interrupted&quot;" in notices[0] and "&quot;available&quot;" in notices[1] and "went on" in notices[1]
    assert kinds(play)[:4] == ["spawn", "idle", "wake", "idle"]


@pytest.mark.spec("T13")
async def test_interrupting_the_lead_does_not_touch_its_teammates(walker: Walker) -> None:
    asked, waits, go, never = anyio.Event(), anyio.Event(), anyio.Event(), anyio.Event()
    scripts = {
        "main": [create(), mate("ada"), after_marking(waits, never, "x")],
        "ada": [after_marking(asked, go, bash("echo worked > done")), "finished"],
    }
    async with crew(walker, scripts) as play:
        await play.say("go")
        with anyio.fail_after(LIMIT):
            await asked.wait()
            await waits.wait()
        await play.submit(Interrupt())
        await until(lambda: not play.session.main.running)
        go.set()
        with anyio.fail_after(LIMIT):
            await (await play.session.team(TEAM)).idle()
        assert (walker.project / "done").read_text() == "worked\n"
        never.set()


@pytest.mark.spec("T10", "I1")
async def test_after_a_compaction_an_agent_still_knows_its_team(walker: Walker) -> None:
    """From the store: who is there, what is to be done, what was asked."""
    scripts = {
        "main": [create(), [task("paint the wall"), task("wash up")], mate("ada", mode="plan"), "on", "on", "on"],
        "ada": [call("ExitPlanMode", plan="blue"), "x"],
    }
    async with crew(walker, scripts) as play:
        await play.play()
        await play.submit(Compact())
        await play.play("go on")
    text = texts(last(play))
    assert "You are team-lead in the team crew" in text and "ada (general-purpose, idle)" in text
    assert "Task #1 (pending" in text and "wash up" in text
    assert "plan request plan-" in text


# --- several teams, several leads


@pytest.mark.spec("T11")
async def test_the_current_team_is_the_last_one_and_after_its_end_the_one_before(walker: Walker) -> None:
    scripts = {
        "main": [create("one"), mate("ada"), create("two"), mate("bob"), "on"],
        "more": [call("TeamDelete"), task("of one"), say("ada", "still there?"), "on"],
    }
    async with crew(walker, scene(scripts)) as play:
        await play.play()
        await play.play("SCRIPT:more")
        teams = play.session.teamwork.teams
        assert teams.names == {"one"} and teams.team_of(play.id) == "one"
        assert list(members(walker, "one")) == ["team-lead", "ada"]
    calls = ended_calls(play)
    assert calls[1].data["teammate_id"] == "ada@one" and calls[3].data["teammate_id"] == "bob@two"
    assert not any(c.is_error for c in calls) and (home(walker) / "tasks/one/1.json").exists()


@pytest.mark.spec("T11")
async def test_a_second_lead_is_refused_while_the_first_lives_and_takes_over_when_it_is_gone(walker: Walker) -> None:
    scripts = {"main": [create(), mate("ada"), "on"], "ada": ["what-ada-knows", "I remember"]}
    async with crew(walker, scripts) as first:
        await first.play()
        with pytest.raises(UsageError, match="lives"):
            async with crew(walker, scripts, team=TEAM):
                pass
        async with crew(walker, {"main": [create(), "on"]}) as other:
            await other.play()
        assert ended_calls(other)[0].is_error and TEAM in str(ended_calls(other)[0].content)
        assert list(members(walker)) == ["team-lead", "ada"]
    scripts["main"] = [say("ada", "who leads you?"), "on"]
    async with crew(walker, scripts, team=TEAM) as second:
        await second.play()
        assert second.session.id != first.session.id and member(second, "team-lead").agent == second.session.id
    (request,) = second.requests("ada")
    assert "what-ada-knows" in str(request.messages) and "who leads you?" in texts(request)
    assert "I remember" in texts(last(second))
    with pytest.raises(UsageError, match="nowhere"):
        async with crew(walker, scripts, team="nowhere"):
            pass


@pytest.mark.spec("T11", "T6")
async def test_a_former_lead_that_comes_back_does_not_lead_a_team_that_has_another_one(walker: Walker) -> None:
    scripts = {"main": [create(), mate("ada"), "on"], "ada": ["ready"]}
    async with crew(walker, scripts) as first:
        await first.play()
    async with crew(walker, {"main": ["on"], "ada": ["ready"]}, team=TEAM) as second:
        await second.play()
        async with crew(walker, {"main": ["x"] * 9}, origin=Origin(resume=first.session.id)) as again:
            await again.play("hello")
            assert not again.session.teamwork.teams.led_here()
        assert member(second, "team-lead").agent == second.session.id
