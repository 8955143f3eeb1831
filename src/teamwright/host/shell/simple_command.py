"""One simple command: what is inside of its wrappers, what it is known to read, and what its words may touch."""

import re
from collections.abc import Callable, Iterator, Sequence
from glob import iglob
from itertools import islice
from pathlib import Path

from msgspec import Struct, field

from teamwright.core.permissions.facts import NOWHERE, Command, FileView, Place
from teamwright.core.permissions.patterns import UNKNOWN
from teamwright.core.permissions.protected import mentioned
from teamwright.host.git.config import is_program, programs
from teamwright.host.shell.cwd import ShellContext
from teamwright.host.shell.destructive import SAFE, Removal, removal_of
from teamwright.host.shell.git import git_use, given_settings, is_own_repository, without_git_options
from teamwright.host.shell.readonly import Use, is_harmed_by_no_word, known_use
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

_MOST_LEVELS = 3  # of directories that wildcards stand for
MOST_MATCHES = 200  # of one wildcard; more are as good as unknown
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
    "complete", "bind", "enable", "hash", "alias", "fc", "source", ".",
})  # fmt: skip
_SAYS_WHAT_IT_IS = (("--version",), ("--help",))
_IS_CODE = re.compile(r"[\s;&|<>()`$]")
_PIPED = re.compile(r"/dev/(?:fd/|stdin)|/proc/")
_MOVES = frozenset({"cd", "pushd", "popd", "source", "."})


# Seen only by rules that restrict: they look for their words in the whole text.
UNSEEN_CODE = Command((FileView((), None),), "code", opaque="it may run code that is in its words", shadow=True)


class Setting(Struct, frozen=True):
    """Where the command would run, as far as it is known, and how a path becomes places."""

    cwds: tuple[str, ...] | None
    around: ShellContext
    places: Callable[..., list[Place]]


class ReadWords(Struct):
    """What one simple command comes to. `code` is text that it would run, to be read in turn."""

    commands: list[Command] = field(default_factory=list[Command])
    writes: list[Place] = field(default_factory=list[Place])
    code: list[str] = field(default_factory=list[str])
    shadows_code: bool = False
    same_shell: bool = False
    cd: str | None = None
    expands: bool = False  # that it is harmless rests on what its wildcards match now
    removal: Removal = SAFE


class _Layers(Struct):
    """A command with its wrappers: every layer as seen from outside, and where the innermost begins."""

    views: list[FileView]
    inner: list[Word]
    names: list[str]
    risky: bool  # it changes what the inner command would mean
    opaque: str = ""


def simple_commands(
    words: Sequence[Word], shown: str, assigned: Sequence[tuple[str, Word]], setting: Setting, depth: int = 0
) -> ReadWords:
    """`depth`: how many commands run this one in turn."""
    if depth > MOST_WRAPPERS:
        raise Unreadable("one command in it runs another, more often than is followed")
    layers = _unwrap(words, assigned)
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
        layers.views.append(FileView(without_git_options(texts), None))
    found.commands.insert(0, _command(layers, shown, setting, found, shadow=shadow))
    if (name in _MOVES or (UNKNOWN in name and "/" not in texts[0])) and found.cd is None:
        found.cd = UNKNOWN  # wherever that is
    runs = hands_over(texts, splits=any(word.splits for word in layers.inner)) or _configures(name, texts)
    if (texts[0] in _EVALUATES and not found.commands[0].harmless) or layers.risky or runs:
        found.commands.append(UNSEEN_CODE)
    return found


def _script(words: Sequence[str]) -> FileView:
    """A script is a command too. What another program writes into a pipe may be any."""
    return FileView((UNKNOWN,) if words and _PIPED.match(words[0]) else tuple(words), None)


def _configures(name: str, texts: Sequence[str]) -> bool:
    return name == "git" and any(is_program(*pair) for pair in given_settings(texts))


def _unwrap(words: Sequence[Word], assigned: Sequence[tuple[str, Word]]) -> _Layers:
    texts = [word.text for word in words]
    inner, names, opaque = list(words), list[str](), ""
    risky = any(not harmless_name(name, value.text) for name, value in assigned)
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
        inner = _fed(inner, step) if fed else inner[step:]
        while name == "time" and inner[0].text == "!" and len(inner) > 1:
            inner, step = inner[1:], step + 1
        starts.append(at + step)
    prefix = tuple(f"{name}={value.text}" for name, value in assigned)
    last = starts[-1]
    views = [FileView(prefix + tuple(texts), len(prefix) + last + 1)] if prefix else []
    for n, start in enumerate(starts):
        own = tuple(w.text for w in inner) if n == len(starts) - 1 else tuple(texts[start:])
        views.append(FileView(own, None if risky else last - start + 1))
    return _Layers(views, inner, names, risky, opaque)


def _is_lookup(words: Sequence[Word]) -> bool:
    return words[0].text == "command" and len(words) > 1 and words[1].text in ("-v", "-V")


def _fed(words: Sequence[Word], step: int) -> list[Word]:
    """What xargs runs: its input becomes further words, or takes the place of a mark."""
    marks = {"{}"}
    for n, word in enumerate(words[:step]):
        if found := re.match(r"-[a-z0]*I", word.text):
            marks.add(word.text[found.end() :] or words[n + 1].text)
    marked = [Word(UNKNOWN) if any(m in w.text for m in marks) else w for w in words[step:]]
    return [*marked, ANY_WORDS]


