"""The Skill tool: what the model is told about skills, and what it gets when it calls one."""

import pytest

from conftest import Walker
from crew import bash, results, write_agent
from skill_stage import command, skill, staged
from teamwright.library.skills.file import Skill
from teamwright.models.scripted import call
from teamwright.tools.agents.skill import MOST_LISTED, listing, skill_spec


def made(name: str, description: str = "d", **more: str) -> Skill:
    return Skill(name=name, description=description, **more)


@pytest.mark.spec("S2")
def test_the_listing_is_bounded() -> None:
    few = [made("greet", "Says\n  good morning", argument_hint="[name]"), made("kit:soup", "x" * 1000)]
    text = skill_spec(few).description
    assert "- greet: Says good morning (args: [name])" in text and "- kit:soup: xxx" in text and "x" * 251 not in text
    many = [made(f"skill-{n:03}", "word " * 40) for n in range(200)]
    text = listing(many)
    assert len(text) <= MOST_LISTED and all(skill.name in text for skill in many)
    assert 20 < text.count("\n- ") < 200
    text = listing([made(f"skill-{n:05}-{'x' * 40}") for n in range(2000)])
    assert len(text) <= MOST_LISTED and "more" in text[-20:]
    assert "no skills" in listing([])


@pytest.mark.spec("S2", "A12")
def test_the_listing_shows_what_is_hidden() -> None:
    text = listing([made("x", "a\x1b[2J\u202eb")])
    assert "\x1b" not in text and "\u202e" not in text and text.count("\n") == 1


@pytest.mark.spec("S1", "S2")
async def test_the_model_calls_a_skill(walker: Walker) -> None:
    skill(walker, "greet", "Say good morning to $ARGUMENTS!")
    command(walker, "ship", "Ship !`echo $0`.", "allowed-tools: Bash(echo:*)")
    calls = [call("Skill", skill="greet", args="the wide world"), call("Skill", skill="/Ship", args="it")]
    async with staged(walker, {"main": [*([c] for c in calls), "done"]}) as stage:
        await stage.crew.play()
        first, second = (m for r in stage.crew.requests()[1:] for m in r.messages[-1:])
        spec = next(tool for tool in stage.crew.requests()[0].tools if tool.name == "Skill")
    assert "- greet: about SKILL" in spec.description
    ((text, is_error),) = results(first)
    assert not is_error and "Say good morning to the wide world!" in text
    ((text, is_error),) = results(second)
    assert not is_error and "Ship it." in text


@pytest.mark.spec("S1", "S2")
async def test_what_the_model_may_not_call(walker: Walker) -> None:
    """Under any of its names: reserved for people, denied by a rule, unknown."""
    skill(walker, "deploy", "Deploy.", "disable-model-invocation: true")
    skill(walker, "secret", "the-secret")
    names = ["deploy", "/deploy", "SECRET", "/secret", "no-such", "", "../x"]
    steps = [[call("Skill", skill=name)] for name in names]
    async with staged(walker, {"main": [*steps, "done"]}, rules={"deny": ["Skill(secret)"]}) as stage:
        await stage.crew.play()
        told = [results(m)[0] for m in stage.crew.requests()[-1].messages if results(m)]
        assert (await stage.expand("/deploy")).content[0].text.endswith("Deploy.")
    assert all(is_error for _, is_error in told) and len(told) == len(names)
    assert "for people alone" in told[0][0] and "for people alone" in told[1][0]
    assert "denies secret" in told[2][0] and "denies secret" in told[3][0] and "the-secret" not in str(told)
    assert all("There are: secret" in text for text, _ in told[4:])


@pytest.mark.spec("S3", "R7")
async def test_a_forking_skill_runs_apart(walker: Walker) -> None:
    skill(walker, "audit", "SCRIPT:audit Look at $ARGUMENTS.", "context: fork")
    script = {
        "main": [[call("Skill", skill="audit", args="the doors")], "end"],
        "audit": [bash("echo step-inside"), "all doors are shut"],
    }
    async with staged(walker, script) as stage:
        await stage.crew.play()
        child, main = stage.crew.requests("audit"), stage.crew.requests("main")
    assert "Look at the doors." in child[0].messages[0].text and "go" not in child[0].messages[0].text.split()
    ((text, is_error),) = results(main[1].messages[-1])
    assert not is_error and "all doors are shut" in text and "step-inside" not in text and "agentId: " in text


@pytest.mark.spec("S1", "S3")
async def test_a_forking_skill_names_its_agent(walker: Walker) -> None:
    write_agent(walker, "reader", "tools: Read")
    skill(walker, "audit", "SCRIPT:audit", "context: fork", "agent: reader")
    skill(walker, "lost", "SCRIPT:audit", "context: fork", "agent: nobody")
    script = {"main": [[call("Skill", skill="audit")], [call("Skill", skill="lost")], "end"], "audit": ["shut"]}
    async with staged(walker, script) as stage:
        await stage.crew.play()
        (child,) = stage.crew.requests("audit")
        ((text, is_error),) = results(stage.crew.requests("main")[2].messages[-1])
    assert [tool.name for tool in child.tools] == ["Read"]
    assert is_error and "nobody" in text and "reader" in text


@pytest.mark.spec("S1", "D5")
async def test_a_skill_that_went_away_or_grew_wild(walker: Walker) -> None:
    path = skill(walker, "x", "old")
    async with staged(walker, {"main": [[call("Skill", skill="x")], [call("Skill", skill="x")], "end"]}) as stage:
        path.write_text("---\ndescription: d\n---\nnew " + "x" * 999_990)
        await stage.crew.play()
        told = [results(m)[0] for m in stage.crew.requests()[-1].messages if results(m)]
    assert all("larger than" in text and is_error for text, is_error in told)
