"""Words for the shell of a box that verify each mount before anything runs.

bubblewrap finds places by name. A program already running in the same root can replace a name by a link at just that
moment; the box would then show a secret, or make an outside place writable.
"""

import os
import re
import shlex
from collections.abc import Iterator, Mapping

from teamwright.core.errors import ToolError
from teamwright.core.sandbox.policy import Access, Policy
from teamwright.host.sandbox.bwrap import MACHINE_TMP, has_own_tmp
from teamwright.host.sandbox.ground.expand import is_inside

_MOST_TEXT = 120_000  # characters per argument; the kernel accepts 131,072 bytes
_ODD = re.compile(r"[ \t\n\\]")
_MOVED = "The sandbox: a name in the working directory changed while the box was made. Nothing was run; try again."
# Uses no other program, and in bash no call per line, because every command pays for it. If a place is mounted twice,
# the later mount is on top and counts.
_CHECK = """_box() {{ local n=0 m= s= r p x IFS=
if [ -n "$BASH_VERSION" ]; then read -r -d '' m; else while read -r x; do m="$m$x
"; done; fi </proc/self/mountinfo
IFS='
'; set -f
for x in $m; do x=${{x#* * * }}; r=${{x%% *}}; x=${{x#* }}; p=${{x%% *}}; r=${{r%//deleted}}; case $p in
{cases}
*) continue;; esac
case $s in *" $p "*) return 1;; esac; s="$s $p "; n=$((n + 1)); done
set +f; [ "$n" -eq {count} ]; }}
_box || {{ echo {moved} >&2; exit 126; }}; unset -f _box; """
_BOUND = '{names}) [ "$r" = {root}"${{p#{place}}}" ] || return 1;;'
_CLOSED = '{names}) [ "$r" = {root}"${{p#{place}}}" ] || return 1; case $x in "$p ro"[,\\ ]*);; *) return 1;; esac;;'
_HIDDEN = "{names});;"
_CASES = {"write": _BOUND, "read": _CLOSED, "none": _HIDDEN}


def check_text(policy: Policy, mounts: str) -> str:
    """Empty if no program could have interfered with a mounted place. `mounts` is /proc/self/mountinfo outside the
    box."""
    known = _read(mounts)
    within = dict[str, Access](entry for entry in _in_reach(policy) if entry[0] not in known)
    if not within:  # programs cannot move the machine's own mounts
        return ""
    groups: dict[tuple[str, str, Access], list[str]] = {}
    for path, kind in within.items():
        place = max((one for one in known if is_inside(path, one)), key=len)
        groups.setdefault((place.rstrip("/"), known[place].rstrip("/"), kind), []).append(shlex.quote(path))
    cases = "\n".join(
        _CASES[kind].format(names="|".join(names), root=shlex.quote(root), place=shlex.quote(place))
        for (place, root, kind), names in groups.items()
    )
    text = _CHECK.format(cases=cases, count=len(within), moved=shlex.quote(_MOVED))
    if len(text) > _MOST_TEXT:
        raise ToolError(
            f"The sandbox cannot watch over {len(within)} names at once. Add a directory with fewer of them."
        )
    return text


def _in_reach(policy: Policy) -> Iterator[tuple[str, Access]]:
    """Mounted places below a place that programs can write, spelled as the kernel does."""
    mounted: dict[str, Access] = dict(policy.access)
    mounted.update((path, "none") for path in policy.masks)
    mounted.update((path, "write") for path in policy.sockets)
    written = [path for path, kind in mounted.items() if kind == "write"]
    if has_own_tmp(policy):
        written.append(os.path.realpath(MACHINE_TMP))  # mount points in there are in a place that programs can write
    for path, kind in sorted(mounted.items()):
        if path in ("/", policy.tmp) or (kind == "none" and not os.path.lexists(path)):
            continue
        if any(path != above and is_inside(path, above) for above in written):
            yield _ODD.sub(lambda found: f"\\{ord(found[0]):03o}", path), kind


def _read(mounts: str) -> Mapping[str, str]:
    """Mount point -> its root within the file system; later mounts are on top."""
    rows = (line.split(" ", 5) for line in mounts.splitlines())
    return {"/": "/"} | {row[4]: row[3] for row in rows}
