"""Sessions with the sandbox on, in each tier that works here."""

import functools
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conftest import Walk, Walker
from program import Program
from teamwright.core.data.event import ToolEnded
from teamwright.host.sandbox.tiers import find_tier
from teamwright.models.scripted import call

TIERS = ("bwrap", "landlock")
ON = {"enabled": True, "autoAllowBashIfSandboxed": True}


@functools.cache
def missing(tier: str) -> str:
    """Why this tier does not work here; empty if it does."""
    with tempfile.TemporaryDirectory() as place:
        return find_tier(Path(place), {"TEAMWRIGHT_SANDBOX": tier}).why


def need(tier: str) -> str:
    if why := missing(tier):
        if os.environ.get("TEAMWRIGHT_TEST_TIERS") == "all":
            pytest.fail(f"TEAMWRIGHT_TEST_TIERS=all, but {tier}: {why}", pytrace=False)
        pytest.skip(f"{tier}: {why}")
    return tier


def use(place: Walker | Program, tier: str) -> None:
    """Every session of this place uses that tier. The home contains a directory that nobody may write."""
    place.env["TEAMWRIGHT_SANDBOX"] = tier
    outside(place).parent.mkdir(exist_ok=True)


def outside(place: Walker | Program, name: str = "planted") -> Path:
    return place.home / "neighbour" / name


def run(command: str, **more: Any) -> Any:
    return call("Bash", command=command, **more)


def reach(place: Walker | Program, name: str = "planted") -> str:
    """A command line that leaves a mark in the project and tries to leave one outside; it never fails."""
    return f"touch in-{name}; echo x > {outside(place, name)}; true"


def fenced(place: Walker | Program, name: str = "planted") -> bool:
    """Did `reach` run, and inside?"""
    assert (place.project / f"in-{name}").exists(), f"{name} did not run"
    return not outside(place, name).exists()


def block(values: Any = None, **more: Any) -> str:
    """Settings as the command line takes them."""
    return json.dumps({"sandbox": ON | (values or {})} | more)


def settle(place: Walker | Program, source: str, **said: Any) -> None:
    """Write the settings of one source."""
    files = {
        "user": place.home / ".claude" / "settings.json",
        "project": place.project / ".claude" / "settings.json",
        "local": place.project / ".claude" / "settings.local.json",
    }
    files[source].parent.mkdir(exist_ok=True)
    files[source].write_text(json.dumps(said))


def data(walk: Walk) -> list[dict[str, Any]]:
    """What programs are told of each call, as JSON."""
    return [msgspec.json.decode(msgspec.json.encode(event.data)) for event in walk.of(ToolEnded)]


def log_of(place: Walker | Program) -> str:
    return (place.home / ".teamwright" / "logs" / "teamwright.log").read_text()
