"""A prompt that calls an unknown command is an error that costs nothing; one that begins with a path is a prompt."""

import json

import pytest

from program import Program


@pytest.mark.spec("S4")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/nosuch", "There is no command /nosuch here, only /btw, /compact, /greet."),
        ("/nosuch look at src/a.py", "There is no command /nosuch here"),
        ("/gret ada", "There is no command /gret; did you mean /greet?"),
    ],
)
def test_an_unknown_command_is_said_and_no_model_is_asked(program: Program, text: str, said: str) -> None:
    (program.home / ".claude" / "commands").mkdir(parents=True)
    (program.home / ".claude" / "commands" / "greet.md").write_text("Say hello.")
    plain = program.run("-p", text, script=["asked"])
    assert plain.rc == 1 and plain.out == "" and f"teamwright: {said}" in plain.err
    told = program.prompt(["asked"], text=text)
    assert told.rc == 1 and told.result["is_error"] and said in told.result["result"]
    assert told.result["usage"]["output_tokens"] == 0 and "asked" not in json.dumps(told.lines)


@pytest.mark.spec("S4")
@pytest.mark.parametrize(
    "text",
    ["/etc is what?", "/etc/hosts is what?", "/no/such/y.py explain", "/notes.md: what is it?", "// a comment", "/"],
)
def test_words_that_begin_with_a_path_are_a_prompt(program: Program, text: str) -> None:
    ran = program.run("-p", text, script=["asked"])
    assert ran.rc == 0 and ran.out == "asked\n"
