"""Removes a command's wrappers (`env`, `timeout`, `xargs`): what each layer runs, and the innermost command."""

import re
from collections.abc import Sequence

from msgspec import Struct, field

from teamwright.core.permissions.facts import CommandView, Place
from teamwright.core.permissions.path_rules import within
from teamwright.core.permissions.patterns import UNKNOWN
from teamwright.host.shell.feeds import FedWords, fed_words
from teamwright.host.shell.harmless import Setting
from teamwright.host.shell.pieces import Unreadable
from teamwright.host.shell.programs.special import gives_orders, harmless_name
from teamwright.host.shell.programs.wrappers import (
    MOST_WRAPPERS,
    WRAPPERS,
    is_assignment,
    program_name,
    takes_away,
    unwrapped,
)
from teamwright.host.shell.words import Word

_PYTHON = re.compile(r"python(?:3(?:\.\d{1,2})?)?")


class Layers(Struct):
    """A command with its wrappers: every layer as seen from outside, and where the innermost starts."""

    views: list[CommandView]
    inner: list[Word]
    names: list[str]
    risky: bool  # it changes the meaning of the inner command
    given: list[tuple[str, str]]  # variables for it
    imports: bool = False  # it changes what python imports, which a rule for that python covers
    opaque: str = ""

    def hide(self, why: str) -> None:
        """Marks its effect as unknown; the first reason counts."""
        self.opaque = self.opaque or why

    def hide_command(self, why: str) -> None:
        """Marks it as possibly any command, for restricting rules."""
        self.hide(why)
        self.views.append(CommandView((UNKNOWN,), None))

    @property
    def is_certain(self) -> bool:
        """Are its words known, and do they mean what they say?"""
        return not self.risky and not any(word.glob or word.splits for word in self.inner)


class _Peeled(Struct):
    """A command while wrappers are removed; `starts` says where each layer starts."""

    inner: list[Word]
    starts: list[int]
    names: list[str] = field(default_factory=list[str])
    given: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    risky: bool = False
    opaque: str = ""


def unwrap(
    words: Sequence[Word], assigned: Sequence[tuple[str, Word]], setting: Setting, feed: FedWords | None
) -> Layers:
    peeled = _Peeled(list(words), [0])
    while step := _wrapper_length(peeled):
        _take_off(peeled, step, feed)
    inner = peeled.inner
    odd = [(name, value.text) for name, value in assigned if not harmless_name(name, value.text)]
    imports = bool(odd) and not peeled.risky and _only_imports(odd, inner, setting)
    risky = peeled.risky or (bool(odd) and not imports)
    prefix = [f"{name}={value.text}" for name, value in assigned]
    given = [*((name, value.text) for name, value in assigned), *peeled.given]
    unruled = risky or gives_orders(given, inner[0].text)
    views = _views([w.text for w in words], peeled.starts, prefix, [w.text for w in inner], unruled=unruled)
    return Layers(views, inner, peeled.names, risky, given, imports, peeled.opaque)


def _wrapper_length(peeled: _Peeled) -> int:
    """The number of words in the outermost wrapper; 0 if there is none, or what follows it is unclear."""
    inner = peeled.inner
    if not inner or _is_lookup(inner):
        return 0
    step = unwrapped([w.text for w in inner])
    if step is None:
        peeled.opaque = f"the options of {inner[0].text} are not understood"
        return 0
    if step >= len(inner):
        return 0
    if any(word.splits for word in inner[:step]):
        peeled.opaque = f"what {inner[0].text} is given is only known when it runs"
        return 0
    return step


def _take_off(peeled: _Peeled, step: int, feed: FedWords | None) -> None:
    if len(peeled.names) == MOST_WRAPPERS:
        raise Unreadable("one command in it runs another, more often than is followed")
    inner, name = peeled.inner, program_name(peeled.inner[0].text)
    peeled.names.append(name)
    words = [w.text for w in inner[1:step]]
    peeled.risky = peeled.risky or _changes_meaning(name, words)
    peeled.given += [(word.partition("=")[0], word.partition("=")[2]) for word in words if is_assignment(word)]
    inner = fed_words(inner, step, feed) if WRAPPERS[name].feeds else inner[step:]
    while name == "time" and inner[0].text == "!" and len(inner) > 1:
        inner, step = inner[1:], step + 1
    peeled.inner = inner
    peeled.starts.append(peeled.starts[-1] + step)


def _changes_meaning(wrapper: str, given: Sequence[str]) -> bool:
    """Can the wrapper's arguments make the command after it behave differently?"""
    if wrapper == "env" and takes_away(given):
        return True
    return any(is_assignment(word) and not harmless_name(*word.split("=", 1)) for word in given)


def _views(
    texts: Sequence[str], starts: Sequence[int], prefix: Sequence[str], inner: Sequence[str], *, unruled: bool
) -> list[CommandView]:
    """One view per layer, with `starts` as their positions; the first is the whole command with the variables it
    sets. `unruled`: a rule covers nothing that leaves the variables out."""
    last = starts[-1]
    views = [CommandView((*prefix, *texts), len(prefix) + last + 1)] if prefix else []
    views += [CommandView(tuple(texts[start:]), None if unruled else last - start + 1) for start in starts[:-1]]
    return [*views, CommandView(tuple(inner), None if unruled else 1)]


def _only_imports(assigned: Sequence[tuple[str, str]], inner: Sequence[Word], setting: Setting) -> bool:
    """`PYTHONPATH=src python -m pytest` loads project code, as `python -m` does anyway."""
    if not _runs_module(inner) or [name for name, _ in assigned] != ["PYTHONPATH"]:
        return False
    paths = assigned[0][1].split(":")
    return all(paths) and lie_inside(paths, setting)


def _runs_module(words: Sequence[Word]) -> bool:
    return len(words) > 2 and _PYTHON.fullmatch(words[0].text) is not None and words[1].text == "-m"


def lie_inside(paths: Sequence[str], setting: Setting) -> bool:
    """Is each path known, and in a working directory wherever the command may be at that point?"""
    places = [place for path in paths if UNKNOWN not in path for place in setting.places(path)]
    return 0 < len(places) == len(paths) * len(setting.cwds or ()) and _are_inside(places, setting)


def _are_inside(places: Sequence[Place], setting: Setting) -> bool:
    """Are all of them in a working directory?"""
    return all(any(within(place.path, root) for root in setting.around.roots) for place in places)


def _is_lookup(words: Sequence[Word]) -> bool:
    return words[0].text == "command" and len(words) > 1 and words[1].text in ("-v", "-V")
