"""Analyses one simple command: the command inside its wrappers, the files it reads, and what its words may touch."""

import re
from collections.abc import Sequence

from msgspec import Struct, field, structs

from teamwright.core.permissions.facts import Command, CommandView, Place
from teamwright.core.permissions.patterns import UNKNOWN
from teamwright.core.permissions.protected import mentioned
from teamwright.host.git.config import is_program
from teamwright.host.shell.below import looked_below, perhaps_guarded
from teamwright.host.shell.cwd import CwdTracker
from teamwright.host.shell.feeds import FedWords, find_feed
from teamwright.host.shell.harmless import Setting, expanded, harmless_use, is_fleeting, moved_by_git
from teamwright.host.shell.layers import Layers, lie_inside, unwrap
from teamwright.host.shell.pieces import Unreadable
from teamwright.host.shell.programs.destructive import SAFE, Removal, removal_of
from teamwright.host.shell.programs.edits import Changes, changes_of
from teamwright.host.shell.programs.flags import ON_DISK
from teamwright.host.shell.programs.git import given_settings, split_options, without_git_options
from teamwright.host.shell.programs.launchers import hands_over, launched
from teamwright.host.shell.programs.naming import perhaps_files, set_aside
from teamwright.host.shell.programs.trees import trees_of
from teamwright.host.shell.programs.wrappers import (
    MOST_WRAPPERS,
    SHELLS,
    WRAPPERS,
    carried_code,
    find_spans,
    program_name,
)
from teamwright.host.shell.words import ANY_WORDS, FOUND_PATH, Word

_WRITERS = frozenset(
    """
    rm mv cp touch mkdir rmdir ln install tee truncate chmod chown dd sed rsync shred unlink patch
    """.split()
)
_RECORDS = frozenset(
    ["add", "commit", "push", "fetch", "tag", "branch", "stash", "merge", "rebase"]
)  # git commands that read what they name
_EVALUATES = frozenset(
    """
    let test [ [[ printf read mapfile readarray wait getopts jobs compgen complete bind enable hash alias fc
    source . awk gawk mawk sed at batch crontab
    """.split()
)
_SAYS_WHAT_IT_IS = (("--version",), ("--help",))
_IS_CODE = re.compile(r"[\s;&|<>()`$]")
_CHOICE = re.compile(r"\[[^\]]*\]|\{[^}]*\}|[*?]")
_PARTS = re.compile(r"[=:,@]+")
_PIPED = re.compile(r"/dev/(?:fd/|stdin)|/proc/")
_MOVES = frozenset({"cd", "pushd", "popd", "source", "."})


# Only for restricting rules, which search the whole text for their words.
UNSEEN_CODE = Command((CommandView((), None),), "code", opaque="it may run code that is in its words", shadow=True)


class ReadWords(Struct):
    """The result for one simple command. `code` is text that it would run, to be parsed in turn, with the directories
    where it would run."""

    commands: list[Command] = field(default_factory=list[Command])
    writes: list[Place] = field(default_factory=list[Place])
    code: list[tuple[str, tuple[str, ...] | None]] = field(default_factory=list[tuple[str, tuple[str, ...] | None]])
    shadows_code: bool = False
    same_shell: bool = False
    cd: str | None = None
    expands: bool = False  # its effect depends on existing files
    links: bool = False  # it creates a link
    given: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])  # variables for what it runs
    removal: Removal = SAFE

    def take_in(self, part: "ReadWords") -> None:
        """Merges the result of a command that this one runs."""
        self.expands, self.links = self.expands or part.expands, self.links or part.links
        self.commands += part.commands
        self.writes += part.writes
        self.code += part.code
        self.given += part.given
        self.removal = self.removal.or_else(part.removal)


def simple_commands(
    words: Sequence[Word],
    shown: str,
    assigned: Sequence[tuple[str, Word]],
    setting: Setting,
    *,
    depth: int = 0,
    feed: FedWords | None = None,
) -> ReadWords:
    """`depth`: the number of commands around this one. `feed`: its piped input, if known."""
    if depth > MOST_WRAPPERS:
        raise Unreadable("one command in it runs another, more often than is followed")
    layers = unwrap(words, assigned, setting, feed)
    setting = _fed(setting, feed)
    found = ReadWords(removal=_removal(layers.inner, setting), given=layers.given)
    texts = tuple(w.text for w in layers.inner)
    name = texts[0].rpartition("/")[2]
    if UNKNOWN in texts[0]:  # even if part of it is known: `s$(:)h` is a shell, and runs what it reads
        layers.hide_command("the name of the program is only known when it runs")
    if name == "find":
        _take_find_apart(layers, shown, setting, found, depth)
    shadow = _carry(texts, layers, found, setting)
    if not shadow:
        _look_behind(texts, layers, shown, found, setting, depth)
    layers.views += _other_views(texts, layers, setting)
    found.commands.insert(0, _command(layers, shown, setting, found, shadow=shadow))
    found.cd = _moves_to(texts[0], found.cd)
    if layers.risky or _runs_unseen_code(texts, layers.inner, found.commands[0]):
        found.commands.append(UNSEEN_CODE)
    return found


