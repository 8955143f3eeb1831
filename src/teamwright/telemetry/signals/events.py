"""Facts as events (log records)."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from teamwright.core.ids import SessionId
from teamwright.telemetry.facts.shapes import (
    AgentDied,
    Chat,
    Fact,
    MailTaken,
    Prompted,
    Run,
    Shortened,
    Spanned,
    TaskChanged,
    ToolUse,
)
from teamwright.telemetry.settings import Content
from teamwright.telemetry.signals import names as n
from teamwright.telemetry.signals.figures import decision_of
from teamwright.telemetry.signals.shapes import LogEvent

Told = tuple[str, dict[str, Any]]  # event name, attributes


class Events:
    """Events of one session, numbered in order."""

    def __init__(self, session: SessionId, content: Content, *, compat: bool) -> None:
        self._session, self._content, self._compat = session, content, compat
        self._sequence = 0

    def events(self, fact: Fact) -> Iterator[LogEvent]:
        for name, found in self._told(fact):
            at = fact.end if isinstance(fact, Spanned) else fact.at
            common = {
                "event.name": name,
                "event.timestamp": datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds"),
                "event.sequence": self._sequence,
                n.SESSION: self._session,
                "agent.name": fact.who.started.name,
            }
            self._sequence += 1
            whole = {**n.attributes(common), **found}
            yield LogEvent(f"{n.SERVICE}.{name}", at, whole, fact.spot)
            if self._compat and name in n.COMPAT_EVENTS:
                yield LogEvent(f"{n.COMPAT}.{name}", at, whole, fact.spot)

    def _told(self, fact: Fact) -> Iterator[Told]:
        match fact:
            case Prompted():
                found: dict[str, Any] = {"prompt_length": len(fact.text)}
                if self._content.prompts:
                    found["prompt"] = self._content.shown(fact.text)
                yield "user_prompt", found
            case Chat():
                yield self._chat(fact)
            case ToolUse():
                yield from self._tool(fact)
            case Run(who=who) if not who.resident:
                found = {"agent_type": who.started.kind, "route": who.route, "success": not fact.error}
                found |= {"duration_ms": fact.end - fact.start, "total_tokens": fact.usage.total, "error": fact.error}
                yield "subagent_completed", n.attributes(found)
            case Run():
                pass
            case MailTaken():
                yield "mail_delivered", {"messages": fact.letters}
            case Shortened():
                yield "compaction", {"trigger": fact.why, "tokens_before": fact.tokens}
            case TaskChanged():
                yield "task_changed", n.attributes({"team": fact.team, "task": fact.task, "change": fact.change})
            case AgentDied():
                yield "agent_died", n.attributes({"team": fact.team})

    def _chat(self, chat: Chat) -> Told:
        provider, model = n.model_parts(chat.model)
        found: dict[str, Any] = {"model": model, "provider": provider, "duration_ms": chat.end - chat.start}
        found["attempt"] = len(chat.retries) + 1
        if chat.error:
            return "api_error", n.attributes(found | {"error": chat.error, "status_code": chat.status})
        usage = chat.usage
        found |= {
            "cost_usd": chat.usd,
            "input_tokens": usage.input,
            "output_tokens": usage.output,
            "cache_read_tokens": usage.cache_read,
            "cache_creation_tokens": usage.cache_write,
        }
        found = n.attributes(found)
        if self._content.replies and chat.text:
            found["response"] = self._content.shown(chat.text)
        return "api_request", found

    def _tool(self, tool: ToolUse) -> Iterator[Told]:
        decision, source = decision_of(tool)
        common = {"tool_name": tool.name, "tool_use_id": tool.call, "decision": decision, "source": source}
        yield "tool_decision", n.attributes(common)
        found = common | {"success": str(not tool.error).lower(), "duration_ms": tool.end - tool.start}
        found = n.attributes(found | {"error": tool.error})
        if self._content.details:
            found["tool_parameters"] = self._content.shown(msgspec.json.encode(tool.args()).decode())
        if self._content.results and tool.text:
            found["tool_result"] = self._content.shown(tool.text)
        yield "tool_result", found
