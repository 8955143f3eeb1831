"""Judges paths by rules and modes: what may be read or changed, and what is protected."""

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from teamwright.core.permissions.consent import Mode
from teamwright.core.permissions.facts import Place
from teamwright.core.permissions.patterns import PathPattern, path_pattern
from teamwright.core.permissions.protected import folded, names_protected
from teamwright.core.permissions.rules import EDIT, READ, Rule, Rules, names_tool, path_rule, whole_rule
from teamwright.core.text import shown


class Finding(Struct, frozen=True):
    """The result for one fact before the mode applies. `firm`: it holds even in bypassPermissions."""

    kind: Literal["allow", "ask", "deny"]
    reason: str = ""
    suggestions: tuple[str, ...] = ()
    path: str | None = None
    firm: bool = False
    reading: bool = False
    guarded: bool = False  # only a person can approve it, not a hook
    wider: tuple[str, ...] = ()  # broader rules than `suggestions`


class Scene(Struct, frozen=True):
    """The context of a judgement besides the facts."""

    mode: Mode
    rules: Rules
    roots: tuple[str, ...]
    readable: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()


FINE = Finding("allow")
_WORKTREES = "/.teamwright/worktrees/"


def within(path: str, directory: str) -> bool:
    """Is the absolute path this directory, or below it?"""
    return directory in (path, "/") or path.startswith(directory + "/")


def is_protected(path: str, roots: Iterable[str], protected: Iterable[str] = ()) -> bool:
    """Is it version control, our own settings and state, or a file that others run? Judged from the innermost working
    directory."""
    root = max((r for r in roots if within(path, r)), key=len, default="")
    if any(_stands_in(path, p) and not (root != p and _stands_in(root or "/", p)) for p in protected):
        return True
    return names_protected(path[len(root.rstrip("/")) :].split("/"))


def _stands_in(path: str, place: str) -> bool:
    """`HOME/.` stands for every name with a dot in that directory."""
    return within(path, place) or (place.endswith("/.") and folded(path).startswith(folded(place)))


def _names_protected(rule: Rule, scene: Scene) -> bool:
    """Does the pattern itself lead into a protected place, rather than merely cover it?"""
    if rule.pattern is None:
        return False
    pattern = path_pattern(rule.pattern, rule.base, rule.home)
    return names_protected(pattern.parts) or any(_stands_in(pattern.start, p) for p in scene.protected)


_READING, _CHANGING = ("reading", "read of"), ("changes to", "change to")  # for a denial; for a required approval


def said_by(rule: Rule) -> str:
    return f"the rule `{shown(str(rule), 120)}` ({rule.source})"


def restricted(place: Place, tool: str, scene: Scene, verb: str) -> Finding | None:
    """What deny and ask rules on paths say about this place, by either of its names."""
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
    if place.deep and (reason := _reason_below(place, tool, scene.rules)):
        return Finding("ask", reason, path=place.path, firm=True, reading=verb == "read")
    return None


def _reason_below(place: Place, tool: str, rules: Rules) -> str:
    """Why a rule restricts something below this place; empty if none does."""
    for rule in (*rules.deny, *rules.ask):
        if rule.pattern is None or not names_tool(rule, tool):
            continue
        if what := _covered_below(place, path_pattern(rule.pattern, rule.base, rule.home)):
            return f"{said_by(rule)} {what}."
    return ""


def _covered_below(place: Place, pattern: PathPattern) -> str:
    """What the pattern covers, or may cover, below this place, in words."""
    if place.held is not None:
        held = next((path for path in place.held if pattern.covers(path, wide=True)), "")
        spare = f"; to leave it out, add {place.spare}" if place.spare and held == place.held[0] else ""
        does = "may name" if place.guess else "would show"
        return f"covers {shown(held)}, which this {does}{spare}" if held else ""
    if place.vast:
        return f"may match something in the repository around {shown(place.given)}"
    below = pattern.may_cover_below(place.path) or pattern.may_cover_below(place.given)
    return f"may match something below {shown(place.given)}" if below else ""


