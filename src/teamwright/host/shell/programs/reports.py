"""Programs that report about themselves, the machine, packages and archives, with arguments that allow nothing else."""

import os
import re
import sys
from collections.abc import Callable, Sequence

from teamwright.core.permissions.patterns import UNKNOWN
from teamwright.host.shell.programs.flags import NOTHING, Flags, Use, read_flags, split_words

# Not listed: programs that run project files before answering, such as `pytest` (conftest.py) and `yarn` (a release
# named by the project), or that use a version of themselves from the project, such as `cargo`, `rustc` and `go`.
_VERSIONED = frozenset(
    """
    python python3 node npm pip pip3 git gcc g++ cc clang make cmake java javac ruby perl uv rg bash ruff
    mypy tsc docker gh jq curl tar grep sed awk gawk find sqlite3 psql deno bun black
    """.split()
)
_SHORT_VERSION = {
    "python": "-V",
    "python3": "-V",
    "node": "-v",
    "npm": "-v",
    "pip": "-V",
    "pip3": "-V",
    "ruby": "-v",
    "perl": "-v",
    "java": "-version",
    "tsc": "-v",
}

# Not `pip list`: it asks the index, and tells it a version of rustc, which the project may choose.
_PACKAGES: dict[str, Flags] = {
    "show": Flags("f", "", "--files", free=True),
    "freeze": Flags("l", "", "--local --all --user --exclude-editable", "--exclude", free=True, most=0),
}  # fmt: skip

# `e` without a dash shows the environment of processes, and so does any `e` once ps falls back to that syntax.
_PS = re.compile(
    r"(?:aux|auxww?|ax|axu|axuf|auxf|axf|a|u|x|ux|xu|au)(?: --sort=[-+]?(?P<sort>[\w%]+))?"
    r"|-(?:e|A|a|ef|eF|el|elf|f|F|l)"
    r"|(?:-e|-A|-a|-p \d+(?:,\d+)*)(?: -o (?P<columns>[\w%,]+))?"
)
_PS_COLUMNS = frozenset(
    """
    pid ppid pgid sid user uid comm args cmd command etime etimes time stat state pcpu %cpu pmem %mem rss vsz
    tty start lstart ni pri nlwp
    """.split()
)

_LISTS = re.compile(r"-?(?=[a-zA-Z]*t)[tvzjJa]*f")
_LIST_FLAGS = Flags("tvzjJa", "f", "--list --verbose --gzip --bzip2 --xz --full-time", "--file", numbers=False)
_ODD_NAME = re.compile(r"[*?\[\]:\\\x00]")
_ZIPPED = ("", ".gz", "-gz", ".z", "-z", "_z", ".Z")  # suffixes that gzip tries
_JSON_FLAGS = Flags(
    "", "", "--sort-keys --json-lines --no-ensure-ascii --compact --tab --no-indent", "--indent", most=1
)
_NEWER_MODULES = frozenset({"annotationlib", "compression"})
_CODE = frozenset({"py", "pyc", "so", "pyd"})
_NEVER_LOADED = frozenset({"test", "__pycache__", "__init__", "__main__"})
_PYTHONS = re.compile(r"python(?:3(?:\.\d{1,2})?)?")


def version_use(words: Sequence[str]) -> Use | None:
    """`X --version`, and the spellings of some programs."""
    if len(words) != 2:
        return None
    known = words[1] == "--version" and words[0] in _VERSIONED
    return NOTHING if known or _SHORT_VERSION.get(words[0]) == words[1] else None


def _pip(words: Sequence[str]) -> Use | None:
    flags = _PACKAGES.get(words[0]) if words else None
    return read_flags(flags, words[1:]) if flags else None


def _ps(words: Sequence[str]) -> Use | None:
    """Accepts only complete lines that ps parses at the first attempt."""
    found = _PS.fullmatch(" ".join(words))
    if found is None or any(" " in word for word in words):
        return None
    columns = [*(found["columns"] or "pid").split(","), found["sort"] or "pid"]
    return NOTHING if _PS_COLUMNS.issuperset(columns) else None


def _expr(_words: Sequence[str]) -> Use | None:
    return NOTHING  # it only computes


def _tar(words: Sequence[str]) -> Use | None:
    """Lists an archive's contents. A name with a colon is on another machine."""
    if words and _LISTS.fullmatch(words[0]):
        file, members = words[1:2], words[2:]
    else:
        read = split_words(_LIST_FLAGS, words)
        if read is None or not read[1].keys() & {"t", "--list"}:
            return None
        file, members = [*read[1].get("f", ()), *read[1].get("--file", ())], read[0]
    if len(file) != 1 or _ODD_NAME.search(file[0]) or any(w[:1] in ("-", UNKNOWN) for w in (*file, *members)):
        return None
    return Use(tuple(file))


def _unzip(words: Sequence[str]) -> Use | None:
    if len(words) < 2 or not re.fullmatch(r"-(?=[lv])[lvq]+|-q{1,2}[lv]", words[0]) or _ODD_NAME.search(words[1]):
        return None
    if any(w[:1] in ("-", UNKNOWN) for w in words[1:]):
        return None
    return Use(tuple(words[1] + end for end in ("", ".zip", ".ZIP")))


def _zcat(words: Sequence[str]) -> Use | None:
    files = [w for w in words if w != "-f"]
    if any(w[:1] in ("-", UNKNOWN) for w in files):
        return None
    return Use(tuple(file + end for file in files for end in _ZIPPED))


def _cat_of(words: Sequence[str]) -> Use | None:
    """`bzcat` and `xzcat`, which open only what they are given."""
    return None if any(w[:1] in ("-", UNKNOWN) for w in words) else Use(tuple(words))


REPORTS: dict[str, Callable[[Sequence[str]], Use | None]] = {
    "pip": _pip,
    "pip3": _pip,
    "ps": _ps,
    "expr": _expr,
    "tar": _tar,
    "unzip": _unzip,
    "zcat": _zcat,
    "bzcat": _cat_of,
    "xzcat": _cat_of,
}


# --- python


def is_json_tool(words: Sequence[str]) -> bool:
    return _PYTHONS.fullmatch(words[0]) is not None and tuple(words[1:3]) == ("-m", "json.tool")


def json_use(words: Sequence[str], cwds: Sequence[str] | None) -> Use | None:
    """`python -m json.tool [FILE]`. A second file would be written, and a module in this directory would be run."""
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(":") if path]
    for cwd in cwds or ():
        if not all(_shadows_nothing(os.path.join(cwd, path)) for path in ("", *paths)):
            return None
    return read_flags(_JSON_FLAGS, words[3:]) if cwds else None


def _shadows_nothing(directory: str) -> bool:
    """Python with `-m` looks for its own modules here first."""
    try:
        with os.scandir(directory) as found:
            return not any(_is_module(entry) for entry in found)
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _is_module(entry: "os.DirEntry[str]") -> bool:
    stem, point, _ = entry.name.partition(".")
    known = stem in sys.stdlib_module_names or stem.startswith("_") or stem in _NEWER_MODULES
    if not known or stem in _NEVER_LOADED:
        return False
    if point:
        return entry.name.rpartition(".")[2] in _CODE
    return os.path.lexists(f"{entry.path}/__init__.py") or entry.is_symlink()
