"""A small set of commands that only read, known by name and flags, and the paths that they read."""

import re
from collections.abc import Callable, Sequence

from teamwright.core.patterns import UNKNOWN
from teamwright.host.flags import NOTHING, Flags, Use, read_flags
from teamwright.host.words import Word

_GREP = Flags(
    "EFGPivwxycLloqsHhnTZzaIrUbV", "emABC",
    "--extended-regexp --fixed-strings --basic-regexp --perl-regexp --ignore-case --no-ignore-case --invert-match"
    " --word-regexp --line-regexp --count --files-without-match --files-with-matches --only-matching --quiet --silent"
    " --no-messages --with-filename --no-filename --line-number --initial-tab --null --null-data --text --recursive"
    " --byte-offset --color --colour --line-buffered --binary",
    "--regexp --max-count --after-context --before-context --context --include --exclude"
    " --exclude-dir --binary-files --label",
    numbers=True, skip=1, deep="r --recursive", paths="f --file",
)  # fmt: skip
_RG = Flags(
    "sSiFwxvnNcloUupPHI0aq.bV", "egtTmABCMjrdE",
    "--case-sensitive --smart-case --ignore-case --fixed-strings --word-regexp --line-regexp --invert-match"
    " --line-number --no-line-number --count --count-matches --files-with-matches --files-without-match --files"
    " --only-matching --multiline --multiline-dotall --unrestricted --pretty --pcre2 --with-filename --no-filename"
    " --null --text --quiet --hidden --no-ignore --no-ignore-vcs --no-heading --heading --json --stats --trim --vimgrep"
    " --column --type-list --no-messages --byte-offset --no-config --passthru --crlf"
    " --glob-case-insensitive",
    "--regexp --glob --iglob --type --type-not --max-count --after-context --before-context --context --max-columns"
    " --threads --replace --max-depth --maxdepth --encoding --color --colors --sort --sortr --max-filesize --engine",
    skip=1, deep="*", paths="f --file", here=True,
)  # fmt: skip
_SUMS = Flags("btz", "", "--binary --text --zero --tag", "", numbers=False)

