"""Sandboxed commands of a session: the tier is reported, refusals are reported, and no way leads around it."""

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sandbox_kit import ON, TIERS, block, data, fenced, log_of, need, outside, reach, run, settle, use

from conftest import Walk, Walker
from crew import Crew, agent, crew, write_agent
from skill_stage import skill
from teamwright.app.sandbox import answer_offer, offered_tier
from teamwright.core.data.message import Text
from teamwright.core.errors import UsageError
from teamwright.core.permissions.consent import Allow, Decision, Deny, Question
from teamwright.models.scripted import ScriptedModel, call
from teamwright.runtime.agents.resume import Origin

pytestmark = pytest.mark.anyio


@pytest.fixture(params=TIERS)
def tier(request: pytest.FixtureRequest, walker: Walker) -> str:
    use(walker, need(request.param))
    return request.param


@pytest.fixture
def bwrap(walker: Walker) -> str:
    use(walker, need("bwrap"))
    return "bwrap"


async def play(walker: Walker, *steps: Any, **more: Any) -> Walk:
    """Run commands one after another, unasked, without a person."""
    more.setdefault("sandbox", True)
    return await walker.walk([*steps, "end"], **more)


def texts(walk: Walk) -> list[str]:
    return [text for text, _ in walk.results]


# --- whether it is on


@pytest.mark.spec("V1")
@pytest.mark.parametrize(
    ("flag", "settings", "on"),
    [
        (None, None, False),
        (None, block({"enabled": False}), False),
        (None, block(), True),
        (True, None, True),
        (True, block({"enabled": False, "autoAllowBashIfSandboxed": False}), True),
        (False, block(), False),
    ],
)
async def test_it_is_off_unless_turned_on_and_a_flag_has_the_last_word(
    walker: Walker, tier: str, flag: bool | None, settings: str | None, on: bool
) -> None:
    walk = await play(walker, run(reach(walker)), sandbox=flag, settings=settings)
    expected = {"enabled": on, "tier": tier if on else "none", "autoAllow": on}
    assert walk.session.services.sandbox_status == expected
    assert [is_error for _, is_error in walk.results] == [not on] and not outside(walker).exists()
    spec = next(tool for tool in walk.model.requests[0].tools if tool.name == "Bash")
    assert "dangerouslyDisableSandbox" not in spec.schema["properties"], "nobody is there to be asked"


@pytest.mark.spec("V2", "V1")
@pytest.mark.parametrize("wish", ["off", "firejail", "seatbelt"])
async def test_where_nothing_holds_it_is_said_and_commands_need_approval(walker: Walker, wish: str) -> None:
    """Neither an unknown name nor a tier whose probe fails is replaced by another tier."""
    use(walker, wish)
    walk = await play(walker, run(reach(walker)), allowed_tools=["Bash(ls)"])
    assert walk.session.services.sandbox_status == {"enabled": True, "tier": "none", "autoAllow": False}
    assert walk.results[0][1] and not (walker.project / "in-planted").exists()
    (note,) = [note for note in walk.session.notes if "sandbox" in note]
    assert "nothing here can hold it" in note and "teamwright doctor" in note


@pytest.mark.spec("V15")
async def test_a_host_that_is_none_is_said_to_mean_nothing(walker: Walker) -> None:
    network = {
        "allowedDomains": ["ok.example", "http://x.example/"],
        "deniedDomains": ["bad host", "http://z.example/"],
    }
    walk = await play(walker, run("true"), settings=block({"enabled": True, "network": network}))
    notes = [note.partition(": write")[0] for note in walk.session.notes if "Domains" in note]
    assert notes == [
        "sandbox.network.allowedDomains: 'http://x.example/' is not a host and allows nothing",
        "sandbox.network.deniedDomains: 'bad host' is not a host and denies nothing",
    ]


@pytest.mark.spec("V2")
@pytest.mark.parametrize("more", [{"settings": block({"failIfUnavailable": True})}, {"mode": "bypassPermissions"}])
async def test_where_it_is_required_no_session_opens_without_it(walker: Walker, more: dict[str, Any]) -> None:
    use(walker, "off")
    model = ScriptedModel(["end"])
    with pytest.raises(UsageError, match="the sandbox cannot be used"):
        await walker.walk(model, sandbox=True, **more)
    assert model.requests == []


