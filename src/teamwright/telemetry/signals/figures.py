"""Facts as measurements."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from teamwright.core.text import line_count
from teamwright.telemetry.facts.shapes import Chat, Fact, Run, ToolUse
from teamwright.telemetry.signals import names as n
from teamwright.telemetry.signals.shapes import Measure

MOST_NAMES = 32  # agent names per session; the others count as `other`
_COMMIT = re.compile(r"(^|[;&|(\n]|\s)git(\s+-[^\s]+(\s+[^\s-][^\s]*)?)*\s+commit(\s|$)")


class SessionFigures:
    """The measurements of one session."""

    def __init__(self, session: str, *, compat: bool) -> None:
        self._session, self._compat = session, compat
        self._names: set[str] = set()

    def began(self, how: str) -> Iterator[Measure]:
        """Counts a session start: `fresh`, `resume` or `continue`."""
        yield from self._both(n.SESSIONS, 1, {"start_type": how})

    def measures(self, fact: Fact) -> Iterator[Measure]:
        match fact:
            case Chat():
                yield from self._chat(fact)
            case ToolUse():
                yield from self._tool(fact)
            case Run():
                yield from self._run(fact)
            case _:
                pass

    def gauge(self, metric: str, value: float, **found: str) -> Measure:
        return Measure(metric, value, n.attributes({n.SESSION: self._session, **found}))

    def _chat(self, chat: Chat) -> Iterator[Measure]:
        provider, model = n.model_parts(chat.model)
        about = {n.OPERATION: "chat", n.PROVIDER: provider, n.MODEL: model, n.ERROR: chat.error}
        usage = chat.usage
        if usage.total:
            whole = usage.input + usage.cache_read + usage.cache_write
            for kind, count in (("input", whole), ("output", usage.output)):
                yield self._one(n.TOKEN_USAGE, count, about | {n.TOKEN_TYPE: kind})
        yield self._one(n.CHAT_TIME, (chat.end - chat.start) / 1000, about)
        if chat.first_chunk is not None:
            yield self._one(n.CHUNK_TIME, chat.first_chunk / 1000, about)
        who = {"model": model, "agent.name": self._name(chat)}
        counts = {"input": usage.input, "output": usage.output}
        counts |= {"cacheRead": usage.cache_read, "cacheCreation": usage.cache_write}
        for kind, count in counts.items():
            if count:
                yield from self._both(n.TOKENS, count, who | {"type": kind})
        if chat.usd:
            yield from self._both(n.SPENT, chat.usd, who)

    def _tool(self, tool: ToolUse) -> Iterator[Measure]:
        about = {n.OPERATION: "execute_tool", n.TOOL: tool.name, n.ERROR: tool.error}
        yield self._one(n.TOOL_TIME, (tool.end - tool.start) / 1000, about)
        decision, source = decision_of(tool)
        found = {"tool_name": tool.name, "decision": decision, "source": source}
        yield self._one(n.DECISIONS, 1, found)
        if self._compat and tool.name in n.EDITS:
            yield self._one(n.COMPAT_METRICS[n.DECISIONS], 1, found)
        if tool.error:
            return
        for kind, count in zip(("added", "removed"), changed_lines(tool), strict=True):
            if count:
                yield from self._both(n.LINES, count, {"type": kind})
        if _COMMIT.search(str(tool.args().get("command", ""))):
            yield from self._both(n.COMMITS, 1, {})

    def _run(self, run: Run) -> Iterator[Measure]:
        provider, model = n.model_parts(run.model)
        about = {n.OPERATION: "invoke_agent", n.AGENT_NAME: self._name(run), n.ERROR: run.error}
        yield self._one(n.RUN_TIME, (run.end - run.start) / 1000, about | {n.PROVIDER: provider, n.MODEL: model})
        if run.who.resident:
            worked = max(0, run.end - run.start - run.waited) / 1000
            yield from self._both(n.ACTIVE, worked, {"type": "cli"})

    def _name(self, fact: Chat | Run) -> str:
        started = fact.who.started
        name = started.name
        if name in self._names or len(self._names) < MOST_NAMES:
            self._names.add(name)
            return name
        return "other"

    def _one(self, metric: str, value: float, found: Mapping[str, Any]) -> Measure:
        return Measure(metric, value, n.attributes({n.SESSION: self._session, **found}))

    def _both(self, metric: str, value: float, found: Mapping[str, Any]) -> Iterator[Measure]:
        """Measures under our name, and on request also under the other program's."""
        yield self._one(metric, value, found)
        if self._compat:
            yield self._one(n.COMPAT_METRICS[metric], value, found)


def decision_of(tool: ToolUse) -> tuple[str, str]:
    """What was decided about a call, and by whom, in the words that dashboards know: `config` stands for rules, modes
    and hooks, `user_…` for a person or a program that answers in their place."""
    consent = tool.consent
    if consent is None:
        return ("reject" if tool.error == "denied" else "accept"), "config"
    if consent.verdict == "allow":
        return "accept", "user_temporary"
    return "reject", "user_abort" if consent.by == "nobody" else "user_reject"


def changed_lines(tool: ToolUse) -> tuple[int, int]:
    """Lines added and removed by a call that changed a file."""
    if tool.name not in n.EDITS or tool.data is None:
        return 0, 0
    hunks: list[Mapping[str, Any]] = tool.data.get("structuredPatch") or []
    if not hunks and tool.data.get("type") == "create":
        return line_count(str(tool.args().get("content", ""))), 0
    lines = [str(line) for hunk in hunks for line in hunk.get("lines", ())]
    return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)
