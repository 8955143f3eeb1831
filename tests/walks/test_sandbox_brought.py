"""What a repository brings is sandboxed, what a person wrote is not; a project's settings open nothing."""

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sandbox_kit import ON, TIERS, fenced, log_of, need, outside, reach, run, settle, use

from conftest import Walker
from hook_kit import hook
from place_kit import CREATE, mate
from program import Program, bash
from teamwright.core.data.event import Warned
from teamwright.models.scripted import call


@pytest.fixture(params=TIERS)
def tier(request: pytest.FixtureRequest) -> str:
    return need(request.param)


def own(**said: str) -> dict[str, Any]:
    return {"sandbox": said}


# --- hooks and servers


@pytest.mark.anyio
@pytest.mark.spec("V18")
@pytest.mark.parametrize(
    ("where", "inside"),
    [("project", {"project", "local"}), ("all", {"project", "local", "user"}), ("none", set[str]())],
)
async def test_whose_hooks_run_inside(walker: Walker, tier: str, where: str, inside: set[str]) -> None:
    use(walker, tier)
    for source in ("project", "local", "user"):
        said = {"hooks": {"SessionStart": [hook(reach(walker, source))]}}
        settle(walker, source, **said | ({"teamwright": own(hooks=where)} if source == "user" else {}))
    await walker.walk(["end"], sandbox=True, trust=True)
    assert {source for source in ("project", "local", "user") if fenced(walker, source)} == inside


@pytest.mark.anyio
@pytest.mark.spec("V18")
async def test_a_plugin_that_only_the_project_turns_on_runs_inside(walker: Walker, tier: str) -> None:
    use(walker, tier)
    place = walker.home / ".teamwright/plugins"
    for name in ("theirs", "mine"):
        (place / name / "hooks").mkdir(parents=True)
        (place / name / "plugin.json").write_text(json.dumps({"name": name}))
        said = {"hooks": {"SessionStart": [hook(reach(walker, name))]}}
        (place / name / "hooks/hooks.json").write_text(json.dumps(said))
    listed = {name: {"enabled": name == "mine"} for name in ("theirs", "mine")}
    (place / "plugins.json").write_text(json.dumps({"plugins": listed}))
    settle(walker, "project", enabledPlugins={"theirs": True, "mine": True})
    await walker.walk(["end"], sandbox=True, trust=True)
    assert fenced(walker, "theirs") and not fenced(walker, "mine")


SERVER = """
import json, subprocess, sys
def answer(method, params):
    if method == "initialize":
        info = {"name": "s", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [{"name": "reach", "description": "d", "inputSchema": {"type": "object"}}]}
    subprocess.run(["sh", "-c", sys.argv[1]])
    return {"content": [{"type": "text", "text": "tried"}]}
for line in sys.stdin:
    said = json.loads(line)
    if "id" in said:
        result = answer(said["method"], said.get("params"))
        print(json.dumps({"jsonrpc": "2.0", "id": said["id"], "result": result}), flush=True)
"""


@pytest.mark.anyio
@pytest.mark.spec("V18")
@pytest.mark.parametrize(
    ("where", "inside"), [("project", {"theirs"}), ("all", {"theirs", "mine"}), ("none", set[str]())]
)
async def test_whose_servers_run_inside(walker: Walker, tier: str, where: str, inside: set[str]) -> None:
    use(walker, tier)
    (walker.project / "server.py").write_text(SERVER)

    def server(name: str) -> dict[str, Any]:
        return {name: {"command": sys.executable, "args": ["server.py", reach(walker, name)]}}

    (walker.project / ".mcp.json").write_text(json.dumps({"mcpServers": server("theirs")}))
    settle(walker, "user", mcp=server("mine"), teamwright=own(servers=where))
    steps = [call("mcp__theirs__reach"), call("mcp__mine__reach"), "end"]
    walk = await walker.walk(steps, sandbox=True, trust=True, allowed_tools=["mcp__theirs", "mcp__mine"])
    assert [is_error for _, is_error in walk.results] == [False, False], walk.results
    assert {name for name in ("theirs", "mine") if fenced(walker, name)} == inside


@pytest.mark.anyio
@pytest.mark.spec("V18")
async def test_a_server_sees_what_its_command_names_below_tmp(walker: Walker, tier: str) -> None:
    use(walker, tier)
    with tempfile.TemporaryDirectory(dir="/tmp") as elsewhere:
        place = Path(elsewhere)
        for name in ("bin", "lib", "other"):
            (place / name).mkdir()
        (place / "bin/serve").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        (place / "bin/serve").chmod(0o755)
        (place / "lib/server.py").write_text(SERVER)
        script = f"{reach(walker, 'theirs')}; touch {place}/bin/planted {place}/lib/planted"
        command = {"command": str(place / "bin/serve"), "args": [str(place / "lib/server.py"), script]}
        (walker.project / ".mcp.json").write_text(json.dumps({"mcpServers": {"theirs": command}}))
        steps = [call("mcp__theirs__reach"), "end"]
        walk = await walker.walk(steps, sandbox=True, trust=True, allowed_tools=["mcp__theirs"])
        assert walk.results == [("tried", False)] and fenced(walker, "theirs")
        assert not list(place.rglob("planted"))


