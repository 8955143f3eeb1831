"""Git commands that only read, by subcommand and flags, and git's own options before the subcommand."""

import os.path
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from msgspec import structs

from teamwright.core.permissions.patterns import UNKNOWN
from teamwright.host.shell.programs.flags import NOTHING, Flags, Use, read_flags
from teamwright.host.shell.programs.git_shows import repository_use

_COMMITS = (
    "--oneline --graph --all --decorate --no-decorate --stat --numstat --shortstat --name-only --name-status --summary"
    " --merges --no-merges --first-parent --reverse --follow --date-order --topo-order --abbrev-commit"
    " --no-abbrev-commit"
    " --branches --tags --remotes --cherry --left-right --full-history --show-pulls --no-patch --no-color --color"
    " --no-ext-diff --no-textconv --relative-date --parents --children --source --dirstat --cc --no-renames"
    " --cherry-pick --cherry-mark --boundary --simplify-by-decoration --regexp-ignore-case --invert-grep --all-match"
    " --extended-regexp --fixed-strings --perl-regexp --pickaxe-regex --pickaxe-all --word-diff --raw"
    " --compact-summary --ignore-all-space --ignore-space-change --ignore-blank-lines --minimal --patience --histogram"
    " --patch --patch-with-stat --full-index --binary --text --no-prefix --function-context --find-renames"
    " --find-copies"
    " --exit-code --quiet --cached --staged --merge-base --check --reflog --walk-reflogs --pretty --no-notes --count"
    " --abbrev --relative --unified --format --min-parents --max-parents"
)
# In both lists: an optional value, which must follow a `=`.
_COMMIT_VALUES = (
    "--max-count --skip --since --until --after --before --author --committer --grep --format --pretty --date --abbrev"
    " --diff-filter --stat --color --decorate --unified --word-diff --diff-algorithm --inter-hunk-context --min-parents"
    " --max-parents --glob --branches --tags --remotes --exclude --find-renames --find-copies --relative"
    " --ws-error-highlight"
)
_LOG = Flags(
    "puswzabDRrcmt0", "nLSG", _COMMITS, _COMMIT_VALUES, "UMBC", numbers=True,
    deep="p u L S G --patch --patch-with-stat --cc --unified --function-context --word-diff --binary --text"
         " --check c m U",
    alone=True,
)  # fmt: skip
_DIFF = Flags("puswzabDRrcmt0", "nSG", _COMMITS, _COMMIT_VALUES, "UMBC", numbers=True, deep="*", alone=True)
_REVISIONS = structs.replace(_LOG, valued="nSG")  # only `git log` knows `-L`
_LIST = "--list --all --remotes --verbose --show-current --merged --no-merged --contains --no-contains --color"

