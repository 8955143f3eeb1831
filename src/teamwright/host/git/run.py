"""Runs git by argv so that it never waits for a person, and reads basic facts of a repository."""

import os
import shutil
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from teamwright.core.errors import ToolError
from teamwright.core.text import shown
from teamwright.host.git.guard import guarding, refuse_elsewhere
from teamwright.host.git.program import HowToStart, Program
from teamwright.host.process.environment import holds_secret, tool_environment

MOST_OUT = 32 << 20
MOST_ERR = 16_000

# No hook, daemon or helper from the repository's configuration runs, and personal settings do not affect what we read.
# What a trusted repository may run in addition, filters and merge drivers, is in `guard`.
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.quotePath=false",
    "core.ignoreStat=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "status.showUntrackedFiles=all",
    "log.showSignature=false",
    "color.ui=false",
    "status.submoduleSummary=false",
    "safe.bareRepository=explicit",
)
_FRONT = (
    "--no-pager",
    "--literal-pathspecs",
    *(word for setting in _SETTINGS for word in ("-c", setting)),
)
_NOBODY_THERE = {"GIT_ASKPASS": "true", "SSH_ASKPASS": "true", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}

# Set if a git hook started us; they would point git to another repository than the directory's.
_ELSEWHERE = frozenset(
    {
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_COMMON_DIR",
        "GIT_NAMESPACE",
        "GIT_PREFIX",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_CONFIG_PARAMETERS",
        "GIT_CONFIG_COUNT",
    }
)


class Ran(Struct, frozen=True):
    """How git ended, and its output. Bytes that are not UTF-8 become surrogates, so that paths stay exact."""

    status: int
    out: str
    err: str
    cut: bool = False  # there was more output than we keep

    @property
    def complaint(self) -> str:
        """The line that says what went wrong, made safe for a screen."""
        lines = [line.strip() for line in self.err.splitlines() if line.strip()]
        wrong = [line for line in lines if line.startswith(("fatal:", "error:"))]
        how = f"exit status {self.status}" if self.status >= 0 else f"ended by signal {-self.status}"
        return shown((wrong or lines or [how])[0])


def _environment(cwd: Path, extra: Mapping[str, str], *, as_person: bool) -> dict[str, str]:
    if not as_person:
        return tool_environment(os.environ, _NOBODY_THERE | guarding(cwd) | dict(extra))
    # hooks must not see any keys, least of all ours
    kept = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE and not holds_secret(name)}
    return kept | tool_environment(os.environ, _NOBODY_THERE | dict(extra))


def quiet_command(args: Sequence[str], cwd: Path) -> tuple[list[str], dict[str, str]]:
    """Words and environment for a git that runs nothing from an untrusted repository and never waits for anybody."""
    return ["git", *_FRONT, *args], _environment(cwd, {}, as_person=False)


async def git(
    *args: str,
    cwd: Path,
    limit: float = 60,
    input: bytes | None = None,
    extra: Mapping[str, str] | None = None,
    held: int | None = None,
    source: int | None = None,
    sink: int | None = None,
    as_person: bool = False,
) -> Ran:
    """Runs git to its end, whatever its status; it is killed after `limit` seconds or if we are cancelled.

    `source` and `sink` are handles of files that git reads from and writes to at their current position, for data too
    large for memory.

    `held` is the handle of a lock that git inherits: if we are killed, the lock lasts until git has ended too.

    `as_person`: use the person's settings, hooks and environment; it still never waits for anybody.
    """
    env = _environment(cwd, extra or {}, as_person=as_person)
    front = ("--no-pager",) if as_person else _FRONT
    start = HowToStart(
        argv=(_find_git(env["PATH"]), *front, *args),
        cwd=cwd,
        env=env,
        input=input,
        source=source,
        sink=sink,
        handles=() if held is None else (held,),
    )
    program = Program(start, limit, most_out=MOST_OUT, most_err=MOST_ERR)
    try:
        await program.run()
    except (OSError, ValueError) as error:
        raise _not_started(error, cwd) from None
    if program.status is None:
        raise ToolError(f"git {args[0]} in {shown(str(cwd))} did not end within {limit:g} s and was stopped.")
    out, err = program.out, program.err
    return Ran(program.status, os.fsdecode(bytes(out.data)), err.data.decode(errors="replace"), out.cut)


def _not_started(error: Exception, cwd: Path) -> ToolError:
    if isinstance(error, FileNotFoundError) and str(error.filename) != str(cwd):
        return ToolError("git was not found on the PATH. Install git, or work without it.")
    why = getattr(error, "strerror", None) or error
    return ToolError(f"git could not be started in {shown(str(cwd))}: {why}.")


@lru_cache(16)
def _find_git(path: str) -> str:
    """Cached, because each lookup searches every directory in PATH."""
    return shutil.which("git", path=path) or "git"


async def git_text(
    *args: str,
    cwd: Path,
    limit: float = 60,
    input: bytes | None = None,
    extra: Mapping[str, str] | None = None,
    held: int | None = None,
) -> str:
    """Git's output; raises ToolError with git's own words if it fails."""
    ran = await git(*args, cwd=cwd, limit=limit, input=input, extra=extra, held=held)
    if ran.status or ran.cut:
        why = f"more than {MOST_OUT:,} bytes of output" if ran.cut else ran.complaint
        verb = next((word for word in args if not word.startswith("-")), "")
        raise ToolError(f"git {verb} failed in {shown(str(cwd))}: {why}")
    return ran.out


# --- the repository


class Checkout(Struct, frozen=True):
    """The repository of a directory. `top` is the main tree, even if `here` is a linked worktree."""

    top: Path
    here: Path
    common: Path  # the git directory shared by all worktrees
    head: str


async def locate(path: Path) -> Checkout:
    """The repository around this directory; it needs a working tree and a commit."""
    refuse_elsewhere(path)
    ran = await git(
        "rev-parse",
        "--path-format=absolute",
        "--show-toplevel",
        "--absolute-git-dir",
        "--git-common-dir",
        "HEAD^{commit}",
        cwd=path,
    )
    lines = ran.out.splitlines()
    where = shown(str(path))
    if ran.status and not lines:
        if "bare repository" in ran.err:
            raise ToolError(f"{where} is a bare repository, which has no files to work on. Use a clone of it.")
        raise ToolError(f"{where} is not in a git working tree, and this needs one ({ran.complaint}).")
    if ran.status:
        raise ToolError(
            f"The repository at {where} has no commit at its HEAD yet. Make a first commit, then try again."
        )
    if len(lines) != 4:
        raise ToolError(f"The path of the repository at {where} has a line break in it. Rename that directory.")
    here, private, common = map(Path, lines[:3])
    return Checkout(_main_top(here, private, common), here, common, lines[3])


def _main_top(here: Path, private: Path, common: Path) -> Path:
    if private == common:
        return here
    if common.name == ".git":
        return common.parent
    # For submodules, bare repositories with worktrees and separate git directories, git cannot name the main tree.
    return here.parents[2] if here.parts[-3:-1] == (".teamwright", "worktrees") else here


async def commit_of(name: str, *, cwd: Path) -> str | None:
    """The commit that a name refers to; None if there is none."""
    ran = await git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", cwd=cwd)
    return ran.out.strip() if ran.status == 0 else None


async def count_commits(tips: Sequence[str], base: str, *, cwd: Path) -> int:
    return int(await git_text("rev-list", "--count", *dict.fromkeys(tips), "--not", base, cwd=cwd))
