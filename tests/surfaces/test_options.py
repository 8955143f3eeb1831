"""The command line: every option that scripts rely on, and one sentence for each wrong use."""

import json
import subprocess
from typing import Any

import pytest

from program import ARGV, Program, bash, tool
from teamwright.cli.commands import COMMANDS


def init(program: Program, *args: str, **more: Any) -> dict[str, Any]:
    return program.prompt(["x"], *args, **more).lines[0]


@pytest.mark.spec("D6")
@pytest.mark.parametrize(
    ("args", "tools"),
    [
        (["--tools", ""], []),
        (["--tools="], []),
        (["--tools", "Read,Bash"], ["Bash", "Read"]),
        (["--tools", "Read", "Bash"], ["Bash", "Read"]),
        (["--tools", "Read Bash"], ["Bash", "Read"]),
        (["--tools", "Read", "--tools", "Glob"], ["Read", "Glob"]),
    ],
    ids=str,
)
def test_the_tools_that_the_model_sees(program: Program, args: list[str], tools: list[str]) -> None:
    assert init(program, *args)["tools"] == tools


def test_default_is_all_tools_and_denied_ones_are_not_shown(program: Program) -> None:
    everything = init(program, "--tools", "default")["tools"]
    assert {"Bash", "Read", "Write", "WebFetch"} <= set(everything)
    fewer = init(program, "--disallowedTools", "Bash,WebFetch", "--disallowed-tools", "Write Edit(src/**)")["tools"]
    assert set(everything) - set(fewer) == {"Bash", "Monitor", "WebFetch", "Write"}  # Monitor runs commands too


@pytest.mark.spec("M3", "M7")
@pytest.mark.parametrize(
    "rules",
    [
        ["Bash(touch a b),Bash(mkdir *)"],
        ["Bash(touch a b)", "Bash(mkdir *)"],
        ["Bash(touch a b) Bash(mkdir *)"],
        ["Read, Bash(touch:*)  ,Bash(mkdir c)"],
    ],
)
def test_rules_are_separated_by_commas_and_spaces_outside_of_parentheses(program: Program, rules: list[str]) -> None:
    ran = program.prompt(
        [[bash("touch a b"), bash("mkdir c"), bash("touch d; rmdir c")], "x"], "--allowedTools", *rules
    )
    assert [is_error for _, is_error in ran.tool_results] == [False, False, True]
    assert sorted(p.name for p in program.project.iterdir()) == ["a", "b", "c"]


