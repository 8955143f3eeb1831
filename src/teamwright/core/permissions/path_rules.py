"""Paths under rules and modes: what may be read and changed where, and what is protected."""

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from teamwright.core.permissions.consent import Mode
from teamwright.core.permissions.facts import Place
from teamwright.core.permissions.patterns import path_pattern
from teamwright.core.permissions.protected import names_protected
from teamwright.core.permissions.rules import EDIT, READ, Rule, Rules, names_tool, path_rule, whole_rule
from teamwright.core.text import shown


class Finding(Struct, frozen=True):
    """What one fact comes to before the mode is looked at. `firm`: also in bypassPermissions."""

    kind: Literal["allow", "ask", "deny"]
    reason: str = ""
    suggestions: tuple[str, ...] = ()
    path: str | None = None
    firm: bool = False
    reading: bool = False
    guarded: bool = False  # no hook's yes answers it, only a person's
    wider: tuple[str, ...] = ()  # rules that cover more of the same kind, in place of `suggestions`


class Scene(Struct, frozen=True):
    """All that a judgement rests on besides the facts."""

    mode: Mode
    rules: Rules
    roots: tuple[str, ...]
    readable: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()


FINE = Finding("allow")


def within(path: str, directory: str) -> bool:
    """Is the absolute path this directory, or below it?"""
    return directory in (path, "/") or path.startswith(directory + "/")


def is_protected(path: str, roots: Iterable[str], protected: Iterable[str] = ()) -> bool:
    """Version control, our own settings and state, and what others run, judged from the innermost working directory."""
    root = max((r for r in roots if within(path, r)), key=len, default="")
    if any(within(path, p) and not (root != p and within(root or "/", p)) for p in protected):
        return True
    return names_protected(path[len(root.rstrip("/")) :].split("/"))


def _names_protected(rule: Rule, scene: Scene) -> bool:
    """Does the pattern itself lead into what is protected, rather than merely cover it?"""
    if rule.pattern is None:
        return False
    pattern = path_pattern(rule.pattern, rule.base, rule.home)
    return names_protected(pattern.parts) or any(within(pattern.start, p) for p in scene.protected)


_READING, _CHANGING = ("reading", "read of"), ("changes to", "change to")  # what is denied; what needs approval


def said_by(rule: Rule) -> str:
    return f"the rule `{shown(str(rule), 120)}` ({rule.source})"


def restricted(place: Place, tool: str, scene: Scene, verb: str) -> Finding | None:
    """What deny and ask rules on paths say of this place, by either of its names."""
    names = {place.path, place.given} - {""}
    denied, every = _READING if verb == "read" else _CHANGING
    if rule := path_rule(scene.rules.deny, tool, names, wide=True):
        return Finding("deny", f"{said_by(rule)} denies {denied} {shown(place.given)}.", path=place.path)
    if rule := path_rule(scene.rules.ask, tool, names, wide=True):
        return Finding(
            "ask",
            f"{said_by(rule)} requires approval for every {every} {shown(place.given)}.",
            path=place.path,
            firm=True,
            reading=verb == "read",
        )
    if place.deep and (rule := _rule_below(place, tool, scene.rules)):
        reason = f"{said_by(rule)} may match something below {shown(place.given)}."
        return Finding("ask", reason, path=place.path, firm=True, reading=verb == "read")
    return None


def _rule_below(place: Place, tool: str, rules: Rules) -> Rule | None:
    for rule in (*rules.deny, *rules.ask):
        if rule.pattern is None or not names_tool(rule, tool):
            continue
        pattern = path_pattern(rule.pattern, rule.base, rule.home)
        if pattern.may_cover_below(place.path) or pattern.may_cover_below(place.given):
            return rule
    return None


def restricted_tool(tool: str, rules: Rules) -> Finding | None:
    """What deny and ask rules say of the tool as such."""
    if rule := whole_rule(rules.deny, tool):
        return Finding("deny", f"{said_by(rule)} denies this tool.")
    if rule := whole_rule(rules.ask, tool):
        return Finding("ask", f"{said_by(rule)} requires approval for every use of this tool.", firm=True)
    return None


