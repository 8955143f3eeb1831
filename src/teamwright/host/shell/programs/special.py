"""Commands with their own argument syntax (find, sed, awk and the like): what each reads, if it does nothing else."""

import re
from collections.abc import Callable, Sequence

from teamwright.core.permissions.patterns import UNKNOWN
from teamwright.host.shell.programs.awk import awk_use
from teamwright.host.shell.programs.flags import NAMES_ALONE, NOTHING, Use
from teamwright.host.shell.programs.sed import sed_use

_TREE_SHORT = frozenset("adfpugshDFiqNQrtxACnJ")
_TREE_LONG = frozenset({"--dirsfirst", "--noreport", "--prune", "--du", "--si", "--gitignore"})
_STORES = re.compile(r"%[^A-Za-z%]*[hjlLtzq]*n")
_IS_EVALUATED = frozenset({"-v", "-R"})
# in `[[`: both sides are arithmetic, which can run code
_COUNTS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_UNARY = frozenset(f"-{letter}" for letter in "abcdefghknprstuwxzGLNOS")
_BINARY = frozenset({"=", "==", "!=", "<", ">", "-nt", "-ot", "-ef"}) | _COUNTS
_TEST_WORDS = frozenset({"=", "==", "!=", "!", "<", ">", "(", ")", "=~", "&&", "||"})
_OPENS_TESTS = frozenset({"(", "!"})  # a leading comma is a name
_FIND_PLAIN = frozenset(
    """
    -depth -empty -print -print0 -ls -prune -quit -not ! -a -and -o -or , ( ) -true -false -readable -writable
    -executable -daystart -mount -xdev -nouser -nogroup -noleaf
    """.split()
)
FIND_VALUED = frozenset(
    """
    -name -iname -path -ipath -wholename -iwholename -regex -iregex -type -xtype -size -mtime -mmin -atime -amin
    -ctime -cmin -perm -user -group -uid -gid -maxdepth -mindepth -printf -links -inum -regextype -fstype -used
    -newer -samefile
    """.split()
)


def find_starts(words: Sequence[str], at: int, *, before: frozenset[str]) -> tuple[list[str], int]:
    """The starting points of a `find`, and the position of its tests; `before` are words that open tests."""
    while at < len(words) and words[at] in ("-P", "-H"):
        at += 1
    first = at
    while at < len(words) and not words[at].startswith("-") and words[at] not in before:
        at += 1
    return list(words[first:at]) or ["."], at


def _find(words: Sequence[str]) -> Use | None:
    reads, at = find_starts(words, 0, before=_OPENS_TESTS)
    if any(word.startswith(UNKNOWN) for word in reads):
        return None
    while at < len(words):
        if words[at] in _FIND_PLAIN:
            at += 1
        elif words[at] in FIND_VALUED and at + 1 < len(words):
            reads += [words[at + 1]] if words[at] in ("-newer", "-samefile") else []
            at += 2
        else:
            return None
    return Use(tuple(reads), deep=True, shown=NAMES_ALONE)


def _sed(words: Sequence[str]) -> Use | None:
    use = sed_use(words)
    return Use(use.files) if use and use.suffix is None else None


def _test(words: Sequence[str]) -> Use | None:
    """`[` and `test`. A word that may turn out to be `-v` makes bash evaluate the next one."""
    words = words[:-1] if "]" in words[-1:] else words
    if not _IS_EVALUATED.isdisjoint(words) or not _is_plain_test(words):
        return None
    return _paths_tested(words)


def _is_plain_test(words: Sequence[str]) -> bool:
    if not any(UNKNOWN in word for word in words):
        return True
    if "!" in words[:1]:
        return _is_plain_test(words[1:])
    match len(words):
        case 1:
            return True
        case 2:
            return words[0] in _UNARY
        case 3:
            return words[1] in _BINARY
        case _:
            return False


def _double_test(words: Sequence[str]) -> Use | None:
    """`[[`, in which only literal operators are operators."""
    if not _IS_EVALUATED.isdisjoint(words) or not _COUNTS.isdisjoint(words):
        return None
    return _paths_tested(words[:-1] if "]]" in words[-1:] else words)


def _paths_tested(words: Sequence[str]) -> Use:
    return Use(tuple(w for w in words if w and UNKNOWN not in w and w not in _TEST_WORDS and not w.startswith("-")))


def printf(words: Sequence[str]) -> Use | None:
    """`-v` and `%n` set a variable, which may be a subscript that runs code."""
    if not words or words[0].startswith(("-", UNKNOWN)) or _STORES.search(words[0]):
        return None
    return None if UNKNOWN in words[0] and len(words) > 1 else NOTHING


