"""A provider for teams that are killed: a real HTTP server whose answers follow from the conversation alone.

It remembers nothing between requests, so an agent that comes back after a kill continues with what is not done yet.
Every message has its own name, `MSG:from:to:round.number.attempt`, by which the checker recognises it.
"""

import asyncio
import json
import os
import re
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

LEAD, TEAM = "team-lead", "crew"
MATES = ("ada", "bob", "cyd")
GUEST = "dee"  # in the long plan: a teammate that is asked to shut down
TASKS = 3  # in each round
MSG = re.compile(r"MSG:([\w-]+):([\w*-]+):(\d+\.\d+)\.(\d+)")
CLAIM = re.compile(r"Task #(\d+) is yours now: ")
RACE = re.compile(r"RACE:([\d,]+)")
ROUND = re.compile(r"ROUND:(\d+)")
CREW = re.compile(r"CREW:([\w-]+)")
LONG = "PLAN:long"  # with a guest, and with agents in the foreground and in the background
HELP = re.compile(r"HELP:(\d)")
MARKS = re.compile(r"MARKS:(\S+)")  # on an engine: a file that commands write to, and agents sent to workers as jobs
JOB = "job-"  # prefix of such an agent's name
ASKED = re.compile(r"shutdown_request.*?\b(shutdown-\w+)")
CREATED = re.compile(r"Task #(\d+) (?:created|had been created)")
UNDONE = ("Not run:", "was not sent", "was not made", "before this call was stored")  # it may be requested again
TOGETHER = 3  # calls in one reply


class Call(Struct):
    """A call as its agent's conversation shows it; `result` is None until there is one."""

    name: str
    input: dict[str, Any]
    result: str | None = None
    is_error: bool = False

    @property
    def settled(self) -> bool:
        """Done or refused for good: it is not requested again."""
        if self.result is None:
            return True  # under way
        return not (self.is_error and any(words in self.result for words in UNDONE))