GIT: dict[str, Flags] = {
    "status": Flags("sbvz", "", "--short --branch --porcelain --long --verbose --show-stash --untracked-files"
        " --ignored"
                    " --ahead-behind --no-ahead-behind --renames --no-renames --column --no-column --ignore-submodules",
                    "--porcelain --untracked-files --ignored --ignore-submodules", "u", deep="v --verbose"),
    "log": _LOG,
    "shortlog": Flags("nsec", "", _COMMITS + " --numbered --summary --email --committer", _COMMIT_VALUES + " --group",
                      "w"),
    "whatchanged": _LOG,
    "show": _DIFF,
    "diff": _DIFF,
    "diff-tree": structs.replace(_DIFF, long=f"{_COMMITS} --no-commit-id --root"),
    "rev-list": _REVISIONS,
    "rev-parse": Flags("q", "", "--abbrev-ref --short --show-toplevel --show-prefix --show-cdup --git-dir"
        " --git-common-dir"
                       " --absolute-git-dir --is-inside-work-tree --is-inside-git-dir --is-bare-repository --verify"
                       " --quiet --symbolic --symbolic-full-name --all --branches --tags --remotes --revs-only"
                       " --no-revs"
                       " --is-shallow-repository --show-superproject-working-tree", "--short --abbrev-ref --branches"),
    "ls-files": Flags("cdmoiskutvfz", "x", "--cached --deleted --modified --others --ignored --stage --unmerged"
        " --killed"
                      " --exclude-standard --error-unmatch --full-name --directory --eol"
                      " --deduplicate --abbrev", "--exclude --abbrev"),
    "ls-tree": Flags("drtlz", "", "--name-only --name-status --long --full-name --full-tree"
        " --object-only --abbrev", "--format --abbrev"),
    "blame": Flags("lptsefnwc", "L", "--porcelain --line-porcelain --show-email --show-name --show-number --root"
                   " --show-stats --abbrev", "--since --date --abbrev", "MC"),
    "grep": Flags("iwvhHEGPFnlLczpWqa", "eABCm", "--ignore-case --word-regexp --invert-match --count"
                  " --line-number --files-with-matches --files-without-match --name-only --fixed-strings --perl-regexp"
                  " --extended-regexp --basic-regexp --cached --untracked --heading --break --show-function"
                  " --function-context --only-matching --column --text --and --or --not --all-match --quiet --color"
                  " --no-color", "--after-context --before-context --context --max-count --max-depth"
                  " --threads", deep="*", skip=1),
    "cat-file": Flags("tsep", deep="*"),
    "describe": Flags("", "", "--all --tags --contains --always --long --dirty --first-parent --exact-match --abbrev",
                      "--abbrev --match --exclude --candidates --dirty"),
    "merge-base": Flags("a", "", "--all --is-ancestor --octopus --independent --fork-point"),
    "name-rev": Flags("", "", "--tags --name-only --all --always", "--refs --exclude"),
    "show-ref": Flags("dhsq", "", "--head --heads --tags --verify --hash --abbrev --quiet --branches", "--hash"
        " --abbrev"),
    "for-each-ref": Flags("", "", "--ignore-case --omit-empty", "--format --sort --count --points-at --merged"
        " --no-merged"
                          " --contains --exclude"),
    "count-objects": Flags("vH", "", "--verbose --human-readable", most=0),
    "check-ignore": Flags("qvnz", "", "--quiet --verbose --non-matching --no-index"),
    "check-attr": Flags("az", "", "--all --cached"),
    "var": Flags("l", free=True),
}  # fmt: skip
_LISTING: dict[str, Flags] = {
    "branch": Flags("arvqi", "", _LIST, "--merged --no-merged --contains --no-contains --sort --format"
        " --points-at", free=True),
    "tag": Flags("li", "", _LIST, "--merged --no-merged --contains --no-contains --sort --format"
        " --points-at", "n", free=True),
}  # fmt: skip
_BEFORE = frozenset({"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs", "--no-replace-objects"})
_BEFORE_VALUED = frozenset(
    """
    -C -c --git-dir --work-tree --namespace --exec-path --super-prefix --config-env --attr-source --shallow-file
    """.split()
)
_TWO_WORDS = {
    ("remote",),
    ("remote", "-v"),
    ("remote", "--verbose"),
    ("bisect", "log"),
    ("sparse-checkout", "list"),
}
_TWO_WORDS_AND_NAMES = {("remote", "get-url"), ("notes", "list")}
_STASHED = structs.replace(_DIFF, long=f"{_COMMITS} --include-untracked --only-untracked")
_WORKTREES = Flags("vz", "", "--verbose --porcelain", free=True, most=0)
_REFLOG_CHANGES = frozenset({"expire", "delete", "drop", "write", "migrate"})
_APPLY = Flags(
    "vRz", "", "--check --stat --numstat --summary --verbose --reverse --cached --index --recount --unidiff-zero"
    " --ignore-space-change --ignore-whitespace --inaccurate-eof --allow-empty",
    "--whitespace --include --exclude --directory", "pC",
)  # fmt: skip
_APPLIES_NOTHING = frozenset({"--check", "--stat", "--numstat", "--summary"})
_CONFIG_READS = frozenset({"--get", "--get-all", "--get-regexp", "--list", "-l"})
_CONFIG_FLAGS = _CONFIG_READS | {
    "--show-origin",
    "--show-scope",
    "--name-only",
    "--null",
    "-z",
    "--local",
    "--global",
    "--system",
    "--worktree",
    "--bool",
    "--int",
    "--bool-or-int",
    "--path",
    "--includes",
    "--no-includes",
}
_SETTING_NAME = re.compile(r"[\w-]+\.(?:.*\.)?[A-Za-z][\w-]*")
_NO_SECRET = re.compile(
    r"user\.(?:name|email|signingkey)|(?:advice|alias|am|apply|author|blame|branch|checkout|clone|color|column|commit"
    r"|committer|core|diff|extensions|feature|fetch|format|gc|gpg|grep|i18n|index|init|log|merge|notes|pack|pull|push"
    r"|rebase|receive|remote|rerere|safe|stash|status|submodule|tag|transfer|versionsort|worktree)\..*"
)
# Settings that only affect display, whatever their value.
_SHOWS = re.compile(
    r"(?:color|column|advice)\..*|core\.(?:quotepath|abbrev)"
    r"|log\.(?:date|decorate|abbrevcommit|follow|showroot)"
    r"|diff\.(?:renames|renamelimit|context|interhunkcontext|noprefix|mnemonicprefix|algorithm|colormoved|relative"
    r"|statgraphwidth|suppressblankempty|wordregex|indentheuristic)"
    r"|status\.(?:short|branch|showuntrackedfiles|relativepaths|renames|aheadbehind)"
    r"|grep\.(?:linenumber|column|patterntype|extendedregexp|fullname)|blame\.(?:date|showemail|coloring)"
)
# git starts gpg to check a signature, which makes files in the home directory and may look for keys.
_FORMAT = re.compile(r"--(?:format|pretty|sort|group)(?:=|$)")
_VERIFIES = re.compile(r"%[-+ ]?G|%\(\*?signature|(?:^|=)-?(?:v(?:ersion)?:)?\*?signature")
_NO_PAGER = re.compile(r"core\.pager=(?:cat)?|pager\.[\w-]+=(?:false|no|off|0)")