def restricted_tool(tool: str, rules: Rules) -> Finding | None:
    """What deny and ask rules say about the tool as a whole."""
    if rule := whole_rule(rules.deny, tool):
        return Finding("deny", f"{said_by(rule)} denies this tool.")
    if rule := whole_rule(rules.ask, tool):
        return Finding("ask", f"{said_by(rule)} requires approval for every use of this tool.", firm=True)
    return None


def judge_read(place: Place, tool: str, scene: Scene, *, by_tool: bool = True) -> Finding:
    """`by_tool` is False if a shell command does the reading: rules on the whole tool do not apply then."""
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
    if tree := _tree_around(place.path, scene.roots):
        return Finding("deny", f"it lies in {shown(tree)}, from which your worktree was made.", path=place.path)
    if by_tool and tool == EDIT and (found := restricted(place, READ, scene, "read")):
        return found  # an edit shows the content it changes
    if any(is_protected(p, scene.roots, scene.protected) for p in (place.path, place.given)):
        return _judge_protected(place, tool, scene)
    return FINE if _may_edit(place, tool, scene) else _unallowed_edit(place, scene)


def _tree_around(path: str, roots: Sequence[str]) -> str:
    """The main tree of an agent's worktree, if the path lies there and outside all of the agent's roots."""
    above, at, _ = roots[0].partition(_WORKTREES) if roots else ("", "", "")
    outside = at and within(path, above) and not any(within(path, root) for root in roots)
    return above if outside else ""


def _judge_protected(place: Place, tool: str, scene: Scene) -> Finding:
    covering = _covering(scene.rules.allow, tool, place)
    if scene.mode != "plan" and any(_names_protected(rule, scene) for rule in covering):
        return FINE
    what = "it holds version control data, settings or state of this program, or files that programs run by themselves"
    reason = f"{shown(place.path)} is protected: {what}."
    return Finding("ask", reason, (f"Edit({_pattern(place.path)})",), place.path, guarded=True)


def _may_edit(place: Place, tool: str, scene: Scene) -> bool:
    """Do the rules or the mode allow it? For places that are not protected."""
    if scene.mode == "plan":
        return False
    if scene.mode == "acceptEdits" and _is_inside(place, scene) and not place.linked:
        return True
    allow = scene.rules.allow
    return whole_rule(allow, tool) is not None or path_rule(allow, tool, (place.path,), wide=False) is not None


def _unallowed_edit(place: Place, scene: Scene) -> Finding:
    where = "" if _is_inside(place, scene) else ", outside the working directories"
    if place.linked:
        where += " and, because it is a hard link, to the same file under another name, which may be anywhere"
    reason = f"no allow rule covers changes to {shown(_from_here(place.path, scene))}{where}."
    return Finding("ask", reason, (f"Edit({_suggested(place.path, scene)})",), place.path)


def _from_here(path: str, scene: Scene) -> str:
    """The path relative to the working directory, if it is inside it."""
    here = scene.roots[0] if scene.roots else ""
    return path[len(here) + 1 :] if here and path != here and within(path, here) else path


def _is_inside(place: Place, scene: Scene) -> bool:
    return any(within(place.path, root) for root in scene.roots)


def judge_change(place: Place, scene: Scene) -> Finding:
    """Judges a change by a shell command that may also move or remove: everything below the place goes with it."""
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
    """A pattern for exactly this path, wherever the rule is stored."""
    return "/" + re.sub(r"([*?\[\\])", r"\\\1", path)


def from_project(rule: str, project: str) -> str:
    """A suggested rule as a person would write it, with paths in the project relative to it: `Edit(src/**)`."""
    tool, _, rest = rule.partition(f"({_pattern(project)}/")
    if not rest or project in ("", "/"):
        return rule
    return f"{tool}({rest}" if "/" in rest and not rest.startswith("~") else f"{tool}(/{rest}"


def _suggested(path: str, scene: Scene) -> str:
    """A pattern for the path's directory and below, but never for a whole working directory or the whole machine."""
    folder = path.rpartition("/")[0]
    wide = folder.count("/") < 2 or any(within(root, folder) for root in scene.roots)
    return _pattern(path) if wide else _pattern(folder) + "/**"


def read_denied(rules: Rules, path: str) -> bool:
    """Must searches skip this resolved path?"""
    return path_rule(rules.deny, READ, (path,), wide=True) is not None
