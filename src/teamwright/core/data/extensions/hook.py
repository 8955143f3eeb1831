"""Hooks as data: events, what runs at each, the payload, and how several answers merge into one."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct

from teamwright.core.data.extensions.unread import Unread
from teamwright.core.permissions.consent import Deny
from teamwright.core.text import shown

HookEvent = Literal[
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "UserPromptSubmit",
    "SessionStart",
    "SessionEnd",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "PermissionRequest",
    "PermissionDenied",
    "Notification",
    "TeammateIdle",
    "TaskCreated",
    "TaskCompleted",
    "WorktreeCreate",
    "WorktreeRemove",
    "ConfigChange",
    "CwdChanged",
]
HookDecision = Literal["allow", "deny", "ask"]

EVENTS: tuple[HookEvent, ...] = get_args(HookEvent)
# Moments that other programs have and we do not. A hook for one is not a typo; it just never runs.
FOREIGN_EVENTS = frozenset(
    {
        "InstructionsLoaded",
        "Setup",
        "Elicitation",
        "ElicitationResult",
        "FileChanged",
        "PostToolBatch",
        "UserPromptExpansion",
    }
)
GATES: frozenset[HookEvent] = frozenset({"PreToolUse", "PermissionRequest"})  # they decide about a call
SPEAKING: frozenset[HookEvent] = frozenset({"SessionStart", "UserPromptSubmit"})  # plain output goes to the model
DEFAULT_SECONDS = 60.0

_STRICTEST: tuple[HookDecision, ...] = ("deny", "ask", "allow")
_NAMES = re.compile(r"[\w\s,|:-]*")


class CommandHook(Struct, frozen=True):
    command: str


class HttpHook(Struct, frozen=True):
    """`passed` names the variables that headers may refer to as `$NAME`."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    passed: tuple[str, ...] = ()


class PromptHook(Struct, frozen=True):
    """A model judges. `$ARGUMENTS` in the prompt is replaced by the payload that a command would read; `model` may be
    empty."""

    prompt: str
    model: str = ""


HookRun = CommandHook | HttpHook | PromptHook


class Hook(Struct, frozen=True):
    """One thing to run. `source` is the file that configures it; one that runs `beside` its event decides nothing."""

    matcher: str
    run: HookRun
    seconds: float = DEFAULT_SECONDS
    source: str = ""
    beside: bool = False


class HookBook(Struct, frozen=True):
    """The hooks of each event, in file order, and the configured ones that never run."""

    hooks: Mapping[HookEvent, tuple[Hook, ...]] = {}
    unread: tuple[Unread, ...] = ()


class Fired(Struct, frozen=True):
    """The combined answer of one event's hooks. When a gate refuses, `decision` is deny and `blocked` is set."""

    decision: HookDecision | None = None
    reason: str = ""  # for the decision
    updated_input: dict[str, Any] | None = None
    context: tuple[str, ...] = ()  # for the model
    blocked: str | None = None  # the words that the model reads
    denial: Deny | None = None  # for `deny`: the whole answer, if another gate has given it
    stop: str | None = None  # why the whole run is to stop, if it is
    messages: tuple[str, ...] = ()  # for the person, safe to print
    printed: tuple[str, ...] = ()  # output lines verbatim, for events that ask for them


NOTHING = Fired()


def matches(matcher: str, subject: str) -> bool:
    """Does a matcher cover this tool (or source, trigger, kind)? For events without a subject every matcher does."""
    if not subject or matcher in ("", "*"):
        return True
    found = compile_matcher(matcher)
    return subject in found if isinstance(found, frozenset) else found.search(subject) is not None


@lru_cache(256)
def compile_matcher(matcher: str) -> frozenset[str] | re.Pattern[str]:
    """Names separated by `|` or commas, or else a regular expression. Raises re.error."""
    if _NAMES.fullmatch(matcher):
        return frozenset(name.strip() for name in re.split(r"[,|]", matcher))
    return re.compile(matcher)


def payload(event: HookEvent, common: Mapping[str, Any], fields: Mapping[str, Any]) -> bytes:
    """The JSON object that hooks read; unknown fields are left out."""
    told = {"hook_event_name": event} | {k: v for k, v in (*common.items(), *fields.items()) if v is not None}
    try:
        return msgspec.json.encode(told, enc_hook=_plain)
    except UnicodeEncodeError:  # models sometimes write half a surrogate pair; the escaped form is valid JSON
        import json  # noqa: PLC0415

        return json.dumps(told, default=_plain).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    return msgspec.to_builtins(value)


def merge(fired: Sequence[Fired]) -> Fired:
    """The strictest decision wins; every refusal, stop and added context counts."""
    if len(fired) == 1:
        return fired[0]
    decision, reason = _strictest(fired)
    changed, note = _last_input(fired)
    return Fired(
        decision=decision,
        reason=reason,
        updated_input=changed,
        context=_all(one.context for one in fired),
        blocked=_joined(one.blocked for one in fired) or None,
        stop=next((one.stop for one in fired if one.stop is not None), None),
        messages=(*_all(one.messages for one in fired), *note),
        printed=_all(one.printed for one in fired),
    )


def _strictest(fired: Sequence[Fired]) -> tuple[HookDecision | None, str]:
    """The winning decision, with the reasons of all hooks that made it."""
    for kind in _STRICTEST:
        if deciding := [one for one in fired if one.decision == kind]:
            return kind, _joined(one.reason for one in deciding)
    return None, ""


def _last_input(fired: Sequence[Fired]) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """The arguments from the last hook that changed them, with a note to the person if hooks disagreed."""
    inputs = [one.updated_input for one in fired if one.updated_input is not None]
    if not inputs:
        return None, ()
    agree = all(one == inputs[-1] for one in inputs)
    note = "Several hooks changed the arguments of one call, each to something else: the last one counts."
    return inputs[-1], () if agree else (note,)


def _all(parts: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(chain.from_iterable(parts))


def _joined(texts: Iterable[str | None]) -> str:
    return "\n".join(dict.fromkeys(text for text in texts if text))


def name_hook(run: HookRun) -> str:
    """A hook's name for people. Leaves out arguments and queries, which may hold secrets."""
    if isinstance(run, PromptHook):
        return f"prompt: {shown(' '.join(run.prompt.split()), 60)}"
    if isinstance(run, CommandHook):
        first, _, rest = run.command.strip().partition(" ")
        return shown(first, 80) + (" …" if rest else "")
    scheme, _, rest = run.url.partition("://")
    return shown(f"{scheme}://{re.split('[?#]', rest)[0].rpartition('@')[2]}", 120)
