"""A session with agents whose scripts may wait for one another."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from inspect import isawaitable
from pathlib import Path
from typing import Any

import anyio

from conftest import Walker
from teamwright.app import open_session
from teamwright.core.data.event import Event, Record, ToolEnded, TurnEnded
from teamwright.core.data.message import Message, Request, Text, ToolResult
from teamwright.core.data.op import Op, Say
from teamwright.core.ids import AgentId
from teamwright.models.scripted import ScriptedModel, ScriptStep, call
from teamwright.runtime.session import Session
from teamwright.store.files import transcripts

LIMIT = 20.0
ID = r"{{re:agentId: (\w+)}}"
NO_ANSWERS: dict[str, Any] = {  # replies that end in a way that makes them no answer
    "a call": [Text("Let me look at that first."), call("Bash", command="true")],
    "refused": ScriptStep((Text("I cannot"),), stop="refusal"),
    "cut off": ScriptStep((Text("First, what was asked"),), stop="max_tokens"),
    "empty": ScriptStep(()),
}
_MARK = re.compile(r"SCRIPT:(\w+)")


def agent(script: str, **more: Any) -> Any:
    """An Agent call whose child plays that script."""
    return call("Agent", **{"description": f"does {script}", "prompt": f"SCRIPT:{script}"} | more)


def bash(command: str) -> Any:
    return call("Bash", command=command)


def stage(scripts: Mapping[str, Sequence[Any]]) -> ScriptedModel:
    """Each agent plays the script that its first message names. A step may be a function of the request, also async."""

    async def play(request: Request) -> Any:
        step = sum(m.role == "assistant" for m in request.messages)
        steps = scripts[script_of(request)]
        made = steps[step] if step < len(steps) else "done"
        if callable(made):
            made = made(request)
        return await made if isawaitable(made) else made

    return ScriptedModel(play)


def script_of(request: Request) -> str:
    """The script is named by the first message with a mark: a reminder of the mode may come before it."""
    marks = (_MARK.search(message.text) for message in request.messages if message.role == "user")
    return next((found[1] for found in marks if found), "main")


def after(event: anyio.Event, step: Any) -> Callable[[Request], Awaitable[Any]]:
    """A step that waits until something has happened."""

    async def play(_: Request) -> Any:
        with anyio.fail_after(LIMIT):
            await event.wait()
        return step

    return play


def marking(event: anyio.Event, step: Any) -> Callable[[Request], Any]:
    """A step that tells others that it was requested."""

    def play(_: Request) -> Any:
        event.set()
        return step

    return play


class Crew:
    def __init__(self, session: Session, model: ScriptedModel) -> None:
        self.session, self.model = session, model
        self.records: list[Record] = []
        self._watch = session.watch(deltas=False)

    async def play(self, prompt: str = "go") -> TurnEnded:
        """Say something and wait until nothing is left to do; return the last end of the main agent's turns."""
        await self.say(prompt)
        with anyio.fail_after(LIMIT):
            await self.session.idle()
        end = self.session.main.history.ended
        assert end is not None
        return end

    async def say(self, text: str) -> None:
        await self.session.submit(Say((Text(text),)))

    async def submit(self, op: Op) -> None:
        with anyio.fail_after(LIMIT):
            await self.session.submit(op)

    async def until(self, seen: Callable[[Event], bool] | type) -> Any:
        with anyio.fail_after(LIMIT):
            async for record in self._watch:
                self.records.append(record)
                if isinstance(record.event, seen) if isinstance(seen, type) else seen(record.event):
                    return record.event
        raise AssertionError("the session ended before it was seen")

    async def rest(self) -> None:
        with anyio.fail_after(LIMIT):
            self.records += [record async for record in self._watch]

    def of(self, kind: type) -> list[Any]:
        return [r.event for r in self.records if isinstance(r.event, kind)]

    def requests(self, script: str = "main") -> list[Request]:
        return [r for r in self.model.requests if script_of(r) == script]

    @property
    def id(self) -> AgentId:
        return AgentId(self.session.id)

    @property
    def children(self) -> list[AgentId]:
        return [AgentId(id) for id in dict.fromkeys(job.id for job in self.session.supervisor.jobs.all())]

    @property
    def notices(self) -> list[str]:
        """Every notification that the main agent's model has read, one text each."""
        texts = [b.text for m in self.session.main.history.messages for b in m.blocks if isinstance(b, Text)]
        return [text for text in texts if text.startswith("<task-notification>")]


@asynccontextmanager
async def crew(walker: Walker, scripts: Any, **more: Any) -> AsyncIterator[Crew]:
    model = scripts if isinstance(scripts, ScriptedModel) else stage(scripts)
    options = walker.options(model, **{"mode": "bypassPermissions"} | more)
    session = await open_session(options)
    async with session:
        made = Crew(session, model)
        yield made
    await made.rest()


def results(message: Message) -> list[tuple[str, bool]]:
    """(text, is_error) of the results in a message."""
    blocks = [b for b in message.blocks if isinstance(b, ToolResult)]
    return [("\n".join(c.text for c in b.content if isinstance(c, Text)), b.is_error) for b in blocks]


def ended_calls(walk: Crew, agent: AgentId | None = None) -> list[ToolEnded]:
    wanted = agent or walk.id
    return [r.event for r in walk.records if r.agent == wanted and isinstance(r.event, ToolEnded)]


def events_of(walker: Walker, agent: str) -> list[Any]:
    (path,) = (walker.store / "projects").glob(f"*/*/agents/{agent}.jsonl")
    return [line.event for _, line in transcripts.read(path)]


def check_valid(messages: Sequence[Message]) -> None:
    """Every call has exactly one result, in the next message; no reply follows another one."""
    owed: list[str] = []
    for before, message in zip((None, *messages), messages, strict=False):
        assert message.blocks
        assert before is None or "user" in (before.role, message.role)
        assert [b.call_id for b in message.blocks if isinstance(b, ToolResult)] == owed
        owed = [c.id for c in message.calls]
    assert not owed


def write_agent(walker: Walker, name: str, *fields: str, body: str = "You work.") -> Path:
    """Write a definition to the user's directory."""
    file = walker.home / ".teamwright/agents" / f"{name}.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(["---", f"name: {name}", "description: A test agent", *fields, "---", body, ""]))
    return file
