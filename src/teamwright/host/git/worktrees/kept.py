"""Lists the commits that a repository keeps under hidden refs: of removed worktrees, and of the landing queue."""

from pathlib import Path

from msgspec import Struct

from teamwright.core.text import shown
from teamwright.host.git.run import git_text

PLACES = ("refs/teamwright/kept/", "refs/teamwright/landing/")
_FORMAT = "%(refname)%00%(objectname)%00%(committerdate:unix)%00%(subject)"


class KeptCommit(Struct, frozen=True):
    ref: str
    commit: str
    at: int  # seconds since 1970
    subject: str


async def kept_commits(cwd: Path) -> list[KeptCommit]:
    """Oldest first."""
    told = await git_text("for-each-ref", "--sort=committerdate", f"--format={_FORMAT}", *PLACES, cwd=cwd)
    rows = [line.split("\0", 3) for line in told.split("\n") if line]
    return [KeptCommit(ref, commit, int(at or 0), shown(subject)) for ref, commit, at, subject in rows]