def test_a_rule_that_cannot_be_read_is_named_and_the_others_hold(program: Program) -> None:
    ran = program.prompt([bash("touch a"), "x"], "--allowedTools", "Bash(", "Bash(touch a)")
    assert "permission rule" in ran.err and ran.rc == 0 and not ran.tool_results[0][1]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["-p", "x", "--no-such-option"], "--no-such-option"),
        (["-p", "x", "--max-turns", "0"], "max-turns"),
        (["-p", "x", "--max-turns", "many"], "max-turns"),
        (["-p", "x", "--max-budget-usd", "nan"], "max-budget-usd"),
        (["-p", "x", "--permission-mode", "yolo"], "permission-mode"),
        (["-p", "x", "--output-format", "xml"], "output-format"),
        (["-p", "x", "--tools", "Fly"], "Fly"),
        (["-p", "x", "--add-dir", "/no/such/dir"], "/no/such/dir"),
        (["-p", "x", "--setting-sources", "moon"], "moon"),
        (["-p", "x", "--include-partial-messages"], "stream-json"),
        (["-p", "x", "--input-format", "stream-json"], "stream-json"),
        (["-p"], "no prompt"),
        (["-p", "  "], "no prompt"),
        ([], "needs a terminal"),
        (["just a prompt"], "-p PROMPT"),
        (["sessions", "explode"], "explode"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_wrong_use_is_status_2_and_leaves_nothing(program: Program, args: list[str], words: str) -> None:
    model = [] if args[:1] == ["sessions"] else program.model(["never"])
    ran = program.run(*args, *model)
    assert ran.rc == 2 and words in ran.err and ran.out == ""
    assert not list(program.state.glob("projects/*/*.jsonl"))


@pytest.mark.spec("CL1")
@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--modle", "x"], "there is no option --modle; did you mean --model?"),
        (["-p", "x", "--nothing-like-it"], "there is no option --nothing-like-it; `teamwright --help` lists them"),
        (
            ["-p", "x", "--output-format", "jsn"],
            "--output-format: 'jsn' is not one of text, json, stream-json; did you mean json?",
        ),
        (["-p", "x", "--max-turns", "0"], "--max-turns: '0' is not a whole number above 0"),
        (["-p", "x", "--max-turns", "9" * 5_000], "99…' is not a whole number above 0, of at most 18 digits"),
        (["web", "--port", "9" * 5_000], "99…' is not a whole number of at most 18 digits"),
        (["land", "--priority", "9" * 5_000], "99…' is not a whole number of at most 18 digits"),
        (["worker", "--slots", "9" * 5_000], "99…' is not a number from 1 to "),
        (["-p", "x", "--model"], "--model: expected one argument"),
        (["sessions", "delte", "x"], "sessions: 'delte' is not one of list, delete; did you mean delete?"),
        (["worktrees", "--jsn"], "worktrees: there is no option --jsn; did you mean --json?"),
        (["mcp", "lst"], "did you mean list?"),
        (["help", "wortrees"], "there is no command wortrees; did you mean worktrees?"),
        (["sesions"], "there is no command sesions; did you mean sessions?"),
        (["-p", "x", "--chrome"], "there is no option --chrome; `teamwright --help` lists them"),
        (["update"], "there is no command update: use what installed it, such as `pip install -U teamwright`"),
        (["install", "stable"], "there is no command install: it is installed; to update it, use"),
        (["login"], "there is no command login: set ANTHROPIC_API_KEY or OPENAI_API_KEY"),
        (["auth", "login"], "there is no command auth: set ANTHROPIC_API_KEY or OPENAI_API_KEY"),
        (["resume"], "there is no command resume: `teamwright --resume ID` resumes a session"),
        (["sesions", "delete", "x"], "there is no command sesions; did you mean sessions?"),
        (["Worktree", "--model", "x"], "there is no command Worktree; did you mean worktrees?"),
        (["--model", "x", "sessions"], "a command comes before its options: `teamwright sessions ...`"),
        (["repair", "the", "parser"], "put a prompt of several words in quotes"),
    ],
    ids=str,
)
def test_wrong_use_is_one_line_that_says_what_was_meant(program: Program, args: list[str], said: str) -> None:
    ran = program.run(*args)
    assert ran.rc == 2 and ran.out == "" and said in ran.err
    assert ran.err.startswith("teamwright: ") and ran.err.count("\n") == 1 and len(ran.err) < 400


@pytest.mark.spec("CL1")
@pytest.mark.parametrize("prompt", ["hello", "sesions of this week", "list sessions", "test"])
def test_in_doubt_a_prompt_stays_a_prompt(program: Program, prompt: str) -> None:
    ran = program.run(prompt)  # it goes to the app, which needs a terminal
    assert ran.rc == 2 and "needs a terminal" in ran.err


@pytest.mark.spec("CL1")
def test_a_word_like_a_command_can_be_sent_with_p(program: Program) -> None:
    assert program.run("-p", "sesions", script=["sent"]).out == "sent\n"


@pytest.mark.spec("CL1")
def test_a_mistyped_model_is_told_the_one_that_was_meant(program: Program) -> None:
    ran = program.run("-p", "x", "--model", "sonet")
    assert ran.rc == 1 and "did you mean `sonnet`?" in ran.err and ran.err.count("\n") == 1


def test_help_begins_with_the_commands_and_ends_with_examples(program: Program) -> None:
    top = program.run("help")
    assert top.rc == 0 and top.out == program.run("--help").out
    assert top.out.index("commands (") < top.out.index("options:") < top.out.index("examples:")
    for name in COMMANDS:
        ran = program.run("help", name)
        assert ran.rc == 0 and f"examples:\n  teamwright {name}" in ran.out, name
        assert max(map(len, ran.out.splitlines())) <= 80, name


def test_the_version(program: Program) -> None:
    assert program.run("-V").out == program.run("--version").out == program.run("-v").out != ""


@pytest.mark.parametrize("settings", ['{"permissions": ', "{nonsense}", "[1]"])
def test_settings_that_are_no_json_are_named(program: Program, settings: str) -> None:
    ran = program.run("-p", "x", "--settings", settings, script=["never"])
    assert ran.rc in (1, 2) and "--settings" in ran.err and ran.out == ""


def test_settings_from_a_file_and_from_json(program: Program) -> None:
    file = program.root / "mine.json"
    file.write_text(json.dumps({"permissions": {"allow": ["Bash(touch a)"]}}))
    assert not program.prompt([bash("touch a"), "x"], "--settings", str(file)).tool_results[0][1]
    inline = json.dumps({"permissions": {"allow": ["Bash(touch b)"], "defaultMode": "dontAsk"}})
    ran = program.prompt([bash("touch b"), "x"], "--settings", inline)
    assert not ran.tool_results[0][1] and ran.lines[0]["permissionMode"] == "dontAsk"