def _fed(setting: Setting, feed: FedWords | None) -> Setting:
    return setting if feed is None else structs.replace(setting, found=feed.found)


def _other_views(texts: Sequence[str], layers: Layers, setting: Setting) -> list[CommandView]:
    """Further forms in which a rule may see the command."""
    match texts[0].rpartition("/")[2]:
        case "source" | ".":
            return [_script(texts[1:])]
        case "git":
            return [CommandView(without_git_options(texts), _need_of_git(texts, layers, setting))]
        case _:
            return []


def _moves_to(program: str, known: str | None) -> str | None:
    """The shell's directory afterwards; None if unchanged, UNKNOWN if unclear."""
    name = program.rpartition("/")[2]
    moves = name in _MOVES or (UNKNOWN in name and "/" not in program)
    return UNKNOWN if known is None and moves else known


def _runs_unseen_code(texts: Sequence[str], words: Sequence[Word], command: Command) -> bool:
    if texts[0] in _EVALUATES and not (command.harmless or command.edits_only):
        return True
    return hands_over(texts, splits=any(word.splits for word in words)) or _configures(texts)


def _script(words: Sequence[str]) -> CommandView:
    """A script counts as a command. One that another program writes into a pipe may be anything."""
    return CommandView((UNKNOWN,) if words and _PIPED.match(words[0]) else tuple(words), None)


def _need_of_git(texts: Sequence[str], layers: Layers, setting: Setting) -> int | None:
    """For rules, `git -C DIR add` is a `git add`, like `cd DIR && git add`, if DIR is in a working directory."""
    folders, settings, at = split_options(texts[1:])
    known = len(folders) == 1 and lie_inside(folders, setting)
    named = at + 1 < len(texts) and not texts[at + 1].startswith("-")
    return 2 if known and named and not (settings or layers.risky) else None


def _configures(texts: Sequence[str]) -> bool:
    is_git = texts[0].rpartition("/")[2] == "git"
    return is_git and any(is_program(*pair) for pair in given_settings(texts))


def _take_find_apart(layers: Layers, shown: str, setting: Setting, found: ReadWords, depth: int) -> None:
    """The command run for each match is judged by itself, and so is the rest of the find. With `-execdir` and `-okdir`
    it runs in the directory of the match, which nobody knows yet."""
    words, spans = layers.inner, _spans_of_find(layers)
    feed = _feed_of_find(layers, spans, setting)
    anywhere = structs.replace(setting, cwds=None, places=CwdTracker(setting.around, None).places, found={})
    for start, end in spans:
        here = words[start].text in ("-exec", "-ok")
        known = feed if words[start].text == "-exec" else None
        many = end < len(words) and words[end].text == "+"
        inner = _run_for_each(words[start + 1 : end], known, many=many)
        if inner:
            where = _fed(setting, known) if here else anywhere
            found.take_in(simple_commands(inner, shown, (), where, depth=depth + 1))
    for start, end in reversed(spans):
        layers.inner = [*layers.inner[:start], *layers.inner[end + 1 :]]


def _spans_of_find(layers: Layers) -> list[tuple[int, int]]:
    """Where the commands it runs start and end."""
    words = layers.inner
    spans = find_spans([w.text for w in words])
    if spans is not None and not any(w.splits or w.glob for start, end in spans for w in words[start:end]):
        return spans
    layers.hide("what it would run for each match is not certain")
    return [(n, len(words)) for n, w in enumerate(words) if w.text.startswith(("-exec", "-ok"))][:1]


def _run_for_each(words: Sequence[Word], feed: FedWords | None, *, many: bool) -> list[Word]:
    """The command that find runs, with placeholders for the paths."""
    path = structs.replace(FOUND_PATH, choices=feed.choices(many=many)) if feed else FOUND_PATH
    return [path if word.text == "{}" else ANY_WORDS if "{}" in word.text else word for word in words]


