"""Reads one hook's answer: its exit status, its text or the known fields of its JSON."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from teamwright.core.data.extensions.hook import GATES, NOTHING, SPEAKING, Fired, HookDecision, HookEvent
from teamwright.core.jsontext import as_object
from teamwright.core.text import shown

BLOCKS = 2  # exit status
MOST_TEXT = 30_000  # characters passed to a model
_STOPPED = "A hook ended the run."


def read_exit(event: HookEvent, status: int, out: str, err: str, who: str) -> Fired:
    """Reads a command that has ended. `who` names the hook in messages to the person."""
    if status == 0:
        return read_text(event, out, who)
    if status == BLOCKS:
        return refuse(event, err.strip() or f"The hook {who} refused it and gave no reason.")
    words = err.strip() or out.strip()
    if event in GATES and (why := _broken(status)):
        return unanswered(event, who, f"{why}{f': {words}' if words else ''}")
    return fail(who, f"ended with exit status {status}{f': {words}' if words else ''}")


def _broken(status: int) -> str:
    """Why the command never got to judge, from the shell's exit status; empty if it did."""
    if status == 127:
        return "its command was not found (exit status 127)"
    if status == 126:
        return "its command cannot be run (exit status 126)"
    return f"it was ended by signal {status - 128}" if 128 < status <= 192 else ""


def read_text(event: HookEvent, text: str, who: str) -> Fired:
    """Reads output or an HTTP response: JSON if it is an object, else plain text."""
    words = text.strip()
    if words.startswith("{"):
        try:
            value = msgspec.json.decode(words.encode(errors="surrogatepass"))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            value = None
        if isinstance(value, dict):
            return read_object(event, cast("dict[str, Any]", value), who, text)
        if event not in SPEAKING and event != "WorktreeCreate":
            return unanswered(event, who, "what it printed begins like JSON and is none, or is too long")
    if event == "WorktreeCreate":
        return Fired(printed=tuple(line for line in text.splitlines() if line.strip()))
    return Fired(context=(clean(words),)) if words and event in SPEAKING else NOTHING


def read_verdict(event: HookEvent, text: str, who: str) -> Fired:
    """Reads a model's verdict on an event: `{"ok": true}` or `{"ok": false, "reason": "..."}`, perhaps with words
    around it."""
    start, end = text.find("{"), text.rfind("}")
    try:
        value: Any = msgspec.json.decode(text[start : end + 1].encode(errors="surrogatepass")) if start >= 0 else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = None
    verdict = as_object(value)
    ok, reason = verdict.get("ok"), verdict.get("reason")
    if not isinstance(ok, bool):
        return unanswered(event, who, "the model did not say whether it is ok")
    words = reason if isinstance(reason, str) and reason.strip() else f"The hook {who} refused it and gave no reason."
    return NOTHING if ok else refuse(event, words)


_OLDER = {"block": "deny", "approve": "allow"}
_PASSING = (None, "allow", "ask")


def read_object(event: HookEvent, value: Mapping[str, Any], who: str, text: str = "") -> Fired:
    """Reads typed fields only. A field of the wrong type is reported and ignored, an unknown one skipped."""
    wrong: list[str] = []
    own: dict[str, Any] = _take(value, "hookSpecificOutput", dict, wrong) or {}
    reason = _take(value, "reason", str, wrong) or ""
    context = _take(own, "additionalContext", str, wrong)
    message = _take(value, "systemMessage", str, wrong)
    fired = _verdict(event, value, own, reason, wrong, who)
    if _take(value, "continue", bool, wrong) is False:
        why = clean(_take(value, "stopReason", str, wrong) or _STOPPED)
        fired = replace(refuse(event, why) if event in GATES else fired, stop=why)
    if event == "WorktreeCreate":
        place = _take(own, "worktreePath", str, wrong)
        fired = replace(fired, printed=(place,) if place else tuple(text.splitlines()))
    told = (shown(message, 1_000),) if message else ()
    return replace(fired, context=(clean(context),) if context else (), messages=(*told, *_complaints(wrong, who)))


