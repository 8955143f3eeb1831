"""Workspace of a session: its directories, settings, trust and rules."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from teamwright.app.options import Options
from teamwright.core.errors import SettingsError, UsageError
from teamwright.core.permissions.rules import Rule, Rules, parse_rules
from teamwright.core.text import MOST_DIGITS, shown, whole_number
from teamwright.host.git.places import top_of
from teamwright.host.process.secrecy import keep_also
from teamwright.library.trust import decision as trust
from teamwright.runtime.permissions.rulebook import Rulebook
from teamwright.store.files.paths import Home, home_from
from teamwright.store.settings.load import ReadFiles, load, project_root
from teamwright.store.settings.schema import LOCAL, Own, Settings, SettingsRule

if TYPE_CHECKING:
    from teamwright.library.trust.snapshot import TrustChange, TrustedFile

KEYS = frozenset({"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS", "OPENAI_API_KEY"})
NUMBERS = {"TEAMWRIGHT_MAX_RETRIES": 0, "TEAMWRIGHT_MAX_AGENTS": 1}  # limits in the environment, and the least of each
_ADDRESSES = frozenset({"ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"})


class Workspace(Struct, frozen=True):
    """The directories, settings and trust of a session, and what the person should be told about them."""

    cwd: Path
    project: Path
    user: Path
    home: Home
    env: dict[str, str]
    settings: Settings
    own: Own  # settings of this program only
    trusted: bool
    notes: tuple[str, ...]
    changed: "tuple[TrustChange, ...]" = ()  # since it was trusted
    own_files: tuple[str, ...] = ()  # the person's own files in an untrusted directory


def without_keys(workspace: Workspace, text: str) -> str:
    """Remove what the environment and the settings name as secret, so that text can be written down."""
    from teamwright.core.policies.redaction import redacted, secrets_of, withheld  # noqa: PLC0415  # its patterns take a while

    hidden = withheld([layer.values for layer in workspace.settings.layers])
    return redacted(text, [*secrets_of(workspace.env), *hidden])


def passed_names(workspace: Workspace) -> list[str]:
    """Variables of the settings that commands of agents and hooks see; never our own keys, nor those of telemetry."""
    named = workspace.settings.env.items()
    return [n for n, value in named if not _is_our_key(workspace, n, value) and not n.startswith("OTEL_")]


def _is_our_key(workspace: Workspace, name: str, value: str) -> bool:
    """Whether a variable holds a key of ours, or a provider's address with a key in it."""
    holds_key = name in _ADDRESSES and ("@" in value or "?" in value)
    return name in KEYS or name in key_names(workspace.settings) or holds_key


def key_names(settings: Settings) -> tuple[str, ...]:
    """Variables with keys of the providers and of the search engine that the settings name."""
    own, search = settings.own, settings.own.web_search
    names = (*(p.key_env for p in own.providers.values()), search and search.key_name)
    return tuple(name for name in names if name)


def open_workspace(options: Options) -> Workspace:
    """Read settings and trust. Nothing in an untrusted directory is obeyed."""
    cwd = options.cwd.resolve()
    if not cwd.is_dir():
        raise UsageError(f"{options.cwd} is not a directory")
    for directory in options.add_dirs:
        if not (cwd / directory).is_dir():
            raise UsageError(f"--add-dir {directory} is not a directory")
    home, user = home_from(options.env), Path(options.env.get("HOME") or Path.home())
    project = project_root(cwd, user)

    read: ReadFiles = {}
    own = load(project, home=user, state=home.root, trusted=False, sources=("user",), read=read)
    mine = trust.own_places(project, user=user, state=home.root)
    trusted, changed, own_files = _trusted(options, own, home, project, cwd, mine)
    settings = load(
        project,
        home=user,
        state=home.root,
        trusted=trusted,
        flag=options.settings,
        cwd=cwd,
        sources=options.setting_sources,
        read=read,
        own_rules=LOCAL in own_files,
    )
    missing = [d for d in settings.permissions.additional_directories if not d.is_dir()]
    notes = [f"the settings name {d} as a working directory, but there is no such directory" for d in missing]
    some = any(os.path.lexists(project / name) for name in trust.PLACES)
    if not trusted and (some or changed or own.trusted_directories):
        notes += _untrusted_notes(project, own, changed, own_files)
    env = {**options.env, **settings.env}
    if settings.layers:
        keep_also(key_names(settings))
    told = (*settings.problems, *notes)
    return Workspace(cwd, project, user, home, env, settings, settings.own, trusted, told, changed, own_files)