KNOWN: dict[str, Flags] = {
    "ls": Flags("aAbBcCdDfFgGhHiklmnNopqQrRsStuUvxXZ1", "ITw", "--all --almost-all --author --classify --color"
        " --directory"
                " --file-type --full-time --group-directories-first --human-readable --inode --no-group"
                " --numeric-uid-gid"
                " --recursive --reverse --size --si", "--sort --time --time-style --block-size --hide --ignore --format"
                " --width", deep="R --recursive", here=True),
    "cat": Flags("AbeEnstTuv", "", "--number --number-nonblank --show-all --show-ends --show-tabs --squeeze-blank"),
    "tac": Flags(),
    "head": Flags("qvz", "nc", "--quiet --silent --verbose --zero-terminated", "--lines --bytes", numbers=True),
    "tail": Flags("fFqrvz", "ncs", "--quiet --silent --verbose --follow --retry --zero-terminated", "--lines"
        " --bytes --pid"
                  " --sleep-interval", numbers=True),
    "wc": Flags("clLmw", "", "--bytes --chars --lines --words --max-line-length"),
    "nl": Flags("p", "bdfhilnsvw", "", "--body-numbering --number-format --number-width --starting-line-number"),
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "rg": _RG,
    "stat": Flags("Lft", "c", "--dereference --file-system --terse", "--format --printf"),
    "file": Flags("bhikNnrsv0", "F", "--brief --mime --mime-type --mime-encoding --no-dereference"),
    "du": Flags("abchHkmPsSx0", "dBt", "--all --apparent-size --bytes --total --human-readable --summarize"
        " --one-file-system"
                " --null", "--max-depth --block-size --threshold --exclude", deep="*", here=True),
    "df": Flags("ahHiklPT", "Bt", "--all --human-readable --inodes --local --portability --print-type --total",
                "--block-size --type"),
    "sort": Flags("bdfghiMnRrVcCmsuz", "ktS", "--ignore-leading-blanks --dictionary-order --ignore-case --numeric-sort"
                  " --human-numeric-sort --month-sort --general-numeric-sort --version-sort --reverse --unique --stable"
                  " --check --merge --zero-terminated", "--key --field-separator --buffer-size --sort --parallel"),
    "uniq": Flags("cdDiuz", "fsw", "--count --repeated --all-repeated --ignore-case --unique --zero-terminated",
                  "--skip-fields --skip-chars --check-chars", most=1),
    "cut": Flags("nsz", "bcdf", "--complement --only-delimited --zero-terminated", "--bytes --characters --delimiter"
                 " --fields --output-delimiter"),
    "paste": Flags("sz", "d", "--serial --zero-terminated", "--delimiters"),
    "join": Flags("iz", "12aejotv", "--ignore-case --header --check-order --nocheck-order"),
    "comm": Flags("123z", "", "--check-order --nocheck-order --total --zero-terminated", "--output-delimiter"),
    "fold": Flags("bs", "w", "--bytes --spaces", "--width"),
    "rev": Flags(),
    "column": Flags("tex", "cosNR", "--table", "--separator --output-separator --columns"),
    "tr": Flags("cCdst", "", "--complement --delete --squeeze-repeats --truncate-set1", free=True),
    "diff": Flags("abBdeEiHlnNpqstTuwyZ", "CUWFI", "--brief --unified --context --side-by-side --ignore-all-space"
                  " --ignore-case --ignore-space-change --ignore-blank-lines --new-file --report-identical-files --text"
                  " --color --minimal --suppress-common-lines --strip-trailing-cr --show-c-function",
                  "--unified --context --width --label --ignore-matching-lines"),
    "cmp": Flags("bls", "in", "--print-bytes --verbose --quiet --silent", "--bytes --ignore-initial"),
    "basename": Flags("az", "s", "--multiple --zero", "--suffix", free=True),
    "dirname": Flags("z", "", "--zero", free=True),
    "realpath": Flags("eLmPqsz", "", "--canonicalize-existing --canonicalize-missing --quiet"
        " --no-symlinks", paths="--relative-to --relative-base"),
    "readlink": Flags("efmnqsvz", "", "--canonicalize --canonicalize-existing --canonicalize-missing --no-newline"),
    "md5sum": _SUMS,
    "sha1sum": _SUMS,
    "sha256sum": _SUMS,
    "sha512sum": _SUMS,
    "cksum": Flags(),
    "od": Flags("abcdfilosvx", "AjNSt", "--output-duplicates", "--address-radix --skip-bytes --read-bytes --format"),
    "hexdump": Flags("bcCdovx", "ens"),
    "strings": Flags("adf", "ntes", "--all --print-file-name", "--bytes --radix --encoding", numbers=True),
    "jq": Flags("rcsSneaCMj", "", "--raw-output --compact-output --slurp --sort-keys --null-input --exit-status --tab"
                " --ascii-output --color-output --monochrome-output --join-output --raw-input", skip=1),
    "seq": Flags("w", "fs", "--equal-width", "--format --separator", free=True),
    "pwd": Flags("LP", free=True, most=0),
    "which": Flags("as", "", "--all", free=True),
    "type": Flags("afptP", free=True),
    "whoami": Flags(most=0),
    "id": Flags("agGnru", free=True),
    "uname": Flags("asnrvmpio", "", "--all", most=0),
    "arch": Flags(most=0),
    "nproc": Flags("", "", "--all", most=0),
    "hostname": Flags("fsid", most=0),
    "uptime": Flags("ps", most=0),
    "sleep": Flags(free=True),
    "date": Flags("uRI", "d", "--utc --universal --rfc-email --iso-8601", "--date --rfc-3339 --iso-8601", free=True),
}  # fmt: skip

_ANYTHING = frozenset({"echo", "true", "false", ":", "exit", "return", "break", "continue"})
_TREE_SHORT = frozenset("adfpugshDFiqNQrtxACnJ")
_TREE_LONG = frozenset({"--dirsfirst", "--noreport", "--prune", "--du", "--si", "--gitignore"})
_READS_MODULES = re.compile(r"\b(?:import|include|modulemeta)\b")
_STORES = re.compile(r"%[^A-Za-z%]*n")
_VERSIONED = frozenset({"python", "python3", "node", "npm", "pip", "git", "rustc", "cargo", "go", "gcc", "make",
    "java", "ruby", "uv", "rg", "bash"})  # fmt: skip
