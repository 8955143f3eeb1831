"""The `sandbox` block: every name loads, sources are merged, and a project can only make it stricter."""

import json
from pathlib import Path
from typing import Any

import pytest
from test_settings import House

from teamwright.core.sandbox.path_entry import PathEntry
from teamwright.store.settings.schema import Settings, Source

WHOLE: dict[str, Any] = {
    "enabled": True,
    "failIfUnavailable": True,
    "autoAllowBashIfSandboxed": True,
    "allowUnsandboxedCommands": False,
    "excludedCommands": ["docker *"],
    "ignoreViolations": {"*": ["/x"]},
    "enableWeakerNestedSandbox": False,
    "enableWeakerNetworkIsolation": False,
    "allowNestedUserNamespaces": False,
    "allowAppleEvents": False,
    "ripgrep": {"command": "rg", "args": []},
    "socatPath": "/usr/bin/socat",
    "bwrapPath": "/opt/bwrap",
    "network": {
        "allowedDomains": ["*.example.com"],
        "deniedDomains": ["bad.example.com"],
        "strictAllowlist": True,
        "allowManagedDomainsOnly": False,
        "allowUnixSockets": ["~/a.sock"],
        "allowAllUnixSockets": False,
        "allowLocalBinding": True,
        "allowMachLookup": [],
        "httpProxyPort": 8080,
        "socksProxyPort": 1080,
        "tlsTerminate": {},
    },
    "filesystem": {
        "allowWrite": ["~/w", "//abs", "/one", "./here", "there"],
        "denyWrite": ["./closed"],
        "denyRead": ["~/secret"],
        "allowRead": ["~/secret/part"],
        "allowManagedReadPathsOnly": False,
        "disabled": False,
    },
    "credentials": {
        "files": [{"path": "~/k", "mode": "mask"}],
        "envVars": [{"name": "X", "mode": "deny"}],
        "inject": {"anything": 1},
    },
}


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def placed(house: House, source: Source, block: Any, **own: Any) -> Settings:
    places = {
        "user": house.state / "settings.json",
        "project": house.project / ".claude" / "settings.json",
        "local": house.project / ".claude" / "settings.local.json",
        "managed": house.managed,
    }
    said = {"sandbox": block} | ({"teamwright": {"sandbox": own}} if own else {})
    if source == "flag":
        return house.load(flag=json.dumps(said))
    house.write(places[source], said)
    return house.load()


@pytest.mark.spec("V22")
def test_every_name_of_the_reference_loads_without_complaint(house: House) -> None:
    settings = placed(house, "user", WHOLE)
    found = settings.sandbox
    assert settings.problems == ()
    assert (found.values.enabled, found.values.auto_allow_bash_if_sandboxed) == (True, True)
    assert found.values.excluded_commands == ("docker *",) and found.values.network.http_proxy_port == 8080
    assert found.allowed_domains == ("*.example.com",) and found.sockets == (str(house.home / "a.sock"),)
    assert found.deny_read == (str(house.home / "secret"), str(house.home / "k"))
    assert {one.name for one in found.values.credentials.env_vars} == {"X"}
    assert len(found.without_effect) == 11 and "sandbox.network.tlsTerminate" in found.without_effect


@pytest.mark.spec("V22")
@pytest.mark.parametrize("source", ["user", "flag"])
def test_paths_are_absolute_by_the_source_that_wrote_them(house: House, source: Source) -> None:
    base = house.home if source == "user" else house.project
    written = placed(house, source, WHOLE).sandbox.allow_write
    wanted = [house.home / "w", Path("/abs"), Path("/one"), base / "here", base / "there"]
    assert written == tuple(PathEntry(str(path)) for path in wanted)


@pytest.mark.spec("V22")
def test_nothing_is_on_by_default(house: House) -> None:
    found = house.load().sandbox.values
    assert (found.enabled, found.auto_allow_bash_if_sandboxed, found.allow_unsandboxed_commands) == (False, False, True)


ON = {"enabled": True, "autoAllowBashIfSandboxed": True, "failIfUnavailable": True}
LOOSER: list[dict[str, Any]] = [
    {"enabled": False},
    {"failIfUnavailable": False},
    {"excludedCommands": ["*"]},
    {"filesystem": {"disabled": True}},
    {"network": {"allowUnixSockets": ["/run/docker.sock"]}},
    {"network": {"allowAllUnixSockets": True}},
    {"network": {"httpProxyPort": 1}},
    {"bwrapPath": "./bwrap"},
    {"network": {"strictAllowlist": False}},
]