@pytest.mark.spec("D5")
def test_a_corrupt_user_setting_is_named_by_file_and_line_and_the_rest_works(program: Program) -> None:
    (program.home / ".teamwright").mkdir()
    file = program.home / ".teamwright/settings.json"
    file.write_text('{\n  "permissions": {\n    "allow": [,]\n  }\n}\n')
    ran = program.prompt(["still works"])
    assert ran.rc == 0 and ran.result["result"] == "still works"
    assert f"{file}:3:" in ran.err or f"{file}, line 3" in ran.err


def test_an_untrusted_directory_is_one_line_and_its_settings_do_not_count(program: Program) -> None:
    (program.project / ".teamwright").mkdir()
    settings = {"permissions": {"allow": ["Bash(touch a)"]}, "env": {"EVIL": "1"}}
    (program.project / ".teamwright/settings.json").write_text(json.dumps(settings))
    ran = program.prompt([bash("touch a"), "x"])
    assert ran.tool_results[0][1] and "trust" in ran.err and ran.err.count("\n") == 1
    trusted = program.prompt([bash("touch a"), "x"], "--trust")
    assert not trusted.tool_results[0][1] and trusted.err == ""
    again = program.prompt([bash("touch a"), "x"])  # for that run alone
    assert again.tool_results[0][1]


@pytest.mark.spec("M8")
def test_a_further_directory_is_one_to_work_in(program: Program) -> None:
    outside = program.root / "outside"
    outside.mkdir()
    write = tool("Write", file_path=str(outside / "f"), content="x")
    ran = program.prompt([write, "x"], "--permission-mode", "acceptEdits")
    assert ran.tool_results[0][1] and not (outside / "f").exists()
    ran = program.prompt([write, "x"], "--permission-mode", "acceptEdits", "--add-dir", str(outside))
    assert not ran.tool_results[0][1] and (outside / "f").read_text() == "x"


def test_a_directory_of_the_settings_that_is_gone_is_told_and_left_out(program: Program) -> None:
    settings = json.dumps({"permissions": {"additionalDirectories": ["/no/such/dir"]}})
    ran = program.prompt(["works"], "--settings", settings)
    assert ran.rc == 0 and "/no/such/dir" in ran.err


@pytest.mark.spec("O6")
def test_the_limit_of_turns(program: Program) -> None:
    ran = program.prompt([bash("echo 1"), bash("echo 2"), "never"], "--max-turns", "2")
    assert ran.rc == 1 and ran.result["subtype"] == "error_max_turns" and ran.result["num_turns"] == 2
    assert [text for text, _ in ran.tool_results] == ["1", "2"]


def test_no_key_is_one_message_that_names_three_ways_on(program: Program) -> None:
    ran = program.run("-p", "go")
    assert ran.rc in (1, 2) and ran.out == ""
    assert "ANTHROPIC_API_KEY" in ran.err and "OPENAI_BASE_URL" in ran.err and "teamwright demo" in ran.err


@pytest.mark.parametrize(
    ("script", "words"), [("[1]", "line 1"), ('["a",\n{"x": 1}]', "line 2"), ("{", "line 1"), (None, "cannot be read")]
)
def test_a_script_that_is_wrong_is_named_by_file_and_line(program: Program, script: str | None, words: str) -> None:
    file = program.root / "own.json"
    if script is not None:
        file.write_text(script)
    ran = program.run("-p", "go", "--model", f"script/{file}")
    assert ran.rc in (1, 2) and str(file) in ran.err and words in ran.err


def test_the_system_prompt_can_be_replaced_and_added_to(program: Program) -> None:
    program.prompt(["x"], "--system-prompt", "Be a poet.", "--append-system-prompt", "In English.")
    (stored,) = program.state.glob("projects/*/*/prompts/*")
    text = stored.read_text()
    assert "Be a poet." in text and "In English." in text and "coding agent" not in text


def test_version_and_help(program: Program) -> None:
    version = program.run("--version")
    assert version.rc == 0 and version.out.endswith("(Teamwright)\n")
    assert program.run("-v").out == version.out
    text = program.run("--help").out
    assert "--resume" in text and "teamwright demo" in text and "exit status" in text
    assert not program.state.exists()


@pytest.mark.spec("A12")
def test_a_prompt_that_is_no_utf_8_is_read_as_far_as_it_is(program: Program) -> None:
    text = b"caf\xe9 \xff \xc5\xbc".decode(errors="surrogateescape")
    ran = program.prompt(["fine"], "--append-system-prompt", text, text=text)
    assert ran.rc == 0 and ran.result["result"] == "fine"
    assert "caf\ufffd \ufffd \u017c" in program.transcript().read_text()