def _take_find_apart(layers: _Layers, shown: str, setting: Setting, found: ReadWords, depth: int) -> None:
    """What it runs for each match is a command by itself, and what is left of it another."""
    words = layers.inner
    spans = find_spans([w.text for w in words])
    if spans is None or any(w.splits or w.glob for start, end in spans for w in words[start:end]):
        layers.opaque = layers.opaque or "what it would run for each match is not certain"
        spans = [(n, len(words)) for n, w in enumerate(words) if w.text.startswith(("-exec", "-ok"))][:1]
    for start, end in spans:
        inner = [FOUND_PATH if w.text == "{}" else ANY_WORDS if "{}" in w.text else w for w in words[start + 1 : end]]
        if inner:
            part = simple_commands(inner, shown, (), setting, depth + 1)
            found.commands += part.commands
            found.writes += part.writes
            found.code += part.code
            found.removal = found.removal.or_else(part.removal)
    for start, end in reversed(spans):
        layers.inner = [*layers.inner[:start], *layers.inner[end + 1 :]]


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
    use = None if layers.risky or layers.opaque else _use(layers, setting)
    found.expands = use is not None and any(w.glob for w in layers.inner)
    if use is None:
        reads, touches = _touched(layers.inner, setting)
        edits = touches if texts[0].rpartition("/")[2] in _WRITERS else ()
        return Command(views, shown, reads=reads, touches=touches, edits=edits, opaque=layers.opaque, shadow=shadow)
    if texts[0] == "cd":
        found.cd = use.reads[0]
    reads = tuple(place for path in use.reads for place in _places(path, setting, deep=use.deep))
    reads += tuple(listed(layers.inner, setting)) if texts[0] != "[[" else ()
    found.writes += [place for path in use.writes for place in _places(path, setting)]
    return Command(views, shown, harmless=True, reads=reads, shadow=shadow)


def _use(layers: _Layers, setting: Setting) -> Use | None:
    name = layers.inner[0].text
    if any(w.splits for w in layers.inner) and not is_harmed_by_no_word(layers.inner):
        return None  # a word more may be a flag, or a path that is not looked at
    if name == "[[":
        return known_use([w.text for w in layers.inner])  # bash expands nothing in there
    words = expanded(layers.inner, setting)
    if words is None:
        return None
    use = _use_of(words, layers.names, setting)
    matched = [word for w in layers.inner if w.glob for word in expanded([w], setting) or ()]
    if use is None or is_harmed_by_no_word(layers.inner):
        return use
    # Wildcards may only stand for paths that are read, every one of them: which comes first depends on the locale.
    return use if all(word[:1] != "-" and word in use.reads for word in matched) else None


def _use_of(words: list[str], wrappers: Sequence[str], setting: Setting) -> Use | None:
    name = words[0]
    if name == "cd":
        if not {"command", "builtin"}.issuperset(wrappers):
            return None
        targets = [w for w in words[1:] if w not in ("--", "-L")]
        words = ["cd", *(targets or [setting.around.home])]
    if name == "git":
        return (git_use(words[1:]) or known_use(words)) if _git_runs_nothing(setting) else None
    use = known_use(words)
    if use and name == "diff" and any(Path(p.path).is_dir() for r in use.reads for p in _places(r, setting)):
        return None  # it would follow links inside
    return use


def _git_runs_nothing(setting: Setting) -> bool:
    """Is it the project's own repository, with a configuration that was agreed to or that makes git run nothing?"""
    if setting.cwds is None or not all(is_own_repository(cwd, setting.around.roots) for cwd in setting.cwds):
        return False
    return setting.around.trusted or not any(programs(cwd) for cwd in setting.cwds)


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
        if len(re.findall(r"(?:^|/)[^/]*[*?]", word.glob)) > _MOST_LEVELS:
            return None
        found = _matches(word.glob, cwd)
        if len(found) > MOST_MATCHES or ("?" in word.glob and not _are_plain(word.glob, cwd)):
            return None
        out += found or [word.glob]
    return out


def _matches(pattern: str, cwd: str) -> list[str]:
    try:
        # Path.glob does not match as a shell does: it also gives hidden files.
        return list(islice(iglob(pattern, root_dir=cwd), MOST_MATCHES + 1))  # noqa: PTH207
    except (OSError, ValueError):
        return []


def listed(words: Sequence[Word], setting: Setting) -> Iterator[Place]:
    """The directories in which wildcards look for names: a command that only shows its words shows these."""
    for word in words:
        if word.wild:
            yield NOWHERE
        if word.glob:
            head, slash, _ = re.split(r"[*?]", word.glob, maxsplit=1)[0].rpartition("/")
            yield from setting.places(head + slash or ".")
            parts = word.glob.rstrip("/").split("/")
            for n in range(1, len(parts)):  # on its way down it looks into every directory that matches so far
                if re.search(r"[*?]", "/".join(parts[:n])):
                    for folder in expanded([Word(UNKNOWN, "/".join(parts[:n]) + "/")], setting) or [UNKNOWN]:
                        yield from _places(folder, setting)


def _are_plain(pattern: str, cwd: str) -> bool:
    """How many letters a `?` stands for depends on the locale, unless all names are plain ones."""
    wide = _matches(re.sub(r"[?*]+", "*", pattern), cwd)
    return len(wide) <= MOST_MATCHES and all(name.isascii() for name in wide)


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
