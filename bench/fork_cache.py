"""Runs one parent and five forks on a real model, and shows how many prompt tokens the server evaluated per request.

python bench/fork_cache.py [--wire openai|anthropic] [--context TOKENS] [--slots 6 [--apart]] [--json]

Every request goes to a local server (`local_server.py`), which also supplies every figure. Only the parent's first
reply is scripted, because so small a model does not ask for five forks by itself. From other replies we keep the words
and drop the calls: random calls would only blur the figures.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec
from local_server import WINDOW, LocalServer, local_server
from msgspec import Raw
from msgspec.structs import replace

from teamwright.app import Options, open_session
from teamwright.core.data.message import Message, Reply, Request, Text, ToolCall, Usage
from teamwright.core.data.op import Say
from teamwright.core.errors import ModelError
from teamwright.core.ids import CallId
from teamwright.core.ports import Model, OnDelta
from teamwright.models.providers import Providers
from teamwright.models.wires import openai

WIRES = {"openai": ("OPENAI_BASE_URL", "/v1"), "anthropic": ("ANTHROPIC_BASE_URL", "")}
FORKS = 5
MOST = 5.0  # per cent of the first request, for forks two to five
TAIL = 1_024  # tokens kept free after the parent's context: calls, placeholder results, rules, a reply
OUTPUT = 32  # tokens of a reply; one that is cut off there counts as ended
LIMIT = 900.0  # seconds for one session
TOOLS = ("Agent", "Read")
TASKS = {
    "in turn": ("purpose", "structure", "wording", "examples", "gaps"),
    "at the same time": ("layers", "storage", "errors", "tests", "limits"),
}
DOCS = Path(__file__).resolve().parent.parent / "docs"


@dataclass
class Row:
    """One request: tokens as the server counted them, seconds since the session began."""

    wire: str
    way: str
    request: str
    cached: int
    evaluated: int
    began: float
    ended: float
    said: str

    @property
    def prompt(self) -> int:
        return self.cached + self.evaluated


class Players:
    """The session's model: forwards requests to the local server, and plays the parent's first reply."""

    def __init__(self, inner: Model, wire: str, way: str, spread: Callable[[], None] | None) -> None:
        self.rows: list[Row] = []
        self.done, self.failed = anyio.Event(), ""
        self._inner, self._wire, self._way, self._spread = inner, wire, way, spread
        self._began = time.monotonic()
        self._asked = 0  # by the parent
        self._answered = 0  # first requests of forks
        self._forked = anyio.Event()

    async def reply(self, request: Request, on_delta: OnDelta) -> Reply:
        if request.shared:
            return await self._fork(request, on_delta)
        self._asked += 1
        if self._asked == 1:
            reply = await self._measure("parent, first", request, on_delta)
            if self._spread is not None:
                await anyio.to_thread.run_sync(self._spread)
            return replace(reply, message=spawning(request.model, TASKS[self._way]), stop="tool_use")
        await self._forked.wait()  # between two siblings, it would take the only slot from them
        if self._asked > 2:
            await anyio.sleep_forever()  # everything is measured and the session is closing
        reply = await self._measure("parent, next", request, on_delta)
        self.done.set()
        return reply

    async def _fork(self, request: Request, on_delta: OnDelta) -> Reply:
        if request.shared != len(request.messages):  # it goes on after an empty reply
            return await self._inner.reply(request, on_delta)
        reply = await self._measure("fork", request, on_delta)
        self._answered += 1
        self.rows[-1].request = f"fork {self._answered}"
        if self._answered == FORKS:
            self._forked.set()
        return reply

    async def _measure(self, name: str, request: Request, on_delta: OnDelta) -> Reply:
        began = time.monotonic() - self._began
        try:
            reply = await self._inner.reply(request, on_delta)
        except ModelError as error:
            self.failed = self.failed or f"{name}: {error}"
            self.done.set()
            raise
        words, used = reply.message.text.strip(), reply.usage
        times = (round(began, 2), round(time.monotonic() - self._began, 2))
        self.rows.append(Row(self._wire, self._way, name, used.cache_read, used.input, *times, words))
        message = Message("assistant", (Text(words or "(no words)"),), request.model)
        return replace(reply, message=message, stop="end_turn")


class Catcher:
    """A model that only records its requests."""

    request: Request | None = None

    async def reply(self, request: Request, on_delta: OnDelta) -> Reply:
        self.request = request
        return Reply(Message("assistant", (Text("kept"),), request.model), "end_turn", Usage())


def spawning(model: str, tasks: Sequence[str]) -> Message:
    calls = []
    for number, task in enumerate(tasks, 1):
        args = {"description": f"Look at its {task}", "prompt": f"Sum up its {task}.", "subagent_type": "fork"}
        calls.append(ToolCall(CallId(f"call_{number}"), "Agent", Raw(msgspec.json.encode(args))))
    return Message("assistant", tuple(calls), model)


def options(model: Model, room: Path, way: str = "") -> Options:
    env = {"HOME": str(room), "TEAMWRIGHT_HOME": str(room / "state"), "PATH": "/usr/bin:/bin"}
    if way == "in turn":
        env["TEAMWRIGHT_MAX_AGENTS"] = "1"
    project = room / "project"
    project.mkdir(exist_ok=True)
    return Options(cwd=project, env=env, own_model=model, fork=True, tools=TOOLS)


async def prompt_of(server: LocalServer, room: Path, context: int | None) -> str:
    """Enough of our documents to make the parent's first request as long as asked for, or as long as fits."""
    catcher = Catcher()
    async with await open_session(options(catcher, room)) as session:
        await session.ask("Read this.\n")
    assert catcher.request is not None
    body = b"".join(map(bytes, openai.OpenAIWire().body(catcher.request, {"model": "local"})))
    alone = server.ask("/v1/chat/completions/input_tokens", body)["input_tokens"]
    wanted = min(context or WINDOW, WINDOW - TAIL) - alone
    if wanted < 1:
        return "Read this.\n"
    text = "\n".join(page.read_text() for page in sorted(DOCS.glob("*.md")))
    return "Read this.\n" + server.cut(text, wanted)


