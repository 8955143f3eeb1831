"""Judges shell commands by rules and modes: each simple command must be allowed by itself, and a denied one is found
however deeply it is nested."""

import re
import string
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Literal

from msgspec import structs

from teamwright.core.permissions.facts import Command, CommandView, Place, Runs
from teamwright.core.permissions.path_rules import (
    FINE,
    Finding,
    Scene,
    is_protected,
    judge_change,
    judge_edit,
    judge_read,
    restricted,
    restricted_tool,
    said_by,
)
from teamwright.core.permissions.patterns import (
    UNKNOWN,
    WILD,
    CommandPattern,
    command_fits,
    command_pattern,
    deny_fits,
    mentioned,
    path_pattern,
    spelt,
)
from teamwright.core.permissions.prefixes import prefix_of, reads_code, runs_anything
from teamwright.core.permissions.programs import is_about_names, shown_by
from teamwright.core.permissions.rules import (
    BASH,
    EDIT,
    EDITING,
    READ,
    READING,
    SHELL,
    Rule,
    Rules,
    names_tool,
    whole_rule,
)
from teamwright.core.text import shown

_ON_COMMANDS = frozenset((*SHELL, *READING, *EDITING))  # path rules also cover what a command names
_WILDCARDS = re.compile(r"[*?\[\\]")
_OF_PATHS = f"{string.ascii_letters}{string.digits}_./~-"
_LEAVES_OUT = re.compile(
    r"(?:!|-not)\s+-i?(?:path|name|wholename)\s+\S+|-i?(?:path|name)\s+\S+\s+-prune|--exclude(?:-dir)?[= ]\S+|:!\S+"
)
_ANY_LETTER = re.compile(r"\$'|\\[0-7xuU]")  # such strings can spell a letter as a number


def judge_runs(runs: Runs, scene: Scene) -> list[Finding]:
    """One finding for each reason for or against the command."""
    if runs.ruin:
        return [Finding("deny", f"it would remove {shown(runs.ruin, 100)}, which is refused in every mode.")]
    if found := restricted_tool(runs.tool, scene.rules):
        return [found]
    findings = [*_by_command_rules(runs, scene), *_by_path_rules(runs, scene)]
    whole = whole_rule(scene.rules.allow, runs.tool) is not None and scene.mode != "plan"
    if runs.doubt:
        findings.append(Finding("ask", f"{runs.doubt}, which needs approval in every mode.", firm=True))
    if runs.broken:
        findings.append(_unreadable(runs, scene.rules))
    for command in (c for c in runs.commands if not c.shadow):
        findings += _judge_command(command, runs.tool, scene, whole=whole)
    if not whole:
        findings += [judge_read(place, READ, scene, by_tool=False) for place in runs.reads]
    findings += [_judge_write(place, runs, scene, whole=whole) for place in runs.writes]
    return findings


def _unreadable(runs: Runs, rules: Rules) -> Finding:
    """In unparsable text any word can be disguised, so a restricting rule may always apply."""
    restricting = (*rules.deny, *rules.ask)
    rule = next((r for r in restricting if r.pattern is not None and r.tool in _ON_COMMANDS), None)
    why = f", and {said_by(rule)} may cover it" if rule else ""
    return Finding("ask", f"the command cannot be judged: {runs.broken}{why}.", firm=rule is not None)


def _patterns(rules: Sequence[Rule], tool: str) -> Iterator[tuple[Rule, CommandPattern]]:
    for rule in rules:
        if rule.pattern is not None and rule.tool in SHELL and names_tool(rule, tool):
            yield rule, command_pattern(rule.pattern)


def _by_command_rules(runs: Runs, scene: Scene) -> Iterator[Finding]:
    """Restricting rules check every reading of every command, and the raw words of what could not be parsed."""
    unread = runs.broken or any(command.opaque for command in runs.commands)
    kinds: tuple[tuple[Literal["deny", "ask"], Sequence[Rule]], ...] = (
        ("deny", scene.rules.deny),
        ("ask", scene.rules.ask),
    )
    for kind, rules in kinds:
        verb = "denies" if kind == "deny" else "requires approval for"
        for rule, pattern in _patterns(rules, runs.tool):
            for command in runs.commands:
                yield from _by_pattern(command, pattern, rule, kind, verb)
            if unread and mentioned(pattern, runs.text):
                yield Finding(kind, f"{said_by(rule)} {verb} a command that seems to be part of it.", firm=True)
            elif unread and _ANY_LETTER.search(runs.text):
                yield Finding("ask", f"{said_by(rule)} may match a part of it that cannot be read.", firm=True)


