"""Facts as spans."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from teamwright.core.data.message import Usage
from teamwright.telemetry.facts.ids import Spot, span_id
from teamwright.telemetry.facts.shapes import Chat, Fact, Retry, Run, ToolUse, Who
from teamwright.telemetry.settings import Content
from teamwright.telemetry.signals import names as n
from teamwright.telemetry.signals.shapes import Span, SpanEvent

Address = Callable[[str], tuple[str, int] | None]  # model -> host and port of its server


def spans_of(fact: Fact, content: Content, address: Address | None = None) -> Iterator[Span]:
    match fact:
        case Chat():
            yield _chat(fact, content, address(fact.model) if address else None)
        case ToolUse():
            yield _tool(fact, content)
            if fact.consent is not None:
                yield _wait(fact)
        case Run():
            yield _run(fact, content)
        case _:
            pass


def _common(who: Who, operation: str) -> dict[str, Any]:
    return {n.OPERATION: operation, n.SESSION: who.started.session, n.CONVERSATION: who.id}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        n.INPUT: usage.input + usage.cache_read + usage.cache_write,
        n.OUTPUT: usage.output,
        n.CACHE_READ: usage.cache_read,
        n.CACHE_WRITE: usage.cache_write,
    }


def _run(run: Run, content: Content) -> Span:
    who, started = run.who, run.who.started
    provider, model = n.model_parts(run.model)
    found = _common(who, "invoke_agent") | _usage(run.usage)
    found |= {
        n.AGENT_ID: who.id,
        n.AGENT_NAME: started.name,
        n.AGENT_WORDS: started.description if content.details else None,
        n.PROVIDER: provider,
        n.MODEL: model,
        n.KIND: started.kind,
        n.ROUTE: who.route,
        n.PARENT: started.parent,
        n.DEPTH: started.depth,
        n.TEAM: started.team,
        n.TRIGGER: run.trigger,
        n.END: run.how,
        n.COST: run.usd,
        n.ERROR: run.error,
    }
    return Span(
        name=n.fit(f"invoke_agent {started.name}"),
        spot=run.spot,
        parent=run.parent,
        start=run.start,
        end=run.end,
        attributes=n.attributes(found),
        links=run.links,
        error=bool(run.error),
    )


def _chat(chat: Chat, content: Content, address: tuple[str, int] | None) -> Span:
    provider, model = n.model_parts(chat.model)
    found = _common(chat.who, "chat") | _usage(chat.usage)
    found |= {
        n.PROVIDER: provider,
        n.MODEL: model,
        n.ANSWERED_BY: n.model_parts(chat.answered_by)[1],
        n.REPLY_ID: chat.id,
        n.FINISH: [chat.stop] if chat.stop else None,
        n.STREAM: True,
        n.FIRST_CHUNK: None if chat.first_chunk is None else chat.first_chunk / 1000,
        n.ADDRESS: address[0] if address else None,
        n.PORT: address[1] if address else None,
        n.COST: chat.usd,
        n.ERROR: chat.error,
    }
    attributes = n.attributes(found)
    if content.replies and chat.text:
        attributes[n.OUT_MESSAGES] = content.shown(chat.text)
    return Span(
        name=n.fit(f"chat {model}"),
        kind="client",
        spot=chat.spot,
        parent=chat.parent,
        start=chat.start,
        end=chat.end,
        attributes=attributes,
        events=tuple(map(_retry, chat.retries)),
        error=bool(chat.error),
    )


def _retry(retry: Retry) -> SpanEvent:
    delta = retry.delta
    found = {n.ATTEMPT: delta.attempt, n.ERROR: delta.fault, n.STATUS: delta.status}
    return SpanEvent(n.RETRY, retry.at, n.attributes(found))


def _tool(tool: ToolUse, content: Content) -> Span:
    found = _common(tool.who, "execute_tool")
    found |= {n.TOOL: tool.name, n.CALL: tool.call, n.TOOL_TYPE: "function", n.ERROR: tool.error}
    found[n.SERVER] = server_of(tool.name)
    attributes = n.attributes(found)
    if content.details:
        attributes[n.ARGUMENTS] = content.shown(msgspec.json.encode(tool.args()).decode())
    if content.results and tool.text:
        attributes[n.RESULT] = content.shown(tool.text)
    return Span(
        name=n.fit(f"execute_tool {tool.name}"),
        spot=tool.spot,
        parent=tool.parent,
        start=tool.start,
        end=tool.end,
        attributes=attributes,
        error=bool(tool.error),
    )


def _wait(tool: ToolUse) -> Span:
    consent, who = tool.consent, tool.who
    assert consent is not None
    found = {n.SESSION: who.started.session, n.CONVERSATION: who.id, n.WAIT_KIND: consent.kind}
    found |= {n.DECISION: consent.verdict, n.BY: consent.by, n.VIA: consent.via}
    start = min(max(consent.asked, tool.start), tool.end)
    return Span(
        name=n.WAIT,
        spot=Spot(tool.spot.trace, span_id(who.id, tool.call, "wait")),
        parent=tool.spot.span,
        start=start,
        end=min(max(consent.answered, start), tool.end),
        attributes=n.attributes(found),
    )


def server_of(tool: str) -> str | None:
    """The MCP server of a tool."""
    return tool.split("__")[1] if tool.startswith("mcp__") and tool.count("__") > 1 else None
