"""One simple command: what is inside of its wrappers, what it is known to read, and what its words may touch."""

import re
from collections.abc import Callable, Sequence
from glob import iglob
from itertools import islice
from pathlib import Path

from msgspec import Struct, field

from teamwright.core.facts import NOWHERE, Command, Place, View
from teamwright.core.patterns import UNKNOWN
from teamwright.core.protected import mentioned
from teamwright.host.commands import Use, harmless_name, known_use
from teamwright.host.git_commands import git_use, is_own_repository, without_git_options
from teamwright.host.ruin import ruin_of
from teamwright.host.words import Word
from teamwright.host.wrappers import (
    LAUNCHERS,
    SHELLS,
    WRAPPERS,
    carried_code,
    find_commands,
    is_assignment,
    unwrapped,
)

MOST_MATCHES = 200  # of one wildcard; more are as good as unknown
_WRITERS = frozenset(
    [
        "rm",
        "mv",
        "cp",
        "touch",
        "mkdir",
        "rmdir",
        "ln",
        "install",
        "tee",
        "truncate",
        "chmod",
        "chown",
        "dd",
        "sed",
        "rsync",
        "shred",
        "unlink",
        "patch",
    ]
)
_RECORDS = frozenset(
    ["add", "commit", "push", "fetch", "tag", "branch", "stash", "merge", "rebase"]
)  # of git: they read what they name
_LEFT_OUT = re.compile(r"--(?:exclude|ignore)[\w-]*=")
_LEAVES_OUT = frozenset({"--exclude", "--exclude-dir", "--ignore", "-path", "-name", "-ipath", "-iname", "-wholename"})
_MOVES = frozenset({"pushd", "popd", "source", "."})


class Setting(Struct, frozen=True):
    """Where the command would run, as far as it is known, and how a path becomes places."""

    cwds: tuple[str, ...] | None
    home: str
    roots: tuple[str, ...]
    places: Callable[..., list[Place]]


class Found(Struct):
    """What one simple command comes to. `code` is text that it would run, to be read in turn."""

    commands: list[Command] = field(default_factory=list[Command])
    writes: list[Place] = field(default_factory=list[Place])
    code: list[str] = field(default_factory=list[str])
    shadows_code: bool = False
    same_shell: bool = False
    cd: str | None = None
    ruin: str = ""


class _Layers(Struct):
    """A command with its wrappers: every layer as seen from outside, and where the innermost begins."""

    views: list[View]
    inner: list[Word]
    names: list[str]
    risky: bool  # it changes what the inner command would mean
    opaque: str = ""


def simple_commands(words: Sequence[Word], shown: str, assigned: Sequence[tuple[str, Word]], setting: Setting) -> Found:
    layers = _unwrap(words, assigned)
    found = Found()
    texts = tuple(w.text for w in layers.inner)
    found.ruin = _ruin(layers.inner, setting)
    name = texts[0].rpartition("/")[2]
    if UNKNOWN in texts[0]:
        layers.opaque = layers.opaque or "the name of the program is only known when it runs"
    if name == "find":
        _take_find_apart(texts, shown, setting, found)
        layers.inner = _without_exec(layers.inner)
    shadow = _carry(texts, layers, found)
    if name in LAUNCHERS and not shadow:
        _look_behind(texts, layers, found, setting)
    if name in ("source", "."):
        layers.views.append(View(texts[1:], None))  # the script is a command too
    if name == "git":
        layers.views.append(View(without_git_options(texts), None))
    found.commands.insert(0, _command(layers, shown, setting, found, shadow=shadow))
    if name in _MOVES:
        found.cd = UNKNOWN
    return found


