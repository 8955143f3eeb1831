"""Slash commands of the app: what each does to the session or the screen. Skills are listed beside them."""

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
from teamwright.surfaces.terminal.prompt.rules import revoke, rules_page
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
    lines = ["Describe a task in plain words. `@` mentions a file, `!` runs a shell command, and:", ""]
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
    first, _, rest = words.partition(" ")
    if first == "remove":
        return await revoke(session, stage.options, rest.strip())
    if words:
        chosen: Mode | None = next((known for known in MODES if known.casefold() == words.casefold()), None)
        if chosen is None:
            raise UsageError(f"unknown permission mode {words!r}; use one of {', '.join(MODES)}")
        await session.submit(SetMode(chosen))
    mode = session.facts.mode
    rules = rules_page(await session.rules())
    return f"Mode {mode}: {MODE_WORDS[mode]}. /permissions MODE changes it ({', '.join(MODES)}).\n\n{rules}"


async def _hooks(stage: CommandContext, words: str) -> str:
    return await _settings(stage, "hooks.") or "No hooks are in effect here."


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
    return "\n".join(["Instruction files in use:", *lines]) if lines else "No AGENTS.md or CLAUDE.md found."


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
    "help": SlashCommand("show this page", _help),
    "agents": SlashCommand("show this session's agents, what each does and has used", _side("agents")),
    "tasks": SlashCommand("show the task board", _side("tasks")),
    "team": SlashCommand("list teams and their members", _table("teams")),
    "inbox": SlashCommand("show the team's mail as a timeline", _side("mail")),
    "jobs": SlashCommand("list background jobs, running and finished", _table("jobs", session=True)),
    "why": SlashCommand("show what each waiting agent waits for", _table("why", session=True), "[AGENT]"),
    "cost": SlashCommand("show the tokens, money and time of this session", _table("cost", session=True)),
    "model": SlashCommand("show or change the model", _model, "[NAME]"),
    "permissions": SlashCommand("list or remove rules; change the mode", _permissions, "[MODE]"),
    "hooks": SlashCommand("list the hooks in effect here", _hooks),
    "mcp": SlashCommand("list MCP servers", _table("mcp", "list")),
    "memory": SlashCommand("list the instruction files in use", _memory),
    "compact": SlashCommand("replace the conversation by a summary", _compact, "[WHAT MATTERS]"),
    "btw": SlashCommand("ask a side question that leaves no trace", _btw, "QUESTION"),
    "clear": SlashCommand("start a new session; this one can be resumed", _clear),
    "resume": SlashCommand("resume another session", _resume, "[ID]"),
    "fork": SlashCommand("continue in a copy of this session", _fork),
    "worktrees": SlashCommand("list the agents' git worktrees", _table("worktrees")),
    "export": SlashCommand("write this conversation to a file", _export, "[FILE]"),
    "theme": SlashCommand("use the dark or light theme, or no colours", _theme, "NAME"),
    "keys": SlashCommand("list all keys", _keys),
    "doctor": SlashCommand("check this machine, keys, servers and files", _table("doctor")),
    "kinds": SlashCommand("list the available agent types", _table("agents")),
    "exit": SlashCommand("leave; the session can be resumed", _exit),
}
ALIASES = {"quit": "exit"}


async def choices(session: SessionPort) -> list[Completion]:
    """Everything that can follow `/`."""
    own = [Completion(name, command.about) for name, command in COMMANDS.items()]
    own += [Completion(one.name, one.description) for one in await session.skills() if one.name not in COMMANDS]
    return own
