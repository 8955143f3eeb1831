"""The `sandbox` block: its schema, what a project's file may say in it, and its paths made absolute."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from os.path import normpath
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from msgspec import Meta, Struct

from teamwright.core.sandbox.path_entry import PathEntry

Say = Callable[[str, str], None]
Where = Literal["project", "all", "none"]


class SandboxNetwork(Struct, frozen=True, rename="camel"):
    allowed_domains: tuple[str, ...] = ()
    denied_domains: tuple[str, ...] = ()
    strict_allowlist: bool = False
    allow_managed_domains_only: bool = False
    allow_unix_sockets: tuple[str, ...] = ()
    allow_all_unix_sockets: bool = False
    http_proxy_port: Annotated[int, Meta(ge=1, le=65535)] | None = None
    allow_local_binding: Any = None
    allow_mach_lookup: Any = None
    socks_proxy_port: Any = None
    tls_terminate: Any = None


class SandboxFiles(Struct, frozen=True, rename="camel"):
    allow_write: tuple[str, ...] = ()
    deny_write: tuple[str, ...] = ()
    deny_read: tuple[str, ...] = ()
    allow_read: tuple[str, ...] = ()
    allow_managed_read_paths_only: bool = False
    disabled: bool = False


class CredentialFile(Struct, frozen=True, rename="camel"):
    path: str
    mode: Literal["deny", "mask"] = "deny"


class CredentialVariable(Struct, frozen=True, rename="camel"):
    name: str
    mode: Literal["deny", "mask"] = "deny"


class SandboxCredentials(Struct, frozen=True, rename="camel"):
    files: tuple[CredentialFile, ...] = ()
    env_vars: tuple[CredentialVariable, ...] = ()


class SandboxPart(Struct, frozen=True, rename="camel"):
    """Names are those of the reference. Fields typed `Any` are read and have no effect here."""

    enabled: bool = False
    auto_allow_bash_if_sandboxed: bool = False
    fail_if_unavailable: bool = False
    allow_unsandboxed_commands: bool = True
    excluded_commands: tuple[str, ...] = ()
    filesystem: SandboxFiles = SandboxFiles()
    network: SandboxNetwork = SandboxNetwork()
    credentials: SandboxCredentials = SandboxCredentials()
    bwrap_path: str | None = None
    enable_weaker_nested_sandbox: Any = None
    enable_weaker_network_isolation: Any = None
    allow_nested_user_namespaces: Any = None
    allow_apple_events: Any = None
    ignore_violations: Any = None
    ripgrep: Any = None
    socat_path: Any = None


class OwnSandbox(Struct, frozen=True, rename="camel"):
    """`teamwright.sandbox`: whose hooks and servers run inside, and whether package managers get caches there."""

    hooks: Where = "project"
    servers: Where = "project"
    caches: bool = True


class SandboxSettings(Struct, frozen=True):
    """All sources together. Paths are absolute and may hold wildcards; `within` confines those of a project."""

    values: SandboxPart = SandboxPart()
    allow_write: tuple[PathEntry, ...] = ()
    allow_read: tuple[PathEntry, ...] = ()
    deny_write: tuple[str, ...] = ()
    deny_read: tuple[str, ...] = ()  # with `credentials.files`
    sockets: tuple[str, ...] = ()
    allowed_domains: tuple[str, ...] = ()  # except those that only a project names
    project_domains: tuple[str, ...] = ()  # named only by a project: they count once a person has seen them
    without_effect: tuple[str, ...] = ()  # names that are set but do nothing here


SANDBOX_PARTS: tuple[type[Struct], ...] = (SandboxPart, SandboxFiles, SandboxNetwork, SandboxCredentials)

# What a project may say: these values and these lists. Everything else in the block would open something.
_NARROWING: Mapping[str, Any] = {
    "enabled": True,
    "failIfUnavailable": True,
    "autoAllowBashIfSandboxed": False,
    "allowUnsandboxedCommands": False,
    "network.strictAllowlist": True,
}
_LISTS = frozenset(
    """
    filesystem.denyWrite filesystem.denyRead filesystem.allowWrite filesystem.allowRead
    network.allowedDomains network.deniedDomains credentials.files credentials.envVars
    """.split()
)
_HARMLESS = {"enableWeakerNestedSandbox": None, "filesystem.disabled": False, "network.allowAllUnixSockets": False}
_MANAGED_ONLY = ("bwrapPath", "network.allowManagedDomainsOnly", "filesystem.allowManagedReadPathsOnly")
_WITHOUT_EFFECT = frozenset(
    """
    network.allowLocalBinding network.allowMachLookup network.socksProxyPort network.tlsTerminate
    enableWeakerNestedSandbox enableWeakerNetworkIsolation allowNestedUserNamespaces allowAppleEvents
    ignoreViolations ripgrep socatPath
    """.split()
)


def narrow(values: dict[str, Any], source: str, say: Say) -> None:
    """Remove from one source's block what that source may not decide."""
    block: dict[str, Any] = values.get("sandbox", {})
    if source != "managed":
        for name in _MANAGED_ONLY:
            _take_out(block, name)
    if source == "local" and _take_out(block, "filesystem.disabled"):
        say("sandbox.filesystem.disabled", "only your own settings, the command line or a policy can say this")
    if source == "project":
        _narrow_block(block, say)
        _keep_inside(values.get("teamwright", {}).get("sandbox", {}), say)


