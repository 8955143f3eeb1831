"""Metrics and events: their names, what they never contain, and the names that other dashboards read."""

from collections.abc import Callable

import pytest

from collector import Collector
from program import Program, bash, tool
from teamwright.telemetry.settings import LONG, Content

Open = Callable[..., Collector]
SKIP = "--dangerously-skip-permissions"
SECRETS = (b"reply-secret", b"output-secret", b"command-secret", b"prompt-secret")


def play(program: Program, env: dict[str, str]) -> None:
    script = [["reply-secret", bash("echo output-$(echo secret) # command-secret")], "done"]
    assert program.prompt(script, SKIP, text="prompt-secret", env=env).rc == 0


@pytest.mark.spec("U6")
def test_no_content_unless_it_is_asked_for(program: Program, collector: Open) -> None:
    sink = collector()
    play(program, sink.env())
    assert sink.spans and sink.events and sink.points
    assert not [word for word in (*SECRETS, str(program.project).encode()) if word in sink.everything]


@pytest.mark.spec("U6")
@pytest.mark.parametrize(
    ("variable", "word"),
    [
        ("OTEL_LOG_ASSISTANT_RESPONSES", b"reply-secret"),
        ("OTEL_LOG_TOOL_CONTENT", b"output-secret"),
        ("OTEL_LOG_TOOL_DETAILS", b"command-secret"),
        ("OTEL_LOG_USER_PROMPTS", b"prompt-secret"),
    ],
)
def test_each_kind_of_content_has_its_own_switch(program: Program, collector: Open, variable: str, word: bytes) -> None:
    sink = collector()
    play(program, sink.env(**{variable: "1"}))
    assert [secret for secret in SECRETS if secret in sink.everything] == [word]


@pytest.mark.spec("U6")
def test_keys_are_in_no_content(program: Program, collector: Open) -> None:
    """Keys of the environment, and what looks like one, wherever they are said."""
    sink, own, shaped = collector(), "nothing-of-a-known-shape-0123", "sk-" + "a1" * 20
    all_of_it = ("USER_PROMPTS", "ASSISTANT_RESPONSES", "TOOL_DETAILS", "TOOL_CONTENT")
    env = sink.env(**{f"OTEL_LOG_{name}": "1" for name in all_of_it}) | {"BUILD_TOKEN": own}
    script = [[f"{own} {shaped}", bash(f"echo {own} {shaped} told-$(echo output)")], f"{own} {shaped} done"]
    assert program.prompt(script, SKIP, text=f"prompted {own} {shaped}", env=env).rc == 0
    assert all(word in sink.everything for word in (b"prompted", b"told-output", b"done"))
    assert own.encode() not in sink.everything and shaped.encode() not in sink.everything


@pytest.mark.spec("U6")
def test_content_is_bounded_and_no_key_is_cut_in_two() -> None:
    key = "sk-" + "k1" * 40
    content = Content(secrets=("mine-mine",))
    assert content.shown("a mine-mine b") == "a [secret] b"
    for before in (0, LONG - 40, LONG - 2, LONG, LONG + 5_000):
        shown = content.shown("x " * (before // 2) + f" {key} " + "y " * 4_000)
        assert "k1k1" not in shown and len(shown) <= LONG
    assert content.shown("x" * LONG) == "x" * LONG and content.shown("x" * (LONG + 1))[-1] == "…"


@pytest.mark.spec("U10")
def test_the_well_known_names_arrive_beside_ours(program: Program, collector: Open) -> None:
    sink = collector()
    write = tool("Write", file_path="a.txt", content="one\ntwo\n")
    git = "git init -q . && git add a.txt && git -c user.name=x -c user.email=x@y commit -qm one"
    env = sink.env("METRICS", "LOGS", CLAUDE_CODE_ENABLE_TELEMETRY="1")
    ran = program.prompt([write, bash(git), "done"], SKIP, env=env)
    sums: dict[tuple[str, str], float] = {}
    for point in sink.points:
        assert point.found["session.id"] == ran.result["session_id"]
        key = point.metric, str(point.found.get("type", ""))
        sums[key] = sums.get(key, 0) + point.value
        assert point.delta or point.metric.endswith((".running", ".waiting", ".unread"))
    for prefix in ("teamwright", "claude_code"):
        assert sums[f"{prefix}.session.count", ""] == 1 and sums[f"{prefix}.commit.count", ""] == 1
        assert sums[f"{prefix}.token.usage", "input"] > 0 and sums[f"{prefix}.token.usage", "output"] > 0
        assert sums[f"{prefix}.lines_of_code.count", "added"] >= 2
    assert sums["claude_code.code_edit_tool.decision", ""] == 1 and sums["teamwright.tool.decision", ""] == 2
    bodies = [body for body, _ in sink.events]
    for name in ("user_prompt", "api_request", "tool_decision", "tool_result"):
        assert f"claude_code.{name}" in bodies and f"teamwright.{name}" in bodies
    result = next(found for body, found in sink.events if body == "claude_code.tool_result")
    assert result["tool_name"] == "Write" and result["event.name"] == "tool_result" and result["success"] == "true"


@pytest.mark.spec("U10")
def test_without_the_other_programs_switch_there_are_only_our_names(program: Program, collector: Open) -> None:
    sink = collector()
    assert program.prompt(["done"], env=sink.env("METRICS", "LOGS")).rc == 0
    assert sink.points and b"claude_code" not in sink.everything
