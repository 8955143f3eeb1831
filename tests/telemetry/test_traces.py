"""Traces as a collector gets them: the tree, its links, and what a kill leaves of it."""

import json
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from collector import Collector, Span
from program import Program, bash, tool, wait_file

Open = Callable[..., Collector]
SKIP = "--dangerously-skip-permissions"


def agent(script: str, **more: Any) -> dict[str, Any]:
    return tool("Agent", description=f"play {script}", prompt=f"SCRIPT:{script}", **more)


def tree(spans: list[Span]) -> dict[str, Span]:
    found = {span.id: span for span in spans}
    assert len(found) == len(spans)
    for span in spans:
        assert not span.parent or span.parent in found
        assert span.start <= span.end
    return found


@pytest.mark.spec("U4", "U11")
def test_the_tree_of_a_turn_and_the_same_from_the_log(program: Program, collector: Open) -> None:
    sink, later = collector(), collector()
    kid = agent("kid", subagent_type="general-purpose")
    nested = agent("leaf", subagent_type="general-purpose")
    script = {"main": [kid, "done"], "kid": [nested, "report"], "leaf": [bash("true"), "leaf report"]}
    ran = program.prompt(script, SKIP, env=sink.env("TRACES"))
    found = tree(sink.spans)
    (root,) = [span for span in found.values() if not span.parent]
    assert root.name == "invoke_agent main" and {span.trace for span in found.values()} == {root.trace}
    (leaf,) = [span for span in sink.named("invoke_agent") if span.found["teamwright.agent.depth"] == 2]
    chain = [leaf]
    while chain[-1].parent:
        chain.append(found[chain[-1].parent])
    assert [span.name.split()[0] for span in chain] == [*(["invoke_agent", "execute_tool"] * 2), "invoke_agent"]
    (shell,) = sink.named("execute_tool Bash")
    assert shell.parent == leaf.id and shell.found["gen_ai.tool.call.id"] and not shell.failed
    assert root.found["teamwright.turn.trigger"] == "prompt" and root.found["teamwright.turn.end"] == "done"
    assert root.found["session.id"] == ran.result["session_id"]
    assert sink.resources[0]["service.name"] == "teamwright" and "host.name" not in sink.resources[0]
    for _ in range(2):
        sent = program.run("otel", "export", ran.result["session_id"], "--json", env=later.env("TRACES"))
        assert json.loads(sent.out) == {"spans": len(found), "events": 0}
    live = {(s.trace, s.id, s.parent, s.name, s.start, s.end) for s in sink.spans}
    assert {(s.trace, s.id, s.parent, s.name, s.start, s.end) for s in later.spans} == live
    assert len(later.spans) == 2 * len(live)


@pytest.mark.spec("U4")
def test_figures_of_requests_are_those_of_cost(program: Program, collector: Open) -> None:
    sink = collector()
    script = {"main": [agent("kid", subagent_type="general-purpose"), "done"], "kid": [bash("true"), "report"]}
    ran = program.prompt(script, SKIP, env=sink.env("TRACES"))
    cost = json.loads(program.run("cost", ran.result["session_id"], "--json").out)
    chats = sink.named("chat")
    assert len(chats) == 4 and cost["input_tokens"] > 0
    assert sum(span.found["gen_ai.usage.input_tokens"] for span in chats) == cost["input_tokens"]
    assert sum(span.found["gen_ai.usage.output_tokens"] for span in chats) == cost["output_tokens"]


@pytest.mark.spec("U4")
def test_failures_and_waits_have_their_kinds(program: Program, collector: Open) -> None:
    sink = collector()
    script = [
        bash("exit 3"),
        bash("touch asked"),
        bash("touch refused"),
        {"error": {"fault": "server", "message": "x"}},
    ]
    live = program.talk(script, "--allowedTools", "Bash(exit *)", env=sink.env("TRACES"))
    live.say("go")
    first = live.question(0)
    live.answer(first, behavior="allow", updatedInput=first["request"]["input"])
    live.answer(live.question(1), behavior="deny", message="no")
    live.results(1)
    live.end()
    tree(sink.spans)
    kinds = [span.found.get("error.type") for span in sorted(sink.named("execute_tool Bash"), key=lambda s: s.start)]
    assert kinds == ["tool_error", None, "denied"]
    waits = sorted(sink.named("teamwright.wait"), key=lambda span: span.start)
    told = [(span.found["teamwright.wait.decision"], span.found["teamwright.wait.by"]) for span in waits]
    assert told == [("allow", "code"), ("deny", "code")]
    assert {span.found["teamwright.wait.via"] for span in waits} == {"stdio"}
    failed = [span for span in sink.named("chat") if span.failed]
    assert [span.found["error.type"] for span in failed] == ["server"]


