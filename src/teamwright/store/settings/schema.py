"""Schema of the settings files: snake_case here, camelCase in the files."""

from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from teamwright.core.data.extensions.unread import Unread
from teamwright.core.data.message import Effort
from teamwright.store.settings.sandbox import SANDBOX_PARTS, OwnSandbox, SandboxPart, SandboxSettings

LOCAL = ".teamwright/settings.local.json"  # below the project: the person's own file, where rules are saved
Source = Literal["default", "user", "project", "local", "flag", "managed"]
DefaultMode = Literal["plan", "dontAsk", "default", "acceptEdits", "bypassPermissions"]
TeammateMode = Literal["auto", "in-process", "tmux", "iterm2", "local"]
Notify = Literal["off", "bell", "desktop"]
Seconds = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=1)]


class Provider(Struct, frozen=True, rename="camel"):
    """A named server that speaks a known wire format. One source gives all of it: halves are never combined."""

    base_url: str
    key_env: str | None = None
    wire: Literal["openai", "anthropic"] = "openai"


class WebSearch(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Who searches the web for agents. All of it comes from one source: a key never meets another source's address."""

    provider: Literal["anthropic", "openai", "searxng", "brave"]
    url: str | None = None  # of a search engine
    key_env: str | None = None  # of a search engine
    model: str | None = None  # that searches, if a provider of models does
    results: Annotated[int, Meta(ge=1, le=20)] = 10

    @property
    def key_name(self) -> str | None:
        """The variable that holds the search engine's key."""
        return self.key_env or ("BRAVE_API_KEY" if self.provider == "brave" else None)


class Budget(Struct, frozen=True, rename="camel"):
    usd: Annotated[float, Meta(ge=0)] | None = None
    tokens: Annotated[int, Meta(ge=0)] | None = None
    seconds: Seconds | None = None


class MailPart(Struct, frozen=True, rename="camel"):
    """Limits of what members of a team write to each other."""

    kib: Annotated[int, Meta(ge=1, le=16_384)] = 256  # of one message
    per_minute: Count = 600  # messages from one sender
    unread: Count = 1000  # messages waiting for one reader
    answers: Annotated[int, Meta(ge=2)] = 40  # in a row between two members, without any work in between


class LandPart(Struct, frozen=True, rename="camel"):
    """How finished branches land. The check runs in a fresh worktree of the target with the branch on top."""

    check: str | None = None  # a command line
    check_seconds: Seconds = 1800.0
    target: str | None = None  # a branch; None: the one checked out in the main tree
    method: Literal["merge", "rebase"] = "merge"
    ahead: Annotated[int, Meta(ge=0, le=8)] = 1  # branches merged on top of the one that is checked


class EnginePart(Struct, frozen=True, rename="camel"):
    """The engine for this person's sessions, if any."""

    url: str | None = None  # or `@FILE`
    creds: str | None = None  # a file of credentials, in place of a password
    ca: str | None = None  # a file of trusted certificates
    patience_seconds: Seconds = 600.0  # to wait for an engine that is away
    worker_wait_seconds: Seconds = 600.0  # for which a remote agent waits for a worker
    drain_seconds: Seconds = 30.0  # for which a worker that leaves lets running calls end
    fetch_from: tuple[str, ...] = ()  # addresses of repositories that workers may fetch from
    code_mb: int = field(name="codeMB", default=512)  # of a repository's code that is sent to the engine, at most


class Own(Struct, frozen=True, rename="camel"):
    """The `teamwright` block."""

    fork: bool = False
    background: bool = True
    teammate_mode: TeammateMode = "auto"
    background_after_seconds: Seconds | None = None
    silence_seconds: Seconds = 120.0
    model_silence_seconds: Seconds = 60.0
    max_agents: Count = 100
    max_mcp_tools: Annotated[int, Meta(ge=0)] = 40  # listed in every request; more of them are put behind a search
    max_depth: Annotated[int, Meta(ge=0)] = 3
    question_timeout_seconds: Seconds = 300.0
    shutdown_timeout_seconds: Seconds = 60.0
    adopt_seconds: Seconds = 600.0
    job_wait_seconds: Seconds = 600.0
    assistant: bool = False
    coordinator: bool = False
    proactive_seconds: Seconds = 60.0  # between two ticks of an idle agent in proactive mode
    agent_summaries: bool = False
    hand_off_check: bool = False
    summary_seconds: Seconds = 30.0  # between two summaries of one agent, at least
    prompt_suggestions: bool = False
    mcp_form_defaults: bool = False  # answer servers' forms with their own defaults if nobody can be asked
    session_memory: bool = False
    memory_turns: Count = 10
    consolidate_memory: bool = False
    consolidate_seconds: Seconds = 300.0
    prefer_tmux: bool = False
    split_panes: bool = True
    notify: Notify = "desktop"
    terminal_title: bool = True
    notify_seconds: Seconds = 10.0  # shorter turns do not report their end
    budget: Budget = Budget()
    unknown_prices: Literal["refuse", "allow"] = "refuse"  # in a budget in dollars, if nobody watches
    mail: MailPart = MailPart()
    land: LandPart = LandPart()
    sandbox: OwnSandbox = OwnSandbox()
    providers: dict[str, Provider] = {}
    web_search: WebSearch | None = None
    engine: EnginePart = EnginePart()
    windows: dict[str, Count] = {}  # model name -> tokens that fit, if the catalogue does not know
    lean: bool | None = None  # None: by the model's window
    mirror_sessions: bool | None = None  # copy sessions to another program's; None: if CLAUDE_CONFIG_DIR is set
    trusted_directories: tuple[str, ...] = ()


class PermissionsPart(Struct, frozen=True, rename="camel"):
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    default_mode: DefaultMode | None = None
    additional_directories: tuple[str, ...] = ()
    disable_bypass_permissions_mode: Literal["disable"] | None = None


class Attribution(Struct, frozen=True, rename="camel"):
    """What agents' commits and pull requests end with; empty: nothing."""

    commit: str = ""
    pr: str = ""


class LanguageServer(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A program that reports what is wrong with a file. All of it comes from one source."""

    command: str
    extensions: Annotated[tuple[str, ...], Meta(min_length=1)]  # `.py`
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    language: str = ""  # the protocol's name for it; empty: the extension
    options: dict[str, Any] = {}  # told to the server at its start and when it asks
    wait_seconds: Annotated[float, Meta(gt=0, le=30)] = 2.0  # to wait after an edit


class StatusCommand(Struct, frozen=True, rename="camel"):
    """A command whose output is the status line. All of it comes from one source."""

    command: Annotated[str, Meta(min_length=1)]
    type: Literal["command"] = "command"
    padding: Annotated[int, Meta(ge=0, le=20)] = 0


class WorktreePart(Struct, frozen=True, rename="camel"):
    symlink_directories: tuple[str, ...] = ()


class SettingsFile(Struct, frozen=True, rename="camel"):
    """Everything that we know in a settings file. Other names belong to other programs."""

    permissions: PermissionsPart = PermissionsPart()
    env: dict[str, str] = {}
    model: str | None = None
    effort: Effort | None = None
    editor_mode: str | None = None  # of the app's input: `vim` or anything else
    hooks: dict[str, Any] = {}
    mcp: dict[str, Any] = {}
    lsp: dict[str, LanguageServer] = {}
    worktree: WorktreePart = WorktreePart()
    sandbox: SandboxPart = SandboxPart()
    status_line: StatusCommand | None = None
    enable_all_project_mcp_servers: bool = False
    disabled_mcpjson_servers: tuple[str, ...] = ()
    enabled_mcpjson_servers: tuple[str, ...] = ()  # no effect: trusting the directory approves them all
    enabled_plugins: dict[str, bool] = {}
    extra_known_marketplaces: dict[str, Any] = {}
    output_style: str | None = None
    language: str | None = None
    attribution: Attribution = Attribution()
    include_co_authored_by: bool = False  # no effect: `attribution` says what is added
    always_thinking_enabled: bool | None = None
    api_key_helper: str | None = None
    disable_all_hooks: bool = False
    teamwright: Own = Own()


# In these an unknown name is a slip worth reporting.
OURS: tuple[type[Struct], ...] = (Own, Budget, MailPart, LandPart, EnginePart, OwnSandbox)
# Merged field by field.
PARTS: tuple[type[Struct], ...] = (SettingsFile, PermissionsPart, WorktreePart, Attribution, *OURS, *SANDBOX_PARTS)


class Layer(Struct, frozen=True):
    """One source as it was read: `values` fit the schema, under the file's names; `unread` are names that do not."""

    source: Source
    file: str
    values: dict[str, Any]
    unread: tuple[Unread, ...] = ()


class SettingsRule(Struct, frozen=True):
    text: str
    source: Source
    base: Path  # where relative path patterns start


class HookSettings(Struct, frozen=True):
    """The hooks of one file, not yet parsed; those of all sources run."""

    source: Source
    file: str
    events: dict[str, Any]


class Permissions(Struct, frozen=True):
    allow: tuple[SettingsRule, ...] = ()
    ask: tuple[SettingsRule, ...] = ()
    deny: tuple[SettingsRule, ...] = ()
    outside: tuple[SettingsRule, ...] = ()  # `sandbox.excludedCommands`, as rules
    default_mode: DefaultMode | None = None
    default_mode_source: Source | None = None
    additional_directories: tuple[Path, ...] = ()
    bypass_off: str = ""  # the file that turns bypassPermissions off


class Settings(Struct, frozen=True):
    permissions: Permissions = Permissions()
    env: dict[str, str] = {}
    model: str | None = None
    effort: Effort | None = None
    editor_mode: str | None = None
    hooks: tuple[HookSettings, ...] = ()
    mcp: dict[str, Any] = {}
    lsp: dict[str, LanguageServer] = {}
    enable_all_project_mcp_servers: bool = False
    disabled_servers: tuple[str, ...] = ()  # of `.mcp.json`
    symlink_directories: tuple[str, ...] = ()
    sandbox: SandboxSettings = SandboxSettings()
    output_style: str | None = None
    language: str | None = None
    attribution: Attribution = Attribution()
    always_thinking: bool | None = None
    api_key_helper: str | None = None
    status_line: StatusCommand | None = None
    own: Own = Own()
    trusted_directories: tuple[Path, ...] = ()  # `own.trusted_directories`, made absolute
    problems: tuple[str, ...] = ()
    layers: tuple[Layer, ...] = ()  # lowest first

    def file_of(self, name: str) -> str:
        """The file whose value of a setting counts; empty if none has it."""
        return next((layer.file for layer in reversed(self.layers) if name in layer.values), "")