def _untrusted_notes(
    project: Path, own: Settings, changed: "tuple[TrustChange, ...]", own_files: tuple[str, ...]
) -> Iterator[str]:
    if entry := trust.only_linked(project, own.trusted_directories):
        yield (
            f"teamwright.trustedDirectories: {shown(str(entry))} is, or leads through, a link, so it trusts nothing. "
            f"If you mean {shown(str(project))}, write that."
        )
    if line := trust.untrusted_line(replace(trust.what_would_run(project, own_files), changes=changed)):
        yield line


def _trusted(
    options: Options, own: Settings, home: Home, project: Path, cwd: Path, mine: tuple[str, ...]
) -> "tuple[bool, tuple[TrustChange, ...], tuple[str, ...]]":
    """Whether it is trusted, what has changed since, and which files are the person's own if it is not trusted.

    A remembered yes covers what the person saw: anything new or different waits until they are asked.
    """
    listed = own.trusted_directories
    if options.trust or (listed and trust.is_granted(project, listed=listed)):
        return True, (), ()
    changed: tuple[TrustChange, ...] = ()
    if os.path.lexists(home.root / trust.RECORDS) and trust.is_remembered(project, state=home.root):
        from teamwright.library.trust.snapshot import changes  # noqa: PLC0415

        changed = changes(project, cwd, state=home.root, git=git_programs, own=mine)
        if not changed:
            return True, (), ()
    if not os.path.lexists(project / LOCAL):
        return False, changed, mine
    from teamwright.library.trust.snapshot import is_agreed  # noqa: PLC0415

    return False, changed, (*mine, LOCAL) if is_agreed(project, LOCAL, state=home.root) else mine


def tell_git(workspace: Workspace) -> None:
    """Decide whether our own git may run the filters that this repository names. Trust in a directory inside a
    repository does not cover the repository, whose configuration is above."""
    top = top_of(str(workspace.project))
    if not top:
        return
    from teamwright.host.git.guard import trust_repository  # noqa: PLC0415

    listed, trusted = workspace.settings.trusted_directories, workspace.trusted
    if Path(top) != workspace.project:
        trusted = trust.is_trusted(Path(top), state=workspace.home.root, listed=listed)
    trust_repository(workspace.project, trusted=trusted)


def git_programs(project: Path) -> tuple[str, ...]:
    """What the git configuration would run: `name = value` for each such setting, or its name alone without a value."""
    from teamwright.host.git.config import local_settings, programs  # noqa: PLC0415  # only where a yes is remembered
    from teamwright.host.git.config_file import UnreadableError  # noqa: PLC0415

    names = programs(str(project))
    if not names:
        return ()
    values: dict[str, list[str]] = {}
    try:
        for name, value in local_settings(str(project)):
            values.setdefault(name, []).append(value or "")
    except UnreadableError:
        values.clear()  # the names are enough
    lines = [(name, values.get(name, ())) for name in names]
    return tuple(line for name, found in lines for line in ([f"{name} = {value}" for value in found] or [name]))


