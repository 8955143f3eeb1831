"""Finds the beginning of a command, program and subcommand, that a person may sensibly allow with any arguments."""

import re
from collections.abc import Sequence
from itertools import pairwise

# Programs that run what the project itself defines (targets, tests, checks), whatever the arguments.
_WHOLE = frozenset(
    """
    make ninja ctest pytest mypy pyright basedpyright black isort flake8 pylint jest vitest eslint prettier tsc
    rspec rubocop phpunit shellcheck rustfmt gofmt
    """.split()
)
# Subcommands that build, check or record. Commands that publish, delete, discard, install or run what their words name
# (`git push`, `git checkout`, `npm install`, `go run`, `coverage run`) are only allowed word by word.
_SUBCOMMANDS = {
    "git": ("add", "commit", "mv"),
    "npm": ("run", "run-script", "test", "t", "ci"),
    "pnpm": ("run", "test"),
    "yarn": ("test", "build", "lint"),
    "bun": ("test",),
    "cargo": ("build", "check", "test", "clippy", "fmt", "bench", "doc", "nextest run"),
    "go": ("build", "test", "vet", "fmt", "mod tidy"),
    "ruff": ("check", "format"),
    "mvn": ("compile", "test", "verify", "package"),
    "gradle": ("build", "test", "check", "assemble"),
    "gradlew": ("build", "test", "check", "assemble"),
    "dotnet": ("build", "test", "format"),
    "swift": ("build", "test"),
    "mix": ("compile", "test", "format"),
    "rake": ("test", "spec"),
    "deno": ("test", "lint", "fmt", "check"),
    "terraform": ("fmt", "validate"),
}
_MODULES = frozenset(
    {"pytest", "unittest", "mypy", "pyright", "ruff", "black", "isort", "flake8", "pylint", "compileall"}
)
_RUNNERS = {"uv": "run", "poetry": "run", "pipenv": "run", "bundle": "exec"}  # they start the rest of the line as it is
_PYTHON = re.compile(r"python(3(\.\d+)?)?")

# They run code: that of a file or in their words, or else what they read.
INTERPRETERS = frozenset(
    """
    sh bash zsh dash ksh ash rbash fish csh tcsh pwsh python node nodejs deno bun perl ruby php lua luajit tclsh wish
    expect osascript irb ipython ghci groovy scala julia octave R Rscript parallel at batch
    """.split()
)
_READS = re.compile(r"-|-[a-zA-Z]*s[a-zA-Z]*|--stdin")  # even if a word follows
_STDIN = re.compile(r"/dev/(?:stdin|fd/0)|/proc/(?:self|thread-self)/fd/0")
_WITH_VALUE = frozenset(
    {"-o", "+o", "-O", "+O", "-W", "-X", "-I", "-r", "-C", "-d", "-l", "-t", "--require", "--import", "--rcfile"}
)
_VERSION = re.compile(r"[\d.]+$")
# No rule may allow these with any arguments: they run what their words name, send, or destroy.
_RUN_ANYTHING = INTERPRETERS | frozenset(
    """
    awk gawk sed sudo doas su env xargs eval exec source . command builtin timeout nice nohup time watch ssh scp rsync
    curl wget nc npx uvx uv poetry pipenv bundle docker podman kubectl rm rmdir shred dd mkfs find tee chmod chown kill
    pkill killall crontab systemctl launchctl
    """.split()
)


def runs_anything(word: str) -> bool:
    return bare_name(word) in _RUN_ANYTHING


def reads_code(words: Sequence[str]) -> bool:
    """Does it run the code that comes through its input, by itself or behind a program that starts it? A rule for such
    words would allow any code."""
    starts = range(len(words)) if words and runs_anything(words[0]) else range(min(1, len(words)))
    return any(_reads_code(words[n], words[n + 1 :]) for n in starts)


def _reads_code(program: str, rest: Sequence[str]) -> bool:
    if program in (".", "source"):
        return any(map(_STDIN.fullmatch, rest))
    if bare_name(program) not in INTERPRETERS:
        return False
    pairs = enumerate(pairwise((program, *rest)))
    named = next((n for n, (before, word) in pairs if word[:1] not in "-+" and before not in _WITH_VALUE), len(rest))
    return named == len(rest) or any(map(_READS.fullmatch, rest[:named])) or _STDIN.fullmatch(rest[named]) is not None


def bare_name(word: str) -> str:
    """The name without its version: `python3.12`."""
    name = word.rpartition("/")[2]
    return _VERSION.sub("", name) or name


def prefix_of(words: Sequence[str]) -> tuple[str, ...]:
    """The words that select what a command does, such as `npm run`; empty if no beginning is known to be harmless."""
    if not words:
        return ()
    name = words[0].rpartition("/")[2]
    if len(words) > 2 and _RUNNERS.get(name) == words[1]:
        inner = prefix_of(words[2:])
        return (*words[:2], *inner) if inner else ()
    if _PYTHON.fullmatch(name):
        return tuple(words[:3]) if len(words) > 2 and words[1] == "-m" and words[2] in _MODULES else ()
    return (words[0],) if name in _WHOLE else _with_subcommand(words, _SUBCOMMANDS.get(name, ()))


def _with_subcommand(words: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    for subcommand in known:
        chosen = subcommand.split()
        if list(words[1 : len(chosen) + 1]) == chosen:
            return (words[0], *chosen)
    return ()
