"""Commands that show something: the program's tables, pages of the side, settings, instruction files."""

from pathlib import Path

from anyio import to_thread

from teamwright.library import instructions
from teamwright.store.files.paths import home_from
from teamwright.store.settings.load import project_root
from teamwright.surfaces.port.own_tables import printed
from teamwright.surfaces.terminal import keys
from teamwright.surfaces.terminal.slash.command import CommandContext, Run
from teamwright.surfaces.terminal.widgets.side import Page


def table(*arguments: str, session: bool = False) -> Run:
    async def run(stage: CommandContext, words: str) -> str:
        own, size = [stage.session.id] if session else [], stage.prompt.size
        said = [*arguments, *own, *words.split()]
        return await printed(said, stage.session.cwd, stage.options.env, size.width)

    return run


def side(page: Page) -> Run:
    async def run(stage: CommandContext, words: str) -> str:
        stage.open_side(page)
        return ""

    return run


async def list_keys(stage: CommandContext, words: str) -> str:
    return keys.describe()


async def hooks(stage: CommandContext, words: str) -> str:
    return await settings_page(stage, "hooks.") or "No hooks are in effect here."


async def settings_page(stage: CommandContext, prefix: str) -> str:
    """The lines of `teamwright config` about one part of the settings."""
    flags = ["--trust"] if stage.options.trust else []
    flags += ["--settings", stage.options.settings] if stage.options.settings else []
    lines = (await printed(["config", *flags], stage.session.cwd, stage.options.env)).split("\n")
    return "\n".join(f"  {line}" for line in lines if line.startswith(prefix))


async def memory(stage: CommandContext, words: str) -> str:
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