_IS_EVALUATED = frozenset({"-v", "-R"})
_COUNTS = frozenset(
    {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"}
)  # of `[[`: both sides are arithmetic, which can run code
_UNARY = frozenset(f"-{letter}" for letter in "abcdefghknprstuwxzGLNOS")
_BINARY = frozenset({"=", "==", "!=", "<", ">", "-nt", "-ot", "-ef"}) | _COUNTS
_TEST_WORDS = frozenset({"=", "==", "!=", "!", "<", ">", "(", ")", "=~", "&&", "||"})
_PRINT_LINES = re.compile(r"(\d+|\$)(,(\d+|\$|\+\d+))?p")
_FIND_PLAIN = frozenset(
    [
        "-depth",
        "-empty",
        "-print",
        "-print0",
        "-ls",
        "-prune",
        "-quit",
        "-not",
        "!",
        "-a",
        "-and",
        "-o",
        "-or",
        ",",
        "(",
        ")",
        "-true",
        "-false",
        "-readable",
        "-writable",
        "-executable",
        "-daystart",
        "-mount",
        "-xdev",
        "-nouser",
        "-nogroup",
        "-noleaf",
    ]
)
_FIND_VALUED = frozenset(
    [
        "-name",
        "-iname",
        "-path",
        "-ipath",
        "-wholename",
        "-iwholename",
        "-regex",
        "-iregex",
        "-type",
        "-xtype",
        "-size",
        "-mtime",
        "-mmin",
        "-atime",
        "-amin",
        "-ctime",
        "-cmin",
        "-perm",
        "-user",
        "-group",
        "-uid",
        "-gid",
        "-maxdepth",
        "-mindepth",
        "-printf",
        "-links",
        "-inum",
        "-regextype",
        "-fstype",
        "-used",
    ]
)


def is_harmed_by_no_word(words: Sequence[Word]) -> bool:
    """Is it all the same which and how many words this command gets?"""
    name = words[0].text
    if name == "printf":  # what counts is its format
        return len(words) > 1 and not words[1].splits and not words[1].glob and _printf([words[1].text, ""]) is not None
    return name in _ANYTHING or name == "[["


def known_use(words: Sequence[str]) -> Use | None:
    """What this command reads, if it is known to do no more than that."""
    name = words[0]
    if name in _ANYTHING:
        return NOTHING
    if len(words) == 2 and words[1] == "--version" and name in _VERSIONED:
        return NOTHING
    special = _SPECIAL.get(name)
    if special:
        return special(words[1:])
    flags = KNOWN.get(name)
    use = read_flags(flags, words[1:]) if flags else None
    return None if use and name in _LOOK_TWICE and not _LOOK_TWICE[name](words[1:]) else use


def _date_only_shows(words: Sequence[str]) -> bool:
    """Another operand would set the clock."""
    return all(w[:1] in ("+", "-") or _is_date_value(words, n) for n, w in enumerate(words))


def _names_no_list(words: Sequence[str]) -> bool:
    """`@file` stands for the words in that file."""
    return not any(w.startswith("@") for w in words)


def _loads_no_module(words: Sequence[str]) -> bool:
    return "--" not in words and not any(_READS_MODULES.search(w) or UNKNOWN in w for w in words)


_LOOK_TWICE: dict[str, Callable[[Sequence[str]], bool]] = {
    "date": _date_only_shows, "strings": _names_no_list, "jq": _loads_no_module,
}  # fmt: skip


def _is_date_value(words: Sequence[str], n: int) -> bool:
    return n > 0 and words[n - 1] in ("-d", "--date", "--rfc-3339")


def _find(words: Sequence[str]) -> Use | None:
    at = 0
    while at < len(words) and words[at] in ("-P", "-H"):
        at += 1
    start = at
    while at < len(words) and not words[at].startswith("-") and words[at] not in ("(", "!", ","):
        at += 1
    reads = list(words[start:at]) or ["."]
    if any(word.startswith(UNKNOWN) for word in reads):
        return None
    while at < len(words):
        if words[at] in _FIND_PLAIN:
            at += 1
        elif words[at] in _FIND_VALUED and at + 1 < len(words):
            at += 2
        elif words[at] in ("-newer", "-samefile") and at + 1 < len(words):
            reads.append(words[at + 1])
            at += 2
        else:
            return None
    return Use(tuple(reads), deep=True)


def _sed(words: Sequence[str]) -> Use | None:
    """Only the printing of lines by number: scripts of sed can write and run."""
    if len(words) < 2 or words[0] != "-n" or not _PRINT_LINES.fullmatch(words[1]):
        return None
    return None if any(w.startswith(("-", UNKNOWN)) for w in words[2:]) else Use(tuple(words[2:]))


def _test(words: Sequence[str]) -> Use | None:
    """`[` and `test`. A word that may turn out to be `-v` makes bash evaluate the next one."""
    words = words[:-1] if words[-1:] == ["]"] else words
    if not _IS_EVALUATED.isdisjoint(words) or not _is_plain_test(words):
        return None
    return _paths_tested(words)


def _is_plain_test(words: Sequence[str]) -> bool:
    if not any(UNKNOWN in word for word in words):
        return True
    if words[:1] == ["!"]:
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
    """`[[`, in which an operator is one only if it is written as one."""
    if not _IS_EVALUATED.isdisjoint(words) or not _COUNTS.isdisjoint(words):
        return None
    return _paths_tested(words[:-1] if words[-1:] == ["]]"] else words)


def _paths_tested(words: Sequence[str]) -> Use:
    return Use(tuple(w for w in words if w and UNKNOWN not in w and w not in _TEST_WORDS and not w.startswith("-")))


def _printf(words: Sequence[str]) -> Use | None:
    """`-v` and `%n` set a variable, which may be a subscript that runs code."""
    if not words or words[0].startswith(("-", UNKNOWN)) or _STORES.search(words[0]):
        return None
    return None if UNKNOWN in words[0] and len(words) > 1 else NOTHING


def _xxd(words: Sequence[str]) -> Use | None:
    """It takes flags by their beginning, so only these; a second file would be written."""
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
    """Its bundled flags take their values one after the other from the words behind them: only those without any."""
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
    return None if any(w.startswith(UNKNOWN) for w in reads) else Use(tuple(reads) or (".",), deep=True)


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
    files += words[at + 1 :] if words[at : at + 1] == ["--"] else words[at:]
    return None if any(w.startswith("-") for w in files) else Use(writes=tuple(files))


def _lookup(words: Sequence[str]) -> Use | None:
    """`command -v`; anything else is a wrapper and was taken apart before."""
    return NOTHING if words and words[0] in ("-v", "-V") else None


def _cd(words: Sequence[str]) -> Use | None:
    targets = [w for w in words if w not in ("-L", "--")]
    if len(targets) > 1 or any(w.startswith(("-", UNKNOWN)) or UNKNOWN in w for w in targets):
        return None
    return Use(tuple(targets or ["~"]))


_SPECIAL: dict[str, Callable[[Sequence[str]], Use | None]] = {
    "find": _find, "sed": _sed, "test": _test, "[": _test, "[[": _double_test, "printf": _printf, "read": _read,
    "set": _set, "tee": _tee, "command": _lookup, "cd": _cd, "tree": _tree, "xxd": _xxd,
}  # fmt: skip

_ZONE = re.compile(r"[A-Za-z][\w+-]*(?:/[A-Za-z][\w+-]*)*")
_HARMLESS = re.compile(
    r"LANG|LC_[A-Z]+|TERM|NO_COLOR|FORCE_COLOR|CLICOLOR|COLUMNS|LINES|CI|DEBUG|VERBOSE|NODE_ENV|RUST_BACKTRACE|RUST_LOG"
    r"|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|PYTHONHASHSEED|GOOS|GOARCH|DJANGO_DEBUG|TEST|[A-Z]|_*[a-z][a-z0-9_]*"
)


def harmless_name(name: str, value: str = UNKNOWN) -> bool:
    """A variable that no program takes orders from. A time zone may name any file, so its value counts."""
    if name == "TZ":
        return _ZONE.fullmatch(value) is not None
    return (
        bool(_HARMLESS.fullmatch(name))
        and not name.endswith("proxy")
        and not name.startswith(("npm_", "pnpm_", "yarn_"))
    )
