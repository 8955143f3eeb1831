"""Commands about the conversation and the session: shorten, leave, resume, copy, write to a file."""

from anyio import to_thread

from teamwright.core.data.op import AskAside, Compact
from teamwright.core.errors import UsageError
from teamwright.runtime.agents.resume import Origin
from teamwright.store.files.paths import SessionFiles, home_from, one_session, write_name
from teamwright.surfaces.terminal.prompt import shell_actions as errands
from teamwright.surfaces.terminal.slash.command import CommandContext
from teamwright.surfaces.view.text import one_line


async def compact(stage: CommandContext, words: str) -> str:
    await stage.session.submit(Compact(words))
    return ""


async def btw(stage: CommandContext, words: str) -> str:
    if not words:
        raise UsageError("/btw needs a question")
    await stage.session.submit(AskAside(words))
    return ""


async def clear(stage: CommandContext, words: str) -> str:
    stage.go_on_with(Origin())
    return ""


async def resume(stage: CommandContext, words: str) -> str:
    if words:
        stage.go_on_with(Origin(words))
    else:
        stage.pick_session()
    return ""


async def rewind(stage: CommandContext, words: str) -> str:
    stage.rewind()
    return ""


async def leave(stage: CommandContext, words: str) -> str:
    stage.leave()
    return ""


async def fork(stage: CommandContext, words: str) -> str:
    session = stage.session
    if not session.facts.begun:
        raise UsageError("there is nothing to fork yet")
    stage.go_on_with(Origin(session.id, fork=True))
    return ""


async def rename(stage: CommandContext, words: str) -> str:
    if not words:
        raise UsageError("/rename needs a name")
    home, id = home_from(stage.options.env), stage.session.id

    def write() -> str:
        return write_name(SessionFiles(one_session(home, id)), words)

    name = await to_thread.run_sync(write)
    return f"This session is now listed as: {one_line(name, 100)}"


async def export(stage: CommandContext, words: str) -> str:
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
