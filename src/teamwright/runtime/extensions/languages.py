"""Language servers of a session: started when one of their files is edited, asked what is new in it, ended with the
session."""

from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from msgspec import Struct, field

from teamwright.core.data.extensions.diagnostic import Diagnostic, new_ones
from teamwright.core.data.extensions.server import ServerFault
from teamwright.core.errors import ToolError
from teamwright.core.text import shown
from teamwright.host.lsp.client import LanguageLink, open_language_server
from teamwright.host.process.environment import tool_environment
from teamwright.store.settings.schema import LanguageServer

if TYPE_CHECKING:
    from teamwright.runtime.sandbox.use import Program

FIRST_SECONDS = 15.0  # for the first report about a file: a server reads the whole project then
QUIET_SECONDS = 0.15  # some servers report first what they see at once, then the rest
CLOSE_SECONDS = 10.0
MOST_STARTS = 3
MOST_FILES = 200  # open in one server
MOST_RUNNING = 6  # servers at once: each worktree has its own
MOST_WAITING = 50  # edits that wait for one server

# A server's name, environment and command -> the environment and the box to run it in.
Place = Callable[[str, Mapping[str, str], tuple[str, ...]], "AbstractAsyncContextManager[Program]"]
Launch = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]


class _Change(Struct):
    path: Path
    before: str | None  # None: the file did not exist
    after: str
    done: anyio.Event = field(default_factory=anyio.Event)
    new: list[Diagnostic] = field(default_factory=list[Diagnostic])
    awaited: bool = True  # whether somebody still waits to report what is new


class _File(Struct):
    """A file as the server knows it, what the server said of it, and what of that the agent was told."""

    text: str
    version: int = 1
    said: list[Diagnostic] = field(default_factory=list[Diagnostic])
    known: list[Diagnostic] = field(default_factory=list[Diagnostic])
    heard: anyio.Event = field(default_factory=anyio.Event)


class LanguageGround(Struct, frozen=True):
    """What all servers share. They run in the project, whatever root they serve: the files that start them are guarded
    there, but not in an agent's own worktree."""

    project: Path
    env: Mapping[str, str]
    log: Callable[[str], None]
    place: Place