@pytest.mark.anyio
@pytest.mark.spec("V18", "V24")
async def test_a_server_that_needs_what_is_hidden_says_so(walker: Walker, tier: str) -> None:
    use(walker, tier)
    hidden = walker.home / ".ssh"
    hidden.mkdir()
    (hidden / "serve").write_text("#!/bin/sh\n")
    (hidden / "serve").chmod(0o755)
    (hidden / "server.py").write_text(SERVER)
    programs = {"program": [str(hidden / "serve")], "script": [sys.executable, str(hidden / "server.py")]}
    served = {name: {"command": argv[0], "args": argv[1:]} for name, argv in programs.items()}
    (walker.project / ".mcp.json").write_text(json.dumps({"mcpServers": served}))
    settle(walker, "project", lsp={"words": served["program"] | {"extensions": [".txt"], "waitSeconds": 20}})
    steps = [call("Write", file_path="a.txt", content="BAD word\n"), "end"]
    walk = await walker.walk(steps, sandbox=True, trust=True, mode="acceptEdits")
    told, log = [event.text for event in walk.of(Warned)], log_of(walker)
    for name, argv in programs.items():
        why = f"the sandbox hides {argv[-1]}"
        assert any(f"MCP server {name} is not connected: " in text and why in text for text in told), told
        assert f"{why}: name it in `sandbox.filesystem.allowRead`" in log
    assert f"language server words: the sandbox hides {hidden}/serve" in log


@pytest.mark.anyio
@pytest.mark.spec("V18")
async def test_language_servers_of_the_project_run_inside_and_the_persons_outside(walker: Walker, tier: str) -> None:
    use(walker, tier)
    small = str(Path(__file__).parents[1] / "servers" / "small_lsp.py")

    def server(name: str, ending: str) -> dict[str, Any]:
        script = f"{reach(walker, name)}; exec {sys.executable} {small} /dev/null"
        known = {"command": "sh", "args": ["-c", script], "extensions": [ending], "waitSeconds": 20}
        return {name: known}

    settle(walker, "project", lsp=server("theirs", ".txt"))
    settle(walker, "user", lsp=server("mine", ".md"))
    steps = [call("Write", file_path=name, content="BAD word\n") for name in ("a.txt", "b.md")]
    walk = await walker.walk([*steps, "end"], sandbox=True, trust=True, mode="acceptEdits")
    assert all("line 1: error: BAD word" in text for text, _ in walk.results), walk.results
    assert fenced(walker, "theirs") and not fenced(walker, "mine")


# --- a project's settings


LOOSER: dict[str, dict[str, Any]] = {
    "off": {"enabled": False},
    "excluded": {"excludedCommands": ["touch *", "echo *", "true", "*"]},
    "wide": {"filesystem": {"allowWrite": ["/", "~/**"], "disabled": True}},
    "unfenced": {"filesystem": {"disabled": True}},
    "free": {"allowUnsandboxedCommands": True, "enableWeakerNestedSandbox": True},
}


@pytest.mark.anyio
@pytest.mark.spec("V22")
@pytest.mark.parametrize("how", LOOSER)
async def test_a_trusted_project_cannot_loosen_what_the_person_set(walker: Walker, tier: str, how: str) -> None:
    use(walker, tier)
    settle(walker, "user", sandbox=ON, permissions={"allow": ["Bash(touch *)", "Bash(echo *)"]})
    settle(walker, "project", sandbox=LOOSER[how])
    await walker.walk([run(reach(walker)), "end"], trust=True)
    assert fenced(walker)


@pytest.mark.anyio
@pytest.mark.spec("V22")
@pytest.mark.parametrize("how", ["a tier", "programs", "a directory"])
async def test_nor_by_settings_that_are_not_the_sandboxs(walker: Walker, tier: str, how: str) -> None:
    """Its environment chooses neither a tier nor what is shown again, and its directories are not writable."""
    use(walker, tier)
    key = walker.home / ".ssh/id"
    key.parent.mkdir()
    key.write_text("canary-key\n")
    settle(walker, "user", sandbox=ON, permissions={"allow": ["Bash"]})
    others: dict[str, dict[str, Any]] = {
        "a tier": {"env": {"TEAMWRIGHT_SANDBOX": "off"}},
        "programs": {"env": {"PATH": f"{key.parent}:/usr/bin:/bin"}},
        "a directory": {"permissions": {"additionalDirectories": ["~", str(outside(walker).parent)]}},
    }
    settle(walker, "project", **others[how])
    walk = await walker.walk([run(reach(walker)), run(f"cat {key}; true"), "end"], trust=True)
    assert fenced(walker) and "canary" not in str(walk.events)