def _by_pattern(
    command: Command, pattern: CommandPattern, rule: Rule, kind: Literal["deny", "ask"], verb: str
) -> Iterator[Finding]:
    fits = {deny_fits(pattern, view.words) for view in command.views}
    if "yes" in fits:
        yield Finding(kind, f"{said_by(rule)} {verb} `{shown(command.shown, 120)}`.", firm=True)
    elif "maybe" in fits:
        what = f"`{shown(command.shown, 120)}`: some of its words are only known when it runs"
        yield Finding("ask", f"{said_by(rule)} may match {what}.", firm=True)


def _by_path_rules(runs: Runs, scene: Scene) -> Iterator[Finding]:
    """What deny and ask rules on paths say about everything that the command names, even if the command is allowed."""
    for command in runs.commands:
        yield from _restricted_all((*command.reads, *command.touches), READ, "read", scene)
        yield from _restricted_all(command.edits, EDIT, "change", scene)
    yield from _restricted_all(runs.reads, READ, "read", scene)
    yield from _perhaps_read(runs, scene)


def _perhaps_read(runs: Runs, scene: Scene) -> Iterator[Finding]:
    """A program that shows files, with a word that is only known when it runs, in a line that names such a file."""
    unsure = [c for c in runs.commands if not c.shadow and _may_show_anything(c)]
    text = _without_texts(runs) if unsure else ""
    for rule in (*scene.rules.deny, *scene.rules.ask) if unsure else ():
        if rule.pattern is not None and names_tool(rule, READ) and _is_named(rule, rule.pattern, text):
            what = f"`{shown(unsure[0].shown, 120)}`: what it reads is only known when it runs"
            yield Finding("ask", f"{said_by(rule)} may cover {what}.", firm=True, reading=True)


def _may_show_anything(command: Command) -> bool:
    if command.harmless:
        return not all(place.path for place in command.reads)
    return any(UNKNOWN in word for view in command.views for word in shown_by(view.words))


def _without_texts(runs: Runs) -> str:
    """The line without what names files only to say something about them, or to leave them out."""
    text = runs.text
    for command in runs.commands:
        view = command.views[-1].words
        if is_about_names(view) and not any(UNKNOWN in word for word in view):
            text = text.replace(command.shown, "")
    return _LEAVES_OUT.sub("", text)