def _unwrap(words: Sequence[Word], assigned: Sequence[tuple[str, Word]]) -> _Layers:
    texts = [word.text for word in words]
    inner, names, opaque = list(words), list[str](), ""
    risky = any(not harmless_name(name) for name, _ in assigned)
    starts = [0]
    while inner and not _is_lookup(inner):
        at = starts[-1]
        step = unwrapped([w.text for w in inner])
        if step is None:
            opaque = f"the options of {inner[0].text} are not understood"
            break
        if step == 0 or step >= len(inner):
            break
        name = inner[0].text.rpartition("/")[2]
        names.append(name)
        risky = risky or any(
            is_assignment(w.text) and not harmless_name(w.text.partition("=")[0]) for w in inner[1:step]
        )
        fed = WRAPPERS[name].feeds
        inner = _fed(inner, step) if fed else inner[step:]
        starts.append(at + step)
    prefix = tuple(f"{name}={value.text}" for name, value in assigned)
    last = starts[-1]
    views = [View(prefix + tuple(texts), len(prefix) + last + 1)] if prefix else []
    for n, start in enumerate(starts):
        own = tuple(w.text for w in inner) if n == len(starts) - 1 else tuple(texts[start:])
        views.append(View(own, None if risky else last - start + 1))
    return _Layers(views, inner, names, risky, opaque)


def _is_lookup(words: Sequence[Word]) -> bool:
    return words[0].text == "command" and len(words) > 1 and words[1].text in ("-v", "-V")


def _fed(words: Sequence[Word], step: int) -> list[Word]:
    """What xargs runs: its input becomes further words, or takes the place of a mark."""
    marks = {"{}"}
    for n, word in enumerate(words[:step]):
        if word.text.startswith("-I"):
            marks.add(word.text[2:] or words[n + 1].text)
    marked = [Word(UNKNOWN) if any(m in w.text for m in marks) else w for w in words[step:]]
    return [*marked, Word(UNKNOWN)]


def _take_find_apart(texts: Sequence[str], shown: str, setting: Setting, found: Found) -> None:
    for inner in find_commands(texts):
        if inner:
            part = simple_commands([Word(text) for text in inner], shown, (), setting)
            found.commands += part.commands
            found.writes += part.writes
            found.code += part.code
            found.ruin = found.ruin or part.ruin


def _without_exec(words: Sequence[Word]) -> list[Word]:
    kept, at = list[Word](), 0
    while at < len(words):
        if words[at].text in ("-exec", "-execdir", "-ok", "-okdir"):
            at = next((n for n in range(at, len(words)) if words[n].text in (";", "+")), len(words))
        else:
            kept.append(words[at])
        at += 1
    return kept


def _carry(texts: Sequence[str], layers: _Layers, found: Found) -> bool:
    """Code as text, which is judged by itself; True if nothing else is left to judge of the command that carries it."""
    name = texts[0].rpartition("/")[2]
    code, plain = carried_code(texts)
    script = [t for t in texts[1:] if not t.startswith("-")]
    if name in SHELLS and code is None and (not script or "-s" in texts):
        # It may read code from its input: rules that restrict look for their words in the whole text.
        found.commands.append(Command((View((), None),), name, opaque="it reads code", shadow=True))
    if name in SHELLS and code is None and script:
        at = list(texts).index(script[0])
        layers.views.append(View(tuple(texts[at:]), None))  # the script is a command too
    if code is None:
        layers.opaque = layers.opaque or ("" if plain else f"the options of {name} are not understood")
        return False
    if UNKNOWN in code:
        layers.opaque = layers.opaque or "the code that it runs is only known when it runs"
        layers.views.append(View((UNKNOWN,), None))
        return False
    found.code.append(code)
    found.same_shell = name == "eval"
    return plain and not layers.risky and name != "trap"


def _look_behind(texts: Sequence[str], layers: _Layers, found: Found, setting: Setting) -> None:
    """Whatever follows may be a command, for rules that restrict."""
    layers.views += [View(tuple(texts[n:]), None) for n in range(1, min(len(texts), 64)) if texts[n][:1] != "-"]
    if texts[0].rpartition("/")[2] not in WRAPPERS:
        code = [t for t in texts[1:] if any(c.isspace() for c in t) and UNKNOWN not in t]
        found.code, found.shadows_code = found.code + code, bool(code) or found.shadows_code
    behind = (layers.inner[n:] for n in range(1, min(len(texts), 64)))
    found.ruin = found.ruin or next((r for words in behind if (r := _ruin(words, setting))), "")


