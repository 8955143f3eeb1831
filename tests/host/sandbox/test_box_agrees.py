"""On random trees a real box does exactly what the map says, in each tier."""

import os
import tempfile
from pathlib import Path

import anyio
import pytest
from box_kit import bwrap_program, miss, why_not
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from teamwright.core.sandbox.policy import Access, Policy, access_of, holds
from teamwright.host.process.bash import run_script
from teamwright.host.process.capture import Capture
from teamwright.host.sandbox.box import Box, Fence

pytest_plugins = ("box_fixtures",)  # no conftest here: its name would hide the one that all tests use

NAMES = st.sampled_from(["a", "b", "c d", "é", "-x"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
ENTRIES = st.dictionaries(PATHS, st.sampled_from(["none", "read", "write"]), min_size=1, max_size=8)
LOOK = """while IFS= read -r f; do
  r=-; w=-; cat -- "$f" >/dev/null 2>&1 && r=r; : 2>/dev/null >> "$f" && w=w; echo "$r$w"
done < list"""
WANTED: dict[Access, str] = {"none": "--", "read": "r-", "write": "rw"}


def wanted(policy: Policy, tier: str, path: str) -> str:
    """Landlock puts back what is `read` below `write`; while the program runs, it can be written."""
    access = access_of(policy, path)
    if tier == "landlock" and access == "read":
        known = dict(policy.access)
        above = (str(one) for one in Path(path).parents)
        if any(known.get(one) == "write" for one in above):
            access = "write"
    return WANTED[access]


@pytest.mark.spec("V3", "V6")
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(entries=ENTRIES, files=st.lists(PATHS, min_size=1, max_size=8))
def test_a_box_does_what_the_map_says(tier: str, entries: dict[str, Access], files: list[str]) -> None:
    if why := why_not(tier, "me"):
        miss(why)
    place = next(one for one in ("/srv", str(Path.home())) if os.access(one, os.W_OK))
    with tempfile.TemporaryDirectory(dir=place) as made:
        base = Path(made).resolve()
        names = {f"{base}/tree/{path}" for path in (*entries, *files)}
        for name in names:
            Path(name).mkdir(parents=True, exist_ok=True)
            Path(name, "file").write_text("x")
        (base / "tree/file").write_text("x")
        (base / "list").write_text("".join(f"{name}/file\n" for name in sorted(names)))
        access: dict[str, Access] = {"/": "read", **{f"{base}/tree/{path}": kind for path, kind in entries.items()}}
        policy = Policy(tuple(sorted(access.items())))
        if holds(policy, "landlock") and tier == "landlock":
            return
        program = bwrap_program() if tier == "bwrap" else ""
        box = Box(Fence("bwrap" if tier == "bwrap" else "landlock", f"{base}/q", bwrap=program), policy)
        capture = Capture()

        async def look() -> None:
            env = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
            await run_script(LOOK.encode(), cwd=base, env=env, limit=60, capture=capture, box=box)

        anyio.run(look)
        told = dict(zip(sorted(names), capture.text().split(), strict=True))
        assert told == {name: wanted(policy, tier, f"{name}/file") for name in names}
