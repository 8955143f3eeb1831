"""Reads hooks from settings and from agents' frontmatter, reporting each fault with its location."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeGuard, cast

from teamwright.core.data.extensions.hook import (
    DEFAULT_SECONDS,
    EVENTS,
    FOREIGN_EVENTS,
    GATES,
    CommandHook,
    Hook,
    HookBook,
    HookEvent,
    HookRun,
    HttpHook,
    PromptHook,
    compile_matcher,
)
from teamwright.core.data.extensions.unread import Unread
from teamwright.core.text import closest, shown

MOST_HOOKS = 100  # per event
MOST_COMMAND = 100_000  # characters; a longer one does not fit into argv
MOST_PROMPT = 20_000  # characters
MOST_SECONDS = 86_400.0
PROMPT_SECONDS = 30.0  # for a hook that asks a model
_MOST_PROBLEMS = 50
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_EVENTS: dict[str, HookEvent] = {event.lower(): event for event in EVENTS}


class _WrongHook(ValueError):
    """What is wrong with one hook, which is then skipped."""


class _OtherType(ValueError):
    """A hook type that only another program runs."""


def read_hooks(sources: Iterable[tuple[str, Mapping[str, Any]]]) -> tuple[HookBook, tuple[str, ...]]:
    """Reads all hooks of `(file, events)`, in order, and lists problems. A fault affects only its own hook."""
    found: dict[HookEvent, list[Hook]] = {}
    problems: list[str] = []
    unread: list[Unread] = []
    for file, events in sources:
        for name, entries in events.items():
            event = _EVENTS.get(name.lower())
            if name in FOREIGN_EVENTS:
                unread.append(Unread("hook event", name, file))
            elif event is None or event != name:
                problems.append(_no_event(file, name, event or closest(name, EVENTS)))
            else:
                found.setdefault(event, []).extend(_read_event(event, entries, file, problems, unread))
    for event, hooks in found.items():
        if len(hooks) > MOST_HOOKS:
            problems.append(f"hooks: {event} has {len(hooks)} hooks; only the first {MOST_HOOKS} run.")
    kept: dict[HookEvent, tuple[Hook, ...]] = {
        event: tuple(hooks[:MOST_HOOKS]) for event, hooks in found.items() if hooks
    }
    book = HookBook(kept, tuple(dict.fromkeys(unread)))
    if len(problems) > _MOST_PROBLEMS:
        problems[_MOST_PROBLEMS:] = [f"hooks: {len(problems) - _MOST_PROBLEMS} more problems of this kind."]
    return book, tuple(problems)


def _no_event(file: str, name: str, meant: str | None) -> str:
    hint = f"did you mean {meant}?" if meant else "docs/hooks.md lists the events."
    return f"{shown(file)}: hooks: there is no event `{shown(name, 60)}`, so it is skipped; {hint}"


def _read_event(event: HookEvent, entries: Any, file: str, problems: list[str], unread: list[Unread]) -> Iterator[Hook]:
    def tell(place: str, words: str) -> None:
        problems.append(f"{shown(file)}: hooks.{event}{place}: {words}")

    if not isinstance(entries, list):
        tell("", "must be a list of `{matcher, hooks: [...]}`; it is skipped.")
        return
    for n, entry in enumerate(cast("list[Any]", entries)):
        try:
            matcher, hooks = _read_entry(entry)
        except _WrongHook as wrong:
            tell(f"[{n}]", f"{wrong}; it is skipped.")
            continue
        if fault := _check(matcher):
            # A gate hook that runs too often is a nuisance; one that does not run is a security hole.
            tell(f"[{n}].matcher", f"{fault}; {'it is used for all' if event in GATES else 'its hooks are skipped'}.")
            if event not in GATES:
                continue
            matcher = ""
        for m, value in enumerate(hooks):
            place = f"[{n}].hooks[{m}]"
            try:
                run = _read_run(value)
            except _WrongHook as wrong:
                tell(place, f"{wrong}; it is skipped.")
            except _OtherType as other:
                unread.append(Unread("hook type", str(other), file))
                if event in GATES:  # somebody counts on this guard
                    tell(place, f"hooks of the type {other} do not run here: this guard is off.")
            else:
                beside = isinstance(run, CommandHook) and value.get("async") is True
                yield Hook(matcher, run, _read_seconds(value, run, place, tell), file, beside)


def _read_entry(entry: Any) -> tuple[str, list[Any]]:
    if not isinstance(entry, dict):
        raise _WrongHook("must be an object `{matcher, hooks: [...]}`")
    fields = cast("dict[str, Any]", entry)
    matcher, hooks = fields.get("matcher"), fields.get("hooks")
    if not isinstance(hooks, list):
        raise _WrongHook("has no list `hooks`: write `{matcher, hooks: [{type, command}]}`")
    if matcher is not None and not isinstance(matcher, str):
        raise _WrongHook("`matcher` must be text")
    return (matcher or "").strip(), cast("list[Any]", hooks)


def _check(matcher: str) -> str:
    if matcher == "*":
        return ""
    try:
        compile_matcher(matcher)
    except (re.error, RecursionError, OverflowError) as error:
        return f"`{shown(matcher, 80)}` is not a regular expression ({shown(str(error), 80)})"
    return ""


def _read_run(value: Any) -> HookRun:
    if not isinstance(value, dict):
        raise _WrongHook("must be an object `{type, command}`")
    fields = cast("dict[str, Any]", value)
    match fields.get("type", "command"):
        case "command":
            return _read_command(fields)
        case "http":
            return _read_http(fields)
        case "prompt":
            return _read_prompt(fields)
        case "agent":
            raise _OtherType("agent")
        case other:
            raise _WrongHook(f"`type` {shown(str(other), 40)} is not known here: there are command, http and prompt")


def _read_command(fields: Mapping[str, Any]) -> CommandHook:
    command = fields.get("command")
    if not isinstance(command, str) or not command.strip():
        raise _WrongHook("`command` must be text")
    if "\0" in command or len(command) > MOST_COMMAND or not _encodes(command):
        raise _WrongHook(f"`command` cannot be used: longer than {MOST_COMMAND:,} characters, or not plain text")
    return CommandHook(command)


def _read_prompt(fields: Mapping[str, Any]) -> PromptHook:
    prompt, model = fields.get("prompt"), fields.get("model", "")
    if not isinstance(prompt, str) or not prompt.strip() or len(prompt) > MOST_PROMPT or not _encodes(prompt):
        raise _WrongHook(f"`prompt` must be text of at most {MOST_PROMPT:,} characters")
    if not isinstance(model, str):
        raise _WrongHook("`model` must be the name of a model")
    return PromptHook(prompt, model.strip())


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read_http(fields: Mapping[str, Any]) -> HttpHook:
    url = fields.get("url")
    headers: Any = fields.get("headers", {})
    passed: Any = fields.get("allowedEnvVars", [])
    if not _is_address(url):
        raise _WrongHook("`url` must begin with http:// or https://")
    if not isinstance(headers, dict) or not isinstance(passed, list):
        raise _WrongHook("`headers` must be an object of texts, `allowedEnvVars` a list of names")
    pairs = tuple(cast("dict[str, Any]", headers).items())
    for name, text in pairs:
        if not _is_header(name, text):
            raise _WrongHook(f"the header `{shown(name, 60)}` must be one line of text")
    names = cast("list[Any]", passed)
    if not all(isinstance(name, str) for name in names):
        raise _WrongHook("`allowedEnvVars` must be a list of names")
    return HttpHook(url, pairs, tuple(names))


def _is_address(url: Any) -> TypeGuard[str]:
    return isinstance(url, str) and url.isprintable() and re.fullmatch(r"https?://[^\s/?#][^\s]*", url) is not None


def _is_header(name: str, text: Any) -> bool:
    return _HEADER.fullmatch(name) is not None and isinstance(text, str) and text.isprintable()


def _read_seconds(value: Any, run: HookRun, place: str, tell: Callable[[str, str], None]) -> float:
    said = cast("dict[str, Any]", value).get("timeout")
    if said is None:
        return PROMPT_SECONDS if isinstance(run, PromptHook) else DEFAULT_SECONDS
    fits = isinstance(said, int | float) and not isinstance(said, bool) and math.isfinite(said) and said > 0
    if not fits:
        tell(place, f"`timeout` must be a number of seconds above 0; {DEFAULT_SECONDS:g} is used.")
        return DEFAULT_SECONDS
    return min(float(said), MOST_SECONDS)
