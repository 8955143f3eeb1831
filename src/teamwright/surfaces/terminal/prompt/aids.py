"""Aids for typing: earlier prompts of all projects, the person's editor, pictures from the clipboard."""

import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from anyio import to_thread
from textual.app import App, SuspendNotSupported

from teamwright.app import Options, open_workspace
from teamwright.core.errors import TeamwrightError, UsageError
from teamwright.host import clipboard
from teamwright.osfiles.private import write_file
from teamwright.store.files.paths import home_from
from teamwright.surfaces.terminal.prompt import editor, vim
from teamwright.surfaces.terminal.widgets.prompt_input import Aid, PromptInput
from teamwright.surfaces.view.shapes import NoteKind

MOST_PICTURES = 50  # pasted pictures that are kept


class Typing:
    """The app's input, and what is needed to help with it."""

    def __init__(
        self, app: App[Any], prompt: PromptInput, options: Options, tell: Callable[[str, NoteKind], None]
    ) -> None:
        self._app, self._prompt, self._options, self._tell = app, prompt, options, tell
        self._home = home_from(options.env)

    async def prepare(self) -> None:
        """Turn on the keys of vi, if the person wants them."""
        settings = (await to_thread.run_sync(open_workspace, self._options)).settings
        if await to_thread.run_sync(vim.wanted, self._home.root, settings.editor_mode):
            self._prompt.use_vim(on=True)

    async def help(self, aid: Aid) -> None:
        aids: dict[Aid, Callable[[], Awaitable[None]]] = {
            "search": self._search,
            "editor": self._edit,
            "picture": self._paste,
        }
        try:
            await aids[aid]()
        except TeamwrightError as error:
            self._tell(str(error), "error")

    async def _search(self) -> None:
        from teamwright.surfaces.terminal.dialogs.prompt_search import PromptSearch  # noqa: PLC0415

        found = await self._app.push_screen_wait(PromptSearch(self._home, self._prompt.earlier, self._prompt.text))
        if found is not None:
            self._prompt.put(found)

    async def _edit(self) -> None:
        """The session continues meanwhile; only the screen waits."""
        argv, fault, text = editor.command_of(self._options.env), "", ""
        try:
            with self._app.batch_update(), self._app.suspend():
                try:  # inside: an error must not keep the screen from coming back
                    text = await editor.edit(self._prompt.whole(), argv, self._options.env)
                except UsageError as error:
                    fault = str(error)
        except SuspendNotSupported:
            fault = "An editor needs a terminal"
        if fault:
            raise UsageError(fault)
        self._prompt.pastes.clear()
        self._prompt.put(text)

    async def _paste(self) -> None:
        data = await clipboard.read_picture(self._options.env)
        if data:
            path = await to_thread.run_sync(keep_picture, self._home.root / "input" / "pictures", data)
            self._prompt.attach(path, len(data))
        elif self._app.clipboard:
            self._prompt.action_paste()
        else:
            raise UsageError("The clipboard holds no picture")


def keep_picture(folder: Path, data: bytes) -> Path:
    """Save a pasted picture in a private file, and remove the oldest ones. Blocks."""
    path = folder / f"{hashlib.sha256(data).hexdigest()[:16]}.png"
    write_file(path, data)
    pictures = sorted(folder.glob("*.png"), key=lambda one: one.stat().st_mtime)
    for old in pictures[:-MOST_PICTURES]:
        old.unlink(missing_ok=True)
    return path