def _feed_of_find(layers: Layers, spans: Sequence[tuple[int, int]], setting: Setting) -> FedWords | None:
    inside = {n for start, end in spans for n in range(start, end + 1)}
    rest = [w for n, w in enumerate(layers.inner) if n not in inside]
    unsure = layers.opaque or any(w.splits or w.glob for w in rest) or not spans
    return None if unsure else find_feed([w.text for w in rest], setting, spans[0][0])


def _carry(texts: Sequence[str], layers: Layers, found: ReadWords, setting: Setting) -> bool:
    """Extracts code carried as text, which is judged by itself; True if nothing else of the command needs judging."""
    name = texts[0].rpartition("/")[2]
    code, plain = carried_code(texts)
    if code is None:
        if name in SHELLS:
            _run_script(texts, layers, found)
        if not plain:
            layers.hide(f"the options of {name} are not understood")
        return False
    if UNKNOWN in code:
        layers.hide_command("the code that it runs is only known when it runs")
        return False
    if not plain:  # restricting rules search the whole text for their words
        found.commands.append(
            Command((CommandView((), None),), name, opaque="it runs code for another shell", shadow=True)
        )
    found.code.append((code, setting.cwds))
    found.same_shell = name == "eval"
    return plain and name != "trap" and layers.is_certain


def _run_script(texts: Sequence[str], layers: Layers, found: ReadWords) -> None:
    """A shell without code in its words runs that of a file, or of its input."""
    script = [text for text in texts[1:] if not text.startswith("-")]
    reads = not script or "-s" in texts
    if reads and tuple(texts[1:]) not in _SAYS_WHAT_IT_IS:
        # Code from its input can be anything, so restricting rules may always apply.
        name = texts[0].rpartition("/")[2]
        found.commands.append(Command((CommandView((UNKNOWN,), None),), name, opaque="it reads code", shadow=True))
    if script:
        layers.views.append(_script(texts[list(texts).index(script[0]) :]))


def _look_behind(
    texts: Sequence[str], layers: Layers, shown: str, found: ReadWords, setting: Setting, depth: int
) -> None:
    """For restricting rules: the command that it runs, or any of its words if that is uncertain."""
    start, last = launched(texts), min(len(texts), 64)
    if start == 0:
        return
    if start is None:
        layers.views += [CommandView(tuple(texts[n:]), None) for n in range(1, last) if texts[n][:1] != "-"]
    else:
        part = simple_commands(layers.inner[start:], shown, (), setting, depth=depth + 1)
        found.commands += [structs.replace(command, shadow=True) for command in part.commands]
        found.code, found.shadows_code = found.code + part.code, bool(part.code) or found.shadows_code
    if program_name(texts[0]) not in WRAPPERS:
        _look_at_values(texts if start is None else texts[: start + 1], layers, found, setting)
    for n in range(1, last):
        found.removal = found.removal.or_else(_removal(layers.inner[n:], setting))


def _look_at_values(texts: Sequence[str], layers: Layers, found: ReadWords, setting: Setting) -> None:
    """A word, or a value attached to a flag, may be a command or code."""
    glued = [value for text in texts[1:64] for value in _glued(text)]
    layers.views += [CommandView((value,), None) for value in glued]
    code = [t for t in (*texts[1:], *glued) if _IS_CODE.search(t)][:64]
    layers.views += [CommandView((UNKNOWN,), None)] if any(UNKNOWN in text for text in code) else []
    code = [(text, setting.cwds) for text in code if UNKNOWN not in text]
    found.code, found.shadows_code = found.code + code, bool(code) or found.shadows_code


def _glued(text: str) -> list[str]:
    """Possible flag values inside this word: `-qctouch`, `--command=touch`."""
    if text.startswith("--"):
        return [text.partition("=")[2]] if "=" in text else []
    return [text[n:] for n in range(2, min(len(text), 8))] if text.startswith("-") else []


def _removal(words: Sequence[Word], setting: Setting) -> Removal:
    removal = SAFE
    for cwd in setting.cwds or (None,):
        removal = removal.or_else(removal_of(words, cwd, setting.around.home))
    return removal


def _command(layers: Layers, shown: str, setting: Setting, found: ReadWords, *, shadow: bool) -> Command:
    known = not layers.risky and not layers.opaque and not layers.imports
    use = harmless_use(layers.inner, layers.names, setting) if known else None
    if use is None:
        changes = changes_of(layers.inner, setting) if known else None
        acting = _unknown(layers, setting) if changes is None else _changing(changes, layers, setting, found)
        return structs.replace(acting, shown=shown, shadow=shadow)
    found.expands = found.expands or use.fleeting
    found.cd = use.cd
    found.writes += use.writes
    return Command(tuple(layers.views), shown, harmless=True, reads=use.reads, shadow=shadow)