async def play(server: LocalServer, room: Path, wire: str, way: str, prompt: str, *, copies: bool) -> list[Row]:
    name, path = WIRES[wire]
    providers = Providers({name: server.url + path}, silence=LIMIT, retries=0)
    players = Players(providers.open(wire, max_output=OUTPUT), wire, way, server.spread if copies else None)
    try:
        async with await open_session(options(players, room, way)) as session:
            await session.say(Say((Text(prompt),)))
            with anyio.move_on_after(LIMIT):
                await players.done.wait()
    finally:
        await providers.aclose()
    if players.failed or not players.done.is_set():
        sys.exit(players.failed or f"not done within {LIMIT:g} s; answered: {[row.request for row in players.rows]}")
    return players.rows


async def measure(wire: str, context: int | None, slots: int, copies: bool) -> list[Row]:
    """Measure forks in turn and in parallel on one server: the same conversation in a new session, with other tasks."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as made, local_server(Path(made), slots=slots, most_output=OUTPUT) as server:
        prompt = await prompt_of(server, Path(made), context)
        for way in TASKS if slots == 1 else ("at the same time",):
            rows += await play(server, Path(made), wire, way, prompt, copies=copies and slots > 1)
    return rows


def share(row: Row, first: Row) -> float:
    return 100 * row.evaluated / first.evaluated


def siblings(rows: Sequence[Row]) -> list[Row]:
    """Forks two to five."""
    return [row for row in rows if row.request.startswith("fork") and row.request != "fork 1"]


def table(rows: Sequence[Row]) -> str:
    lines = [["request", "prompt tokens", "from cache", "evaluated", "% of first", "seconds"]]
    for row in rows:
        figures = (f"{row.prompt:,}", f"{row.cached:,}", f"{row.evaluated:,}", f"{share(row, rows[0]):.2f}")
        lines.append([f"{row.way}: {row.request}", *figures, f"{row.began:.1f} to {row.ended:.1f}"])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))])
        for line in lines
    )


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Prompt tokens that five forks cost on a local model.")
    parser.add_argument("--wire", choices=WIRES, action="append", help="which endpoint (default: both)")
    parser.add_argument("--context", type=int, help="tokens of the parent's first request (default: what fits)")
    parser.add_argument("--slots", type=int, default=1, help="of the server (default: 1)")
    parser.add_argument("--apart", action="store_true", help="do not copy the parent's slot into the others")
    parser.add_argument("--json", action="store_true", help="rows as JSON instead of tables")
    asked = parser.parse_args(argv)
    kept, over = [], False
    for wire in asked.wire or WIRES:
        began = time.monotonic()
        rows = anyio.run(measure, wire, asked.context, asked.slots, not asked.apart)
        most = max(share(row, rows[0]) for row in siblings(rows))
        over |= asked.slots == 1 and most > MOST
        kept += rows
        if not asked.json:
            print(f"{wire}, slots: {asked.slots}, window: {WINDOW:,} tokens, {time.monotonic() - began:.0f} s")
            print(f"{table(rows)}\nforks two to five: at most {most:.2f} % of the first request\n", flush=True)
    if asked.json:
        print(json.dumps([asdict(row) | {"prompt": row.prompt} for row in kept]))
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