def _narrow_block(block: dict[str, Any], say: Say) -> None:
    for name, value in list(_leaves(block)):
        if name in _LISTS or name in _WITHOUT_EFFECT or (name in _NARROWING and value == _NARROWING[name]):
            continue
        _take_out(block, name)
        if name not in _HARMLESS or value != _HARMLESS[name]:
            say(f"sandbox.{name}", "a project can only turn the sandbox on or make it stricter; ignored")


def _keep_inside(own: dict[str, Any], say: Say) -> None:
    for name in ("hooks", "servers"):
        if own.get(name) == "none":
            say(f"teamwright.sandbox.{name}", "a project cannot take its own programs out of the sandbox; ignored")
            del own[name]


def combine(
    part: SandboxPart, layers: Iterable[tuple[str, Mapping[str, Any]]], project: Path, home: Path
) -> SandboxSettings:
    """The merged block, with its paths by source; `layers` are (source, values), lowest first."""
    blocks = [(source, values["sandbox"]) for source, values in layers if values.get("sandbox")]
    lists = _Lists(blocks, project, home)
    files = [(source, one["path"]) for source, one in lists.under("credentials", "files")]
    domains = lists.under("network", "allowedDomains")
    ours, theirs = _domains(domains, managed_only=part.network.allow_managed_domains_only)
    names = {name for _, block in blocks for name, _ in _leaves(block)}
    return SandboxSettings(
        values=part,
        allow_write=lists.entries("allowWrite"),
        allow_read=lists.entries("allowRead", managed_only=part.filesystem.allow_managed_read_paths_only),
        deny_write=lists.paths(lists.under("filesystem", "denyWrite")),
        deny_read=(*lists.paths(lists.under("filesystem", "denyRead")), *lists.paths(files)),
        sockets=lists.paths(lists.under("network", "allowUnixSockets")),
        allowed_domains=ours,
        project_domains=theirs,
        without_effect=tuple(sorted(f"sandbox.{name}" for name in names & _WITHOUT_EFFECT)),
    )


class _Lists(Struct, frozen=True):
    """The lists of all blocks by source; relative paths start at `project` or `home`."""

    blocks: Sequence[tuple[str, Mapping[str, Any]]]
    project: Path
    home: Path

    def under(self, part: str, name: str) -> list[tuple[str, Any]]:
        return [(source, one) for source, block in self.blocks for one in block.get(part, {}).get(name, ())]

    def paths(self, named: Iterable[tuple[str, str]]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(_absolute(text, source, self.project, self.home) for source, text in named))

    def entries(self, name: str, *, managed_only: bool = False) -> tuple[PathEntry, ...]:
        found = [
            PathEntry(
                _absolute(text, source, self.project, self.home), str(self.project) if source == "project" else ""
            )
            for source, text in self.under("filesystem", name)
            if source == "managed" or not managed_only
        ]
        return tuple(dict.fromkeys(found))


def _domains(named: Sequence[tuple[str, str]], *, managed_only: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The domains that count, and those that only a project names."""
    only = ("managed",) if managed_only else ("user", "local", "flag", "managed")
    ours = dict.fromkeys(one for source, one in named if source in only)
    theirs = dict.fromkeys(one for source, one in named if source == "project" and one not in ours)
    return tuple(ours), () if managed_only else tuple(theirs)


def _absolute(text: str, source: str, project: Path, home: Path) -> str:
    """`/a` and `//a` are from the root, `~/a` from home; others from the project or, in the person's own file, from
    home."""
    if text == "~" or text.startswith("~/"):
        return normpath(home / text[2:])
    if text.startswith("/"):
        return normpath("/" + text.lstrip("/"))
    return normpath((home if source == "user" else project) / text)


def _leaves(block: Mapping[str, Any], above: str = "") -> Iterable[tuple[str, Any]]:
    """Dotted names in the block, without looking into parts that have no effect."""
    for name, value in block.items():
        where = f"{above}{name}"
        if isinstance(value, dict) and where in ("filesystem", "network", "credentials"):
            yield from _leaves(cast("dict[str, Any]", value), f"{where}.")
        else:
            yield where, value


def _take_out(block: dict[str, Any], name: str) -> bool:
    above, _, last = name.rpartition(".")
    part: dict[str, Any] = block.get(above, {}) if above else block
    return part.pop(last, None) not in (None, False)
