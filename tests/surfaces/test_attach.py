"""`teamwright attach`: what a person reads of the lines, how their input is read, and the whole program."""

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from program import ARGV, LIMIT, Program, bash, check_clean
from teamwright.core.errors import UsageError
from teamwright.store.files.paths import Home
from teamwright.surfaces.attach.command import find_session
from teamwright.surfaces.attach.lines import ToldLine, describe, typed

EVIL = "\x1b]0;title\x07\u202eevil"
RULES = [{"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "git *"}], "behavior": "allow"}]
ID = "11111111-1111-4111-8111-111111111111"


def asked(tool: str = "Bash", suggestions: Any = (), **args: Any) -> dict[str, Any]:
    request = {
        "subtype": "can_use_tool", "tool_name": tool, "input": args, "agent_name": "ada", "decision_reason": "no rule.",
        "permission_suggestions": list(suggestions),
    }  # fmt: skip
    return {"type": "control_request", "request_id": "q1", "request": request}


def shown(line: Any, told: ToldLine | None = None) -> str:
    return "\n".join(describe(json.dumps(line).encode(), told or ToldLine()))


@pytest.mark.spec("A12")
def test_lines_become_words_and_hide_nothing() -> None:
    text = {"type": "text", "text": f"hi {EVIL}"}
    assert shown({"type": "assistant", "message": {"content": [text]}}).startswith("hi \\x1b")
    use = {"type": "tool_use", "name": "Bash", "input": {"command": f"ls {EVIL}"}}
    assert shown({"type": "assistant", "message": {"content": [use]}}) == "+ Bash ls \\x1b]0;title\\x07\\u202eevil"
    result = {"type": "tool_result", "content": [{"type": "text", "text": "\n".join(map(str, range(99)))}]}
    assert shown({"type": "user", "message": {"content": [result]}}).splitlines()[0].strip() == "..."
    question = shown(asked(command=f"rm -rf x{' ' * 300}; {EVIL}", timeout=3))
    assert "ada wants to use Bash" in question and "; \\x1b]0;title" in question and "timeout: 3" in question
    check_clean(question)


def test_odd_lines_are_passed_over() -> None:
    wrong = b'{"type": "user", "message": {"content": 7}}'
    for line in (b"", b"{", b"[]", b'{"type": 1}', b'{"type": "assistant"}', wrong):
        assert describe(line, ToldLine()) == []
    assert shown({"type": "system", "subtype": "init", "tools": []}) == ""


def test_other_agents_stand_behind_their_names() -> None:
    told = ToldLine()
    shown({"type": "system", "subtype": "attached", "agents": {"a2": "ben"}}, told)
    shown({"type": "system", "subtype": "agent_started", "agent_id": "a3", "name": "cy"}, told)
    for id, name in (("a2", "ben"), ("a3", "cy")):
        said = {"type": "user", "isReplay": True, "message": {"content": "hi"}, "agent_id": id}
        assert shown(said, told) == f"{name} | > hi"
    shown({"type": "system", "subtype": "task_started", "task_id": "a1", "description": "find it"}, told)
    line = {"type": "assistant", "message": {"content": [{"type": "text", "text": "x"}]}, "agent_id": "a1"}
    assert shown(line, told) == "find it | x"
    event = {"subtype": "team_event", "kind": "message", "agent": "ada@t", "to": "ben@t", "text": "hi"}
    assert shown({"type": "system"} | event, told) == "* ada@t message to ben@t hi"


@pytest.mark.spec("M5")
@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("y", {"behavior": "allow"}),
        ("a", {"behavior": "allow", "updatedPermissions": [RULES[0] | {"destination": "session"}]}),
        ("n", {"behavior": "deny", "message": "The person said no."}),
        ("n use make", {"behavior": "deny", "message": "The person said no. They say: use make"}),
    ],
)
def test_answers_are_letters(words: str, answer: dict[str, Any]) -> None:
    told = ToldLine()
    assert "always: Bash(git *)" in shown(asked(suggestions=RULES, command="git push"), told)
    (line,) = typed(words, told)
    assert line["response"] == {"subtype": "success", "request_id": "q1", "response": answer}
    assert typed("y", told) == [{"type": "user", "message": {"role": "user", "content": "y"}}]  # nothing waits now


@pytest.mark.spec("M5")
@pytest.mark.parametrize("command", ["\n".join(f"echo {n}" for n in range(99)), "echo " + "x" * 5_000])
def test_a_letter_is_no_answer_to_what_has_left_the_screen(command: str) -> None:
    told = ToldLine()
    question = shown(asked(suggestions=RULES, command=command), told)
    assert "answer with the whole word" in question and "  yes, always (always: Bash(git *)), n" in question
    for letter in ("y", "a"):
        with pytest.raises(UsageError, match="longer than a screen"):
            typed(letter, told)
    assert "q1" in told.questions
    assert typed("yes", told)[0]["response"]["response"] == {"behavior": "allow"}


