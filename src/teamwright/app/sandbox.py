"""The sandbox as settings, rules, flags and the machine make it. Nothing of it is imported while it is off."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from teamwright.app.options import Options
from teamwright.app.workspace import Workspace, has_sandbox, open_workspace
from teamwright.core.errors import DiskError, UsageError
from teamwright.core.permissions.rules import FETCH
from teamwright.core.text import shown
from teamwright.osfiles.private import make_dir, replace_file
from teamwright.store.files.paths import home_from
from teamwright.store.settings.sandbox import SandboxSettings
from teamwright.store.settings.saved_values import save_sandbox

if TYPE_CHECKING:
    from teamwright.app.services import Services
    from teamwright.core.ids import AgentId
    from teamwright.core.permissions.rules import Rule, Rules
    from teamwright.core.sandbox.rules import SandboxRules
    from teamwright.host.sandbox.tiers import Found
    from teamwright.runtime.sandbox.fence import SandboxPlan, SessionFence
    from teamwright.runtime.services import Put
    from teamwright.tools.shell.sandbox_words import SandboxWords

TIER = "sandbox"  # file of a session that holds the tier of its last opening
_OFFERED = "cache/sandbox-offered"  # exists once it was offered, so that later starts need not read settings
_PERSONS = ("user", "local", "flag", "managed", "session")  # whose rules may open something


class SandboxSetup(Struct, frozen=True):
    """The sandbox is on. `found` is the tier that holds, `none` if there is none."""

    found: "Found"
    settings: SandboxSettings
    auto_allow: bool
    strict: bool  # never ask about hosts
    leaves: bool  # a command may ask to leave it, and somebody answers
    domains: tuple[str, ...]  # allowed by the settings
    env: dict[str, str]  # the person's: a project can choose no tier, proxy, or programs that are shown again
    shut: tuple[str, ...] = ()  # working directories outside of the project that only the project names

    @property
    def holds(self) -> bool:
        return self.found.tier != "none"

    @property
    def words(self) -> "SandboxWords | None":
        """What models are told of it."""
        if not self.holds:
            return None
        from teamwright.tools.shell.sandbox_words import SandboxWords  # noqa: PLC0415

        own = self.found.tier == "bwrap"
        return SandboxWords(own, own, self.domains, asks=not self.strict, leaves=self.leaves)


def read_sandbox(options: Options, workspace: Workspace) -> SandboxSetup | None:
    """None: it is off. Raises UsageError if it is required and nothing can hold it."""
    settings = workspace.settings.sandbox
    values = settings.values
    if not has_sandbox(options, workspace):
        return None
    from teamwright.host.sandbox.tiers import find_tier  # noqa: PLC0415

    roots = (str(workspace.project), str(workspace.cwd))
    env = _persons_env(options, workspace)
    found = find_tier(workspace.home.root, env, roots, values.bwrap_path)
    asked = bool(options.can_ask or options.answer)
    setup = SandboxSetup(
        found,
        settings,
        auto_allow=(bool(options.sandbox) or values.auto_allow_bash_if_sandboxed) and not values.filesystem.disabled,
        strict=values.network.strict_allowlist or not asked,
        leaves=values.allow_unsandboxed_commands and asked,
        domains=(*settings.allowed_domains, *(settings.project_domains if workspace.trusted else ())),
        env=env,
        shut=_shut(options, workspace),
    )
    if not setup.holds and (why := _why_needed(options, workspace)):
        raise UsageError(
            f"the sandbox cannot be used ({found.why}), and {why}; `teamwright doctor` says what is missing"
        )
    return setup


def tier_of(options: Options, workspace: Workspace) -> str:
    """`off`, or the tier that a session would have here; `none` if nothing holds it. Blocks."""
    try:
        setup = read_sandbox(options, workspace)
    except UsageError:
        return "none"
    return "off" if setup is None else setup.found.tier


def _persons_env(options: Options, workspace: Workspace) -> dict[str, str]:
    env = dict(options.env)
    for layer in workspace.settings.layers:
        if layer.source in _PERSONS:
            env |= layer.values.get("env", {})
    return env


def _shut(options: Options, workspace: Workspace) -> tuple[str, ...]:
    """Like `allowWrite`: a project can open only what is inside of it."""
    project, user = workspace.project, workspace.user
    granted = {(workspace.cwd / one).resolve() for one in options.add_dirs}
    for layer in workspace.settings.layers:
        for text in layer.values.get("permissions", {}).get("additionalDirectories", ()):
            place = user / text[2:] if text == "~" or text.startswith("~/") else project / text
            if layer.source in _PERSONS:
                granted.add(place.resolve())
    named = (one.resolve() for one in workspace.settings.permissions.additional_directories)
    return tuple(str(one) for one in named if one not in granted and not one.is_relative_to(project.resolve()))


def _why_needed(options: Options, workspace: Workspace) -> str:
    settings = workspace.settings
    if settings.sandbox.values.fail_if_unavailable:
        return "sandbox.failIfUnavailable is set"
    mode = options.mode or settings.permissions.default_mode
    return (
        "nothing would be asked in bypassPermissions (use --no-sandbox to go without)"
        if (mode == "bypassPermissions")
        else ""
    )


def sandbox_notes(setup: SandboxSetup) -> Iterator[str]:
    """What the person should know: that nothing holds the sandbox, or that entries mean nothing."""
    from teamwright.core.sandbox.hosts import read_entry  # noqa: PLC0415

    if not setup.holds:
        yield (
            f"the sandbox is on, but nothing here can hold it ({setup.found.why}): commands run without it and need "
            "approval as ever; `teamwright doctor` says what is missing, --no-sandbox turns it off"
        )
    how = "write a name, `*.name` or an address, with `:port` if need be"
    for entry in setup.domains:
        if read_entry(entry) is None:
            yield f"sandbox.network.allowedDomains: {shown(entry, 100)!r} is not a host and allows nothing: {how}"
    for entry in setup.settings.values.network.denied_domains:
        if read_entry(entry, wide=True) is None:
            yield f"sandbox.network.deniedDomains: {shown(entry, 100)!r} is not a host and denies nothing: {how}"


def offered_tier(options: Options) -> str:
    """The tier that would hold here, if nobody has decided on the sandbox yet; else empty. Blocks. Raises ModelError if
    no model is set up."""
    if options.sandbox is not None or (home_from(options.env).root / _OFFERED).exists():
        return ""
    workspace = open_workspace(options)
    if any("enabled" in layer.values.get("sandbox", {}) for layer in workspace.settings.layers):
        return ""
    from teamwright.app.models import open_models  # noqa: PLC0415
    from teamwright.host.sandbox.tiers import find_tier  # noqa: PLC0415

    open_models(options, workspace)  # without a model nothing starts, so nothing is asked
    roots = (str(workspace.project), str(workspace.cwd))
    bwrap = workspace.settings.sandbox.values.bwrap_path
    tier = find_tier(workspace.home.root, _persons_env(options, workspace), roots, bwrap).tier
    return "" if tier == "none" else tier


def answer_offer(options: Options, *, on: bool) -> None:
    """Save the answer, for every directory. Raises TeamwrightError if the settings cannot be changed. Blocks."""
    state = home_from(options.env).root
    save_sandbox(state, on=on)
    make_dir((state / _OFFERED).parent)
    replace_file(state / _OFFERED, b"", synced=False)


def tier_change(directory: Path, status: Mapping[str, str | bool], *, resumed: bool) -> str:
    """What a person must know if the tier is not the one of the last time. Notes the tier for the next time."""
    now, file, before = str(status["tier"]) if status["enabled"] else "off", directory / TIER, "off"
    with suppress(OSError):
        before = file.read_text(errors="replace").strip()
    if before == now:
        return ""
    with suppress(OSError, DiskError):
        replace_file(file, f"{now}\n".encode(), synced=False)
    return f"the sandbox of this session was {shown(before, 40)} before, and is {now} now" if resumed else ""


def open_fence(services: "Services", setup: SandboxSetup) -> "SessionFence | None":
    if not setup.holds:
        return None
    from teamwright.runtime.sandbox.fence import SessionFence  # noqa: PLC0415

    files = services.store.files

    def rules(agent: "AgentId") -> "SandboxRules":
        return sandbox_rules(setup, services.extensions.rules_of(agent))

    brought = tuple(map(str, services.written.plugins_of_project))
    plan = plan_of(
        setup, services.workspace, rules, FencePlace(files.dir / "quarantine", (files.outputs, files.jobs), brought)
    )

    def find_approver() -> "Put | None":
        return services.approver

    return SessionFence(plan, services.main, find_approver, services.log)


class FencePlace(Struct, frozen=True):
    """Where a sandbox puts what it takes from programs, and where programs' outputs are."""

    quarantine: Path
    outputs: tuple[Path, ...]
    plugins: tuple[str, ...] = ()  # brought by the project