# --- what is told of a refusal


@pytest.mark.spec("V15", "V3")
async def test_a_refused_write_is_told_to_the_model_and_to_programs(walker: Walker, tier: str) -> None:
    walk = await play(walker, run(f"echo x > {outside(walker)}; true"), run("echo fine"))
    told, fine = texts(walk)
    assert f"The sandbox refused writing, by what it printed, {outside(walker)}." in told
    assert told.endswith("Do it inside the working directories or $TMPDIR.")
    denied = [{"kind": "write", "path": str(outside(walker))}]
    assert data(walk)[0]["sandbox"] == {"tier": tier, "denied": denied, "undone": []}
    assert "sandbox" not in fine and data(walk)[1]["sandbox"] == {"tier": tier, "denied": [], "undone": []}


@pytest.mark.spec("V15", "V5")
async def test_an_undone_name_is_told(walker: Walker, tier: str) -> None:
    walk = await play(walker, run("echo '{}' > .mcp.json"), settings=block({"allowUnsandboxedCommands": False}))
    name = str(walker.project / ".mcp.json")
    assert not Path(name).exists() and data(walk)[0]["sandbox"]["undone"] == [name]
    assert f"The sandbox removed or restored {name}" in texts(walk)[0]
    assert "dangerouslyDisableSandbox" not in texts(walk)[0], "a way that is closed is not named"


FETCH = f"{sys.executable} -c \"import urllib.request as u; u.urlopen('http://refused.example/', timeout=30)\""


@pytest.mark.spec("V9", "V15")
async def test_a_host_is_asked_for_once_and_a_refused_one_is_told(walker: Walker, bwrap: str) -> None:
    asked: list[Question] = []

    async def answer(question: Question) -> Decision:
        asked.append(question)
        return Deny("no")

    walk = await play(walker, run(f"{FETCH}; {FETCH}; true"), answer=answer)
    (question,) = asked
    assert question.tool == "SandboxNetworkAccess" and question.args == {"host": "refused.example", "port": 80}
    assert question.suggestions == ("WebFetch(domain:refused.example)",) and question.agent_name == "main"
    assert "The sandbox refused connections to refused.example:80." in texts(walk)[0]
    denied = data(walk)[0]["sandbox"]["denied"]
    assert denied == [{"kind": "network", "host": "refused.example", "port": 80}]


@pytest.mark.spec("V9")
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"mode": "dontAsk"},
        {"mode": "plan"},
        {"settings": block({"network": {"strictAllowlist": True}})},
    ],
)
async def test_where_nobody_is_to_be_asked_a_host_is_refused_at_once(
    walker: Walker, bwrap: str, more: dict[str, Any]
) -> None:
    asked: list[Question] = []

    async def answer(question: Question) -> Decision:
        asked.append(question)
        return Allow()

    walk = await play(walker, run(FETCH), **{"answer": answer if more else None} | more)
    assert asked == [] and walk.results[0][1]


# --- temporary files, caches, environment


@pytest.mark.spec("V20")
async def test_temporary_files_last_for_the_session_and_file_tools_mean_the_same_place(
    walker: Walker, tier: str
) -> None:
    name = f"kept-{os.getpid()}"
    place = "/tmp" if tier == "bwrap" else r"{{re:at=(/[\w./-]+)}}"
    walk = await play(
        walker,
        run(f"echo first > $TMPDIR/{name}; echo at=$TMPDIR"),
        call("Read", file_path=f"{place}/{name}"),
        run(f"cat $TMPDIR/{name}; mktemp"),
    )
    assert [is_error for _, is_error in walk.results] == [False] * 3
    assert "first" in texts(walk)[1] and "first" in texts(walk)[2]
    assert not (Path("/tmp") / name).exists()
    assert not list(Path(tempfile.gettempdir()).glob(f"teamwright-*/*/{name}")), "it is gone with the session"


@pytest.mark.spec("V20")
@pytest.mark.parametrize("caches", [True, False])
async def test_caches_are_writable_and_never_the_persons_own(walker: Walker, tier: str, caches: bool) -> None:
    command = 'mkdir -p "$PIP_CACHE_DIR/x" && echo "at=$PIP_CACHE_DIR"'
    settings = block(teamwright={"sandbox": {"caches": caches}})
    walk = await play(walker, run(command), settings=settings)
    assert walk.results[0][1] != caches and not (walker.home / ".cache").exists()
    assert (f"at={walker.home}/.teamwright/sandbox/" in texts(walk)[0]) == caches


