"""Analyses one simple command: the command inside its wrappers, the files it reads, and what its words may touch."""

import re
from collections.abc import Sequence

from msgspec import Struct, field, structs

from teamwright.core.permissions.facts import Command, FileView, Place
from teamwright.core.permissions.path_rules import within
from teamwright.core.permissions.patterns import UNKNOWN
from teamwright.core.permissions.protected import mentioned
from teamwright.host.git.config import is_program
from teamwright.host.shell.destructive import SAFE, Removal, removal_of
from teamwright.host.shell.edits import changes_of
from teamwright.host.shell.feeds import Feed, fed_words, find_feed
from teamwright.host.shell.git import given_settings, split_options, without_git_options
from teamwright.host.shell.harmless import Setting, expanded, harmless_use
from teamwright.host.shell.special import harmless_name
from teamwright.host.shell.words import ANY_WORDS, FOUND_PATH, Unreadable, Word
from teamwright.host.shell.wrappers import (
    LAUNCHERS,
    MOST_WRAPPERS,
    SHELLS,
    WRAPPERS,
    carried_code,
    find_spans,
    hands_over,
    is_assignment,
    program_name,
    takes_away,
    unwrapped,
)

_WRITERS = frozenset({
    "rm", "mv", "cp", "touch", "mkdir", "rmdir", "ln", "install", "tee", "truncate", "chmod", "chown", "dd",
    "sed", "rsync", "shred", "unlink", "patch",
})  # fmt: skip
_RECORDS = frozenset(
    ["add", "commit", "push", "fetch", "tag", "branch", "stash", "merge", "rebase"]
)  # of git: they read what they name
_LEFT_OUT = re.compile(r"--(?:exclude|ignore)[\w-]*=")
_LEAVES_OUT = frozenset({"--exclude", "--exclude-dir", "--ignore", "-path", "-name", "-ipath", "-iname", "-wholename"})
_EVALUATES = frozenset({
    "let", "test", "[", "[[", "printf", "read", "mapfile", "readarray", "wait", "getopts", "jobs", "compgen",
    "complete", "bind", "enable", "hash", "alias", "fc", "source", ".", "awk", "gawk", "mawk", "sed",
})  # fmt: skip
_SAYS_WHAT_IT_IS = (("--version",), ("--help",))
_IS_CODE = re.compile(r"[\s;&|<>()`$]")
_PIPED = re.compile(r"/dev/(?:fd/|stdin)|/proc/")
_MOVES = frozenset({"cd", "pushd", "popd", "source", "."})


# Seen only by rules that restrict: they look for their words in the whole text.
UNSEEN_CODE = Command((FileView((), None),), "code", opaque="it may run code that is in its words", shadow=True)


class ReadWords(Struct):
    """What one simple command comes to. `code` is text that it would run, to be read in turn."""

    commands: list[Command] = field(default_factory=list[Command])
    writes: list[Place] = field(default_factory=list[Place])
    code: list[str] = field(default_factory=list[str])
    shadows_code: bool = False
    same_shell: bool = False
    cd: str | None = None
    expands: bool = False  # what it does rests on the files that are there now
    links: bool = False  # it makes a link
    removal: Removal = SAFE


class _Layers(Struct):
    """A command with its wrappers: every layer as seen from outside, and where the innermost begins."""

    views: list[FileView]
    inner: list[Word]
    names: list[str]
    risky: bool  # it changes what the inner command would mean
    imports: bool = False  # it changes what a python loads, which a rule for that python covers
    opaque: str = ""


def simple_commands(
    words: Sequence[Word],
    shown: str,
    assigned: Sequence[tuple[str, Word]],
    setting: Setting,
    *,
    depth: int = 0,
    feed: Feed | None = None,
) -> ReadWords:
    """`depth`: how many commands run this one in turn. `feed`: what it reads from a pipe, if that is known."""
    if depth > MOST_WRAPPERS:
        raise Unreadable("one command in it runs another, more often than is followed")
    layers = _unwrap(words, assigned, setting, feed)
    if feed is not None:
        setting = structs.replace(setting, found=feed.found)
    found = ReadWords()
    texts = tuple(w.text for w in layers.inner)
    found.removal = _removal(layers.inner, setting)
    name = texts[0].rpartition("/")[2]
    if UNKNOWN in texts[0]:
        layers.opaque = layers.opaque or "the name of the program is only known when it runs"
    if name == "find":
        _take_find_apart(layers, shown, setting, found, depth)
    shadow = _carry(texts, layers, found)
    if name in LAUNCHERS and not shadow:
        _look_behind(texts, layers, found, setting)
    if name in ("source", "."):
        layers.views.append(_script(texts[1:]))
    if name == "git":
        layers.views.append(FileView(without_git_options(texts), _need_of_git(texts, layers, setting)))
    found.commands.insert(0, _command(layers, shown, setting, found, shadow=shadow))
    if (name in _MOVES or (UNKNOWN in name and "/" not in texts[0])) and found.cd is None:
        found.cd = UNKNOWN  # wherever that is
    runs = hands_over(texts, splits=any(word.splits for word in layers.inner)) or _configures(name, texts)
    known = found.commands[0].harmless or found.commands[0].edits_only
    if (texts[0] in _EVALUATES and not known) or layers.risky or runs:
        found.commands.append(UNSEEN_CODE)
    return found


