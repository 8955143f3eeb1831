"""Methods that the editor calls, each on the session that it names."""

import os
import traceback
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec
from anyio import to_thread
from anyio.abc import TaskGroup
from msgspec import Raw
from msgspec.structs import replace

from teamwright.app import Options
from teamwright.app.setup import read_setup
from teamwright.core.errors import ModelError, SessionMissing, TeamwrightError, only_one
from teamwright.runtime.agents.resume import Origin
from teamwright.store.files.paths import home_from, is_session_id, sessions_named
from teamwright.surfaces.acp.protocol import shapes
from teamwright.surfaces.acp.protocol.greeting import HOW_TO_GET_A_MODEL
from teamwright.surfaces.acp.protocol.wire import (
    INTERNAL,
    METHOD,
    NO_MODEL,
    NO_SESSION,
    PARAMS,
    RequestResult,
    RpcError,
    Wire,
)
from teamwright.surfaces.acp.questions.trust import ask_trust
from teamwright.surfaces.acp.threads.hosting import KeepDoor, SessionHost
from teamwright.surfaces.acp.threads.listing import list_page
from teamwright.surfaces.acp.threads.prompt_content import prompt_of
from teamwright.surfaces.acp.threads.prompts import Prompts
from teamwright.surfaces.acp.threads.replay import fold_again, updates_of
from teamwright.surfaces.acp.threads.thread import Thread
from teamwright.surfaces.port.deleting import delete_stored

Method = Callable[[Raw], Awaitable[RequestResult]]