def _changing(changes: Changes, layers: Layers, setting: Setting, found: ReadWords) -> Command:
    """A command that changes files and does nothing else."""
    found.expands, found.links = found.expands or any(map(is_fleeting, layers.inner)), changes.links
    reads, touches = _touched(layers.inner, setting)
    texts = [word.text for word in layers.inner]
    removes = texts[0] == "rm" or texts[:2] == ["git", "rm"]  # that shows nothing
    deep = [place for place in changes.edits if place.deep and not removes]
    touches += tuple(looked_below(deep, ON_DISK, setting.cwds or (), setting.around))
    reads += tuple(looked_below(changes.reads, ON_DISK, setting.cwds or (), setting.around))
    edits = tuple(changes.edits)
    return Command(tuple(layers.views), "", reads=reads, touches=touches, edits=edits, edits_only=True)


def _unknown(layers: Layers, setting: Setting) -> Command:
    reads, touches = _touched(layers.inner, setting)
    edits = touches if layers.inner[0].text.rpartition("/")[2] in _WRITERS else ()
    touches += (*_trees(layers.inner, setting), *_guarded_in([word.text for word in layers.inner], setting))
    return Command(tuple(layers.views), "", reads=reads, touches=touches, edits=edits, opaque=layers.opaque)


def _trees(words: Sequence[Word], setting: Setting) -> tuple[Place, ...]:
    """Whole trees that it would copy, pack or search, with the guarded files in them."""
    texts = [word.text for word in words]
    named, shown = trees_of(texts) if setting.around.guarded else ([], ON_DISK)
    setting = moved_by_git(texts, setting) or setting
    if setting.cwds is None or not named:
        return ()
    places = [place for path in named if UNKNOWN not in path for place in setting.places(path, deep=True)]
    return tuple(looked_below(places, shown, setting.cwds, setting.around))


def _guarded_in(words: Sequence[str], setting: Setting) -> tuple[Place, ...]:
    """Guarded files in parts of words, as in `@FILE`, `file:/FILE` and `FILE:/x`, and those that a word with unknown
    parts fits. The program may take all of these for something else."""
    guarded, cwds = setting.around.guarded, setting.cwds or ()
    if not guarded or not cwds:
        return ()
    split = [_PARTS.split(_CHOICE.sub(UNKNOWN, w) if UNKNOWN in w else w) for w in perhaps_files(words)]
    unknown = [part for parts in split for part in parts if UNKNOWN in part]
    known = [part for parts in split if len(parts) > 1 for part in parts if "/" in part or "." in part]
    places = [place for part in known if UNKNOWN not in part for place in setting.places(part)]
    paths = [path for place in places for path in (place.path, place.given)]
    held = tuple(path for path in paths if any(one.covers(path, wide=True) for one in guarded))
    covered = [Place(cwds[0], cwds[0], deep=True, held=held, guess=True)] if held else []
    return (*covered, *perhaps_guarded(unknown, cwds, setting.around))


def _touched(words: Sequence[Word], setting: Setting) -> tuple[tuple[Place, ...], tuple[Place, ...]]:
    """Places that the words of an unknown command may name: (only read, perhaps changed)."""
    texts = [word.text for word in words]
    found, aside = list[Place](), set_aside(texts)
    for word in (word for n, word in enumerate(words) if n > 0 and n not in aside):
        names = expanded([word], setting) if word.glob else [word.text]
        for name in names or [word.text]:
            found += _named(name, setting)
    return (tuple(found), ()) if _only_records(texts) else ((), tuple(found))


def _only_records(texts: Sequence[str]) -> bool:
    is_git = texts[0].rpartition("/")[2] == "git"
    return is_git and not _RECORDS.isdisjoint(without_git_options(texts)[1:2])


def _named(text: str, setting: Setting) -> list[Place]:
    path = _path_in(text)
    places = [place for place in setting.places(path) if place.path] if path else []
    inside = "" if places and setting.cwds else mentioned(text)
    here = setting.cwds[0] if setting.cwds else "/"
    return [*places, Place(f"{here}/{inside}", f"{here}/{inside}")] if inside else places


def _path_in(word: str) -> str:
    """The path that this word, or the value in it, may be; empty if it is none or unknown."""
    if UNKNOWN in word or any(c.isspace() for c in word) or len(word) > 1000:
        return ""
    if "=" in word:
        return word.partition("=")[2]
    return "" if word.startswith("-") else word