@pytest.mark.anyio
@pytest.mark.spec("V22")
async def test_a_trusted_project_can_turn_it_on_and_its_paths_count_below_its_own_root(
    walker: Walker, tier: str
) -> None:
    use(walker, tier)
    (walker.project / "closed").mkdir()
    narrower = {"enabled": True, "filesystem": {"allowWrite": [str(walker.home)], "denyWrite": ["closed"]}}
    settle(walker, "project", sandbox=narrower)
    steps = [run("touch unasked"), run(reach(walker)), run("touch closed/x; true")]
    walk = await walker.walk([*steps, "end"], trust=True, allowed_tools=["Bash(echo *)", "Bash(touch in-*)"])
    assert walk.results[0][1], "a project turns it on, but does not make commands run unasked"
    walk = await walker.walk([*steps, "end"], trust=True, allowed_tools=["Bash"])
    assert fenced(walker) and not (walker.project / "closed/x").exists()


# --- the whole program


@pytest.fixture
def whole(program: Program, tier: str) -> Iterator[Program]:
    use(program, tier)
    yield program


@pytest.mark.spec("V1")
def test_the_first_line_and_doctor_name_the_tier(whole: Program, tier: str) -> None:
    ran = whole.prompt([bash(reach(whole)), "end"], "--sandbox")
    assert ran.lines[0]["sandbox"] == {"enabled": True, "tier": tier, "autoAllow": True} and fenced(whole)
    ran = whole.prompt([bash("touch x"), "end"], "--no-sandbox")
    assert ran.lines[0]["sandbox"] == {"enabled": False, "tier": "none", "autoAllow": False}
    said = [one["words"] for one in json.loads(whole.run("doctor", "--json").out) if one["about"] == "sandbox"]
    assert any(tier in words and "write outside refused" in words for words in said)


@pytest.mark.spec("V2")
@pytest.mark.parametrize("more", [("--settings", '{"sandbox": {"failIfUnavailable": true}}'), ("--permission-mode",)])
def test_the_program_ends_with_status_2_where_it_must_hold_and_cannot(program: Program, more: tuple[str, ...]) -> None:
    use(program, "off")
    args = (*more, "bypassPermissions") if len(more) == 1 else more
    ran = program.prompt([bash("touch ran"), "end"], "--sandbox", *args)
    assert ran.rc == 2 and "the sandbox cannot be used" in ran.err and "TEAMWRIGHT_SANDBOX=off" in ran.err
    assert ran.out == "" and not (program.project / "ran").exists()


@pytest.mark.spec("V2")
def test_one_line_on_standard_error_says_that_nothing_holds(program: Program) -> None:
    use(program, "off")
    ran = program.prompt(["end"], "--sandbox")
    (line,) = [line for line in ran.err.splitlines() if "sandbox" in line]
    assert ran.rc == 0 and "nothing here can hold it" in line and "--no-sandbox" in line


@pytest.mark.spec("V23")
def test_a_teammate_in_a_process_of_its_own_is_fenced_as_its_lead(whole: Program) -> None:
    script = {"main": [CREATE, mate("ada"), "on"], "ada": [bash(reach(whole)), "idle"]}
    ran = whole.prompt(script, "--sandbox", "--teammate-mode", "local")
    assert ran.rc == 0 and fenced(whole), ran.err
    assert not outside(whole).exists()


@pytest.mark.spec("V1", "V22")
def test_config_names_the_tier_and_what_has_no_effect(whole: Program, tier: str) -> None:
    use(whole, tier)
    settle(whole, "user", sandbox=ON | {"ripgrep": {"command": "rg"}, "network": {"allowLocalBinding": True}})
    idle = ["sandbox.network.allowLocalBinding", "sandbox.ripgrep"]
    told = json.loads(whole.run("config", "--json").out)
    assert told["sandbox"] == {"tier": tier, "withoutEffect": idle}
    assert f"sandbox {tier}; read without effect: {', '.join(idle)}\n" in whole.run("config").out
    whole.env["TEAMWRIGHT_SANDBOX"] = "off"
    assert "\nsandbox none; " in whole.run("config").out
    settle(whole, "user")
    assert "\nsandbox off\n" in whole.run("config").out