class EditorSessions:
    """All sessions of one editor. They never mix."""

    def __init__(
        self, wire: Wire, group: TaskGroup, client: shapes.Client, options: Options, keep_door: KeepDoor
    ) -> None:
        self._wire, self._group, self._client = wire, group, client
        self._options, self._keep_door = options, keep_door
        self.threads: dict[str, Thread] = {}
        self._opening: dict[str, anyio.Lock] = {}
        self._methods: dict[str, Method] = {
            "authenticate": self._authenticate,
            "session/new": self._new,
            "session/load": partial(self._reopen, replay=True),
            "session/resume": partial(self._reopen, replay=False),
            "session/fork": self._fork,
            "session/list": self._list,
            "session/close": self._close,
            "session/delete": self._delete,
            "session/prompt": self._prompt,
            "session/cancel": self._cancel,
            "session/set_mode": self._set_mode,
            "session/set_model": self._set_model,
            "session/set_config_option": self._set_option,
            "_session/steering": self._steer,
        }

    async def answer(self, method: str, params: Raw) -> RequestResult:
        run = self._methods.get(method)
        if run is None:
            raise RpcError(METHOD, f"there is no method {method!r}")
        return await run(params)

    async def close(self) -> None:
        """Close all sessions at once; each has a limit of its own."""
        async with anyio.create_task_group() as group:
            for thread in list(self.threads.values()):
                group.start_soon(thread.close)

    # --- sessions

    async def _authenticate(self, params: Raw) -> RequestResult:
        """Whether there is a model now: settings are read anew."""
        try:
            await to_thread.run_sync(read_setup, self._options)
        except TeamwrightError as error:
            raise _failure(error) from None
        return RequestResult({})

    async def _new(self, params: Raw) -> RequestResult:
        asked: shapes.Opening = shapes.read(params, shapes.Opening)
        return await self._opened(self._options_for(asked, Origin()), replay=False)

    async def _fork(self, params: Raw) -> RequestResult:
        asked: shapes.Reopening = shapes.read(params, shapes.Reopening)
        origin = Origin(resume=_checked(asked.sessionId), fork=True)
        return await self._opened(self._options_for(asked, origin), replay=False)

    async def _reopen(self, params: Raw, *, replay: bool) -> RequestResult:
        asked: shapes.Reopening = shapes.read(params, shapes.Reopening)
        options = self._options_for(asked, Origin(resume=_checked(asked.sessionId)))
        async with self._opening.setdefault(asked.sessionId, anyio.Lock()):
            if (known := self.threads.get(asked.sessionId)) is not None and not known.over.is_set():
                if replay:
                    await self._tell_again(known)
                return RequestResult(known.state())
            return await self._opened(options, replay=replay)

    async def _tell_again(self, thread: Thread) -> None:
        port = thread.port
        records = await port.past(port.main)
        items = await to_thread.run_sync(fold_again, records, port.main)
        for update in updates_of(items, port.main, str(port.cwd)):
            thread.hearing.tell(update)

    async def _opened(self, options: Options, *, replay: bool) -> RequestResult:
        thread = await self._open(options, Prompts(), replay=replay)
        state = {"sessionId": thread.port.id} | thread.state()

        def announce() -> None:
            self._group.start_soon(self._get_ready, thread)

        return RequestResult(state, announce)

    async def _open(self, options: Options, prompts: Prompts, *, replay: bool) -> Thread:
        host = SessionHost(options, self._keep_door)
        try:
            port = await self._group.start(host.run)
        except Exception as error:  # noqa: BLE001  # also a group with one error of ours in it
            raise _failure(only_one(error)) from None
        thread = Thread(port, host, self._wire, self._client, self._group, prompts)
        try:
            await thread.begin(replay=replay)
        except BaseException:
            host.close()
            raise
        self.threads[port.id] = thread
        return thread

    async def _get_ready(self, thread: Thread) -> None:
        """Once the editor knows the session: offer commands, show notes, ask whether the directory is trusted."""
        try:
            await thread.offer_commands()
            for note in thread.port.notes:
                thread.hearing.note(note)
            if not thread.port.elsewhere and await ask_trust(self._wire, thread.port.id, thread.host.options):
                await self._replace(thread)
        except TeamwrightError as error:
            thread.hearing.note(str(error), "warning")
        except Exception:  # noqa: BLE001  # the edge of a surface: the other sessions go on
            traceback.print_exc()
        finally:
            thread.ready.set()

    async def _replace(self, thread: Thread) -> None:
        """Open the session again, because its directory is now trusted. Waiting prompts are carried out there."""
        id, options = thread.port.id, thread.host.options
        said = thread.port.facts.begun
        thread.replaced = True
        await thread.close()
        origin = Origin(resume=id) if said else Origin(id=id)
        try:
            found = await self._open(replace(options, origin=origin), thread.prompts, replay=False)
        except RpcError as error:
            thread.prompts.end_all(error)
            thread.hearing.note(str(error), "error")
            return
        thread.successor = found
        found.ready.set()
        await found.offer_commands()
        found.hearing.tell_options()

    def _options_for(self, asked: shapes.Opening, origin: Origin) -> Options:
        cwd = Path(asked.cwd)
        if not cwd.is_absolute() or not cwd.is_dir():
            raise RpcError(PARAMS, f"cwd must be an absolute path of a directory, and {asked.cwd!r} is not")
        more = [str(path) for path in asked.additionalDirectories or []]
        if wrong := [path for path in more if not os.path.isabs(path) or not Path(path).is_dir()]:  # noqa: PTH117
            raise RpcError(PARAMS, f"an additional directory must be an absolute path of one: {', '.join(wrong)}")
        base = self._options
        servers = [servers_text(asked.mcpServers)] if asked.mcpServers else []
        return replace(
            base,
            cwd=cwd,
            origin=origin,
            add_dirs=(*base.add_dirs, *more),
            mcp_config=(*base.mcp_config, *servers),
            can_ask=True,
            interactive=self._client.forms,
            keep_files=True,
            fork=base.fork or None,
        )

    async def _list(self, params: Raw) -> RequestResult:
        asked: shapes.SessionsWanted = shapes.read(params, shapes.SessionsWanted)
        if asked.cwd is not None and not Path(asked.cwd).is_absolute():
            raise RpcError(PARAMS, f"cwd must be an absolute path, and {asked.cwd!r} is not")
        return RequestResult(await list_page(home_from(self._options.env), asked.cwd, asked.cursor))

    async def _close(self, params: Raw) -> RequestResult:
        thread = self._thread(shapes.read(params, shapes.OfSession).sessionId)
        del self.threads[thread.port.id]
        await thread.close()
        return RequestResult({})

    async def _delete(self, params: Raw) -> RequestResult:
        id: str = shapes.read(params, shapes.OfSession).sessionId
        thread = self.threads.get(id)
        if thread is not None and thread.port.elsewhere:
            raise _busy(id)
        if thread is not None:
            del self.threads[id]
            await thread.close()
        home = home_from(self._options.env)
        found = sessions_named(home, id) if is_session_id(id) else []
        try:
            busy = await delete_stored(home, found) if found else []
        except TeamwrightError as error:
            raise _failure(error) from None
        if busy:
            raise _busy(id)
        return RequestResult({})

    # --- one session

    def _thread(self, id: str) -> Thread:
        thread = self.threads.get(id)
        if thread is None:
            raise RpcError(NO_SESSION, f"no session {id!r} is open here: load it first")
        return thread

    def _prompt(self, params: Raw) -> Awaitable[RequestResult]:
        asked: shapes.PromptRequest = shapes.read(params, shapes.PromptRequest)
        return self._run_prompt(self._thread(asked.sessionId), asked)

    async def _run_prompt(self, thread: Thread, asked: shapes.PromptRequest) -> RequestResult:
        return RequestResult({"stopReason": await thread.prompt(prompt_of(asked))})

    async def _steer(self, params: Raw) -> RequestResult:
        asked: shapes.PromptRequest = shapes.read(params, shapes.PromptRequest)
        try:
            return RequestResult({"outcome": await self._thread(asked.sessionId).steer(prompt_of(asked))})
        except TeamwrightError as error:
            raise _failure(error) from None

    async def _cancel(self, params: Raw) -> RequestResult:
        id: str = shapes.read(params, shapes.OfSession).sessionId
        for thread in self.threads.values():
            if (child := thread.hearing.children.known(id)) is not None:
                await thread.stop_child(child)
                return RequestResult({})
        await self._thread(id).cancel()
        return RequestResult({})

    async def _set_mode(self, params: Raw) -> RequestResult:
        asked: shapes.ModeWanted = shapes.read(params, shapes.ModeWanted)
        await self._thread(asked.sessionId).set_option("mode", asked.modeId)
        return RequestResult({})

    async def _set_model(self, params: Raw) -> RequestResult:
        asked: shapes.ModelWanted = shapes.read(params, shapes.ModelWanted)
        await self._thread(asked.sessionId).set_option("model", asked.modelId)
        return RequestResult({})

    async def _set_option(self, params: Raw) -> RequestResult:
        asked: shapes.OptionWanted = shapes.read(params, shapes.OptionWanted)
        thread = self._thread(asked.sessionId)
        await thread.set_option(asked.configId, asked.value)
        return RequestResult({"configOptions": thread.config.options()})