@pytest.mark.spec("V21")
async def test_proxies_and_named_variables_are_taken_out_of_the_environment(walker: Walker, tier: str) -> None:
    walker.env |= {"HTTPS_PROXY": "http://persons.example:1", "ALL_PROXY": "http://persons.example:1"}
    settings = block({"credentials": {"envVars": [{"name": "HIDDEN_ONE"}]}}, env={"HIDDEN_ONE": "1", "SHOWN_ONE": "1"})
    walk = await play(walker, run("env"), settings=settings)
    (env,) = texts(walk)
    assert "SHOWN_ONE=1" in env and "HIDDEN_ONE" not in env and "persons.example" not in env
    assert ("HTTPS_PROXY=" in env) == (tier == "bwrap")


@pytest.mark.spec("V21")
async def test_of_our_own_state_only_this_sessions_outputs_can_be_read(walker: Walker, tier: str) -> None:
    state = walker.home / ".teamwright"
    long = run("head -c 200000 /dev/zero | tr '\\0' y")
    look = run(f"echo {state}/*; cat {state}/state.db")
    walk = await play(walker, long, run(r"head -c 5 {{re:(/\S+/bash-\w+\.txt)}}"), look)
    assert (state / "state.db").exists() and "yyyyy" in texts(walk)[1]
    assert walk.results[2][1] and "SQLite" not in texts(walk)[2] and "state.db-wal" not in texts(walk)[2]


@pytest.mark.spec("V21")
async def test_output_of_a_background_command_can_be_followed_inside(walker: Walker, tier: str) -> None:
    steps = [
        run("until [ -e go ]; do sleep 0.05; done; echo the-last", run_in_background=True),
        call(
            "Monitor",
            command=r"touch go; tail -n +1 -F {{re:output file: (\S+)}} | sed -n 's/the-/it is the very /p;/last/q'",
            description="m",
        ),
        "end",
    ]
    async with crew(walker, {"main": [*steps, "end", "end", "end"]}, sandbox=True) as walk:
        await walk.play()
        await walk.until(lambda _: "it is the very last" in "".join(heard(walk)))


@pytest.mark.spec("V15")
@pytest.mark.parametrize(("kind", "asked"), [("Monitor", False), ("Bash", False), ("Bash", True)])
async def test_a_background_command_is_told_what_was_refused(walker: Walker, tier: str, kind: str, asked: bool) -> None:
    """The way out is named only where somebody answers."""
    more = {"run_in_background": True} if kind == "Bash" else {}
    step = call(kind, command=f"echo x > {outside(walker)}; echo '{{}}' > .mcp.json", description="d", **more)
    async with crew(walker, {"main": [step, "end", "end", "end"]}, sandbox=True, can_ask=asked) as walk:
        await walk.play()
        await walk.until(lambda _: "not obeyed until" in "".join(heard(walk)))
    told = "\n".join(heard(walk))
    assert f"The sandbox refused writing, by what it printed, {outside(walker)}" in told
    assert f"not obeyed until the person agrees: {walker.project}/.mcp.json" in told
    assert "inside the working directories or $TMPDIR" in told and ("dangerouslyDisableSandbox" in told) == asked


def heard(walk: Crew) -> list[str]:
    return [block.text for m in walk.session.main.history.messages for block in m.blocks if isinstance(block, Text)]


# --- every road


@pytest.mark.spec("V11", "V19")
async def test_background_commands_monitors_and_skill_commands_run_inside(walker: Walker, tier: str) -> None:
    skill(walker, "look", f"!`{reach(walker, 'skill')}`")
    steps = [
        run(reach(walker, "job"), run_in_background=True),
        call("Monitor", command=reach(walker, "monitor"), description="m"),
        call("Skill", skill="look"),
    ]
    async with crew(walker, {"main": [*steps, "end"]}, sandbox=True, trust=True) as walk:
        await walk.play()
    assert fenced(walker, "job") and fenced(walker, "monitor") and fenced(walker, "skill")