def plan_of(
    setup: SandboxSetup, workspace: Workspace, rules: "Callable[[AgentId], SandboxRules]", where: FencePlace
) -> "SandboxPlan":
    """For a tier that holds."""
    from teamwright.host.sandbox.box import Fence  # noqa: PLC0415
    from teamwright.host.sandbox.guard.claims import MADE  # noqa: PLC0415
    from teamwright.runtime.sandbox.fence import SandboxPlan  # noqa: PLC0415
    from teamwright.store.files.paths import slug  # noqa: PLC0415

    own, state, found, values = workspace.own.sandbox, workspace.home.root, setup.found, setup.settings.values
    place = state / "sandbox" / slug(workspace.project)
    return SandboxPlan(
        fence=Fence(found.tier, str(where.quarantine), str(state.joinpath(*MADE)), found.bwrap),
        words=next((one.words for one in found.tried if one.passed), ""),
        project=str(workspace.project),
        home=str(workspace.user),
        state=str(state),
        outputs=tuple(map(str, where.outputs)),
        cache=str(place / "cache") if own.caches else "",
        env=setup.env,
        shut=setup.shut,
        rules=rules,
        auto_allow=setup.auto_allow,
        may_leave=values.allow_unsandboxed_commands,
        hidden_variables=tuple(one.name for one in values.credentials.env_vars),
        http_proxy_port=values.network.http_proxy_port,
        brought=(str(workspace.project), *where.plugins),
        hooks=own.hooks,
        servers=own.servers,
    )