def git_use(words: Sequence[str], cwds: Sequence[str]) -> Use | None:
    """What this git command reads, if it does nothing else. `words` start after `git`; the caller must apply `-C`."""
    _, settings, at = split_options(words)
    if at == len(words) or not all(map(_only_shows, settings)) or _may_verify(words[at:]):
        return None
    name, rest = words[at], words[at + 1 :]
    if name in GIT:
        return repository_use(name, GIT[name], rest, cwds)
    if name in _LISTING:
        return _listing(_LISTING[name], rest)
    if name in _PARTS:
        return _PARTS[name](rest, cwds)
    if (name, *rest) in _TWO_WORDS:
        return NOTHING
    plain = all(not w.startswith(("-", UNKNOWN)) for w in rest[1:])
    return NOTHING if plain and (name, *rest[:1]) in _TWO_WORDS_AND_NAMES else None


def shows_settings(words: Sequence[str]) -> bool:
    """Does it print settings of the person's own, in which there may be tokens? `words` start after `git`."""
    match words[split_options(words)[2] :]:
        case ["var", *rest]:
            return any(word.startswith("-") for word in rest)
        case ["config", *rest] if {"--local", "--worktree"}.isdisjoint(rest):
            names = [word for word in rest if not word.startswith("-")]
            return len(names) != 1 or _NO_SECRET.fullmatch(_lowered(names[0])) is None
        case _:
            return False


def split_options(words: Sequence[str]) -> tuple[list[str], list[str], int]:
    """Git's own options: directories of `-C`, settings of `-c`, and the position of the subcommand."""
    folders, settings, at = list[str](), list[str](), 0
    while at < len(words):
        if words[at] in _BEFORE:
            at += 1
        elif words[at] in ("-C", "-c") and at + 1 < len(words):
            (folders if words[at] == "-C" else settings).append(words[at + 1])
            at += 2
        else:
            break
    return folders, settings, at


def _may_verify(words: Sequence[str]) -> bool:
    """Does a format or an order among these words ask for signatures to be checked, or is it unknown?"""
    told = [word for before, word in pairwise(("", *words)) if _FORMAT.match(word) or _FORMAT.fullmatch(before)]
    return any(UNKNOWN in word or _VERIFIES.search(word) for word in told)


def _only_shows(setting: str) -> bool:
    name, equals, value = setting.partition("=")
    told = f"{_lowered(name)}{equals}{value}"
    return UNKNOWN not in setting and bool(_SHOWS.fullmatch(_lowered(name)) or _NO_PAGER.fullmatch(told))