class _Running:
    """One server for one root. It looks at one change after the other."""

    def __init__(self, name: str, config: LanguageServer, root: Path, ground: LanguageGround) -> None:
        self.name, self.config, self.root = name, config, root
        self._ground, self._log = ground, ground.log
        self._put, self._changes = anyio.create_memory_object_stream[_Change](MOST_WAITING)
        self._files: OrderedDict[str, _File] = OrderedDict()
        self._scope = anyio.CancelScope()
        self._met = False  # it has reported something
        self._serving = False
        self._closing = anyio.Event()
        self.ended = anyio.Event()

    async def live(self) -> None:
        """Run the server, and start it again after a crash, `MOST_STARTS` times in all."""
        try:
            with self._scope:
                for _ in range(MOST_STARTS):
                    if not self._closing.is_set():
                        await self._run()
        finally:
            self._put.close()
            self._changes.close()
            self.ended.set()

    async def _run(self) -> None:
        self._files.clear()
        self._met = False
        argv, options = (self.config.command, *self.config.args), self.config.options
        clean, cwd = tool_environment(self._ground.env, self.config.env), self._ground.project
        try:
            async with (
                self._ground.place(self.name, clean, argv) as (env, box),
                open_language_server(argv, env, cwd, self.root, options, self._heard, box) as link,
            ):
                self._serving = True
                try:
                    await self._serve(link)
                finally:
                    self._serving = False
            if not self._closing.is_set():
                self._log(f"language server {shown(self.name, 80)}: it ended by itself")
        except* (ServerFault, ToolError, OSError) as faults:
            for fault in faults.exceptions:
                self._log(f"language server {shown(self.name, 80)}: {shown(str(fault))}")

    async def _serve(self, link: LanguageLink) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(_cancel_after, link.gone, group.cancel_scope)
            group.start_soon(_cancel_after, self._closing, group.cancel_scope)
            async for change in self._changes:
                try:
                    await self._look(link, change)
                finally:
                    change.done.set()

    async def _look(self, link: LanguageLink, change: _Change) -> None:
        path = str(change.path)
        if path not in self._files or self._files[path].text != change.before:
            await self._tell(link, change.path, change.after if change.before is None else change.before)
            known = self._files[path]
            known.known = [] if change.before is None else known.said
        if self._files[path].text != change.after:
            await self._tell(link, change.path, change.after)
        file = self._files[path]
        change.new = new_ones(file.known, file.said)
        if change.awaited:  # else the next agent that edits the file is told
            file.known = file.said

    async def _tell(self, link: LanguageLink, path: Path, text: str) -> None:
        """Send the file's text. Returns when the server has reported on it, or when the time is over."""
        uri, file = path.as_uri(), self._files.get(str(path))
        if file is None:
            file = self._files[str(path)] = _File(text)
            language = self.config.language or path.suffix.removeprefix(".")
            item = {"uri": uri, "languageId": language, "version": 1, "text": text}
            await link.notify("textDocument/didOpen", {"textDocument": item})
            await self._close_oldest(link)
        else:
            self._files.move_to_end(str(path))
            file.text, file.version, file.heard = text, file.version + 1, anyio.Event()
            named = {"uri": uri, "version": file.version}
            await link.notify("textDocument/didChange", {"textDocument": named, "contentChanges": [{"text": text}]})
            await link.notify("textDocument/didSave", {"textDocument": {"uri": uri}, "text": text})
        with anyio.move_on_after(self.config.wait_seconds if self._met else FIRST_SECONDS):
            await file.heard.wait()
            while file.heard.is_set():
                file.heard = anyio.Event()
                with anyio.move_on_after(QUIET_SECONDS):
                    await file.heard.wait()

    async def _close_oldest(self, link: LanguageLink) -> None:
        while len(self._files) > MOST_FILES:
            path, _ = self._files.popitem(last=False)
            await link.notify("textDocument/didClose", {"textDocument": {"uri": Path(path).as_uri()}})

    def _heard(self, path: str, version: int | None, said: list[Diagnostic]) -> None:
        file = self._files.get(path)
        if file is not None and version in (None, file.version):
            self._met = True
            file.said = said
            file.heard.set()

    async def check(self, change: _Change) -> None:
        """Wait for the result as long as the settings allow."""
        try:
            self._put.send_nowait(change)
        except (anyio.WouldBlock, anyio.ClosedResourceError, anyio.BrokenResourceError):
            return
        with anyio.move_on_after(self.config.wait_seconds):
            await change.done.wait()
        change.awaited = False

    def close(self) -> None:
        """Shut down in good order if it serves; else cancel it."""
        self._closing.set()
        if not self._serving:
            self._scope.cancel()

    def abandon(self) -> None:
        self._scope.cancel()


async def _cancel_after(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


class Languages:
    """The servers by file suffix; `launch` gives each a task."""

    def __init__(self, configs: Mapping[str, LanguageServer], ground: LanguageGround, launch: Launch) -> None:
        self._ground, self._launch = ground, launch
        self._by_suffix = {
            f".{suffix.lower().lstrip('.')}": (name, config)
            for name, config in configs.items()
            for suffix in config.extensions
        }
        self._running: OrderedDict[tuple[str, Path], _Running] = OrderedDict()

    def covers(self, path: Path) -> bool:
        return path.suffix.lower() in self._by_suffix

    async def check(self, path: Path, root: Path, before: str | None, after: str) -> tuple[str, list[Diagnostic]]:
        """(server's name, errors and warnings that the change brought), as far as they are known in time."""
        name, config = self._by_suffix[path.suffix.lower()]
        change = _Change(path, before, after)
        await self._use(name, config, root).check(change)
        return name, change.new if change.done.is_set() else []

    def _use(self, name: str, config: LanguageServer, root: Path) -> _Running:
        if (name, root) not in self._running:
            while len(self._running) >= MOST_RUNNING:
                self._running.popitem(last=False)[1].close()
            self._running[name, root] = _Running(name, config, root, self._ground)
            self._launch(self._running[name, root].live)
        self._running.move_to_end((name, root))
        return self._running[name, root]

    async def close(self) -> None:
        """End all servers; afterwards no process of theirs is left."""
        for server in self._running.values():
            server.close()
        with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSE_SECONDS):
            for server in self._running.values():
                await server.ended.wait()
        for server in self._running.values():
            server.abandon()
        self._running.clear()
