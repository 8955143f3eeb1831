"""Trace and span ids, derived from positions in the log, so that every process and every later export makes the
same."""

import re
from hashlib import sha256
from typing import Literal

from msgspec import Struct

from teamwright.core.ids import AgentId

SpanKind = Literal["invoke_agent", "chat", "execute_tool", "wait"]
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(-.*)?")


class Spot(Struct, frozen=True):
    """A span in its trace, in hexadecimal."""

    trace: str
    span: str


def trace_id(agent: AgentId, line: int) -> str:
    """The trace of the turn that began at this line of the agent's transcript."""
    return sha256(f"{agent}\0{line}".encode()).digest()[:16].hex()


def span_id(agent: AgentId, place: int | str, kind: SpanKind) -> str:
    """`place` is a line of the agent's transcript, or a call id."""
    return sha256(f"{agent}\0{place}\0{kind}".encode()).digest()[:8].hex()


def read_traceparent(text: str) -> Spot | None:
    """Parses a W3C traceparent; None if it is not one."""
    found = _TRACEPARENT.fullmatch(text.strip())
    return Spot(found[1], found[2]) if found else None


def traceparent(spot: Spot) -> str:
    return f"00-{spot.trace}-{spot.span}-01"
