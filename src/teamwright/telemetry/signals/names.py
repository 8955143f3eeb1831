"""Names of attributes, metrics and events.

OpenTelemetry's GenAI conventions are still in development: when they change, this table does, and nothing else.

https://opentelemetry.io/docs/specs/semconv/gen-ai/
"""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from teamwright.core.permissions.rules import EDITING

SERVICE = "teamwright"
COMPAT = "claude_code"  # names expected by dashboards made for Claude Code

# --- attributes

OPERATION, CONVERSATION, SESSION = "gen_ai.operation.name", "gen_ai.conversation.id", "session.id"
AGENT_ID, AGENT_NAME, AGENT_WORDS = "gen_ai.agent.id", "gen_ai.agent.name", "gen_ai.agent.description"
PROVIDER, MODEL, ANSWERED_BY = "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.model"
REPLY_ID, FINISH, STREAM = "gen_ai.response.id", "gen_ai.response.finish_reasons", "gen_ai.request.stream"
FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
INPUT, OUTPUT = "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"
CACHE_READ, CACHE_WRITE = "gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_creation.input_tokens"
TOKEN_TYPE = "gen_ai.token.type"  # noqa: S105  # a name, no secret
TOOL, CALL, TOOL_TYPE = "gen_ai.tool.name", "gen_ai.tool.call.id", "gen_ai.tool.type"
ARGUMENTS, RESULT = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"
OUT_MESSAGES = "gen_ai.output.messages"
SERVER, ADDRESS, PORT, ERROR = "mcp.server.name", "server.address", "server.port", "error.type"
KIND, ROUTE, PARENT, DEPTH = (f"teamwright.agent.{x}" for x in ("kind", "route", "parent.id", "depth"))
TEAM, TRIGGER, END, COST = (f"teamwright.{x}" for x in ("team.name", "turn.trigger", "turn.end", "cost.usd"))
WAIT = "teamwright.wait"
WAIT_KIND, DECISION, BY, VIA = (f"{WAIT}.{x}" for x in ("kind", "decision", "by", "via"))
RETRY, ATTEMPT, STATUS = "retry", "attempt", "http.response.status_code"

# --- metrics

_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_FIRST = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)


class Metric(Struct, frozen=True):
    kind: Literal["histogram", "counter", "gauge"]
    unit: str
    words: str
    buckets: tuple[float, ...] = ()


TOKEN_USAGE, CHAT_TIME = "gen_ai.client.token.usage", "gen_ai.client.operation.duration"
CHUNK_TIME = "gen_ai.client.operation.time_to_first_chunk"
RUN_TIME, TOOL_TIME = "gen_ai.invoke_agent.duration", "gen_ai.execute_tool.duration"
SESSIONS, TOKENS, SPENT = (f"{SERVICE}.{x}" for x in ("session.count", "token.usage", "cost.usage"))
DECISIONS, LINES = f"{SERVICE}.tool.decision", f"{SERVICE}.lines_of_code.count"
COMMITS, ACTIVE = f"{SERVICE}.commit.count", f"{SERVICE}.active_time.total"
RUNNING, WAITING, UNREAD = (f"{SERVICE}.{x}" for x in ("agents.running", "questions.waiting", "mail.unread"))

METRICS: Mapping[str, Metric] = {
    TOKEN_USAGE: Metric("histogram", "{token}", "Tokens of a request, by type", _TOKENS),
    CHAT_TIME: Metric("histogram", "s", "Duration of a request with its retries", _SECONDS),
    CHUNK_TIME: Metric("histogram", "s", "Time to the first piece of an answer", _FIRST),
    RUN_TIME: Metric("histogram", "s", "Duration of a turn, or of a sub-agent's run", _SECONDS),
    TOOL_TIME: Metric("histogram", "s", "Duration of a tool call", _SECONDS),
    SESSIONS: Metric("counter", "{session}", "Sessions that began"),
    TOKENS: Metric("counter", "tokens", "Tokens used"),
    SPENT: Metric("counter", "USD", "Cost, where the price is known"),
    DECISIONS: Metric("counter", "{decision}", "Decisions about tool calls"),
    LINES: Metric("counter", "{line}", "Lines of files added and removed"),
    COMMITS: Metric("counter", "{commit}", "Git commits made by commands"),
    ACTIVE: Metric("counter", "s", "Time in which agents worked, without waiting for people"),
    RUNNING: Metric("gauge", "{agent}", "Agents with an open turn"),
    WAITING: Metric("gauge", "{question}", "Questions that wait for an answer"),
    UNREAD: Metric("gauge", "{message}", "Messages that nobody has read yet"),
}
# The same counts under the other program's names. It counts decisions only for edits.
COMPAT_METRICS: Mapping[str, str] = {
    name: name.replace(SERVICE, COMPAT, 1) for name in (SESSIONS, TOKENS, SPENT, LINES, COMMITS, ACTIVE)
} | {DECISIONS: f"{COMPAT}.code_edit_tool.decision"}
COMPAT_EVENTS = frozenset({"user_prompt", "api_request", "api_error", "tool_decision", "tool_result"})
EDITS = frozenset(EDITING)

SHORT = 256  # characters of a value that is a name


def model_parts(model: str) -> tuple[str, str]:
    """Provider and name."""
    provider, slash, name = model.partition("/")
    return (provider, name) if slash else ("", model)


def fit(value: Any, most: int = SHORT) -> Any:
    """A value that a signal may carry: bounded text, numbers, or a list of them."""
    if isinstance(value, str):
        return value if len(value) <= most else value[: most - 1] + "…"
    return value


def attributes(found: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes with a value, made to fit."""
    return {name: fit(value) for name, value in found.items() if value is not None and value != ""}