def judge_read(place: Place, tool: str, scene: Scene, *, by_tool: bool = True) -> Finding:
    """`by_tool` is False where a shell command does the reading: rules on the tool as such are not about it."""
    if by_tool and (found := restricted_tool(tool, scene.rules)):
        return found
    if not place.path:
        return Finding("ask", "what it reads is only known when it runs.", reading=True)
    if found := restricted(place, tool, scene, "read"):
        return found
    if any(within(place.path, d) for d in (*scene.roots, *scene.readable)):
        return FINE
    allow = scene.rules.allow
    if path_rule(allow, tool, (place.path,), wide=False) or (by_tool and whole_rule(allow, tool)):
        return FINE
    reason = f"{shown(place.path)} is outside the working directories."
    return Finding("ask", reason, (f"Read({_suggested(place.path, scene)})",), place.path, reading=True)


def judge_edit(place: Place, tool: str, scene: Scene, *, by_tool: bool = True) -> Finding:
    if by_tool and (found := restricted_tool(tool, scene.rules)):
        return found
    if not place.path:
        return Finding("ask", "what it writes is only known when it runs.")
    if found := restricted(place, tool, scene, "change"):
        return found
    if by_tool and tool == EDIT and (found := restricted(place, READ, scene, "read")):
        return found  # an edit shows what it changes
    allow = scene.rules.allow
    rule = path_rule(allow, tool, (place.path,), wide=False)
    if any(is_protected(p, scene.roots, scene.protected) for p in (place.path, place.given)):
        if scene.mode != "plan" and any(_names_protected(r, scene) for r in _covering(allow, tool, place)):
            return FINE
        what = (
            "it holds version control data, settings or state of this program, or files that programs run by themselves"
        )
        reason = f"{shown(place.path)} is protected: {what}."
        return Finding("ask", reason, (f"Edit({_pattern(place.path)})",), place.path, guarded=True)
    inside = any(within(place.path, root) for root in scene.roots)
    unasked = inside and scene.mode == "acceptEdits" and not place.linked
    if scene.mode != "plan" and (rule or whole_rule(allow, tool) or unasked):
        return FINE
    where = "" if inside else ", outside the working directories"
    where += (
        " and, because it is a hard link, to the same file under another name, which may be anywhere" * place.linked
    )
    reason = f"no allow rule covers changes to {shown(place.path)}{where}."
    return Finding("ask", reason, (f"Edit({_suggested(place.path, scene)})",), place.path)


def judge_change(place: Place, scene: Scene) -> Finding:
    """An edit by a shell command that also moves or removes: with a place goes all that lies below."""
    found = judge_edit(place, EDIT, scene, by_tool=False)
    if found.kind != "allow":
        return found
    if any(within(root, place.path) for root in scene.roots):
        return Finding("ask", f"{shown(place.path)} is a working directory, or holds one.", path=place.path)
    if place.deep and any(within(kept, place.path) for kept in scene.protected):
        return Finding("ask", f"what lies in {shown(place.path)} is partly protected.", path=place.path, guarded=True)
    return found


def _covering(rules: Sequence[Rule], tool: str, place: Place) -> list[Rule]:
    return [rule for rule in rules if path_rule((rule,), tool, (place.path,), wide=False)]


def _pattern(path: str) -> str:
    """The path as a pattern that means it wherever the rule is kept."""
    return "/" + re.sub(r"([*?\[\\])", r"\\\1", path)


def _suggested(path: str, scene: Scene) -> str:
    """The directory of the path and all below, but never all of a working directory or of the whole machine."""
    folder = path.rpartition("/")[0]
    wide = folder.count("/") < 2 or any(within(root, folder) for root in scene.roots)
    return _pattern(path) if wide else _pattern(folder) + "/**"


def read_denied(rules: Rules, path: str) -> bool:
    """Must searches leave this resolved path out?"""
    return path_rule(rules.deny, READ, (path,), wide=True) is not None
