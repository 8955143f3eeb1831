"""An editor for tests: it starts the real program, keeps everything it receives, and checks it by official models."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from inspect import isawaitable
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import Process, TaskGroup

schema = pytest.importorskip("acp.schema")

LIMIT = 40.0
ARGV = [sys.executable, "-m", "teamwright", "acp"]
YOUNG = {"notice", "compaction_update", "subagent_update", "session_message"}  # not in the package yet
RESULTS = {
    "initialize": "InitializeResponse",
    "session/new": "NewSessionResponse",
    "session/load": "LoadSessionResponse",
    "session/resume": "ResumeSessionResponse",
    "session/fork": "ForkSessionResponse",
    "session/list": "ListSessionsResponse",
    "session/prompt": "PromptResponse",
    "session/set_config_option": "SetSessionConfigOptionResponse",
}
Json = dict[str, Any]
Answer = str | None | Callable[[Json], Any]


class Refused(Exception):
    """The program answered with an error."""

    def __init__(self, error: Json) -> None:
        super().__init__(error["message"])
        self.code: int = error["code"]
        self.data = error.get("data")


class Waiting:
    """An answer that has not come yet."""

    def __init__(self, method: str) -> None:
        self.method, self.message, self._here = method, {}, anyio.Event()

    def come(self, message: Json) -> None:
        self.message = message
        self._here.set()

    @property
    def here(self) -> bool:
        return self._here.is_set()

    async def result(self, limit: float = LIMIT) -> Json:
        with anyio.fail_after(limit):
            await self._here.wait()
        if "error" in self.message:
            raise Refused(self.message["error"])
        if kind := RESULTS.get(self.method):
            getattr(schema, kind).model_validate(self.message["result"])
        return self.message["result"]


class Editor:
    """`answer` is an option's id or kind, None for a closed dialog, or a function of the request; likewise `form`."""

    def __init__(self, process: Process, group: TaskGroup, answer: Answer, form: Answer) -> None:
        self.process, self._group, self.answer, self.form = process, group, answer, form
        self.heard: list[Json] = []
        self.asked: list[Json] = []
        self.faults: list[str] = []
        self.withdrawn: list[Any] = []
        self._waiting: dict[int, Waiting] = {}
        self._news = anyio.Event()
        self.opened: Json = {}

    # --- in

    async def read(self) -> None:
        assert self.process.stdout is not None
        rest = b""
        async for chunk in self.process.stdout:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._hear(line)

    def _hear(self, line: bytes) -> None:
        try:
            message = json.loads(line)
            self._check(message)
        except ValueError as error:
            self.faults.append(f"{error}: {line[:500]!r}")
            return
        self.heard.append(message)
        if "method" not in message and (waiting := self._waiting.get(message.get("id"))) is not None:
            waiting.come(message)
        elif message.get("method") == "$/cancel_request":
            self.withdrawn.append(message["params"]["requestId"])
        elif "method" in message and "id" in message:
            self.asked.append(message["params"])
            self._group.start_soon(self._serve, message)
        self._news.set()
        self._news = anyio.Event()

    def _check(self, message: Json) -> None:
        """Raises ValueError for what the official models refuse."""
        params = message.get("params", {})
        match message.get("method"):
            case "session/update" if params["update"]["sessionUpdate"] not in YOUNG:
                schema.SessionNotification.model_validate(params)
            case "session/request_permission":
                schema.RequestPermissionRequest.model_validate(params)
            case "elicitation/create":
                schema.CreateFormSessionElicitationRequest.model_validate(params)
            case _:
                pass

    async def _serve(self, message: Json) -> None:
        params, form = message["params"], message["method"] == "elicitation/create"
        wanted = self.form if form else self.answer
        chosen = wanted(params) if callable(wanted) else wanted
        if isawaitable(chosen):
            chosen = await chosen
        if isinstance(chosen, dict) and not form:  # an answer of any shape
            await self.write({"jsonrpc": "2.0", "id": message["id"]} | chosen)
            return
        if form:
            result: Json = {"action": "accept", "content": chosen} if chosen is not None else {"action": "decline"}
        else:
            found = [o["optionId"] for o in params["options"] if chosen in (o["optionId"], o["kind"])]
            selected = {"outcome": "selected", "optionId": found[0] if found else chosen}
            result = {"outcome": selected if chosen is not None else {"outcome": "cancelled"}}
        await self.write({"jsonrpc": "2.0", "id": message["id"], "result": result})

    # --- out

    async def write(self, value: Any) -> None:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        assert self.process.stdin is not None
        await self.process.stdin.send(data + b"\n")

    async def notify(self, method: str, **params: Any) -> None:
        await self.write({"jsonrpc": "2.0", "method": method, "params": params})

    async def start(self, method: str, **params: Any) -> Waiting:
        id, waiting = len(self._waiting) + 1000, Waiting(method)
        self._waiting[id] = waiting
        waiting.id = id  # type: ignore[attr-defined]
        await self.write({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        return waiting

    async def call(self, method: str, **params: Any) -> Json:
        return await (await self.start(method, **params)).result()

    async def new(self, cwd: Path, **more: Any) -> str:
        self.opened = await self.call("session/new", cwd=str(cwd), **({"mcpServers": []} | more))
        return self.opened["sessionId"]

    async def prompting(self, session: str, *content: Any) -> Waiting:
        blocks = [{"type": "text", "text": c} if isinstance(c, str) else c for c in content]
        return await self.start("session/prompt", sessionId=session, prompt=blocks)

    async def prompt(self, session: str, *content: Any) -> str:
        return (await (await self.prompting(session, *content)).result())["stopReason"]

    # --- what was heard

    def updates(self, session: str, kind: str | None = None) -> list[Json]:
        found = [m["params"] for m in self.heard if m.get("method") == "session/update"]
        mine = [p["update"] for p in found if p["sessionId"] == session]
        return [u for u in mine if kind in (None, u["sessionUpdate"])]

    def text(self, session: str, kind: str = "agent_message_chunk") -> str:
        return "".join(u["content"].get("text", "") for u in self.updates(session, kind))

    def calls(self, session: str) -> dict[str, Json]:
        """By id: the final fields, every status, and every text that it showed."""
        found: dict[str, Json] = {}
        for update in self.updates(session):
            if update["sessionUpdate"] in ("tool_call", "tool_call_update"):
                one = found.setdefault(update["toolCallId"], {"statuses": [], "texts": []})
                one |= update
                one["statuses"] += [update["status"]] if "status" in update else []
                texts = [c["content"].get("text", "") for c in update.get("content", []) if c["type"] == "content"]
                one["texts"] += texts
        return found

    def card(self, session: str, title: str) -> Json:
        return next(c for c in self.calls(session).values() if title in c["title"])

    async def until(self, seen: Callable[["Editor"], Any], limit: float = LIMIT) -> Any:
        with anyio.fail_after(limit):
            while not (value := seen(self)):
                await self._news.wait()
        return value

    async def ended(self, limit: float = 15.0) -> int:
        with anyio.fail_after(limit):
            return await self.process.wait()


class Workshop:
    """A home, a project and a script for editors; several editors may come one after the other."""

    def __init__(self, root: Path) -> None:
        self.home, self.project = root / "home", root / "project"
        self._script, self.errors = root / "script.json", root / "errors"
        for place in (self.home, self.project):
            place.mkdir()

    @property
    def env(self) -> dict[str, str]:
        kept = {
            k: v for k, v in os.environ.items() if not k.startswith(("ANTHROPIC", "OPENAI", "TEAMWRIGHT", "CLAUDE"))
        }
        return kept | {"HOME": str(self.home), "TEAMWRIGHT_HOME": str(self.home / ".teamwright")}

    def play(self, script: Any) -> None:
        self._script.write_text(json.dumps(script))

    @property
    def model(self) -> list[str]:
        return ["--model", f"script/{self._script}"]

    @asynccontextmanager
    async def editor(
        self,
        *args: str,
        answer: Answer = "allow_once",
        form: Answer = None,
        trust: bool = True,
        model: bool = True,
        capabilities: Json | None = None,
        env: dict[str, str] | None = None,
        hello: bool = True,
    ) -> AsyncIterator[Editor]:
        argv = [*ARGV, *(self.model if model else []), *(["--trust"] if trust else []), *args]
        with self.errors.open("ab") as errors:
            process = await anyio.open_process(
                argv, cwd=self.project, env=self.env | (env or {}), stdin=subprocess.PIPE, stderr=errors
            )
        async with process, anyio.create_task_group() as group:
            editor = Editor(process, group, answer, form)
            group.start_soon(editor.read)
            try:
                if hello:
                    await editor.call("initialize", protocolVersion=1, clientCapabilities=capabilities or {})
                yield editor
                if process.returncode is None:
                    assert process.stdin is not None
                    await process.stdin.aclose()
                    await editor.ended()
            finally:
                if process.returncode is None:
                    process.kill()
                group.cancel_scope.cancel()
        assert not editor.faults, editor.faults


def tool(name: str, /, **input: Any) -> Json:
    return {"tool": name, "input": input}


def bash(command: str) -> Json:
    return tool("Bash", command=command)


def agent(script: str, *, background: bool = False, **more: Any) -> Json:
    fields = {"description": f"play {script}", "prompt": f"SCRIPT:{script}", "subagent_type": "general-purpose"}
    return tool("Agent", **fields, run_in_background=background, **more)


async def appears(path: Path, limit: float = LIMIT) -> str:
    """Wait until a file has some text, and return it."""
    with anyio.fail_after(limit):
        while not (path.exists() and path.read_text().strip()):
            await anyio.sleep(0.01)
    return path.read_text()
