"""Checks whether the collector is reachable: connects to each signal's address without sending anything."""

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

from teamwright.telemetry.settings import TelemetryOptions

LIMIT = 5.0  # seconds
_LOCAL = "http://localhost:4318"


def probe(wanted: TelemetryOptions) -> Iterator[tuple[bool, str]]:
    """(is it fine, description) for each address in use. Blocks."""
    signals = {"traces": wanted.traces, "metrics": wanted.metrics, "logs": wanted.logs}
    if not any(exporter != "none" for exporter in signals.values()):
        yield True, "on, but no signal is named: OTEL_TRACES_EXPORTER, OTEL_METRICS_EXPORTER or OTEL_LOGS_EXPORTER"
    places: dict[str, list[str]] = {}
    for signal, exporter in signals.items():
        if exporter == "otlp":
            places.setdefault(_address(wanted, signal), []).append(signal)
        elif exporter == "console":
            yield True, f"{signal} go to standard error"
    for address, told in places.items():
        yield _reach(address, ", ".join(told))


def _address(wanted: TelemetryOptions, signal: str) -> str:
    own = wanted.env.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT")
    return own or wanted.env.get("OTEL_EXPORTER_OTLP_ENDPOINT") or _LOCAL


def _reach(address: str, signals: str) -> tuple[bool, str]:
    found = urlsplit(address if "//" in address else f"//{address}")
    port = found.port or {"http": 80, "https": 443}.get(found.scheme, 4317)
    where = f"{found.hostname}:{port}"
    try:
        with socket.create_connection((found.hostname or "", port), LIMIT):
            return True, f"the collector for {signals} answers at {where}"
    except OSError as error:
        words = error.strerror or str(error)
        return (
            False,
            f"the collector for {signals} does not answer at {where} ({words}): start it, or correct the address",
        )
