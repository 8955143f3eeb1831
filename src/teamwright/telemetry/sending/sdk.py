"""Wraps the OpenTelemetry SDK, which only this file knows: converts spans, figures and log records and passes them to
its exporters. Imported only if telemetry is on, in the sending thread."""

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import ConsoleLogRecordExporter, LogRecordExportResult
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    ConsoleMetricExporter,
    InMemoryMetricReader,
    MetricExportResult,
)
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from teamwright import __version__
from teamwright.core.errors import UsageError
from teamwright.telemetry.facts.ids import Spot
from teamwright.telemetry.settings import Exporter, TelemetryOptions
from teamwright.telemetry.signals import names
from teamwright.telemetry.signals.shapes import LogEvent, Measure, Span

_SCOPE = InstrumentationScope(names.SERVICE, __version__)
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_KINDS = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}
_ENVIRON = threading.Lock()
_TEMPORALITY = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"
_CLASSES = {"trace": "OTLPSpanExporter", "metric": "OTLPMetricExporter", "_log": "OTLPLogExporter"}
logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
logging.getLogger("opentelemetry").propagate = False  # its complaints would appear in the middle of the screen


@contextmanager
def _environment(wanted: TelemetryOptions) -> Generator[None]:
    """Sets `os.environ` while the SDK starts, because it reads variables there and would miss the person's settings."""
    told = {_TEMPORALITY: "delta"} | dict(wanted.env)
    with _ENVIRON:
        before = {name: os.environ.get(name) for name in told}
        os.environ.update(told)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def _resource() -> Resource:
    found = Resource.create()
    said = str(found.attributes.get(SERVICE_NAME, ""))
    name = names.SERVICE if said.startswith("unknown_service") or not said else said
    return found.merge(Resource({SERVICE_NAME: name, SERVICE_VERSION: __version__}))


def _otlp(signal: str, variable: str, env: Mapping[str, str]) -> Any:
    """The exporter for a protocol; imports only the requested one."""
    protocol = env.get(f"OTEL_EXPORTER_OTLP_{variable}_PROTOCOL") or env.get("OTEL_EXPORTER_OTLP_PROTOCOL", "")
    kind = {"": "http", "http/protobuf": "http", "grpc": "grpc"}.get(protocol)
    if kind is None:
        raise UsageError(f"the protocol {protocol[:40]!r} is not known here, only http/protobuf and grpc")
    try:
        module = import_module(f"opentelemetry.exporter.otlp.proto.{kind}.{signal}_exporter")
    except ImportError:
        raise UsageError(f"`pip install opentelemetry-exporter-otlp-proto-{kind}` is needed for {kind}") from None
    return getattr(module, _CLASSES[signal])()


# --- traces


def open_spans(wanted: TelemetryOptions) -> Callable[[Sequence[Span]], bool]:
    with _environment(wanted):
        resource = _resource()
        console = wanted.traces == "console"
        exporter = ConsoleSpanExporter(out=sys.stderr) if console else _otlp("trace", "TRACES", wanted.env)

    def export(spans: Sequence[Span]) -> bool:
        made = [_span(span, resource) for span in spans]
        return not made or exporter.export(made) is SpanExportResult.SUCCESS

    return export


def _context(spot: Spot) -> SpanContext:
    return SpanContext(int(spot.trace, 16), int(spot.span, 16), is_remote=False, trace_flags=_SAMPLED)


def _span(span: Span, resource: Resource) -> ReadableSpan:
    return ReadableSpan(
        span.name,
        _context(span.spot),
        _context(Spot(span.spot.trace, span.parent)) if span.parent else None,
        resource,
        span.attributes,
        [Event(x.name, x.attributes, x.at * 1_000_000) for x in span.events],
        [Link(_context(link)) for link in span.links],
        _KINDS[span.kind],
        status=Status(StatusCode.ERROR) if span.error else Status(StatusCode.UNSET),
        start_time=span.start * 1_000_000,
        end_time=span.end * 1_000_000,
        instrumentation_scope=_SCOPE,
    )


# --- events


def open_logs(wanted: TelemetryOptions) -> Callable[[Sequence[LogEvent]], bool]:
    with _environment(wanted):
        resource = _resource()
        console = wanted.logs == "console"
        exporter = ConsoleLogRecordExporter(out=sys.stderr) if console else _otlp("_log", "LOGS", wanted.env)

    def export(events: Sequence[LogEvent]) -> bool:
        made = [ReadableLogRecord(_record(event), resource, _SCOPE) for event in events]
        return not made or exporter.export(made) is LogRecordExportResult.SUCCESS

    return export


def _record(event: LogEvent) -> LogRecord:
    here = Context() if event.spot is None else set_span_in_context(NonRecordingSpan(_context(event.spot)), Context())
    return LogRecord(
        timestamp=event.at * 1_000_000,
        observed_timestamp=time.time_ns(),
        context=here,
        severity_number=SeverityNumber.INFO,
        body=event.body,
        attributes=dict(event.attributes),
    )


# --- metrics


def open_metrics(
    wanted: TelemetryOptions, gauges: Callable[[], Sequence[Measure]]
) -> Callable[[Sequence[Measure]], bool]:
    """The SDK sums up figures and sends them when due, together with the current `gauges`."""
    with _environment(wanted):
        exporter, temporality = _metric_exporter(wanted.metrics, wanted.env)
        reader = InMemoryMetricReader(preferred_temporality=temporality)
        provider = MeterProvider([reader], _resource(), shutdown_on_exit=False)
    meter = provider.get_meter(names.SERVICE, __version__)
    instruments: dict[str, Any] = {}
    due = time.monotonic() + wanted.metric_seconds * 0.9

    def note(measures: Sequence[Measure]) -> None:
        for one in measures:
            if one.metric not in instruments:
                instruments[one.metric] = _instrument(meter, one.metric)
            _note(instruments[one.metric], one)

    def export(measures: Sequence[Measure]) -> bool:
        nonlocal due
        note(measures)
        if measures and time.monotonic() < due:
            return True  # the batch was full: only sum it up for now
        due = time.monotonic() + wanted.metric_seconds * 0.9
        note(gauges())
        data = reader.get_metrics_data()
        return data is None or exporter.export(data) is MetricExportResult.SUCCESS

    return export


def _metric_exporter(kind: Exporter, env: Mapping[str, str]) -> tuple[Any, Any]:
    """An exporter, and whether it sends sums as deltas or totals, which it read from the environment."""
    if kind == "console":
        delta: dict[type, AggregationTemporality] = dict.fromkeys((Counter, Histogram), AggregationTemporality.DELTA)
        return ConsoleMetricExporter(out=sys.stderr), delta
    exporter = _otlp("metric", "METRICS", env)
    return exporter, exporter._preferred_temporality  # as the SDK's own reader does


def _instrument(meter: Any, name: str) -> Any:
    ours = {theirs: own for own, theirs in names.COMPAT_METRICS.items()}
    found = names.METRICS[ours.get(name, name)]
    match found.kind:
        case "counter":
            return meter.create_counter(name, found.unit, found.words)
        case "gauge":
            return meter.create_gauge(name, found.unit, found.words)
        case "histogram":
            return meter.create_histogram(
                name, found.unit, found.words, explicit_bucket_boundaries_advisory=found.buckets
            )


def _note(instrument: Any, one: Measure) -> None:
    put = getattr(instrument, "add", None) or getattr(instrument, "record", None) or instrument.set
    put(one.value, one.attributes)