def _script(words: Sequence[str]) -> FileView:
    """A script is a command too. What another program writes into a pipe may be any."""
    return FileView((UNKNOWN,) if words and _PIPED.match(words[0]) else tuple(words), None)


def _need_of_git(texts: Sequence[str], layers: _Layers, setting: Setting) -> int | None:
    """`git -C DIR add` is a `git add` to a rule, as `cd DIR && git add` is, where DIR is a working directory."""
    folders, settings, at = split_options(texts[1:])
    places = [place.path for folder in folders if UNKNOWN not in folder for place in setting.places(folder)]
    inside = all(any(within(path, root) for root in setting.around.roots) for path in places)
    known = len(folders) == 1 and len(places) == len(setting.cwds or ()) and at + 1 < len(texts)
    plain = not settings and not layers.risky
    return 2 if known and inside and plain and texts[at + 1][:1] != "-" else None


def _configures(name: str, texts: Sequence[str]) -> bool:
    return name == "git" and any(is_program(*pair) for pair in given_settings(texts))


def _unwrap(
    words: Sequence[Word], assigned: Sequence[tuple[str, Word]], setting: Setting, feed: Feed | None
) -> _Layers:
    texts = [word.text for word in words]
    inner, names, opaque, risky = list(words), list[str](), "", False
    starts = [0]
    while inner and not _is_lookup(inner):
        at = starts[-1]
        step = unwrapped([w.text for w in inner])
        if step is None:
            opaque = f"the options of {inner[0].text} are not understood"
            break
        if step == 0 or step >= len(inner):
            break
        if any(word.splits for word in inner[:step]):
            opaque = f"what {inner[0].text} is given is only known when it runs"
            break
        if len(names) == MOST_WRAPPERS:
            raise Unreadable("one command in it runs another, more often than is followed")
        name = program_name(inner[0].text)
        names.append(name)
        given = [w.text for w in inner[1:step]]
        risky = risky or any(is_assignment(word) and not harmless_name(*word.split("=", 1)) for word in given)
        risky = risky or (name == "env" and takes_away(given))
        fed = WRAPPERS[name].feeds
        inner = fed_words(inner, step, feed) if fed else inner[step:]
        while name == "time" and inner[0].text == "!" and len(inner) > 1:
            inner, step = inner[1:], step + 1
        starts.append(at + step)
    odd = [(name, value.text) for name, value in assigned if not harmless_name(name, value.text)]
    imports = bool(odd) and not risky and _only_imports(odd, inner, setting)
    risky = risky or (bool(odd) and not imports)
    prefix = tuple(f"{name}={value.text}" for name, value in assigned)
    last = starts[-1]
    views = [FileView(prefix + tuple(texts), len(prefix) + last + 1)] if prefix else []
    for n, start in enumerate(starts):
        own = tuple(w.text for w in inner) if n == len(starts) - 1 else tuple(texts[start:])
        views.append(FileView(own, None if risky else last - start + 1))
    return _Layers(views, inner, names, risky, imports, opaque)


def _only_imports(assigned: Sequence[tuple[str, str]], inner: Sequence[Word], setting: Setting) -> bool:
    """`PYTHONPATH=src python -m pytest` loads code of the project, as `python -m` does in any case."""
    python = re.fullmatch(r"python(?:3(?:\.\d{1,2})?)?", inner[0].text) if len(inner) > 2 else None
    if not python or inner[1].text != "-m" or [name for name, _ in assigned] != ["PYTHONPATH"]:
        return False
    paths = assigned[0][1].split(":")
    places = [place for path in paths for place in ([] if UNKNOWN in path or not path else setting.places(path))]
    inside = all(any(within(place.path, root) for root in setting.around.roots) for place in places)
    return inside and len(places) == len(paths) * len(setting.cwds or ())


def _is_lookup(words: Sequence[Word]) -> bool:
    return words[0].text == "command" and len(words) > 1 and words[1].text in ("-v", "-V")


def _take_find_apart(layers: _Layers, shown: str, setting: Setting, found: ReadWords, depth: int) -> None:
    """What it runs for each match is a command by itself, and what is left of it another."""
    words = layers.inner
    spans = find_spans([w.text for w in words])
    if spans is None or any(w.splits or w.glob for start, end in spans for w in words[start:end]):
        layers.opaque = layers.opaque or "what it would run for each match is not certain"
        spans = [(n, len(words)) for n, w in enumerate(words) if w.text.startswith(("-exec", "-ok"))][:1]
    feed = _feed_of_find(layers, spans, setting)
    for start, end in spans:
        known = feed if words[start].text == "-exec" else None
        many = end < len(words) and words[end].text == "+"
        path = structs.replace(FOUND_PATH, choices=known.choices(many=many)) if known else FOUND_PATH
        inner = [path if w.text == "{}" else ANY_WORDS if "{}" in w.text else w for w in words[start + 1 : end]]
        if inner:
            place = structs.replace(setting, found=known.found) if known else setting
            part = simple_commands(inner, shown, (), place, depth=depth + 1)
            found.expands = found.expands or part.expands
            found.commands += part.commands
            found.writes += part.writes
            found.code += part.code
            found.removal = found.removal.or_else(part.removal)
    for start, end in reversed(spans):
        layers.inner = [*layers.inner[:start], *layers.inner[end + 1 :]]


