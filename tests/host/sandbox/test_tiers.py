"""Which tier applies: only one whose probe passed, and never another than the one that was asked for."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from box_kit import House, bwrap_program, miss, why_not

from teamwright.host.sandbox.tiers import SWITCH, find_bwrap, find_tier

pytest_plugins = ("box_fixtures",)  # no conftest here: its name would hide the one that all tests use

FAKE = """#!/bin/sh
# a bwrap that fences nothing
[ "$1" = --version ] && { echo bubblewrap 9.9; exit; }
while [ "$1" != -- ]; do shift; done
shift; exec "$@"
"""


@pytest.mark.spec("V2")
def test_a_tier_is_told_with_what_it_refused(tier: str, tmp_path: Path) -> None:
    if why := why_not(tier, "me"):
        miss(why)
    found = find_tier(tmp_path, {SWITCH: tier})
    assert found.tier == tier and found.why == "" and found.tried[0].passed
    for words in (tier, "write outside refused", "secret hidden", "network refused", ".git/config", " ms"):
        assert words in found.tried[0].words
    again = find_tier(tmp_path, {SWITCH: tier})
    assert again == found, "a probe that passed is remembered, its time with it"
    kept = json.loads((tmp_path / "cache/sandbox-probes.json").read_text())
    assert len(kept["passed"]) == 1 and (tmp_path / "cache/sandbox-probes.json").stat().st_mode & 0o077 == 0


@pytest.mark.spec("V2")
@pytest.mark.parametrize("wish", ["off", "nonsense", "BWRAP", "seatbelt", "bwrap,landlock"])
def test_what_was_not_found_is_none_and_never_another(wish: str, tmp_path: Path) -> None:
    if sys.platform == "darwin" and wish == "seatbelt":
        pytest.skip("it is there")
    found = find_tier(tmp_path, {SWITCH: wish})
    assert found.tier == "none" and found.why


@pytest.mark.spec("V2")
def test_a_bubblewrap_that_does_not_hold_does_not_pass(tmp_path: Path) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text(FAKE)
    fake.chmod(0o755)
    found = find_tier(tmp_path / "state", {SWITCH: "bwrap"}, bwrap_path=str(fake))
    assert found.tier == "none" and "outside" in found.why and "secret" in found.why and "network" in found.why
    assert not (tmp_path / "state/cache/sandbox-probes.json").exists()


@pytest.mark.spec("V2")
def test_a_program_that_others_can_change_is_not_taken(tmp_path: Path) -> None:
    fake = tmp_path / "p" / "bwrap"
    fake.parent.mkdir()
    fake.write_text(FAKE)
    fake.chmod(0o755)
    assert find_bwrap((), str(fake))[0] == str(fake)
    inside = find_bwrap((str(tmp_path / "p"),), str(fake))
    assert inside[0] != str(fake)
    (tmp_path / "link").symlink_to(fake)
    assert find_bwrap((str(tmp_path / "p"),), str(tmp_path / "link"))[0] != str(fake)
    fake.chmod(0o777)
    assert find_bwrap((), str(fake))[0] != str(fake)
    fake.chmod(0o644)
    assert find_bwrap((), str(fake))[0] != str(fake)
    if os.geteuid() == 0:
        fake.chmod(0o755)
        os.chown(fake, 65534, 65534)
        assert find_bwrap((), str(fake))[0] != str(fake)


@pytest.mark.spec("V2")
def test_a_bubblewrap_on_path_is_not_looked_for(tmp_path: Path) -> None:
    (tmp_path / "bwrap").write_text(FAKE)
    (tmp_path / "bwrap").chmod(0o755)
    script = "from teamwright.host.sandbox.tiers import find_bwrap; print(find_bwrap(())[0])"
    env = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=env, check=True).stdout
    assert said.strip() != str(tmp_path / "bwrap")


@pytest.mark.spec("V2")
def test_where_namespaces_are_forbidden_landlock_holds(namespaced: House) -> None:
    """As in a container: the filter of a box forbids namespaces and mounts to the programs inside."""
    if why := why_not("landlock", "me"):
        miss(why)
    script = f"""cat > find.py <<'END'
from pathlib import Path
from teamwright.host.sandbox.tiers import find_tier
found = find_tier(Path("state"), {{}}, every=True)
print(found.tier, *(f"{{one.tier}}={{one.passed}}" for one in found.tried))
END
{sys.executable} find.py"""
    told = namespaced.one(script)
    assert told.text == "landlock bwrap=False landlock=True\n" and bwrap_program()


@pytest.mark.spec("V25")
def test_without_the_sandbox_nothing_of_it_is_imported() -> None:
    script = """import sys, anyio, os
from pathlib import Path
import teamwright.host.process.bash as bash, teamwright.host.process.hook_process, teamwright.host.mcp.stdio_client
from teamwright.host.process.capture import Capture
env = {"PATH": os.environ["PATH"]}
anyio.run(lambda: bash.run_script(b"true", cwd=Path("/"), env=env, limit=20, capture=Capture()))
print([name for name in sys.modules if "host.sandbox" in name])"""
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert said == "[]\n"