def servers_text(servers: list[shapes.McpServer]) -> str:
    """The editor's servers in the form of `--mcp-config`."""
    found: dict[str, Any] = {}
    for server in servers:
        if server.type == "stdio":
            env = {one.name: one.value for one in server.env}
            found[server.name] = {"command": server.command, "args": server.args, "env": env}
        else:
            headers = {one.name: one.value for one in server.headers}
            found[server.name] = {"type": server.type, "url": server.url, "headers": headers}
    return msgspec.json.encode({"mcpServers": found}).decode()


def _checked(id: str) -> str:
    if not is_session_id(id):
        raise RpcError(NO_SESSION, f"there is no session {id!r}: its id would be a UUID")
    return id


def _busy(id: str) -> RpcError:
    return RpcError(INTERNAL, f"session {id} is running in another process and was not deleted")


def _failure(error: Exception) -> Exception:
    """The error as the editor is told; an error that is not ours stays a bug."""
    match error:
        case ModelError(fault="config"):
            words = HOW_TO_GET_A_MODEL if str(error).startswith("No model is set up") else str(error)
            return RpcError(NO_MODEL, words)
        case SessionMissing():
            return RpcError(NO_SESSION, str(error))
        case TeamwrightError():
            return RpcError(INTERNAL, str(error))
        case _:
            return error