def _xxd(words: Sequence[str]) -> Use | None:
    """It accepts abbreviated flags, so only these are allowed; a second file would be written."""
    files, at = list[str](), 0
    while at < len(words):
        if words[at] in ("-c", "-g", "-l", "-s") and re.fullmatch(r"[+-]?\d+", (*words, "")[at + 1]):
            at += 1
        elif words[at].startswith(("-", UNKNOWN)):
            return None
        else:
            files.append(words[at])
        at += 1
    return Use(tuple(files)) if len(files) < 2 else None


def _tree(words: Sequence[str]) -> Use | None:
    """Bundled flags take their values from the following words, one by one; so only flags without values are
    allowed."""
    reads, at = list[str](), 0
    while at < len(words):
        word, at = words[at], at + 1
        if word in ("-L", "-I", "-P"):
            at += 1
        elif word.startswith("--"):
            if word not in _TREE_LONG:
                return None
        elif word.startswith("-"):
            if not _TREE_SHORT.issuperset(word[1:]):
                return None
        else:
            reads.append(word)
    return (
        None if any(w.startswith(UNKNOWN) for w in reads) else Use(tuple(reads) or (".",), deep=True, shown=NAMES_ALONE)
    )


def _read(words: Sequence[str]) -> Use | None:
    names = [w for w in words if w not in ("-r", "-a", "-s")]
    return NOTHING if all(harmless_name(name) for name in names) else None


def _set(words: Sequence[str]) -> Use | None:
    fine = {
        "-e",
        "-u",
        "-x",
        "-eu",
        "-ex",
        "-eux",
        "-euo",
        "-euxo",
        "-o",
        "+e",
        "+u",
        "+x",
        "pipefail",
        "errexit",
        "nounset",
    }
    return NOTHING if words and fine.issuperset(words) else None


def _tee(words: Sequence[str]) -> Use | None:
    files, at = list[str](), 0
    while at < len(words) and words[at] in ("-a", "--append", "-i"):
        at += 1
    files += words[at + 1 :] if "--" in words[at : at + 1] else words[at:]
    return None if any(w.startswith("-") for w in files) else Use(writes=tuple(files))


def _lookup(words: Sequence[str]) -> Use | None:
    """`command -v`; other uses are wrappers and were handled before."""
    return NOTHING if words and words[0] in ("-v", "-V") else None


def _cd(words: Sequence[str]) -> Use | None:
    targets = [w for w in words if w not in ("-L", "--")]
    if len(targets) > 1 or any(w.startswith(("-", UNKNOWN)) or UNKNOWN in w for w in targets):
        return None
    return Use(tuple(targets or ["~"]))


SPECIAL: dict[str, Callable[[Sequence[str]], Use | None]] = {
    "find": _find,
    "sed": _sed,
    "awk": awk_use,
    "gawk": awk_use,
    "mawk": awk_use,
    "test": _test,
    "[": _test,
    "[[": _double_test,
    "printf": printf,
    "read": _read,
    "set": _set,
    "tee": _tee,
    "command": _lookup,
    "cd": _cd,
    "tree": _tree,
    "xxd": _xxd,
}

_ZONE = re.compile(r"[A-Za-z][\w+-]*(?:/[A-Za-z][\w+-]*)*")
_LOCALE = re.compile(r"(?:C|POSIX|(?:C|[a-z]{2,3}_[A-Z]{2})\.(?:UTF|utf)-?8)?")
_HARMLESS = re.compile(
    r"TERM|NO_COLOR|FORCE_COLOR|CLICOLOR|COLUMNS|LINES|CI|DEBUG|VERBOSE|NODE_ENV|RUST_BACKTRACE|RUST_LOG"
    r"|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|PYTHONHASHSEED|GOOS|GOARCH|DJANGO_DEBUG|TEST|[A-Z]|_*[a-z][a-z0-9_]*"
)

_PLAIN_VALUE = re.compile(r"[\w./:,@%+-]*", re.ASCII)
_MAKES = frozenset({"make", "gmake", "bmake"})


def gives_orders(given: Sequence[tuple[str, str]], program: str) -> bool:
    """Could a program take these variables for more than words? make puts each into its recipes, which are code, and
    other programs may have recipes as well."""
    makes = program.rpartition("/")[2] in _MAKES
    return any(makes or not _PLAIN_VALUE.fullmatch(value) for _, value in given)


def harmless_name(name: str, value: str = UNKNOWN) -> bool:
    """A variable from which no program takes orders. A time zone may name any file, and in some locales a character
    ends with a byte that looks like a quote or backslash; so for those the value decides."""
    if name == "TZ":
        return _ZONE.fullmatch(value) is not None
    if name == "LANG" or name.startswith("LC_"):
        return _LOCALE.fullmatch(value) is not None
    return (
        bool(_HARMLESS.fullmatch(name))
        and not name.endswith("proxy")
        and not name.startswith(("npm_", "pnpm_", "yarn_"))
    )
