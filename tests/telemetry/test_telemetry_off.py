"""Telemetry is off unless a person switches it on, and costs nothing then."""

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from collector import Collector
from program import Program, bash

Open = Callable[..., Collector]
IMPORTED = """
import sys, threading
import teamwright.cli as cli
def leave(status):
    names = [n for n in sys.modules if n.startswith(("opentelemetry", "teamwright.telemetry", "google.protobuf"))]
    print("IMPORTED", names, [t.name for t in threading.enumerate() if t.name.startswith("teamwright-")])
    raise SystemExit(status)
cli._leave = leave
cli.main(sys.argv[1:])
"""


@pytest.mark.spec("U1")
def test_nothing_is_imported_opened_or_sent_without_the_switch(program: Program, collector: Open) -> None:
    sink = collector()
    env = {k: v for k, v in sink.env().items() if not k.startswith("TEAMWRIGHT")} | {"OTEL_SDK_DISABLED": "false"}
    argv = [sys.executable, "-c", IMPORTED, "-p", "go", *program.model([bash("true"), "done"])]
    plain = {k: v for k, v in env.items() if not k.startswith("OTEL_")}
    done = subprocess.run(
        argv, cwd=program.project, env=program.env | plain, capture_output=True, text=True, timeout=40, check=False
    )
    assert "IMPORTED [] []" in done.stdout, done.stdout + done.stderr
    assert program.prompt(["done"], env=env).rc == 0 and not sink.bodies


@pytest.mark.spec("U2")
def test_a_project_neither_switches_it_on_nor_says_where_to(program: Program, collector: Open) -> None:
    ours, theirs = collector(), collector()
    folder = program.project / ".teamwright"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps({"env": theirs.env(OTEL_LOG_USER_PROMPTS="1")}))
    ran = program.prompt(["done"], "--trust")
    assert ran.rc == 0 and not theirs.bodies
    assert ran.err.count("telemetry") == 1 and "OTEL_EXPORTER_OTLP_ENDPOINT" in ran.err
    program.state.mkdir(exist_ok=True)
    (program.state / "settings.json").write_text(json.dumps({"env": ours.env()}))
    assert program.prompt(["done"], "--trust", text="prompt-secret").rc == 0
    assert ours.spans and not theirs.bodies and b"prompt-secret" not in ours.everything


@pytest.mark.spec("U2")
def test_commands_do_not_see_where_it_goes(program: Program, collector: Open) -> None:
    """Even if the person's settings name it: headers contain tokens."""
    sink = collector()
    program.state.mkdir(exist_ok=True)
    said = sink.env(OTEL_EXPORTER_OTLP_HEADERS="x-token=hush")
    (program.state / "settings.json").write_text(json.dumps({"env": said}))
    ran = program.prompt([bash("env > seen"), "done"], "--dangerously-skip-permissions")
    assert ran.rc == 0 and all(headers["x-token"] == "hush" for headers in sink.headers)
    seen = (program.project / "seen").read_text()
    assert "OTEL_" not in seen and "hush" not in seen and "TRACEPARENT=00-" in seen


@pytest.mark.spec("U3")
def test_without_its_packages_the_program_goes_on(program: Program, collector: Open) -> None:
    hidden = program.root / "hidden" / "opentelemetry"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ImportError('not here')\n")
    ran = program.prompt(["done"], env=collector().env(PYTHONPATH=str(hidden.parent)))
    assert ran.rc == 0 and ran.result["result"] == "done" and ran.err.count("teamwright[otel]") == 1


@pytest.mark.spec("U12")
def test_the_console_is_standard_error(program: Program) -> None:
    signals = {f"OTEL_{name}_EXPORTER": "console" for name in ("TRACES", "METRICS", "LOGS")}
    ran = program.prompt(["done"], env=signals | {"TEAMWRIGHT_ENABLE_TELEMETRY": "1"})
    assert ran.rc == 0 and ran.result["result"] == "done"  # every line of standard output is JSON of ours
    for word in ("invoke_agent main", "teamwright.session.count", "teamwright.user_prompt"):
        assert word in ran.err and word not in ran.out


@pytest.mark.spec("U3")
def test_an_exporter_that_does_not_exist_is_named(program: Program) -> None:
    ran = program.prompt(["done"], env={"TEAMWRIGHT_ENABLE_TELEMETRY": "1", "OTEL_TRACES_EXPORTER": "zipkin"})
    assert ran.rc == 0 and "OTEL_TRACES_EXPORTER: there is no exporter 'zipkin'" in ran.err