def sandbox_rules(setup: SandboxSetup, rules: "Rules") -> "SandboxRules":
    """The settings' own rules, and what permission rules say of paths and hosts."""
    from teamwright.core.permissions.rules import EDITING, READING, SHELL  # noqa: PLC0415
    from teamwright.core.sandbox.hosts import Hosts  # noqa: PLC0415
    from teamwright.core.sandbox.path_entry import PathEntry  # noqa: PLC0415
    from teamwright.core.sandbox.rules import SandboxRules  # noqa: PLC0415

    settings, values = setup.settings, setup.settings.values
    opened = [rule for rule in rules.allow if rule.source in _PERSONS]
    return SandboxRules(
        allow_write=(*settings.allow_write, *map(PathEntry, _paths(opened, EDITING))),
        deny_write=(*settings.deny_write, *_paths(rules.deny, EDITING)),
        deny_read=(*settings.deny_read, *_paths(rules.deny, READING)),
        allow_read=settings.allow_read,
        open_files=values.filesystem.disabled,
        hosts=Hosts(
            (*setup.domains, *_domains(opened)),
            (*values.network.denied_domains, *_domains(rules.deny)),
            ask=not setup.strict,
        ),
        sockets=settings.sockets,
        all_sockets=values.network.allow_all_unix_sockets,
        excluded=tuple(rule.pattern or "*" for rule in rules.outside if rule.tool in SHELL),
    )


def _paths(rules: Sequence["Rule"], tools: Sequence[str]) -> list[str]:
    from teamwright.core.sandbox.rules import rule_paths  # noqa: PLC0415

    return [path for tool in tools for path in rule_paths(rules, tool)]


def _domains(rules: Sequence["Rule"]) -> list[str]:
    written = [rule.pattern for rule in rules if rule.pattern is not None and rule.tool == FETCH]
    return [pattern.removeprefix("domain:") for pattern in written]