@pytest.mark.spec("V23")
async def test_sub_agents_are_fenced_as_the_session_is(walker: Walker, tier: str) -> None:
    write_agent(walker, "wild", "permissionMode: bypassPermissions")
    scripts = {
        "main": [agent("child", subagent_type="wild"), "end"],
        "child": [run(reach(walker, "child")), agent("deep"), "r"],
        "deep": [run(reach(walker, "deep")), "r"],
    }
    async with crew(walker, scripts, sandbox=True, trust=True, mode="default") as walk:
        await walk.play()
    assert fenced(walker, "child") and fenced(walker, "deep")


@pytest.mark.spec("V23")
async def test_a_resumed_session_is_fenced_as_it_is_opened_now(walker: Walker, tier: str) -> None:
    async with crew(walker, {"main": ["end"]}, sandbox=False) as first:
        await first.play()
    back = Origin(resume=str(first.id))
    async with crew(walker, {"main": ["end", run(reach(walker)), "end"]}, sandbox=True, origin=back) as again:
        await again.play()
    assert fenced(walker)


@pytest.mark.spec("V23")
async def test_a_tier_that_differs_from_the_one_before_is_told(walker: Walker, tier: str) -> None:
    told: list[list[str]] = []
    back = Origin()
    for on in (True, True, False, False, True):
        async with crew(walker, {"main": ["end"] * 9}, sandbox=on, origin=back) as play:
            await play.play()
            told.append([note for note in play.session.notes if "the sandbox of this session" in note])
        back = Origin(resume=str(play.id))
    was, is_now = f"the sandbox of this session was {tier} before, and is off now", f"was off before, and is {tier} now"
    assert told[:2] == [[], []] and told[2] == [was] and told[3] == [] and told[4][0].endswith(is_now)


@pytest.mark.spec("V1")
@pytest.mark.parametrize("on", [True, False])
async def test_an_offer_is_made_until_it_is_answered_and_the_answer_counts_at_once(
    walker: Walker, tier: str, on: bool
) -> None:
    assert offered_tier(walker.options()) == offered_tier(walker.options()) == tier
    answer_offer(walker.options(), on=on)
    assert offered_tier(walker.options()) == ""
    (walker.home / ".teamwright/cache/sandbox-offered").unlink()
    assert offered_tier(walker.options()) == "", "the settings say it, too"
    walk = await play(walker, run("true"), sandbox=None)
    status = {"enabled": on, "tier": tier if on else "none", "autoAllow": on}
    assert walk.session.services.sandbox_status == status


@pytest.mark.spec("V1")
@pytest.mark.parametrize("why", ["settings", "flag", "none"])
async def test_nothing_is_offered_where_somebody_has_said_or_nothing_holds(walker: Walker, tier: str, why: str) -> None:
    if why == "settings":
        settle(walker, "user", sandbox={"enabled": False})
    if why == "none":
        walker.env["TEAMWRIGHT_SANDBOX"] = "off"
    assert offered_tier(walker.options(sandbox=False if why == "flag" else None)) == ""
    assert not (walker.home / ".teamwright/cache/sandbox-offered").exists()


# --- the log


@pytest.mark.spec("V24")
async def test_the_log_has_what_matters_and_no_command_text(walker: Walker, tier: str) -> None:
    async def answer(question: Question) -> Decision:
        return Allow() if question.tool == "Bash" else Deny("no")

    settle(walker, "user", sandbox=ON | {"excludedCommands": ["echo *"]}, permissions={"allow": ["Bash(echo *)"]})
    steps: Sequence[Any] = [
        run("echo canary-excluded"),
        run("true canary-leaving", dangerouslyDisableSandbox=True),
        run("echo '{}' > .mcp.json; : canary-inside"),
        run(FETCH),
    ]
    await play(walker, *steps, sandbox=None, answer=answer)
    log = log_of(walker)
    assert f"the sandbox holds by {tier}: " in log and "canary" not in log and "urllib" not in log
    assert "ran outside of the sandbox: the settings exclude it" in log
    assert "ran outside of the sandbox: a person agreed" in log
    assert f"the sandbox undid a change of {walker.project / '.mcp.json'}" in log
    assert ("refused a connection to refused.example:80" in log) == (tier == "bwrap")
