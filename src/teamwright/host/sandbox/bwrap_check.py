"""Words for the shell of a box, with which it makes sure that each mount is where it belongs before anything runs.

bubblewrap finds places by their names. A program that runs already in the same root can exchange a name in there for a
link at that very moment: then a secret would be shown, or a place outside bound for writing.
"""

import re
import shlex
from collections.abc import Iterator, Mapping

from teamwright.core.errors import ToolError
from teamwright.core.sandbox.policy import Policy

_MOST_TEXT = 120_000  # of one argument; the kernel takes 131,072 bytes
_ODD = re.compile(r"[ \t\n\\]")
_MOVED = "The sandbox: a name in the working directory changed while the box was made. Nothing was run; try again."
# Without another program, and in bash without a call for each line: it is paid before every command.
_CHECK = """_box() {{ local n=0 m= r p x IFS=
if [ -n "$BASH_VERSION" ]; then read -r -d '' m; else while read -r x; do m="$m$x
"; done; fi </proc/self/mountinfo
IFS='
'; set -f
for x in $m; do x=${{x#* * * }}; r=${{x%% *}}; x=${{x#* }}; p=${{x%% *}}; r=${{r%//deleted}}; case $p in
{cases}
esac; done
set +f; [ "$n" -ge {count} ]; }}
_box || {{ echo {moved} >&2; exit 126; }}; unset -f _box; """
_CASE = '{names}) [ "$r" != {root}"${{p#{place}}}" ] || n=$((n + 1));;'


def check_text(policy: Policy, mounts: str) -> str:
    """Empty where no program could have been at a place that is mounted. `mounts`: /proc/self/mountinfo out here."""
    known = _read(mounts)
    within = [path for path in _in_reach(policy) if path not in known]  # no program moves a mount of the machine
    if not within:
        return ""
    groups: dict[tuple[str, str], list[str]] = {}
    for path in within:
        place = max((one for one in known if _is_below(path, one)), key=len)
        groups.setdefault((place.rstrip("/"), known[place].rstrip("/")), []).append(shlex.quote(path))
    cases = "\n".join(
        _CASE.format(names="|".join(names), root=shlex.quote(root), place=shlex.quote(place))
        for (place, root), names in groups.items()
    )
    text = _CHECK.format(cases=cases, count=len(within), moved=shlex.quote(_MOVED))
    if len(text) > _MOST_TEXT:
        raise ToolError(
            f"The sandbox cannot watch over {len(within)} names at once. Add a directory with fewer of them."
        )
    return text


def _in_reach(policy: Policy) -> Iterator[str]:
    """Places that are bound, below one in which programs write; as the kernel writes them."""
    bound = [(path, kind) for path, kind in policy.access if kind != "none" and path != "/"]
    written = [path for path, kind in bound if kind == "write"]
    for path in sorted({*(path for path, _ in bound), *policy.sockets} - {policy.tmp}):
        if any(path != above and _is_below(path, above) for above in written):
            yield _ODD.sub(lambda found: f"\\{ord(found[0]):03o}", path)


def _is_below(path: str, above: str) -> bool:
    return path == above or path.startswith(above.rstrip("/") + "/")


def _read(mounts: str) -> Mapping[str, str]:
    """By mount point, what of its file system is there; the last one lies on top."""
    rows = (line.split(" ", 5) for line in mounts.splitlines())
    return {"/": "/"} | {row[4]: row[3] for row in rows}
