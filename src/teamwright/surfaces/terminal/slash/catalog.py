"""Every slash command of the app, the page that lists them, and what completes `/`."""

from teamwright.runtime.port import SessionPort
from teamwright.surfaces.terminal.prompt.completion import Completion
from teamwright.surfaces.terminal.slash import changes, config, mcp, pages, sandbox, status, talk, web, work
from teamwright.surfaces.terminal.slash.command import CommandContext, SlashCommand


async def _help(stage: CommandContext, words: str) -> str:
    names = {name: f"/{name} {command.words}".rstrip() for name, command in COMMANDS.items()}
    widest = max(map(len, names.values()))
    lines = ["Describe a task in plain words. `@` mentions a file, `!` runs a shell command, and:", ""]
    lines += [f"  {names[name].ljust(widest)}  {command.about}" for name, command in COMMANDS.items()]
    if own := await stage.session.skills():
        lines += ["", "skills:", *(f"  /{skill.name}  {skill.description}" for skill in own)]
    return "\n".join(lines)


COMMANDS: dict[str, SlashCommand] = {
    "help": SlashCommand("show this page", _help),
    "status": SlashCommand("show how this session is set up, and how it stands", status.status),
    "context": SlashCommand("show what fills the model's window", status.context),
    "init": SlashCommand("let the agent write AGENTS.md for this project", work.init, "[WHAT MATTERS]"),
    "diff": SlashCommand("show what has changed since the last commit", work.diff),
    "copy": SlashCommand("copy the last answer to the clipboard", work.copy),
    "add-dir": SlashCommand("let agents work in a further directory", work.add_directory, "PATH"),
    "config": SlashCommand("change your settings, or list those in effect", config.config, "[NAME VALUE]"),
    "agents": SlashCommand("show this session's agents, what each does and has used", pages.side("agents")),
    "tasks": SlashCommand("show the task board", pages.side("tasks")),
    "team": SlashCommand("list teams and their members", pages.table("teams")),
    "inbox": SlashCommand("show the team's mail as a timeline", pages.side("mail")),
    "jobs": SlashCommand("list background jobs, running and finished", pages.table("jobs", session=True)),
    "why": SlashCommand("show what each waiting agent waits for", pages.table("why", session=True), "[AGENT]"),
    "cost": SlashCommand("show the tokens, money and time of this session", pages.table("cost", session=True)),
    "model": SlashCommand("show or change the model", changes.model, "[NAME]"),
    "effort": SlashCommand("show or change how hard the model thinks", changes.effort, "[LEVEL]"),
    "permissions": SlashCommand("list or remove rules; change the mode", changes.permissions, "[MODE]"),
    "sandbox": SlashCommand("show the sandbox; switch it for the next session", sandbox.sandbox, "[on|off]"),
    "hooks": SlashCommand("list the hooks in effect here", pages.hooks),
    "mcp": SlashCommand("show MCP servers; connect again, sign in, switch off", mcp.servers, "[NAME]"),
    "memory": SlashCommand("list the instruction files in use", pages.memory),
    "compact": SlashCommand("replace the conversation by a summary", talk.compact, "[WHAT MATTERS]"),
    "btw": SlashCommand("ask a side question that leaves no trace", talk.btw, "QUESTION"),
    "rewind": SlashCommand("go back to an earlier prompt", talk.rewind),
    "clear": SlashCommand("start a new session; this one can be resumed", talk.clear),
    "resume": SlashCommand("resume another session", talk.resume, "[ID]"),
    "fork": SlashCommand("continue in a copy of this session", talk.fork),
    "rename": SlashCommand("give this session a name for the list of sessions", talk.rename, "NAME"),
    "worktrees": SlashCommand("list the agents' git worktrees", pages.table("worktrees")),
    "land": SlashCommand("show the landing queue", pages.side("landing")),
    "web": SlashCommand("show this session in the browser", web.web),
    "export": SlashCommand("write this conversation to a file", talk.export, "[FILE]"),
    "theme": SlashCommand("use the dark or light theme, or no colours", changes.theme, "[NAME]"),
    "vim": SlashCommand("switch the input to the keys of vi, or back", changes.toggle_vim),
    "keys": SlashCommand("list all keys", pages.list_keys),
    "doctor": SlashCommand("check this machine, keys, servers and files", pages.table("doctor")),
    "kinds": SlashCommand("list the available agent types", pages.table("agents")),
    "exit": SlashCommand("leave; the session can be resumed", talk.leave),
}
ALIASES = {"quit": "exit"}


async def choices(session: SessionPort) -> list[Completion]:
    """Everything that can follow `/`."""
    own = [Completion(name, command.about) for name, command in COMMANDS.items()]
    own += [Completion(one.name, one.description) for one in await session.skills() if one.name not in COMMANDS]
    return own