def _complaints(wrong: Iterable[str], who: str) -> Iterator[str]:
    for name in wrong:
        yield f"The hook {who} answered with a `{name}` of the wrong kind; it was not used."


def _verdict(
    event: HookEvent, value: Mapping[str, Any], own: Mapping[str, Any], reason: str, wrong: list[str], who: str
) -> Fired:
    if event in GATES:
        return _decide(value, own, reason, wrong, who)
    if value.get("decision") == "block":
        return refuse(event, reason or f"The hook {who} refused it and gave no reason.")
    return NOTHING


def _decide(value: Mapping[str, Any], own: Mapping[str, Any], reason: str, wrong: list[str], who: str) -> Fired:
    """The decision about a call. An unreadable decision refuses it: the hook is there to guard."""
    inner = _inner(own)
    said = _said(value, own, inner)
    why = _take(own, "permissionDecisionReason", str, wrong) or _take(inner, "message", str, wrong) or reason
    changed = _take(own if "updatedInput" in own else inner, "updatedInput", dict, wrong)
    if said == "deny":
        return refuse("PreToolUse", why or f"The hook {who} refused it and gave no reason.")
    if said not in _PASSING:
        return refuse("PreToolUse", f"The hook {who} answered with a decision that is not allow, deny or ask.")
    if "updatedInput" in wrong:  # running the call unchanged is not what the hook wanted
        return refuse("PreToolUse", f"The hook {who} changed the arguments into something that is not an object.")
    return Fired(cast("HookDecision | None", said), clean(why) if said else "", changed)


def _inner(own: Mapping[str, Any]) -> dict[str, Any]:
    """The form that some scripts use for a PermissionRequest: {behavior, message, updatedInput}, or the bare
    behavior."""
    inner = own.get("decision")
    return cast("dict[str, Any]", inner) if isinstance(inner, dict) else {"behavior": inner}


def _said(value: Mapping[str, Any], own: Mapping[str, Any], inner: Mapping[str, Any]) -> Any:
    said: Any = own.get("permissionDecision", inner.get("behavior"))
    older: Any = value.get("decision")  # `block` refuses, whatever the newer fields say
    older = _OLDER.get(older, older) if isinstance(older, str) else older
    return older if said is None or older not in _PASSING else said


def _take(value: Mapping[str, Any], name: str, kind: type, wrong: list[str]) -> Any:
    found = value.get(name)
    if found is not None and not isinstance(found, kind):
        wrong.append(name)
        return None
    return found


def refuse(event: HookEvent, words: str) -> Fired:
    """The call does not run, the prompt is not taken, the agent goes back to work: the model reads why."""
    words = clean(words)
    return Fired("deny", words, blocked=words) if event in GATES else Fired(blocked=words)


def fail(who: str, words: str) -> Fired:
    """Reports to the person; nothing is blocked."""
    return Fired(messages=(f"The hook {who} {shown(words, 500)}",))


def unanswered(event: HookEvent, who: str, why: str) -> Fired:
    """For a hook that timed out, could not be reached or gave an unreadable answer: a gate then refuses, other events
    go on."""
    if event not in GATES:
        return fail(who, f"gave no answer: {why}")
    return refuse(event, f"The hook {who} gave no answer: {shown(why)}. So the call is refused.")


def clean(text: str) -> str:
    """Text made safe for the model: bounded, control characters escaped."""
    if len(text) > MOST_TEXT:
        text = f"{text[:MOST_TEXT]}\n[... {len(text) - MOST_TEXT:,} characters left out]"
    return "\n".join(line if line.isprintable() else _escaped(line) for line in text.split("\n"))


def _escaped(line: str) -> str:
    return "".join(c if c.isprintable() or c == "\t" else f"\\u{ord(c):04x}" for c in line.removesuffix("\r"))