@pytest.mark.spec("V22")
@pytest.mark.parametrize("block", LOOSER, ids=json.dumps)
def test_a_project_cannot_loosen_anything(house: House, block: dict[str, Any]) -> None:
    before = placed(house, "user", ON).sandbox
    after = placed(house, "project", block).sandbox
    assert (after.values, after.sockets) == (before.values, before.sockets)


@pytest.mark.spec("V22")
def test_a_project_cannot_make_commands_run_unasked(house: House) -> None:
    settings = placed(house, "project", {"enabled": True, "autoAllowBashIfSandboxed": True})
    assert settings.sandbox.values.enabled and not settings.sandbox.values.auto_allow_bash_if_sandboxed
    assert any("autoAllowBashIfSandboxed" in problem for problem in settings.problems)


@pytest.mark.spec("V22")
def test_a_project_can_turn_on_and_narrow(house: House) -> None:
    placed(house, "user", {"autoAllowBashIfSandboxed": True})
    narrower = {
        "enabled": True,
        "autoAllowBashIfSandboxed": False,
        "allowUnsandboxedCommands": False,
        "filesystem": {"denyRead": ["./keys"], "denyWrite": ["closed"], "allowWrite": ["/", "build"]},
        "network": {"deniedDomains": ["x"], "strictAllowlist": True, "allowedDomains": ["y"]},
    }
    settings = placed(house, "project", narrower)
    found = settings.sandbox
    assert settings.problems == () and found.values.enabled and not found.values.auto_allow_bash_if_sandboxed
    assert not found.values.allow_unsandboxed_commands and found.values.network.strict_allowlist
    assert found.deny_read == (str(house.project / "keys"),) and found.deny_write == (str(house.project / "closed"),)
    assert {entry.within for entry in found.allow_write} == {str(house.project)}, "the machine confines them"
    assert found.allowed_domains == () and found.project_domains == ("y",)


@pytest.mark.spec("V22")
def test_the_local_file_is_the_persons(house: House) -> None:
    placed(house, "project", {"enabled": True})
    found = placed(house, "local", {"enabled": False, "excludedCommands": ["make *"], "filesystem": {"disabled": True}})
    assert not found.sandbox.values.enabled and found.sandbox.values.excluded_commands == ("make *",)
    assert not found.sandbox.values.filesystem.disabled, "files unfenced: only where no repository can put it"


@pytest.mark.spec("V22")
def test_a_policy_can_allow_its_own_domains_and_paths_alone(house: House) -> None:
    placed(house, "user", {"network": {"allowedDomains": ["a"]}, "filesystem": {"allowRead": ["/a"]}})
    placed(house, "project", {"network": {"allowedDomains": ["b"]}})
    only = {"network": {"allowManagedDomainsOnly": True, "allowedDomains": ["c"]}}
    only["filesystem"] = {"allowManagedReadPathsOnly": True, "allowRead": ["/c"]}
    found = placed(house, "managed", only | {"bwrapPath": "/opt/bwrap"}).sandbox
    assert found.allowed_domains == ("c",) and found.project_domains == ()
    assert found.allow_read == (PathEntry("/c"),) and found.values.bwrap_path == "/opt/bwrap"
    assert placed(house, "user", {"bwrapPath": "/x"}).sandbox.values.bwrap_path == "/opt/bwrap"


@pytest.mark.spec("V18", "V22")
def test_a_project_cannot_take_its_own_hooks_and_servers_out(house: House) -> None:
    own = placed(house, "project", {}, hooks="none", servers="all", caches=False).own.sandbox
    assert (own.hooks, own.servers, own.caches) == ("project", "all", False)
    assert placed(house, "local", {}, hooks="none").own.sandbox.hooks == "none"


@pytest.mark.spec("V22")
def test_what_does_not_fit_is_told_and_the_rest_counts(house: House) -> None:
    settings = placed(house, "user", {"enabled": "yes", "filesystem": [], "network": {"deniedDomains": ["x", 1]}})
    assert len(settings.problems) == 3 and not settings.sandbox.values.enabled
    assert settings.sandbox.values.network.denied_domains == ("x",)