def started_files(workspace: Workspace) -> tuple[str, ...]:
    """Files of the project that its settings start (hooks, servers, a status line): changing one changes what runs."""
    from teamwright.library.jsonfile import MOST_JSON  # noqa: PLC0415
    from teamwright.osfiles.reading import read_plain  # noqa: PLC0415

    if not workspace.trusted:
        return ()
    layers = workspace.settings.layers
    values = [{kind: layer.values.get(kind) for kind in ("hooks", "mcp", "lsp", "statusLine")} for layer in layers]
    values += [{"land": layer.values.get("teamwright", {}).get("land")} for layer in layers]
    servers = b""
    with suppress(SettingsError):
        servers = read_plain(workspace.project / ".mcp.json", MOST_JSON) or b""
    if not servers and not any(part for value in values for part in value.values()):
        return ()
    from teamwright.library.trust.scripts import named_files  # noqa: PLC0415
    from teamwright.library.trust.settings_text import settings_text, started  # noqa: PLC0415

    lines = [*(line for value in values for line in started(value)), *settings_text(servers)[2]]
    named = named_files(lines, workspace.project, [workspace.cwd])
    return tuple(str(workspace.project / name) for name in named.files)


def look_around(workspace: Workspace) -> "tuple[trust.TrustContents, dict[str, TrustedFile]]":
    """All that the person is asked about, line by line, and the files as they are at that moment."""
    from teamwright.app.brought.trust_table import trust_table  # noqa: PLC0415  # which needs the workspace
    from teamwright.library.trust.contents import contents  # noqa: PLC0415
    from teamwright.library.trust.snapshot import GIT, compare, look  # noqa: PLC0415

    mine = trust.own_places(workspace.project, user=workspace.user, state=workspace.home.root)
    files = look(workspace.project, workspace.cwd, git=git_programs, own=mine)
    changed = compare(workspace.project, files, state=workspace.home.root) if workspace.changed else ()
    lines = files[GIT].commands or () if GIT in files else ()
    asked = {name: file for name, file in files.items() if name not in workspace.own_files}
    parts = contents(workspace.project, asked, lines)
    table = trust_table(workspace) if parts else None
    parts = (table, *parts) if table else parts
    found = trust.what_would_run(workspace.project, workspace.own_files)
    return replace(found, parts=parts, changes=changed), files


def check_numbers(env: Mapping[str, str]) -> None:
    """Raises UsageError for a limit in the environment that is no number; an empty one counts as unset."""
    for name, least in NUMBERS.items():
        said = env.get(name) or str(least)
        number = whole_number(said)
        if number is None or number < least:
            most = 10**MOST_DIGITS - 1
            raise UsageError(f"{name} is {shown(said, 80)!r}: it must be a whole number from {least} to {most:,}.")


def names_engine(options: Options, workspace: Workspace) -> bool:
    """Whether the session is in an engine. A project has no say in that."""
    return bool(options.engine or options.env.get("TEAMWRIGHT_ENGINE") or workspace.own.engine.url)


def has_sandbox(options: Options, workspace: Workspace) -> bool:
    """Whether it is turned on. Whether anything here can hold it is another question."""
    return workspace.settings.sandbox.values.enabled if options.sandbox is None else options.sandbox


def read_rules(options: Options, workspace: Workspace) -> tuple[Rulebook, list[str]]:
    """Rules of the settings and the command line, and faults in them. Raises UsageError if a rule typed for this run
    that forbids or asks cannot be read: without it more would be allowed."""
    base, home = str(workspace.project), str(workspace.user.resolve())
    problems: list[str] = []

    def read(said: Iterable[SettingsRule], flags: Sequence[str] = (), *, guards: bool = False) -> tuple[Rule, ...]:
        parsed = [parse_rules([r.text], r.source, base, home) for r in said] + [parse_rules(flags, "flag", base, home)]
        for problem in (problem for _, wrong in parsed for problem in wrong):
            if guards and problem.source == "flag":
                raise UsageError(f"the permission rule `{shown(problem.text, 100)}` cannot be read: {problem.reason}")
            problems.append(str(problem))
        return tuple(rule for rules, _ in parsed for rule in rules)

    said = workspace.settings.permissions
    if not any((said.allow, said.ask, said.deny, said.outside, options.allowed_tools, options.disallowed_tools)):
        return Rulebook(Rules(), base, home), problems
    rules = Rules(
        read(said.allow, options.allowed_tools),
        read(said.ask, guards=True),
        read(said.deny, options.disallowed_tools, guards=True),
        read(said.outside) if has_sandbox(options, workspace) else (),
    )
    return Rulebook(rules, base, home), problems
