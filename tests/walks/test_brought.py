"""What people bring to a session besides hooks: skills, an agent's memory, plugins, MCP servers."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import Walker
from crew import agent, bash, crew, results, write_agent
from hook_kit import hook, hooked, logging
from skill_stage import command, skill
from teamwright.core.data.event import Rendered, Warned
from teamwright.models.scripted import call
from teamwright.runtime.agents.resume import Origin
from teamwright.surfaces.view.letters import items_of
from teamwright.surfaces.view.shapes import Note

pytestmark = pytest.mark.anyio
SMALL = Path(__file__).parents[1] / "servers" / "small_mcp.py"


def server(walker: Walker, name: str, *options: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(SMALL), str(walker.home / f"{name}.log"), *options]}


def servers(**configs: Any) -> list[str]:
    return [json.dumps({"mcpServers": configs})]


def deeds(walker: Walker, name: str) -> list[str]:
    path = walker.home / f"{name}.log"
    return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []


# --- skills


@pytest.mark.spec("S1", "S2")
async def test_a_skill_is_offered_called_and_allows_what_it_names(walker: Walker) -> None:
    skill(walker, "greet", "Say good morning to $ARGUMENTS!", "allowed-tools: Bash(touch *)")
    script = [call("Skill", skill="greet", args="the world"), bash("touch ran"), bash("mkdir no"), "end"]
    walk = await walker.walk(script, trust=True)
    text, ran, refused = walk.results
    assert "Say good morning to the world!" in text[0] and not ran[1] and refused[1]
    (spec,) = [tool for tool in walk.model.requests[0].tools if tool.name == "Skill"]
    assert "about SKILL" in spec.description and [s.name for s in walk.session.brought.offered] == ["greet"]


async def test_a_project_that_is_not_trusted_has_no_skills(walker: Walker) -> None:
    skill(walker, "greet", "Hello.")
    walk = await walker.walk([call("Skill", skill="greet"), "end"])
    assert walk.results[0][1] and "Skill" not in {tool.name for tool in walk.model.requests[0].tools}
    assert await walk.session.brought.expand("/greet") is None


async def test_the_first_skill_may_come_while_the_session_runs(walker: Walker) -> None:
    async with crew(walker, {"main": ["end"]}, trust=True) as walk:
        assert await walk.session.brought.expand("/greet you") is None
        command(walker, "greet", "Hello $0.")
        found = await walk.session.brought.expand("/greet you")
    assert found is not None and found.content[0].text == "Hello you."


@pytest.mark.spec("S3", "R7")
async def test_a_skill_of_its_own_context_runs_as_an_agent(walker: Walker) -> None:
    skill(walker, "audit", "SCRIPT:audit Look at $ARGUMENTS.", "context: fork", "allowed-tools: Bash(touch *)")
    scripts = {"main": [call("Skill", skill="audit", args="it"), "end"], "audit": [bash("touch ran"), "all shut"]}
    async with crew(walker, scripts, trust=True, mode="default") as walk:
        await walk.play()
        assert "all shut" in results(walk.requests()[1].messages[-1])[0][0] and (walker.project / "ran").exists()
        assert "go" not in walk.requests("audit")[0].messages[0].text


@pytest.mark.spec("D10")
async def test_an_agent_knows_the_skills_of_its_definition(walker: Walker) -> None:
    skill(walker, "soup", "Never boil the noodles twice.")
    write_agent(walker, "cook", "skills: soup, bread")
    scripts = {"main": [agent("child", subagent_type="cook"), "end"], "child": ["report"]}
    async with crew(walker, scripts, trust=True) as walk:
        await walk.play()
        assert "Never boil the noodles twice." in walk.requests("child")[0].system[-2]
    assert any("bread" in w.text for w in walk.of(Warned))


# --- memory


@pytest.mark.spec("D11", "A6")
@pytest.mark.parametrize("scope", ["user", "project", "local"])
async def test_an_agent_writes_its_memory_and_knows_it_the_next_time(walker: Walker, scope: str) -> None:
    write_agent(walker, "keeper", f"memory: {scope}", "tools: Read")
    place = {"user": walker.home / ".teamwright/memory/agents", "project": walker.project / ".teamwright/agent-memory",
             "local": walker.project / ".teamwright/agent-memory-local"}[scope] / "keeper"  # fmt: skip
    write = call("Write", file_path=str(place / "MEMORY.md"), content="- the kettle is blue\n")
    beside = call("Write", file_path=str(walker.project / "other.md"), content="x")
    again = agent("second", subagent_type="keeper")
    scripts = {
        "main": [agent("first", subagent_type="keeper"), again, "end"],
        "first": [[write, beside], "noted"],
        "second": ["known"],
    }
    async with crew(walker, scripts, trust=True, mode="default") as walk:
        await walk.play()
        first, second = walk.requests("first"), walk.requests("second")[0]
        assert [error for _, error in results(first[1].messages[-1])] == [False, True]
        assert str(place) in first[0].system[-2] and "kettle" not in first[0].system[-2]
        assert "the kettle is blue" in second.system[-2]
    assert (place / "MEMORY.md").is_file() and not (walker.project / "other.md").exists()


# --- plugins


async def test_a_plugin_brings_agents_skills_hooks_and_servers(walker: Walker) -> None:
    root = walker.home / "kit"
    for name, text in {
        ".claude-plugin/plugin.json": json.dumps({"name": "kit"}),
        "agents/cook.md": "---\nname: cook\ndescription: cooks\n---\nYou cook.",
        "skills/soup/SKILL.md": "---\nname: soup\ndescription: about soup\n---\nStir.",
        "hooks/hooks.json": json.dumps({"hooks": {"Stop": [hook(logging(walker))]}}),
        ".mcp.json": json.dumps({"mcpServers": {"near": server(walker, "near")}}),
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    scripts = {
        "main": [agent("child", subagent_type="kit:cook"), call("Skill", skill="kit:soup"), "end"],
        "child": ["k"],
    }
    async with crew(walker, scripts, plugin_dirs=[str(root)]) as walk:
        await walk.play()
        assert "Stir." in results(walk.requests()[2].messages[-1])[0][0] and walk.requests("child")
        assert "mcp__near__echo" in {tool.name for tool in walk.requests()[0].tools}
    assert hooked(walker)


# --- servers


@pytest.mark.spec("D8")
async def test_tools_of_a_server_are_there_from_the_first_request_to_the_end(walker: Walker) -> None:
    script = [call("mcp__near__echo", text="hello"), call("mcp__near__where"), "end"]
    walk = await walker.walk(
        script, mcp_config=servers(near=server(walker, "near")), allowed_tools=["mcp__near__echo"],
        disallowed_tools=["mcp__near__crash"],
    )  # fmt: skip
    names = {tool.name for tool in walk.model.requests[0].tools}
    assert {"mcp__near__echo", "mcp__near__where"} <= names and "mcp__near__crash" not in names
    assert "hello" in walk.results[0][0] and walk.results[1][1]  # nobody allowed the second
    assert deeds(walker, "near").count("start") == 1 and deeds(walker, "near")[-1] == "end"

    again = await walker.walk(["more"], origin=Origin(walk.session.id), mcp_config=servers(near=server(walker, "near")),
                              allowed_tools=["mcp__near__echo"], disallowed_tools=["mcp__near__crash"])  # fmt: skip
    assert again.of(Rendered) == [] and again.model.requests[0].tools == walk.model.requests[0].tools


@pytest.mark.spec("D8", "A10")
async def test_a_server_that_never_answers_holds_the_first_request_up_only_so_long(walker: Walker) -> None:
    walker.env["MCP_TIMEOUT"] = "300"
    config = servers(mute={"command": "sleep", "args": ["60"]}, broken={"command": "/no/such/program"})
    walk = await walker.walk(["end"], mcp_config=config)
    assert walk.ends[0].text == "end"
    pool = walk.session.brought.pool
    assert pool is not None and {s.status for s in pool.states()} <= {"failed", "pending"}


@pytest.mark.spec("D8", "Y5", "R13")
async def test_a_server_of_a_definition_is_its_agents_alone_and_of_those_it_starts(walker: Walker) -> None:
    write_agent(walker, "owner", f"mcpServers: {json.dumps([{'own': server(walker, 'own')}])}")
    scripts = {
        "main": [agent("child", subagent_type="owner"), bash("true"), "end"],
        "child": [call("mcp__own__echo", text="one"), agent("grand"), "report"],
        "grand": [call("mcp__own__echo", text="two"), "tiny"],
    }
    async with crew(walker, scripts) as walk:
        await walk.play()
        assert "one" in results(walk.requests("child")[1].messages[-1])[0][0]
        assert "two" in results(walk.requests("grand")[1].messages[-1])[0][0]
        assert not [tool for r in walk.requests() for tool in r.tools if tool.name.startswith("mcp__own")]
        assert deeds(walker, "own")[-1] == "end"  # with its agent, not with the session
    assert deeds(walker, "own").count("start") == 1


@pytest.mark.spec("D8", "R13")
async def test_a_hundred_agents_share_one_process_of_a_server(walker: Walker) -> None:
    scripts = {"main": [[agent("child") for _ in range(100)], "end"], "child": [call("mcp__near__where"), "known"]}
    async with crew(walker, scripts, mcp_config=servers(near=server(walker, "near"))) as walk:
        await walk.play()
        told = [results(request.messages[-1]) for request in walk.requests("child")]
    pids = [text for found in told for text, _ in found]
    assert len(pids) == 100 and len(set(pids)) == 1 and pids[0].startswith("pid=")
    assert deeds(walker, "near").count("start") == 1 and deeds(walker, "near").count("call") == 100


@pytest.mark.spec("D7")
async def test_an_agent_whose_server_nobody_has_is_not_offered(walker: Walker) -> None:
    write_agent(walker, "needy", "requiredMcpServers: [absent]")
    write_agent(walker, "fitting", "requiredMcpServers: [nea]")
    scripts = {
        "main": [agent("child", subagent_type="needy"), agent("child", subagent_type="fitting"), "end"],
        "child": ["report"],
    }
    async with crew(walker, scripts, mcp_config=servers(near=server(walker, "near"))) as walk:
        await walk.play()
        (spec,) = [tool for tool in walk.requests()[0].tools if tool.name == "Agent"]
        assert "fitting" in spec.description and "needy" not in spec.description
        refused, fine = (results(r.messages[-1])[0] for r in walk.requests()[1:])
        assert refused[1] and "absent" in refused[0] and not fine[1]


@pytest.mark.spec("Q1")
async def test_what_a_server_pushes_is_a_message_to_the_main_agent(walker: Walker) -> None:
    async with crew(
        walker, {"main": [call("mcp__near__push"), "end", "heard"]}, mcp_config=servers(near=server(walker, "near"))
    ) as walk:
        await walk.play()
        message = walk.model.requests[-1].messages[-1]
    said = message.text
    opening = '<channel-message source="near" from="ci" run="7" note="&quot;>&lt;channel-message>\\u000ay'
    assert said.startswith(opening) and len(said) < 500 and said.count("<channel-message") == 1
    assert said.endswith('…">\nnews!&lt;/channel-message> \\x1b[1mmore\n</channel-message>')
    (note,) = items_of(message, 1, 1)
    assert isinstance(note, Note) and (note.kind, note.who) == ("message", "near") and "news!" in note.text


@pytest.mark.spec("D8")
async def test_strict_means_those_of_the_command_line_alone(walker: Walker) -> None:
    (walker.project / ".mcp.json").write_text(servers(near=server(walker, "near"))[0])
    walk = await walker.walk(["end"], trust=True, strict_mcp_config=True)
    assert walk.session.brought.pool is None and not deeds(walker, "near")
    walk = await walker.walk(["end"], trust=True)
    assert "mcp__near__echo" in {tool.name for tool in walk.model.requests[0].tools}