@pytest.mark.spec("M5")
def test_padding_is_a_count() -> None:
    assert "echo hi ⟨4,000 blanks⟩ ; touch x" in shown(asked(command=f"echo hi{' ' * 4000}; touch x"))


def test_while_a_question_waits_other_words_are_a_prompt() -> None:
    told = ToldLine()
    shown(asked(command="ls"), told)
    assert typed("yes please", told)[0]["type"] == "user" and typed("", told) == [] and "q1" in told.questions
    shown({"type": "control_cancel_request", "request_id": "q1"}, told)
    assert typed("n", told)[0]["type"] == "user"


def test_questions_of_an_agent_take_a_number_or_words() -> None:
    options = [{"label": "SQLite", "description": "x"}, {"label": "Postgres", "description": "y"}]
    parts = [{"question": q, "header": "h", "options": options} for q in ("Which?", "And then?")]
    told = ToldLine()
    assert "2. Postgres: y" in shown(asked("AskUserQuestion", questions=parts), told)
    assert typed("2", told) == []
    (line,) = typed("none of them", told)
    answers = line["response"]["response"]["updatedInput"]["answers"]
    assert answers == {"Which?": "Postgres", "And then?": "none of them"}


def test_commands_become_controls() -> None:
    told = ToldLine()
    assert typed("/to ada be brief", told) == [
        {"type": "user", "message": {"role": "user", "content": "be brief"}, "agent_id": "ada"}
    ]
    for words, request in [
        ("/interrupt", {"subtype": "interrupt"}), ("/interrupt a1", {"subtype": "interrupt", "agent_id": "a1"}),
        ("/stop a1", {"subtype": "stop_task", "task_id": "a1"}), ("/stop-all", {"subtype": "stop_all"}),
        ("/background", {"subtype": "background"}),
    ]:  # fmt: skip
        assert typed(words, told)[0]["request"] == request
    assert typed("/compact now", told)[0]["message"]["content"] == "/compact now"
    with pytest.raises(UsageError, match="/to needs"):
        typed("/to ada", told)


def test_which_session_is_meant(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with pytest.raises(UsageError, match="--listen"):
        find_session(home, None, tmp_path)
    home.run.mkdir()
    for id in (ID, ID.replace("1", "2"), ID[:-1] + "2"):
        (home.run / f"session-{id}.door").touch()
    assert find_session(home, "2222", tmp_path) == ID.replace("1", "2")
    with pytest.raises(UsageError, match="several"):
        find_session(home, "1111", tmp_path)
    with pytest.raises(UsageError, match="no running session"):
        find_session(home, "zz", tmp_path)


def wait_for_door(program: Program) -> None:
    limit = time.monotonic() + LIMIT
    while not list((program.state / "run").glob("session-*.door")):
        assert time.monotonic() < limit
        time.sleep(0.01)


def test_a_second_terminal_answers_and_talks(program: Program) -> None:
    script = [bash("touch made"), "It is made.", "Good bye."]
    main = program.start("-p", "go", "--listen", "--output-format", "stream-json", script=script)
    main.wait_for(lambda line: line["type"] == "control_request")
    wait_for_door(program)
    guest = subprocess.Popen(
        [*ARGV, "attach"], cwd=program.project, env=program.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, bufsize=1,
    )  # fmt: skip
    try:
        assert guest.stdin and guest.stdout
        lines = []
        for line in guest.stdout:
            lines.append(line)
            if "y, " in line and "n and why" in line:
                guest.stdin.write("y\n")
            if "It is made." in line:
                break
        assert any("touch made" in line for line in lines)
        ended = main.end()
        assert ended.rc == 0 and (program.project / "made").exists()
        guest.stdin.close()
        rest = guest.stdout.read()
        assert guest.wait(LIMIT) == 0
        check_clean("".join(lines) + rest)
    finally:
        guest.kill()
        guest.wait(LIMIT)
        for pipe in (guest.stdin, guest.stdout, guest.stderr):
            pipe.close()
    assert not list((program.state / "run").glob("session-*.door"))


def test_what_is_not_running_cannot_be_attached_to(program: Program) -> None:
    ran = program.run("attach")
    assert ran.rc == 2 and "no session of" in ran.err and "--listen" in ran.err
    ran = program.run("attach", ID)
    assert ran.rc == 2 and "--resume" in ran.err
