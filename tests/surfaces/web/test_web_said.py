"""What the page does as the terminal does: a yes that lasts outside of the sandbox, and commands by their names."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from program import Live, Program, bash, tool
from teamwright.host.sandbox.tiers import find_tier
from teamwright.store.files.paths import find_transcript, home_from
from web_kit import WebHub


@pytest.fixture
def hub(program: Program) -> Iterator[WebHub]:
    found = WebHub(program).enter()
    yield found
    found.close()


def listening(program: Program, script: Any, *args: str, text: str = "go") -> Live:
    return program.start("-p", text, "--listen", "--output-format", "stream-json", "--verbose", *args, script=script)


@pytest.mark.spec("N12", "V14")
def test_always_outside_of_the_sandbox_is_what_it_is_in_the_terminal(program: Program, hub: WebHub) -> None:
    if why := find_tier(program.root, program.env).why:
        pytest.skip(why)
    (program.project / "out.sh").write_text(f'echo "$1" >> {program.home}/left\n')
    out = tool("Bash", command="sh out.sh one", dangerouslyDisableSandbox=True)
    run = listening(program, [out, out, "end"], "--settings", json.dumps({"sandbox": {"enabled": True}}))
    question = hub.question()
    assert question["outside"] and question["rules"] == ["Bash(sh out.sh one)"]
    assert hub.answer(question, decision="allow", always="agent").status == 400
    assert hub.answer(question, decision="allow", always="all").status == 200
    assert run.end().rc == 0
    assert (program.home / "left").read_text().split() == ["one"] * 2


@pytest.mark.spec("N13", "S2")
def test_a_skill_is_called_by_its_name_and_an_unknown_command_is_told(program: Program, hub: WebHub) -> None:
    for name, context in (("brief", "inline"), ("apart", "fork")):
        folder = program.home / ".claude" / "skills" / name
        folder.mkdir(parents=True)
        head = f"---\nname: {name}\ndescription: does {name}\ncontext: {context}\n---\n"
        (folder / "SKILL.md").write_text(f"{head}Be brief about $ARGUMENTS.\n")
    run = listening(program, {"main": [bash("touch made"), "end"], "apart": ["said apart"]}, text="SCRIPT:main")
    question = hub.question()
    path = f"/api/sessions/{question['session']}"
    assert hub.post(f"{path}/say", {"text": "/brief the tests"}).json["letter"]
    assert [q["text"] for q in hub.get(path).json["queue"]] == ["/brief the tests"]
    assert "said apart" in hub.post(f"{path}/say", {"text": "/apart SCRIPT:apart"}).json["output"]
    unknown = hub.post(f"{path}/say", {"text": "/breif the tests"})
    assert unknown.status == 409 and "did you mean /brief?" in unknown.json["error"]
    assert hub.post(f"{path}/say", {"text": "/etc is a directory"}).json["letter"]
    assert hub.answer(question, decision="allow").status == 200
    assert run.end().rc == 0
    transcript = find_transcript(home_from(program.env), question["session"])
    assert transcript is not None
    told = transcript.read_text()
    assert "Be brief about the tests." in told and "/etc is a directory" in told and "breif" not in told
