"""A small set of commands that only read, known by name and flags, and the paths that they read."""

import re
from collections.abc import Callable, Sequence

from msgspec import structs

from teamwright.core.permissions.patterns import UNKNOWN
from teamwright.host.shell.programs.flags import NAMES_ALONE, NOTHING, Flags, Shown, Use, read_flags, split_words
from teamwright.host.shell.programs.reports import REPORTS, is_json_tool, json_use, version_use
from teamwright.host.shell.programs.searches import SEARCHES, searched
from teamwright.host.shell.programs.special import SPECIAL, printf
from teamwright.host.shell.words import Word

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
    "base64": Flags("di", "w", "--decode --ignore-garbage", "--wrap", most=1),
    "free": Flags("bkmghtwl", "", "--bytes --kibi --mebi --gibi --mega --giga --human --si --total --wide", most=0),
    "nproc": Flags("", "", "--all", most=0),
    "hostname": Flags("fsid", most=0),
    "uptime": Flags("ps", most=0),
    "sleep": Flags(free=True),
    "date": Flags("uR", "d", "--utc --universal --rfc-email --iso-8601", "--date --rfc-3339 --iso-8601", "I",
                  free=True),
}  # fmt: skip

_TELL_NAMES = frozenset({"ls", "du"})
_ANYTHING = frozenset({"echo", "true", "false", ":", "exit", "return", "break", "continue"})
_READS_MODULES = re.compile(r"\b(?:import|include|modulemeta)\b")


def is_harmed_by_no_word(words: Sequence[Word]) -> bool:
    """Is the command harmless whatever words it gets, and however many?"""
    name = words[0].text
    if name == "printf":  # only its format matters
        return len(words) > 1 and not words[1].splits and not words[1].glob and printf([words[1].text, ""]) is not None
    return name in _ANYTHING or name == "[["


def rests_on_files(words: Sequence[str]) -> bool:
    """Is it harmless only because of the files in its directory?"""
    return is_json_tool(words)


def known_use(words: Sequence[str], cwds: Sequence[str] | None = None) -> Use | None:
    """What this command reads, if it is known to do nothing else. `cwds`: where it may run."""
    name = words[0]
    if name in _ANYTHING or version_use(words):
        return NOTHING
    if is_json_tool(words):
        return json_use(words, cwds)
    special = SPECIAL.get(name) or REPORTS.get(name)
    if special:
        return special(words[1:])
    return _by_flags(name, KNOWN[name], words[1:]) if name in KNOWN else None


def _by_flags(name: str, flags: Flags, words: Sequence[str]) -> Use | None:
    use = read_flags(flags, words)
    if use is None or (name in _LOOK_TWICE and not _LOOK_TWICE[name](words)):
        return None
    return structs.replace(use, shown=_shown(name, flags, words)) if use.deep else use


def _shown(name: str, flags: Flags, words: Sequence[str]) -> Shown | None:
    """What a recursive command can show of the content below."""
    if name in _TELL_NAMES:
        return NAMES_ALONE
    _, values = split_words(flags, words) or ([], {})
    return searched(name, values) if name in SEARCHES else None


def _date_only_shows(words: Sequence[str]) -> bool:
    """Any other operand would set the clock."""
    return all(w[:1] in ("+", "-") or _is_date_value(words, n) for n, w in enumerate(words))


def _names_no_list(words: Sequence[str]) -> bool:
    """`@file` is replaced by the words in that file."""
    return not any(w.startswith("@") for w in words)


def _loads_no_module(words: Sequence[str]) -> bool:
    return "--" not in words and not any(_READS_MODULES.search(w) or UNKNOWN in w for w in words)


_LOOK_TWICE: dict[str, Callable[[Sequence[str]], bool]] = {
    "date": _date_only_shows,
    "strings": _names_no_list,
    "jq": _loads_no_module,
}


def _is_date_value(words: Sequence[str], n: int) -> bool:
    return n > 0 and words[n - 1] in ("-d", "--date", "--rfc-3339")
