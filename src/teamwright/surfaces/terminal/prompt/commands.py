"""Commands that a person types after `/`: what each does to the session or the screen. Skills stand beside them."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from anyio import to_thread
from msgspec import Struct

from teamwright.app import Options
from teamwright.core.data.op import AskAside, Compact, SetMode, SetModel
from teamwright.core.errors import UsageError
from teamwright.core.ids import AgentId
from teamwright.core.permissions.consent import MODES, Mode
from teamwright.library import instructions
from teamwright.runtime.agents.resume import Origin
from teamwright.runtime.port import SessionPort
from teamwright.store.files.paths import home_from
from teamwright.store.settings.load import project_root
from teamwright.surfaces.terminal import keys
from teamwright.surfaces.terminal.prompt import shell_actions as errands
from teamwright.surfaces.terminal.prompt.completion import Completion
from teamwright.surfaces.terminal.render import themes
from teamwright.surfaces.terminal.widgets.side import Page
from teamwright.surfaces.terminal.widgets.status import MODES as MODE_WORDS
from teamwright.surfaces.view.shapes import Item


class CommandContext(Protocol):
    """The app, as commands see it."""

    session: SessionPort
    options: Options

    @property
    def here(self) -> AgentId: ...
    def open_side(self, page: Page) -> None: ...
    def use_theme(self, name: str) -> None: ...
    def go_on_with(self, origin: Origin) -> None:
        """Leave this session for another one."""
        ...

    def pick_session(self) -> None: ...
    def leave(self) -> None: ...
    async def everything(self) -> list[Item]:
        """The whole conversation that is open, from its transcript."""
        ...


Run = Callable[[CommandContext, str], Awaitable[str]]  # what is to be shown, empty if nothing


class SlashCommand(Struct, frozen=True):
    about: str
    run: Run
    words: str = ""  # what may follow its name


def _table(*arguments: str, session: bool = False) -> Run:
    async def run(stage: CommandContext, words: str) -> str:
        own = [stage.session.id] if session else []
        return await errands.printed([*arguments, *own, *words.split()], stage.session.cwd, stage.options.env)

    return run


def _side(page: Page) -> Run:
    async def run(stage: CommandContext, words: str) -> str:
        stage.open_side(page)
        return ""

    return run


async def _help(stage: CommandContext, words: str) -> str:
    names = {name: f"/{name} {command.words}".rstrip() for name, command in COMMANDS.items()}
    widest = max(map(len, names.values()))
    lines = ["Ask for anything in plain words. `@` names a file, `!` runs a line in the shell, and:", ""]
    lines += [f"  {names[name].ljust(widest)}  {command.about}" for name, command in COMMANDS.items()]
    if own := await stage.session.skills():
        lines += ["", "skills:", *(f"  /{skill.name}  {skill.description}" for skill in own)]
    return "\n".join(lines)


async def _keys(stage: CommandContext, words: str) -> str:
    return keys.describe()


async def _model(stage: CommandContext, words: str) -> str:
    session = stage.session
    if not words:
        names = "\n".join(f"  {name}" for name in session.model_names)
        return f"The model is {session.facts.model}. /model NAME changes it; known names:\n{names}"
    await session.submit(SetModel(None if words == "default" else words))
    return f"The model is {session.facts.model} from the next request on."


async def _permissions(stage: CommandContext, words: str) -> str:
    session = stage.session
    if words:
        chosen: Mode | None = next((known for known in MODES if known.casefold() == words.casefold()), None)
        if chosen is None:
            raise UsageError(f"no permission mode {words!r}; there are {', '.join(MODES)}")
        await session.submit(SetMode(chosen))
    mode = session.facts.mode
    rules = await _settings(stage, "permissions.") or "  no rules in the settings"
    return f"Mode {mode}: {MODE_WORDS[mode]}. /permissions MODE changes it ({', '.join(MODES)}).\n\n{rules}"


async def _hooks(stage: CommandContext, words: str) -> str:
    return await _settings(stage, "hooks.") or "No hooks in the settings that hold here."


async def _settings(stage: CommandContext, prefix: str) -> str:
    """The lines of `teamwright config` about one part of the settings."""
    flags = ["--trust"] if stage.options.trust else []
    flags += ["--settings", stage.options.settings] if stage.options.settings else []
    lines = (await errands.printed(["config", *flags], stage.session.cwd, stage.options.env)).split("\n")
    return "\n".join(f"  {line}" for line in lines if line.startswith(prefix))


async def _memory(stage: CommandContext, words: str) -> str:
    """The files that tell the agent how to work here."""
    env, cwd = stage.options.env, stage.session.cwd
    home, user = home_from(env), Path(env.get("HOME") or Path.home())

    def read() -> list[str]:
        found = instructions.collect(
            cwd,
            project_root(cwd, user),
            home=user,
            state=home.root,
            trusted=stage.options.trust,
            sources=stage.options.setting_sources,
        )
        notes = sorted(home.memory.rglob("*.md")) if home.memory.is_dir() else []
        lines = [f"  {file.path}  ({file.origin}, {len(file.text):,} characters)" for file in found.files]
        return lines + [f"  {path}  (notes of earlier sessions)" for path in notes]

    lines = await to_thread.run_sync(read)
    return "\n".join(["Read at the start:", *lines]) if lines else "No instruction files: AGENTS.md is one."


async def _compact(stage: CommandContext, words: str) -> str:
    await stage.session.submit(Compact(words))
    return ""


async def _btw(stage: CommandContext, words: str) -> str:
    if not words:
        raise UsageError("/btw needs a question")
    await stage.session.submit(AskAside(words))
    return ""


async def _clear(stage: CommandContext, words: str) -> str:
    stage.go_on_with(Origin())
    return ""


async def _resume(stage: CommandContext, words: str) -> str:
    if words:
        stage.go_on_with(Origin(words))
    else:
        stage.pick_session()
    return ""


async def _exit(stage: CommandContext, words: str) -> str:
    stage.leave()
    return ""


async def _fork(stage: CommandContext, words: str) -> str:
    session = stage.session
    if not session.facts.begun:
        raise UsageError("there is nothing to fork yet")
    stage.go_on_with(Origin(session.id, fork=True))
    return ""


async def _export(stage: CommandContext, words: str) -> str:
    path = stage.session.cwd / (words or f"conversation-{stage.session.id[:8]}.md")
    items = await stage.everything()

    def write() -> None:
        with path.open("x", encoding="utf-8", errors="backslashreplace") as file:
            file.write(errands.as_markdown(items, f"Session {stage.session.id}"))

    try:
        await to_thread.run_sync(write)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    return f"Written to {path}"


async def _theme(stage: CommandContext, words: str) -> str:
    if words not in themes.NAMES:
        raise UsageError(f"/theme takes one of {', '.join(themes.NAMES)}")
    stage.use_theme(words)
    return ""


COMMANDS: dict[str, SlashCommand] = {
    "help": SlashCommand("this page", _help),
    "agents": SlashCommand("all agents of this session, what each does and has used", _side("agents")),
    "tasks": SlashCommand("the task board", _side("tasks")),
    "team": SlashCommand("the teams and who is in them", _table("teams")),
    "inbox": SlashCommand("the mail of the team as a timeline", _side("mail")),
    "jobs": SlashCommand("what ran or runs in the background", _table("jobs", session=True)),
    "why": SlashCommand("what those wait for who are not running", _table("why", session=True), "[AGENT]"),
    "cost": SlashCommand("what this session has used", _table("cost", session=True)),
    "model": SlashCommand("show or change the model", _model, "[NAME]"),
    "permissions": SlashCommand("show the rules, show or change the mode", _permissions, "[MODE]"),
    "hooks": SlashCommand("the hooks that hold here", _hooks),
    "mcp": SlashCommand("MCP servers", _table("mcp", "list")),
    "memory": SlashCommand("files that tell the agent how to work here", _memory),
    "compact": SlashCommand("go on from a summary of the conversation", _compact, "[WHAT MATTERS]"),
    "btw": SlashCommand("ask about the conversation without entering it", _btw, "QUESTION"),
    "clear": SlashCommand("begin a new session here; this one can be resumed", _clear),
    "resume": SlashCommand("go on with another session", _resume, "[ID]"),
    "fork": SlashCommand("go on in a copy of this session", _fork),
    "worktrees": SlashCommand("the git worktrees of agents", _table("worktrees")),
    "export": SlashCommand("write this conversation to a file", _export, "[FILE]"),
    "theme": SlashCommand("dark, light or none", _theme, "NAME"),
    "keys": SlashCommand("all keys", _keys),
    "doctor": SlashCommand("check this machine, keys, servers and files", _table("doctor")),
    "kinds": SlashCommand("kinds of agents that can be started here", _table("agents")),
    "exit": SlashCommand("leave; the session can be resumed", _exit),
}
ALIASES = {"quit": "exit"}


async def choices(session: SessionPort) -> list[Completion]:
    """Everything that can follow `/`."""
    own = [Completion(name, command.about) for name, command in COMMANDS.items()]
    own += [Completion(one.name, one.description) for one in await session.skills() if one.name not in COMMANDS]
    return own