def _config(words: Sequence[str], _cwds: Sequence[str]) -> Use | None:
    """`--get`, `--list`, or a name without a value only read. After a name, nothing is a flag."""
    first = next((n for n, w in enumerate(words) if not w.startswith("-")), len(words))
    flags, names = [*words[:first]], [*words[first:]]
    if not all(map(_is_config_flag, flags)) or any(w.startswith("-") for w in names):
        return None
    if any(UNKNOWN in w for w in words):
        return None
    named = len(names) == 1 and _SETTING_NAME.fullmatch(names[0])
    return NOTHING if named or not _CONFIG_READS.isdisjoint(flags) else None


def _is_config_flag(word: str) -> bool:
    return word in _CONFIG_FLAGS or word.startswith("--type=")


def _stash(words: Sequence[str], cwds: Sequence[str]) -> Use | None:
    if "list" in words[:1]:
        return repository_use("log", _LOG, words[1:], cwds)
    return repository_use("stash", _STASHED, words[1:], cwds) if "show" in words[:1] else None


def _reflog(words: Sequence[str], cwds: Sequence[str]) -> Use | None:
    if not _REFLOG_CHANGES.isdisjoint(words):
        return None
    return repository_use("log", _LOG, words[1:] if "show" in words[:1] else words, cwds)


def _worktree(words: Sequence[str], _cwds: Sequence[str]) -> Use | None:
    return read_flags(_WORKTREES, words[1:], permutes=True) if "list" in words[:1] else None


def _apply(words: Sequence[str], _cwds: Sequence[str]) -> Use | None:
    """With one of these flags it only describes the patch; a later `--apply` would change that."""
    use = None if _APPLIES_NOTHING.isdisjoint(words) else read_flags(_APPLY, words, permutes=True)
    return Use((*use.reads, "."), deep=True) if use else None


_PARTS: dict[str, Callable[[Sequence[str], Sequence[str]], Use | None]] = {
    "config": _config,
    "stash": _stash,
    "reflog": _reflog,
    "worktree": _worktree,
    "apply": _apply,
}


def _listing(flags: Flags, words: Sequence[str]) -> Use | None:
    """Branches and tags are only listed if nothing is named, or a listing flag is given."""
    valued = set(flags.long_valued.split()).difference(flags.long.split())
    own = [w for n, w in enumerate(words) if not n or words[n - 1] not in valued]  # flags and operands, without values
    named = [w for w in own if not w.startswith("-")]
    asked = {"-l", "--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at", "--show-current"}
    if "--" in words or any(w.startswith(UNKNOWN) for w in words):
        return None
    if named and asked.isdisjoint(w.partition("=")[0] for w in own):
        return None
    return read_flags(flags, words, permutes=True)


def subcommand_at(words: Sequence[str]) -> int:
    """Where git's own options end; `words` start with `git`."""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in _BEFORE_VALUED else 1
    return at


def without_git_options(words: Sequence[str]) -> tuple[str, ...]:
    """`git -C x -c a=b push` is a `git push`."""
    return (words[0], *words[subcommand_at(words) :])


def given_settings(words: Sequence[str]) -> list[tuple[str, str]]:
    """The settings in `git -c name=value`."""
    pairs = [(a, b) for a, b in pairwise(words) if a in ("-c", "--config-env")]
    told = [b.partition("=") for _, b in pairs] + [
        w[13:].partition("=") for w in words if w.startswith("--config-env=")
    ]
    return [(_lowered(name), value) for name, _, value in told]


def _lowered(name: str) -> str:
    """Normalises a name as git does: only the part between section and key keeps its case."""
    section, _, rest = name.partition(".")
    sub, point, key = rest.rpartition(".")
    return f"{section.lower()}.{sub}{point}{key.lower()}"


def makes_repository(path: str) -> bool:
    """If this file were written, could git take its directory for a repository?"""
    return path.rpartition("/")[2].lower() == "head"


def is_own_repository(cwd: str, roots: Sequence[str]) -> bool:
    """Is the repository that git would find here the project's own? A foreign one inside it has its own configuration,
    which can run programs."""
    place = Path(cwd)
    for directory in (place, *place.parents):
        if os.path.lexists(directory / ".git"):
            return any(root == str(directory) or Path(root).is_relative_to(directory) for root in roots)
        if os.path.lexists(directory / "HEAD"):
            return False  # perhaps a bare repository in disguise
    return True  # there is no repository, so git only reports that