def _ruin(words: Sequence[Word], setting: Setting) -> str:
    return next((r for cwd in setting.cwds or ("/nowhere/at/all",) if (r := ruin_of(words, cwd, setting.home))), "")


def _command(layers: _Layers, shown: str, setting: Setting, found: Found, *, shadow: bool) -> Command:
    views, texts = tuple(layers.views), [w.text for w in layers.inner]
    use = None if layers.risky or layers.opaque else _use(layers, setting)
    if use is None:
        reads, touches = _touched(layers.inner, setting)
        edits = touches if texts[0].rpartition("/")[2] in _WRITERS else ()
        return Command(views, shown, reads=reads, touches=touches, edits=edits, opaque=layers.opaque, shadow=shadow)
    if texts[0] == "cd":
        found.cd = use.reads[0]
    reads = tuple(place for path in use.reads for place in _places(path, setting, deep=use.deep))
    found.writes += [place for path in use.writes for place in _places(path, setting)]
    return Command(views, shown, harmless=True, reads=reads, shadow=shadow)


def _use(layers: _Layers, setting: Setting) -> Use | None:
    words = expanded(layers.inner, setting)
    if words is None:
        return None
    if words[0] == "cd":
        if not {"command", "builtin"}.issuperset(layers.names):
            return None
        words = (
            [words[0], *(w for w in words[1:] if w not in ("--", "-P", "-L"))]
            if len(words) > 1
            else ["cd", setting.home]
        )
    if words[0] == "git":
        own = setting.cwds is not None and all(is_own_repository(cwd, setting.roots) for cwd in setting.cwds)
        return git_use(words[1:]) or known_use(words) if own else None
    use = known_use(words)
    if use and words[0] == "diff" and any(Path(p.path).is_dir() for r in use.reads for p in _places(r, setting)):
        return None  # it would follow links inside
    return use


def expanded(words: Sequence[Word], setting: Setting) -> list[str] | None:
    """The words with their wildcards expanded as bash would now; None where that is not known."""
    out: list[str] = []
    for word in words:
        if not word.glob:
            out.append(word.text)
            continue
        if setting.cwds is None or len(setting.cwds) != 1:
            return None
        (cwd,) = setting.cwds
        found = _matches(word.glob, cwd)
        if len(found) > MOST_MATCHES:
            return None
        out += found or [word.glob]
    return out


def _matches(pattern: str, cwd: str) -> list[str]:
    try:
        # Path.glob does not match as a shell does: it also gives hidden files.
        return list(islice(iglob(pattern, root_dir=cwd), MOST_MATCHES + 1))  # noqa: PTH207
    except (OSError, ValueError):
        return []


def _places(path: str, setting: Setting, *, deep: bool = False) -> list[Place]:
    return [NOWHERE] if UNKNOWN in path else setting.places(path, deep=deep)


def _touched(words: Sequence[Word], setting: Setting) -> tuple[tuple[Place, ...], tuple[Place, ...]]:
    """Places that the words of an unknown command may name: (only read, perhaps changed)."""
    texts = [word.text for word in words]
    found: list[Place] = []
    for n, word in enumerate(words[1:], 1):
        if texts[n - 1] in _LEAVES_OUT or _LEFT_OUT.match(word.text):
            continue
        names = expanded([word], setting) if word.glob else [word.text]
        for name in names or [word.text]:
            found += _named(name, setting)
    sub = without_git_options(texts)[1:2] if texts[0].rpartition("/")[2] == "git" else ()
    return (tuple(found), ()) if sub and sub[0] in _RECORDS else ((), tuple(found))


def _named(text: str, setting: Setting) -> list[Place]:
    here = setting.cwds[0] if setting.cwds else "/"
    if UNKNOWN in text or any(c.isspace() for c in text) or len(text) > 1000:
        inside = mentioned(text)
        return [Place(f"{here}/{inside}", f"{here}/{inside}")] if inside else []
    path = text.partition("=")[2] if "=" in text else "" if text.startswith("-") else text
    places = [p for p in setting.places(path) if p.path] if path else []
    inside = "" if places and setting.cwds else mentioned(text)
    return [*places, Place(f"{here}/{inside}", f"{here}/{inside}")] if inside else places