class Talk:
    """The parts of a request that the plan needs."""

    def __init__(self, body: dict[str, Any]) -> None:
        self.texts: list[str] = []
        self.calls: dict[str, Call] = {}
        self.fault = find_fault(body["messages"])
        for message in body["messages"]:
            blocks = message["content"]
            for block in [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks:
                self._read(message["role"], block)

    def _read(self, role: str, block: dict[str, Any]) -> None:
        if block["type"] == "text" and role == "user":
            self.texts.append(block["text"])
        elif block["type"] == "tool_use":
            self.calls[block["id"]] = Call(block["name"], block["input"])
        elif block["type"] == "tool_result":
            call = self.calls[block["tool_use_id"]]
            content = block.get("content") or ""
            call.result = content if isinstance(content, str) else "\n".join(c.get("text", "") for c in content)
            call.is_error = bool(block.get("is_error"))

    @property
    def name(self) -> str:
        return next((found[1] for text in self.texts if (found := CREW.search(text))), "")

    def of(self, name: str) -> Iterator[Call]:
        return (call for call in self.calls.values() if call.name == name)

    def heard(self) -> list[tuple[str, str, str]]:
        """(from, to, number) of every message in it."""
        return [(m[1], m[2], m[3]) for text in self.texts for m in MSG.finditer(text)]


def find_fault(messages: list[dict[str, Any]]) -> str:
    """What a provider would refuse in a conversation; empty if nothing."""
    roles = [message["role"] for message in messages]
    if roles[:1] != ["user"] or roles[-1:] != ["user"]:
        return f"begins with {roles[:1]}, ends with {roles[-1:]}"
    owed: list[str] = []
    for n, message in enumerate(messages):
        blocks = message["content"] if isinstance(message["content"], list) else []
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if results != owed:
            return f"message {n} has results of {results}, where {owed} were called"
        if roles[n : n + 2] == ["assistant", "assistant"]:
            return f"messages {n} and {n + 1} are both the assistant's"
        owed = [block["id"] for block in blocks if block["type"] == "tool_use"]
    return ""


def tool(name: str, /, **input: Any) -> dict[str, Any]:
    return {"name": name, "input": input}


def plan(talk: Talk) -> list[dict[str, Any]]:
    """What the agent still has to do, in order."""
    name = talk.name
    if name == LEAD:
        return list(_lead(talk))
    if name.startswith(JOB):
        return list(_mark(talk, name, "1"))
    return list(_mate(talk, name) if name in MATES else _guest(talk) if name == GUEST else _helper(talk))


def _send(talk: Talk, sender: str, to: str, number: str, more: str = "") -> Iterator[dict[str, Any]]:
    tried = [c for c in talk.of("SendMessage") if f"MSG:{sender}:{to}:{number}." in c.input["message"]]
    if not tried or not tried[-1].settled:
        text = f"MSG:{sender}:{to}:{number}.{len(tried) + 1} {more}".rstrip()
        yield tool("SendMessage", to=to, message=text, summary="one of many")


def _lead(talk: Talk) -> Iterator[dict[str, Any]]:
    if not any(call.settled for call in talk.of("TeamCreate")):
        yield tool("TeamCreate", team_name=TEAM, description="is killed")
        return
    for mate in MATES:
        if not any(call.settled for call in talk.of("Agent") if call.input.get("name") == mate):
            yield tool(
                "Agent", name=mate, team_name=TEAM, description="works", prompt=f"CREW:{mate}{_marks(talk)}",
                subagent_type="general-purpose",
            )  # fmt: skip
    if any(LONG in text for text in talk.texts):
        yield from _hire(talk)
    rounds = max((int(n) for text in talk.texts for n in ROUND.findall(text)), default=0)
    for r in range(1, rounds + 1):
        yield from _round(talk, r)


def _marks(talk: Talk) -> str:
    return next((f" {found[0]}" for text in talk.texts if (found := MARKS.search(text))), "")


def _mark(talk: Talk, name: str, number: str) -> Iterator[dict[str, Any]]:
    """A command that shows how often it ran: in its tree, and beside it."""
    if found := MARKS.search(_marks(talk)):
        tried = [c for c in talk.of("Bash") if f"MARK:{name}:{number}." in c.input["command"]]
        if not tried or not tried[-1].settled:
            word = f"MARK:{name}:{number}.{len(tried) + 1}"
            yield tool("Bash", command=f"echo {word} >> {found[1]}; echo {word} >> work.txt")


def _send_away(talk: Talk, r: int) -> Iterator[dict[str, Any]]:
    """Send one agent per round to a worker, as a job."""
    name, more = f"{JOB}{r}", _marks(talk)
    if more and not any(f"CREW:{name} " in call.input["prompt"] for call in talk.of("Agent") if call.settled):
        yield tool(
            "Agent", prompt=f"CREW:{name}{more}", description="works alone", isolation="remote",
            subagent_type="general-purpose",
        )  # fmt: skip


def _hire(talk: Talk) -> Iterator[dict[str, Any]]:
    hired = [call.input["prompt"] for call in talk.of("Agent") if call.settled]
    kind = {"subagent_type": "general-purpose", "description": "helps"}
    if f"CREW:{GUEST}" not in hired:
        yield tool("Agent", name=GUEST, team_name=TEAM, prompt=f"CREW:{GUEST}", **kind)
    for n in range(2):
        if f"HELP:{n}" not in hired:
            yield tool("Agent", prompt=f"HELP:{n}", run_in_background=bool(n), **kind)


def _dismiss(talk: Talk) -> Iterator[dict[str, Any]]:
    if not any(call.settled for call in talk.of("SendMessage") if call.input["to"] == GUEST):
        yield tool("SendMessage", to=GUEST, message={"type": "shutdown_request", "reason": "done"})


def _guest(talk: Talk) -> Iterator[dict[str, Any]]:
    yield from _complete(talk)
    answered = {c.input["message"]["request_id"] for c in talk.of("SendMessage") if c.settled}
    for id in dict.fromkeys(id for text in talk.texts for id in ASKED.findall(text)):
        if id not in answered:
            answer = {"type": "shutdown_response", "request_id": id, "approve": True}
            yield tool("SendMessage", to=LEAD, message=answer)


def _helper(talk: Talk) -> Iterator[dict[str, Any]]:
    if any(HELP.search(text) for text in talk.texts) and not talk.calls:
        yield tool("TaskList")


def _round(talk: Talk, r: int) -> Iterator[dict[str, Any]]:
    ids: list[str] = []
    for n in range(TASKS):
        subject = f"JOB:{r}.{n}"
        made = [call for call in talk.of("TaskCreate") if call.input["subject"] == subject and call.settled]
        if not made:
            yield tool("TaskCreate", subject=subject, description="to be done once")
        ids += [found[1] for call in made if (found := CREATED.search(call.result or ""))]
    yield from _send_away(talk, r)
    if r % 2:
        yield from _send(talk, LEAD, MATES[r // 2 % len(MATES)], f"{r}.1")
    if len(ids) == TASKS:
        yield from _send(talk, LEAD, "*", f"{r}.0", f"RACE:{','.join(ids)}")
    if r == 1 and any(LONG in text for text in talk.texts):
        yield from _dismiss(talk)


def _mate(talk: Talk, name: str) -> Iterator[dict[str, Any]]:
    changes = list(talk.of("TaskUpdate"))
    tried = {c.input["taskId"] for c in changes if "owner" in c.input and c.settled}
    races = [id for text in talk.texts for ids in RACE.findall(text) for id in ids.split(",")]
    for id in dict.fromkeys(races):
        if id not in tried:
            yield tool("TaskUpdate", taskId=id, owner=name)
    yield from _complete(talk)
    for _, to, number in dict.fromkeys(talk.heard()):
        if to == "*":
            yield from _mark(talk, name, number)
    after = MATES[(MATES.index(name) + 1) % len(MATES)]
    for sender, _, number in dict.fromkeys(talk.heard()):
        yield from _send(talk, name, after if sender == LEAD else LEAD, number)


def _complete(talk: Talk) -> Iterator[dict[str, Any]]:
    changes = list(talk.of("TaskUpdate"))
    mine = [id for text in talk.texts for id in CLAIM.findall(text)]
    mine += [c.input["taskId"] for c in changes if "owner" in c.input and c.result and not c.is_error]
    tries = [c for c in changes if "status" in c.input and c.settled]
    done = {c.input["taskId"] for c in tries if not c.is_error}
    for id in dict.fromkeys(mine):  # one that was taken away and claimed again is tried again
        if id not in done and sum(c.input["taskId"] == id for c in tries) < mine.count(id):
            yield tool("TaskUpdate", taskId=id, status="completed")


# --- the wire


def events(steps: list[dict[str, Any]], *, text: str = "resting", tokens: int = 10) -> list[dict[str, Any]]:
    """A reply with these calls; without any, with this text."""
    usage = {"input_tokens": tokens, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "m", "usage": usage}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    for index, step in enumerate(steps or [None]):
        if step is None:
            block = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": text}
        else:
            block = {"type": "tool_use", "id": f"toolu_{os.urandom(8).hex()}", "name": step["name"], "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(step["input"])}
        events += [
            {"type": "content_block_start", "index": index, "content_block": block},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    stop = {"stop_reason": "tool_use" if steps else "end_turn", "stop_sequence": None}
    return [
        *events,
        {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]


class Brain:
    """The server, in its own thread. `teams` holds what was requested at each path."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.last: dict[tuple[str, str], bytes] = {}  # by team and agent: the newest whole conversation
        self.faults: dict[str, list[str]] = {}  # by team: requests that a provider would refuse
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        assert ready.wait(10)

    def _run(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve(ready))
        self._loop.close()

    async def _serve(self, ready: threading.Event) -> None:
        self._stop = asyncio.Event()
        writers: set[asyncio.StreamWriter] = set()

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writers.add(writer)
            try:
                while True:
                    writer.write(self._answer(*await _request(reader)))
                    await writer.drain()
            except (asyncio.IncompleteReadError, ConnectionError):
                pass
            finally:
                writers.discard(writer)
                writer.transport.abort()

        server = await asyncio.start_server(talk, "127.0.0.1", 0, limit=2**26)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        ready.set()
        await self._stop.wait()
        server.close()
        for writer in list(writers):
            writer.transport.abort()
        while writers:
            await asyncio.sleep(0.01)

    def _answer(self, path: str, body: bytes) -> bytes:
        team = path.split("/")[1]
        talk = Talk(msgspec.json.decode(body))
        self.counts[team] = self.counts.get(team, 0) + 1
        self.last[team, talk.name] = body
        if talk.fault:
            self.faults.setdefault(team, []).append(f"request {self.counts[team]}, of {talk.name}: {talk.fault}")
        wire = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in self.reply(team, talk)).encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(wire)}\r\n\r\n"
        return head.encode() + wire

    def reply(self, team: str, talk: Talk) -> list[dict[str, Any]]:
        return events(plan(talk)[:TOGETHER])

    def forget(self, team: str) -> None:
        self.counts.pop(team, None)
        self.faults.pop(team, None)
        for key in [key for key in self.last if key[0] == team]:
            del self.last[key]

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)


async def _request(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin1")
    size = re.search(r"(?i)\r\ncontent-length: *(\d+)", head)
    return head.split(" ", 2)[1], await reader.readexactly(int(size[1]) if size else 0)