@pytest.mark.spec("U4")
def test_a_turn_that_a_notice_began_goes_on_in_the_trace(program: Program, collector: Open) -> None:
    sink = collector()
    kid = agent("kid", subagent_type="general-purpose", run_in_background=True)
    script = {"main": [kid, "waiting", "done"], "kid": [bash("true"), "report"]}
    assert program.prompt(script, SKIP, env=sink.env("TRACES")).rc == 0
    found = tree(sink.spans)
    turns = sorted(sink.named("invoke_agent main"), key=lambda span: span.start)
    (child,) = [span for span in sink.named("invoke_agent") if span.name != "invoke_agent main"]
    assert len(turns) == 2 and len({span.trace for span in found.values()}) == 1
    assert turns[1].parent == turns[0].id and (child.trace, child.id) in turns[1].links
    assert turns[1].found["teamwright.turn.trigger"] == "notice"


@pytest.mark.spec("U4")
def test_a_fork_links_to_the_request_whose_prefix_it_shares(program: Program, collector: Open) -> None:
    sink = collector()
    script = {"main": [agent("one"), "waiting", "done"], "one": ["Scope: x"]}
    assert program.prompt(script, SKIP, "--fork", env=sink.env("TRACES")).rc == 0
    first = min(sink.named("chat"), key=lambda span: span.start)
    (fork,) = [span for span in sink.named("invoke_agent") if span.found["teamwright.agent.route"] == "fork"]
    assert (first.trace, first.id) in fork.links and fork.trace == first.trace


@pytest.mark.spec("U8")
def test_a_killed_turn_ends_in_its_own_trace(program: Program, collector: Open) -> None:
    sink = collector()
    script = {"main": [bash("true"), bash("echo yes > began; sleep 60")], "after": ["done"]}
    live = program.start(
        "-p", "SCRIPT:main", SKIP, "--output-format", "stream-json", "--verbose", script=script, env=sink.env("TRACES")
    )
    sink.wait_for(lambda: sink.named("execute_tool Bash"))
    wait_file(program.project / "began")
    os.killpg(live.process.pid, signal.SIGKILL)
    live.process.wait(20)
    trace = sink.spans[0].trace
    session = live.lines[0]["session_id"]
    again = program.prompt(script, SKIP, "--resume", session, text="SCRIPT:after", env=sink.env("TRACES"))
    assert again.rc == 0
    tree(sink.spans)
    (cut,) = [span for span in sink.named("invoke_agent main") if span.trace == trace]
    assert cut.found["error.type"] == "interrupted"
    (lost,) = [span for span in sink.named("execute_tool Bash") if span.failed]
    assert lost.parent == cut.id and lost.found["error.type"] == "unknown_outcome"
    (fresh,) = [span for span in sink.named("invoke_agent main") if span.trace != trace]
    assert (cut.trace, cut.id) in fresh.links


@pytest.mark.spec("U9")
def test_the_callers_trace_is_joined_and_a_prompts_own_wins(program: Program, collector: Open) -> None:
    sink = collector()
    outer, own = ("1" * 32, "2" * 16), ("3" * 32, "4" * 16)
    hook = program.root / "hook"
    env = sink.env("TRACES", TRACEPARENT=f"00-{outer[0]}-{outer[1]}-01", TRACESTATE="vendor=1")
    (program.state).mkdir(exist_ok=True)
    hooks = {"PreToolUse": [{"hooks": [{"type": "command", "command": f'echo "$TRACEPARENT" > {hook}'}]}]}
    (program.state / "settings.json").write_text(json.dumps({"hooks": hooks}))
    live = program.talk([bash('echo "$TRACEPARENT $TRACESTATE" > seen'), "one", "two"], SKIP, env=env)
    live.say("first")
    live.results(1)
    message = {"role": "user", "content": "second"}
    live.send({"type": "user", "message": message, "_meta": {"traceparent": f"00-{own[0]}-{own[1]}-01"}})
    live.results(2)
    live.end()
    first, second = sorted(sink.named("invoke_agent main"), key=lambda span: span.start)
    assert (first.trace, first.parent) == outer and (second.trace, second.parent) == own
    (shell,) = sink.named("execute_tool Bash")
    assert wait_file(program.project / "seen").strip() == f"00-{outer[0]}-{shell.id}-01 vendor=1"
    assert wait_file(hook).strip() == f"00-{outer[0]}-{shell.id}-01"
