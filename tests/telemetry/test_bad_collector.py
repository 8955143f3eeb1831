"""A collector that is slow, refuses, hangs or is gone costs a turn nothing, and the end at most a few seconds."""

import re
import time
from collections.abc import Callable, Sequence

import pytest

from collector import Collector
from program import Program, bash
from teamwright.telemetry.sending.channel import Channel

Open = Callable[..., Collector]


@pytest.mark.spec("U7")
@pytest.mark.parametrize("trouble", ["gone", "hangs", "refuses"])
def test_a_turn_does_not_wait(program: Program, collector: Open, trouble: str) -> None:
    sink = collector(503 if trouble == "refuses" else 200, holds=trouble == "hangs")
    if trouble == "gone":
        sink.close()
    began = time.monotonic()
    ran = program.prompt([*[bash("true")] * 4, "done"], "--dangerously-skip-permissions", env=sink.env())
    assert ran.rc == 0 and ran.result["result"] == "done"
    assert ran.result["duration_ms"] < 5_000 and time.monotonic() - began < 15
    assert len(re.findall("telemetry: the collector does not take what is sent; [1-9]", ran.err)) == 1


@pytest.mark.spec("U7")
def test_numbers_that_are_too_long_leave_the_defaults(program: Program, collector: Open) -> None:
    names = (
        "OTEL_BSP_MAX_QUEUE_SIZE",
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
        "OTEL_BSP_SCHEDULE_DELAY",
        "OTEL_METRIC_EXPORT_INTERVAL",
        "OTEL_LOGS_EXPORT_INTERVAL",
    )
    sink = collector()
    ran = program.prompt(["done"], env=sink.env(**dict.fromkeys(names, "9" * 5_000)))
    assert ran.rc == 0 and ran.result["result"] == "done" and sink.spans


@pytest.mark.spec("U7")
def test_doctor_says_whether_the_collector_answers(program: Program, collector: Open) -> None:
    sink = collector()
    env = sink.env("TRACES", OTEL_EXPORTER_OTLP_HEADERS="x-token=hush")
    good = program.run("doctor", env=env)
    assert f"the collector for traces answers at 127.0.0.1:{sink.port}" in good.out and "hush" not in good.out
    sink.close()
    bad = program.run("doctor", env=env)
    assert bad.rc == 1 and f"does not answer at 127.0.0.1:{sink.port}" in bad.out


@pytest.mark.spec("U7")
def test_a_full_queue_counts_what_it_drops() -> None:
    taken: list[int] = []

    def connect() -> Callable[[Sequence[int]], bool]:
        def export(items: Sequence[int]) -> bool:
            taken.extend(items)
            return True

        return export

    channel: Channel[int] = Channel("test", connect, seconds=60, most=10, batch=100)
    for n in range(15):
        channel.put(n)
    channel.close()
    channel.join(time.monotonic() + 10)
    assert channel.lost == 5 and taken == list(range(10))


@pytest.mark.spec("U7")
def test_a_collector_that_does_not_take_it_is_given_up_at_once() -> None:
    def connect() -> Callable[[Sequence[int]], bool]:
        return refuse

    def refuse(items: Sequence[int]) -> bool:
        return not items

    channel: Channel[int] = Channel("test", connect, seconds=60, most=10, batch=100)
    channel.put(1)
    began = time.monotonic()
    channel.close()
    channel.join(time.monotonic() + 10)
    assert channel.lost == 1 and time.monotonic() - began < 5


@pytest.mark.spec("U7")
def test_an_error_of_its_own_ends_the_thread_and_says_why() -> None:
    def connect() -> Callable[[Sequence[int]], bool]:
        raise OSError("no such host")

    channel: Channel[int] = Channel("test", connect, seconds=60, most=10, batch=100)
    channel.close()
    channel.join(time.monotonic() + 10)
    assert channel.fault == "OSError: no such host"