def _is_named(rule: Rule, pattern: str, text: str) -> bool:
    """Does the text name what the rule covers: by its name, or by a path that may lead there?"""
    name = pattern.rstrip("/").removesuffix("/**").rpartition("/")[2]
    if _WILDCARDS.search(name) or name in ("", ".", "..", "~"):
        return False
    covered = path_pattern(pattern, rule.base, rule.home)
    for found in re.finditer(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", text):
        before = text[: found.start()].rstrip(_OF_PATHS)
        way = text[len(before) : found.start()].removeprefix("./")
        path = str(PurePosixPath(rule.base, way.replace("~", rule.home, 1), name))
        if _leads_anywhere(before, way) or covered.covers(path, wide=True) or covered.start.endswith(f"/{way}{name}"):
            return True
    return False


def _leads_anywhere(before: str, way: str) -> bool:
    """Is this path the end of a longer one, or can nobody know where it leads?"""
    joined = before.endswith(("$", "}", "]", ")", "*", "?")) or (
        way.startswith("/") and before.endswith(('"', "'", "`"))
    )
    return joined or not way.endswith("/") or ".." in way or way.startswith(("/proc", "/dev"))


def _restricted_all(places: Iterable[Place], tool: str, verb: str, scene: Scene) -> Iterator[Finding]:
    for place in places:
        if place.path and (found := restricted(place, tool, scene, verb)):
            yield found


def _judge_command(command: Command, tool: str, scene: Scene, *, whole: bool) -> list[Finding]:
    rule = None if scene.mode == "plan" else _allowed_by(command, tool, scene)
    allowed = whole or rule is not None
    if command.harmless:
        return [] if allowed else _judge_reads(command, scene)
    if allowed:
        exact = rule is not None and command_pattern(rule.pattern or "").is_exact
        return [] if exact else _judge_protected_touches(command, scene)
    if command.edits_only and scene.mode == "acceptEdits":
        return _judge_changes(command, scene)
    why = f" ({command.opaque})" if command.opaque else ""
    reason = f"no allow rule covers `{shown(command.shown, 160)}`{why}."
    return [Finding("ask", reason, _suggestions(command), wider=_wider(command, scene))]


def _judge_reads(command: Command, scene: Scene) -> list[Finding]:
    return [judge_read(place, READ, scene, by_tool=False) for place in command.reads]


def _judge_changes(command: Command, scene: Scene) -> list[Finding]:
    found = [*_judge_reads(command, scene), *(judge_change(place, scene) for place in command.edits)]
    return [structs.replace(one, suggestions=_suggestions(command)) for one in found if one.kind != "allow"]


def _judge_protected_touches(command: Command, scene: Scene) -> list[Finding]:
    """An allow rule with wildcards does not extend to protected places."""
    for place in command.touches:
        if _is_protected_place(place, scene):
            reason = f"`{shown(command.shown, 120)}` may change {shown(place.path)}, which is protected."
            return [Finding("ask", reason, _suggestions(command), place.path)]
    return []


def _is_protected_place(place: Place, scene: Scene) -> bool:
    return any(is_protected(path, scene.roots, scene.protected) for path in (place.path, place.given))


def _allowed_by(command: Command, tool: str, scene: Scene) -> Rule | None:
    if command.opaque:
        return None
    for rule, pattern in _patterns(scene.rules.allow, tool):
        named = next((n for n, word in enumerate(pattern.words) if WILD in word), len(pattern.words))
        for view in command.views:
            if view.need is not None and named >= view.need and command_fits(pattern, view.words) == "yes":
                return rule
    return None


def _judge_write(place: Place, runs: Runs, scene: Scene, *, whole: bool) -> Finding:
    """A redirection is an edit of its target. A rule for the whole shell covers it, except for protected places."""
    found = judge_edit(place, EDIT, scene, by_tool=False)
    if found.kind != "ask" or found.firm or not whole:
        return found
    if place.path and _is_protected_place(place, scene):
        return found
    return FINE


def _suggestions(command: Command) -> tuple[str, ...]:
    """A rule for the exact command, or for its known beginning, unless that could run anything."""
    view = _ruled_view(command)
    if view is None:
        return ()
    words, known = view.words, _known(view.words)
    if reads_code(words):
        return ()
    if known == len(words) and sum(map(len, words)) <= 200:
        return (_rule_for(words),)
    beginning = words[: min(known, 2)]
    if not beginning or any(map(runs_anything, beginning)):
        return ()
    return (_rule_for((*beginning, "*")),)


def _wider(command: Command, scene: Scene) -> tuple[str, ...]:
    """A rule for the subcommand with any arguments. None if it would not help, because a protected place is named."""
    view = _ruled_view(command)
    beginning = () if view is None else prefix_of(view.words)
    if view is None or view.need is None or not view.need <= len(beginning) <= _known(view.words):
        return ()
    if any(_is_protected_place(place, scene) for place in command.touches):
        return ()
    return (_rule_for((*beginning, "*")),)


def _ruled_view(command: Command) -> CommandView | None:
    """The command as a rule would name it: without its wrappers where those may be omitted."""
    if command.opaque:
        return None
    view = next((view for view in (command.views[-1], command.views[0]) if view.need is not None), None)
    return view if view is not None and view.words else None


def _known(words: Sequence[str]) -> int:
    """How many leading words a rule can spell."""
    odd = (n for n, word in enumerate(words) if UNKNOWN in word or any(c in word for c in "*\"'"))
    return next(odd, len(words))


def _rule_for(words: Sequence[str]) -> str:
    return f"{BASH}({spelt(words)})"