@pytest.mark.parametrize("args", [["-p", "go"], ["sessions"], ["config"]], ids=lambda args: args[0])
def test_a_working_directory_that_is_gone_is_one_sentence(program: Program, args: list[str]) -> None:
    shell = 'mkdir gone && cd gone && rmdir ../gone && exec "$@"'
    ran = subprocess.run(
        ["sh", "-c", shell, "sh", *ARGV, *args], cwd=program.project, env=program.env, capture_output=True, text=True,
        timeout=40, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert ran.returncode == 2 and "working directory" in ran.stderr and ran.stderr.count("\n") == 1


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--disallowedTools", "Bash("], "the permission rule `Bash(` cannot be read: write `Tool`"),
        (["--settings", '{"permissions": {"ask": ["Bash("]}}'], "the permission rule `Bash(` cannot be read"),
        (["--settings", '{"permissions": {"deny": "Bash"}}'], "--settings: permissions.deny: must be a list\n"),
        (["--settings", '{"permissions": 3}'], "--settings: permissions: must be an object\n"),
        (["--settings", '{"sandbox": {"enabled": "x"}}'], "--settings: sandbox.enabled: expected `bool`"),
        (["--settings", "[1]"], "--settings: must be a JSON object"),
        (["--settings", "/"], "--settings: /: not a regular file\n"),
        (["--mcp-config", '{"x'], "teamwright: --mcp-config: 1:4: not valid JSON"),
        (["--mcp-config", "[]"], "teamwright: --mcp-config: must be a JSON object"),
        (["--mcp-config", '{"mcpServers": []}'], '`{"mcpServers": {"NAME": {"command": ...}}}`'),
    ],
)
def test_what_was_typed_to_forbid_and_cannot_be_read_starts_nothing(
    program: Program, args: list[str], words: str
) -> None:
    ran = program.run("-p", "go", *args, script=["started"])
    assert ran.rc == 2 and ran.out == "" and words in ran.err and "ignored" not in ran.err


def test_what_was_typed_to_allow_and_cannot_be_read_allows_nothing(program: Program) -> None:
    ran = program.run("-p", "go", "--allowedTools", "Bash(", script=["started"])
    assert ran.rc == 0 and "is ignored" in ran.err


@pytest.mark.spec("F3")
def test_the_setting_that_turns_forks_on_does_not_hold_without_a_person(program: Program) -> None:
    settings = json.dumps({"teamwright": {"fork": True}})
    go = tool("Agent", description="d", prompt="p")
    for args, more, status in [
        ((), {}, "completed"),
        (("--fork",), {}, "async_launched"),
        ((), {"env": {"TEAMWRIGHT_FORK": "1"}}, "async_launched"),
        ((), {"env": {"CLAUDE_CODE_FORK_SUBAGENT": "true"}}, "async_launched"),
        ((), {"env": {"FEATURE_FORK_SUBAGENT": "1", "CLAUDE_CODE_COORDINATOR_MODE": "0"}}, "async_launched"),
    ]:
        ran = program.prompt([go, "x", "x"], "--settings", settings, *args, **more)
        own = [line for line in ran.lines if line["type"] == "user" and line["parent_tool_use_id"] is None]
        assert own[0]["tool_use_result"]["status"] == status


@pytest.mark.spec("A7", "B8")
@pytest.mark.parametrize("said", ["many", "-1", "1.5", "9" * 5_000])
@pytest.mark.parametrize("name", ["TEAMWRIGHT_MAX_RETRIES", "TEAMWRIGHT_MAX_AGENTS"])
def test_a_limit_in_the_environment_is_a_number(program: Program, name: str, said: str) -> None:
    ran = program.run("-p", "hi", script={"main": ["x"]}, env={name: said})
    assert ran.rc == 2 and name in ran.err and "whole number" in ran.err and not ran.out
    assert f"FAULT  environment  {name}" in program.run("doctor", env={name: said}).out
    assert program.run("-p", "SCRIPT:main", script={"main": ["x"]}, env={name: ""}).out == "x\n"


@pytest.mark.spec("A7")
@pytest.mark.parametrize("name", ["MAX_THINKING_TOKENS", "MCP_TIMEOUT", "MCP_TOOL_TIMEOUT"])
def test_a_number_of_another_program_that_is_too_long_is_ignored(program: Program, name: str) -> None:
    servers = ["--mcp-config", json.dumps({"mcpServers": {"s": {"command": "true"}}})]
    ran = program.run("-p", "hi", *servers, script=[bash("true"), "done"], env={name: "9" * 5_000})
    assert ran.rc == 0 and ran.out == "done\n"
