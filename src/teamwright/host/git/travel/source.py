"""A git remote reachable by both lead and workers: its address in a form that may travel, and how workers fetch from
it.

Credentials never travel. A worker uses its own, and so fetches only from addresses that its own person allows.
"""

import re
from collections.abc import Sequence

from teamwright.core.data.code import Upstream
from teamwright.core.errors import ToolError
from teamwright.core.text import shown
from teamwright.host.git.travel.bundle import is_whole
from teamwright.host.git.travel.repo import LONG, Repo

_SSH = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._-]*@[A-Za-z0-9][A-Za-z0-9.-]*:(?!-)[\w./~+-]+")  # git@host:path
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?|\[[0-9a-fA-F:]+\](:[0-9]{1,5})?")
_PATH = re.compile(r"/[\w./~+%-]*")
_NEVER = re.compile(r"[?#]|(\.|%2e){2}", re.IGNORECASE)  # queries, and `..` to escape what is allowed
_BRANCH = re.compile(r"refs/heads/[\w+-][\w./+-]*")
_FETCHED = "refs/teamwright/fetched"
_ALONE = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_SSH_VARIANT": "ssh",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
}
_SETTINGS = ("core.hooksPath=/dev/null", "fetch.fsckObjects=true", "gc.auto=0", "maintenance.auto=false")


def tame_url(url: str) -> str:
    """Removes the password, and for https also the user. Raises ToolError for an address that we would not fetch
    from."""
    scheme, mark, rest = url.partition("://")
    plain = url.isascii() and url.isprintable() and not _NEVER.search(url)
    if not mark and plain and (_SSH.fullmatch(url) or _PATH.fullmatch(url)):
        return url
    place, slash, path = rest.partition("/")
    if mark and plain and _PATH.fullmatch(slash + path):
        who, _, host = place.rpartition("@")
        user = who.partition(":")[0]
        if scheme == "file" and not place:
            return slash + path
        if scheme == "https" and _HOST.fullmatch(host):
            return f"https://{host}/{path}"
        if scheme == "ssh" and _HOST.fullmatch(host) and re.fullmatch(r"[\w.][\w.-]*|", user):
            return f"ssh://{user and f'{user}@'}{host}/{path}"
    raise ToolError(f"`{shown(_hidden(url), 200)}` is no git address that workers can fetch from: https:// or ssh is.")


def _hidden(url: str) -> str:
    """Removes what may be a password, which may contain any character, even `@` or `?`."""
    return re.sub(r"//.*@", "//", url, flags=re.DOTALL).partition("?")[0]


async def find_source(repo: Repo, remote: str, head: str) -> Upstream:
    """The lead's remote of this name, and a branch there that is known to have the commit."""
    ran = await repo.run("config", "--get", f"remote.{remote}.url")
    if ran.status or not ran.out.strip():
        raise ToolError(
            f"The definition says `remote: {{fetch: {shown(remote, 80)}}}`, and there is no such remote here."
        )
    below = f"refs/remotes/{remote}/"
    told = await repo.text("for-each-ref", "--contains", head, "--format=%(refname)", below, limit=LONG)
    names = [name.removeprefix(below) for name in told.split() if not name.endswith("/HEAD")]
    good = [f"refs/heads/{name}" for name in names if _is_branch(f"refs/heads/{name}")]
    if not good:
        raise ToolError(
            f"No branch of {shown(remote, 80)} is known to have the commit {head[:12]}, which workers are to fetch "
            "there. Push it, then try again."
        )
    return Upstream(tame_url(ran.out.strip()), good[0])


def _is_branch(name: str) -> bool:
    return bool(_BRANCH.fullmatch(name)) and ".." not in name and "//" not in name and not name.endswith((".", "/"))


def check_allowed(url: str, allowed: Sequence[str]) -> None:
    """Checks the worker's own settings: a full address, or a prefix ending in `/` or `:`."""
    for beginning in allowed:
        if url == beginning or (beginning.endswith(("/", ":")) and url.startswith(beginning)):
            return
    raise ToolError(
        f"The agent's code is to be fetched from {shown(url, 200)}, which this worker's own settings do not allow. Its "
        "person may add that address to `teamwright.engine.fetchFrom` there."
    )


async def fetch_from(repo: Repo, upstream: Upstream, base: str, allowed: Sequence[str]) -> None:
    """Fetches this commit with its history, checking each object. Uses the settings of this machine's person."""
    if tame_url(upstream.url) != upstream.url or not _is_branch(upstream.branch):
        raise ToolError(f"`{shown(_hidden(upstream.url), 200)}` is not an address that a lead would name.")
    check_allowed(upstream.url, allowed)
    kind = "file" if upstream.url.startswith("/") else "https" if upstream.url.startswith("https:") else "ssh"
    front = [word for setting in _SETTINGS for word in ("-c", setting)]
    words = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--refmap=", "--force")
    extra = _ALONE | {"GIT_ALLOW_PROTOCOL": kind, "GIT_DIR": repo.extra["GIT_DIR"]}
    plain = Repo(repo.cwd, extra, tuple(front))
    ran = await plain.run(
        "fetch", *words, "--", upstream.url, f"{upstream.branch}:{_FETCHED}", as_person=True, limit=LONG
    )
    if ran.status:
        raise ToolError(f"The code could not be fetched from {shown(upstream.url, 200)}: {ran.complaint}")
    if not await repo.has(base) or not await is_whole(repo, [base], []):
        raise ToolError(
            f"{shown(upstream.url, 200)} has no commit {base[:12]} any more on {shown(upstream.branch, 200)}."
        )
