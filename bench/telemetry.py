"""What enabled telemetry costs: `python bench/telemetry.py`.

Feeds the log of a busy agent to a hundred agents' taps at once, and measures CPU per record and the memory of a session
with 100 agents. A separate process imports the SDK.
"""

import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import aiohttp  # noqa: F401  # every session has it, and what it imports is not telemetry's
from rows import Row, ms, table

from teamwright.core.data.event import AgentStarted, LettersTaken, Record, Rendered, Replied, ToolEnded, TurnEnded
from teamwright.core.data.message import Message, Text, ToolCall, Usage, user
from teamwright.core.ids import AgentId, CallId, LetterId, SessionId
from teamwright.telemetry.live import Telemetry, WatchedProcess
from teamwright.telemetry.settings import read_wanted
from teamwright.telemetry.signals.figures import SessionFigures
from teamwright.telemetry.signals.shapes import Measure

AGENTS, TURNS, CALLS, ROUNDS = 100, 5, 10, 5
SESSION = SessionId("00000000-0000-4000-8000-000000000000")
IMPORT = """
import resource, time
began = time.process_time()
import teamwright.telemetry.sending.sdk
import opentelemetry.exporter.otlp.proto.http.trace_exporter, opentelemetry.exporter.otlp.proto.http.metric_exporter
import opentelemetry.exporter.otlp.proto.http._log_exporter
print(time.process_time() - began)
"""
ON = {"TEAMWRIGHT_ENABLE_TELEMETRY": "1", "OTEL_TRACES_EXPORTER": "otlp", "OTEL_LOGS_EXPORTER": "otlp"} | {
    "OTEL_METRICS_EXPORTER": "otlp",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",  # nobody listens, so queues fill and the rest is dropped
}


def log_of(agent: AgentId) -> Iterator[Record]:
    """A teammate that makes one call after the other."""
    model, usage = "anthropic/claude-sonnet-4-6", Usage(20, 50, 9_000, 100)
    events: list[Any] = [AgentStarted(SESSION, "/p", "1", name=agent, team="crew", parent=AgentId(SESSION))]
    events.append(Rendered("hash", model, "start"))
    for turn in range(TURNS):
        events.append(LettersTaken((LetterId(f"l{turn}"),), user("go")))
        for n in range(CALLS):
            call = ToolCall(CallId(f"toolu_{turn}_{n}"), "Read")
            events.append(Replied(Message("assistant", (Text("I look."), call), model), "tool_use", usage, "msg", 900))
            events.append(ToolEnded(call.id, (Text("x" * 2_000),)))
        events.append(TurnEnded("done", "done"))
    for n, event in enumerate(events, 1):
        yield Record(agent, n, 1_700_000_000_000 + n, event)


def reread(agent: AgentId, since: int) -> Iterator[Record]:
    yield from ()


def no_gauges(figures: SessionFigures) -> Sequence[Measure]:
    return ()


def no_price(model: str, usage: Usage) -> float:
    return 0.01


def nobody(words: str) -> None:
    """Ignores warnings."""


def hear_all() -> tuple[float, int]:
    """CPU seconds per record, and by how many kilobytes the process grew."""
    wanted = read_wanted(ON)
    assert wanted is not None
    ground = WatchedProcess(
        session=SESSION,
        wanted=wanted,
        env={},
        reread=reread,
        price=no_price,
        now=int,
        warn=nobody,
        gauges=no_gauges,
    )
    logs = [list(log_of(AgentId(f"a{n:016x}"))) for n in range(AGENTS)]
    before, telemetry = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, Telemetry(ground)
    began = time.thread_time()
    for records in zip(*logs, strict=True):
        for record in records:
            telemetry.hear(record)
    spent = (time.thread_time() - began) / (AGENTS * len(logs[0]))
    telemetry.close()  # by then the SDK is imported and has tried to send everything that waited
    return spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before


def imported() -> float:
    done = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True)
    return float(done.stdout)


def measure(_rig: Any = None) -> list[Row]:
    heard = [hear_all() for _ in range(ROUNDS)]
    each = [spent * 1e6 for spent, _ in heard]
    # 100 agents that each make a request every 3 seconds, followed by a call, write about 70 records a second.
    share = [spent * 70 * 100 for spent, _ in heard]
    return [
        Row("telemetry: import of the SDK and its exporters", ms([imported() for _ in range(3)]), most=300),
        Row("  a record", each, unit="µs CPU"),
        Row("  of a core, 100 busy agents", share, unit="%", most=2),
        Row("  memory with the SDK, all queues full", [max(grown for _, grown in heard) / 1024], unit="MB", most=20),
    ]


if __name__ == "__main__":
    print(table(measure()))