def _feed_of_find(layers: _Layers, spans: Sequence[tuple[int, int]], setting: Setting) -> Feed | None:
    inside = {n for start, end in spans for n in range(start, end + 1)}
    rest = [w for n, w in enumerate(layers.inner) if n not in inside]
    unsure = layers.opaque or any(w.splits or w.glob for w in rest) or not spans
    return None if unsure else find_feed([w.text for w in rest], setting)


def _carry(texts: Sequence[str], layers: _Layers, found: ReadWords) -> bool:
    """Code as text, which is judged by itself; True if nothing else is left to judge of the command that carries it."""
    name = texts[0].rpartition("/")[2]
    code, plain = carried_code(texts)
    script = [t for t in texts[1:] if not t.startswith("-")]
    reads = name in SHELLS and code is None and (not script or "-s" in texts)
    if reads and tuple(texts[1:]) not in _SAYS_WHAT_IT_IS:
        # Code from its input can be anything: rules that restrict may always cover it.
        found.commands.append(Command((FileView((UNKNOWN,), None),), name, opaque="it reads code", shadow=True))
    if name in SHELLS and code is None and script:
        at = list(texts).index(script[0])
        layers.views.append(_script(texts[at:]))
    if code is None:
        layers.opaque = layers.opaque or ("" if plain else f"the options of {name} are not understood")
        return False
    if UNKNOWN in code:
        layers.opaque = layers.opaque or "the code that it runs is only known when it runs"
        layers.views.append(FileView((UNKNOWN,), None))
        return False
    if not plain:  # rules that restrict look for their words in the whole text
        found.commands.append(
            Command((FileView((), None),), name, opaque="it runs code for another shell", shadow=True)
        )
    found.code.append(code)
    found.same_shell = name == "eval"
    return plain and not layers.risky and name != "trap" and not any(w.glob or w.splits for w in layers.inner)


def _look_behind(texts: Sequence[str], layers: _Layers, found: ReadWords, setting: Setting) -> None:
    """Whatever follows may be a command, for rules that restrict."""
    layers.views += [FileView(tuple(texts[n:]), None) for n in range(1, min(len(texts), 64)) if texts[n][:1] != "-"]
    if program_name(texts[0]) not in WRAPPERS:
        glued = [value for text in texts[1:64] for value in _glued(text)]
        layers.views += [FileView((value,), None) for value in glued]
        code = [t for t in (*texts[1:], *glued) if _IS_CODE.search(t)][:64]
        layers.views += [FileView((UNKNOWN,), None)] if any(UNKNOWN in text for text in code) else []
        code = [text for text in code if UNKNOWN not in text]
        found.code, found.shadows_code = found.code + code, bool(code) or found.shadows_code
    for n in range(1, min(len(texts), 64)):
        found.removal = found.removal.or_else(_removal(layers.inner[n:], setting))


def _glued(text: str) -> list[str]:
    """All that may be the value of a flag inside of this word: `-qctouch`, `--command=touch`."""
    if text.startswith("--"):
        return [text.partition("=")[2]] if "=" in text else []
    return [text[n:] for n in range(2, min(len(text), 8))] if text.startswith("-") else []


def _removal(words: Sequence[Word], setting: Setting) -> Removal:
    removal = SAFE
    for cwd in setting.cwds or (None,):
        removal = removal.or_else(removal_of(words, cwd, setting.around.home))
    return removal


def _command(layers: _Layers, shown: str, setting: Setting, found: ReadWords, *, shadow: bool) -> Command:
    views, texts = tuple(layers.views), [w.text for w in layers.inner]
    known = not layers.risky and not layers.opaque and not layers.imports
    use = harmless_use(layers.inner, layers.names, setting) if known else None
    if use is None:
        reads, touches = _touched(layers.inner, setting)
        changes = changes_of(layers.inner, setting) if known else None
        if changes is not None:
            found.expands, found.links = found.expands or any(map(_is_fleeting, layers.inner)), changes.links
            touches += tuple(place for place in changes.edits if place.deep)
            reads, edits = (*reads, *changes.reads), tuple(changes.edits)
            return Command(views, shown, reads=reads, touches=touches, edits=edits, edits_only=True, shadow=shadow)
        edits = touches if texts[0].rpartition("/")[2] in _WRITERS else ()
        return Command(views, shown, reads=reads, touches=touches, edits=edits, opaque=layers.opaque, shadow=shadow)
    found.expands = found.expands or use.fleeting
    found.cd = use.cd
    found.writes += use.writes
    return Command(views, shown, harmless=True, reads=use.reads, shadow=shadow)


def _is_fleeting(word: Word) -> bool:
    return bool(word.glob) or (word.choices is not None and word.choices.fleeting)


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
