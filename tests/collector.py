"""A collector on loopback that speaks OTLP over HTTP and keeps what arrives."""

import gzip
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from msgspec import Struct
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

LIMIT = 20.0


class Span(Struct, frozen=True):
    name: str
    trace: str
    id: str
    parent: str
    start: int
    end: int
    failed: bool
    found: dict[str, Any]
    links: list[tuple[str, str]]
    events: list[str]


class Point(Struct, frozen=True):
    metric: str
    unit: str
    found: dict[str, Any]
    value: float
    delta: bool


def _value(raw: Any) -> Any:
    kind = raw.WhichOneof("value")
    if kind == "array_value":
        return [_value(x) for x in raw.array_value.values]
    return getattr(raw, kind) if kind else None


def _found(raw: Any) -> dict[str, Any]:
    return {x.key: _value(x.value) for x in raw}


class Collector:
    """Any `status` but 200 refuses; with `holds` it answers only once `release` is called."""

    def __init__(self, status: int = 200, *, holds: bool = False) -> None:
        self.bodies: list[tuple[str, bytes]] = []
        self.headers: list[dict[str, str]] = []
        self._news, self._free = threading.Condition(), threading.Event()
        if not holds:
            self._free.set()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                collector._free.wait(60)
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()
                if status == 200:
                    with collector._news:
                        collector.bodies.append((self.path, body))
                        collector.headers.append({k.lower(): v for k, v in self.headers.items()})
                        collector._news.notify_all()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._free.set()
        self._server.shutdown()
        self._server.server_close()

    def env(self, *signals: str, **more: str) -> dict[str, str]:
        names = signals or ("TRACES", "METRICS", "LOGS")
        return {
            "TEAMWRIGHT_ENABLE_TELEMETRY": "1",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.port}",
            "OTEL_METRIC_EXPORT_INTERVAL": "300",
            "OTEL_LOGS_EXPORT_INTERVAL": "100",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            **{f"OTEL_{name}_EXPORTER": "otlp" for name in names},
            **more,
        }

    def wait_for(self, seen: Callable[[], Any]) -> Any:
        with self._news:
            assert self._news.wait_for(seen, LIMIT), "it did not arrive"
        return seen()

    def _messages(self, path: str, kind: Any) -> list[Any]:
        return [kind.FromString(body) for where, body in list(self.bodies) if where == path]

    @property
    def spans(self) -> list[Span]:
        found = self._messages("/v1/traces", ExportTraceServiceRequest)
        return [
            Span(
                s.name,
                s.trace_id.hex(),
                s.span_id.hex(),
                s.parent_span_id.hex(),
                s.start_time_unix_nano,
                s.end_time_unix_nano,
                s.status.code == 2,
                _found(s.attributes),
                [(x.trace_id.hex(), x.span_id.hex()) for x in s.links],
                [x.name for x in s.events],
            )
            for message in found
            for resource in message.resource_spans
            for scope in resource.scope_spans
            for s in scope.spans
        ]

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name or span.name.startswith(f"{name} ")]

    @property
    def resources(self) -> list[dict[str, Any]]:
        found = self._messages("/v1/traces", ExportTraceServiceRequest)
        return [_found(resource.resource.attributes) for message in found for resource in message.resource_spans]

    @property
    def events(self) -> list[tuple[str, dict[str, Any]]]:
        found = self._messages("/v1/logs", ExportLogsServiceRequest)
        scopes = [scope for m in found for r in m.resource_logs for scope in r.scope_logs]
        return [(_value(x.body), _found(x.attributes)) for scope in scopes for x in scope.log_records]

    @property
    def points(self) -> list[Point]:
        found: list[Point] = []
        for message in self._messages("/v1/metrics", ExportMetricsServiceRequest):
            for metric in (x for r in message.resource_metrics for s in r.scope_metrics for x in s.metrics):
                data = getattr(metric, metric.WhichOneof("data"))
                delta = getattr(data, "aggregation_temporality", 0) == 1
                for point in data.data_points:
                    many = point.sum if metric.HasField("histogram") else point.as_double or point.as_int
                    found.append(Point(metric.name, metric.unit, _found(point.attributes), many, delta))
        return found

    @property
    def everything(self) -> bytes:
        return b"".join(body for _, body in self.bodies)
