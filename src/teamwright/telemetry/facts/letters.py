"""Reads letter ids: why a turn began, and which call or job sent a letter."""

import re

from msgspec import Struct

from teamwright.core.ids import AgentId, CallId, JobId, LetterId
from teamwright.telemetry.facts.shapes import Trigger

_AGENT = r"a[0-9a-f]{16}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_MESSAGE = re.compile(rf"m-({_AGENT})-(.+)")
_PART = re.compile(r"(.+)-[0-9]+")  # one copy of a broadcast
_NOTICE = re.compile(r"[nswr]-([ab][0-9a-f]{16})-[0-9]+")
_RANK: tuple[Trigger, ...] = ("prompt", "schedule", "message", "task", "notice")


class CallKey(Struct, frozen=True):
    agent: AgentId
    calls: tuple[CallId, ...]  # the call itself first; its id may just look like part of a broadcast


def trigger_of(letters: tuple[LetterId, ...]) -> Trigger:
    """Why a turn began, by its most important letter."""
    found = [_RANK.index(_trigger(letter)) for letter in letters]
    return _RANK[min(found, default=0)]


def _trigger(letter: LetterId) -> Trigger:
    if _NOTICE.fullmatch(letter):
        return "notice"
    if letter.startswith("l"):
        return "prompt"
    if letter.startswith("c-"):
        return "schedule"
    return "task" if letter.startswith(("a-", "k-")) else "message"


def call_of(letter: LetterId) -> CallKey | None:
    """The SendMessage call that sent a letter."""
    found = _MESSAGE.fullmatch(letter)
    if found is None:
        return None
    call, part = found[2], _PART.fullmatch(found[2])
    return CallKey(AgentId(found[1]), (CallId(call), CallId(part[1])) if part else (CallId(call),))


def job_of(letter: LetterId) -> JobId | None:
    """The job that a notice is about."""
    found = _NOTICE.fullmatch(letter)
    return JobId(found[1]) if found else None
