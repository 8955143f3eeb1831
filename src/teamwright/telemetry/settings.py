"""Telemetry settings: which signals are sent, where to, and what content they may contain."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from teamwright.core.policies.redaction import redacted
from teamwright.core.text import whole_number

SWITCHES = ("TEAMWRIGHT_ENABLE_TELEMETRY", "CLAUDE_CODE_ENABLE_TELEMETRY")
COMPAT = "TEAMWRIGHT_OTEL_COMPAT"
PREFIXES = ("OTEL_", "TEAMWRIGHT_OTEL_")
CALLER = ("TRACEPARENT", "TRACESTATE", "BAGGAGE")
Exporter = Literal["otlp", "console", "none"]
_EXPORTERS: Mapping[str, Exporter] = {"otlp": "otlp", "console": "console", "none": "none"}
BATCH = 64  # spans or events per request: encoding many at once is what takes most of the memory for sending
LONG = 60 * 1024  # characters of requested content
_LONGEST_KEY = 4096  # a key at the cut is read to its end
_YES = frozenset({"1", "true", "yes", "on"})
SPAN_WAIT = ("OTEL_BSP_SCHEDULE_DELAY", "OTEL_TRACES_EXPORT_INTERVAL")
LOG_WAIT = ("OTEL_LOGS_EXPORT_INTERVAL", "OTEL_BLRP_SCHEDULE_DELAY")


class Content(Struct, frozen=True):
    """What signals may contain besides names and figures; never `secrets`."""

    prompts: bool = False
    replies: bool = False
    details: bool = False  # arguments of calls
    results: bool = False  # results of calls
    secrets: tuple[str, ...] = ()

    def shown(self, text: str) -> str:
        """The text as a signal may carry it: bounded, and without anything that looks like a key."""
        start = redacted(text[: LONG + _LONGEST_KEY], self.secrets)
        return start if len(start) <= LONG and len(text) <= LONG + _LONGEST_KEY else f"{start[: LONG - 1]}…"


class TelemetryOptions(Struct, frozen=True, kw_only=True):
    """Options as requested; times in seconds."""

    env: Mapping[str, str]  # the SDK's own variables, without a project's
    traces: Exporter = "none"
    metrics: Exporter = "none"
    logs: Exporter = "none"
    compat: bool = False
    content: Content = Content()
    span_seconds: float = 5.0
    log_seconds: float = 5.0
    metric_seconds: float = 60.0
    most_spans: int = 2_048
    batch: int = BATCH
    problems: tuple[str, ...] = ()


def is_ours(name: str) -> bool:
    """Does this variable control whether, where and what is sent? Commands never see those, and no project may set
    them."""
    return name in SWITCHES or name.startswith(PREFIXES)


def read_wanted(env: Mapping[str, str], secrets: tuple[str, ...] = ()) -> TelemetryOptions | None:
    """None: nothing is sent. `env` holds the variables of the process and the person, but not a project's."""
    if not any(_said(env, name) for name in SWITCHES) or _said(env, "OTEL_SDK_DISABLED"):
        return None
    problems: list[str] = []
    content = Content(
        _said(env, "OTEL_LOG_USER_PROMPTS"),
        _said(env, "OTEL_LOG_ASSISTANT_RESPONSES"),
        _said(env, "OTEL_LOG_TOOL_DETAILS"),
        _said(env, "OTEL_LOG_TOOL_CONTENT"),
        secrets,
    )
    return TelemetryOptions(
        env={name: value for name, value in env.items() if name.startswith("OTEL_")},
        traces=_exporter(env, "TRACES", problems),
        metrics=_exporter(env, "METRICS", problems),
        logs=_exporter(env, "LOGS", problems),
        compat=_said(env, SWITCHES[1]) or env.get(COMPAT, "") == "claude_code",
        content=content,
        span_seconds=_seconds(env, SPAN_WAIT, 5.0),
        log_seconds=_seconds(env, LOG_WAIT, 5.0),
        metric_seconds=_seconds(env, ("OTEL_METRIC_EXPORT_INTERVAL",), 60.0),
        most_spans=min(_number(env, "OTEL_BSP_MAX_QUEUE_SIZE", 2_048), 2_048),
        batch=min(_number(env, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", BATCH), 512),
        problems=tuple(problems),
    )


def _said(env: Mapping[str, str], name: str) -> bool:
    return env.get(name, "").strip().lower() in _YES


def _exporter(env: Mapping[str, str], signal: str, problems: list[str]) -> Exporter:
    name = f"OTEL_{signal}_EXPORTER"
    said = env.get(name, "").strip().lower() or "none"
    found = _EXPORTERS.get(said)
    if found is None:
        problems.append(
            f"{name}: there is no exporter {said[:40]!r}, only otlp, console and none; nothing of it is sent"
        )
    return "none" if found is None else found


def _seconds(env: Mapping[str, str], names: tuple[str, ...], default: float) -> float:
    said = (whole_number(env.get(name, "")) for name in names)
    found = next((number for number in said if number is not None), int(default * 1000))
    return max(found, 50) / 1000


def _number(env: Mapping[str, str], name: str, default: int) -> int:
    return whole_number(env.get(name, "")) or default
