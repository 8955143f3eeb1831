"""Shows a session's events in one of the three output formats."""

import sys
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import anyio
import msgspec
from msgspec import Struct, field

from teamwright.core.data import api_json
from teamwright.core.data.event import (
    AgentStarted,
    Answered,
    Asked,
    Compacted,
    Denied,
    JobEnded,
    JobProgressed,
    JobStarted,
    LettersTaken,
    Record,
    Replied,
    Rewound,
    Streamed,
    Suggested,
    TeamChanged,
    ToolEnded,
    TurnEnded,
    TurnStarted,
    Warned,
)
from teamwright.core.data.extensions.hook import Fired
from teamwright.core.data.letter import ASKS
from teamwright.core.data.message import Delta, Message, Retrying, Text, Usage
from teamwright.core.ids import AgentId, CallId, line_uuid
from teamwright.runtime.driven_session import DrivenSession
from teamwright.surfaces.headless import lines
from teamwright.surfaces.port.resuming import resume_command
from teamwright.surfaces.stdout import Sink
from teamwright.surfaces.view.sentences import retry_words
from teamwright.tools.bounds import visible

if TYPE_CHECKING:
    from teamwright.runtime.teams.tasks.open_work import OpenWork

Format = Literal["text", "json", "stream-json"]
_RESTS = frozenset({"idle", "shutdown", "died"})


class Printer(Struct, eq=False):
    """Shows records one by one. `last` is the newest result, which decides the program's exit status."""

    session: DrivenSession
    out: Sink
    format: Format
    partial: bool
    replay: bool = False
    holds: bool = False  # the only result comes last: jobs are stopped before it
    engine: str | None = None  # as the option gave it
    last: TurnEnded | None = None
    printed: anyio.Event = field(default_factory=anyio.Event)
    broken: bool = False  # nobody reads any more
    open_work: "Sequence[OpenWork]" = ()  # work that teams had left open at the last result
    heard: Callable[[Record], Awaitable[None]] | None = None
    mirror: Callable[[Record], dict[str, Any] | None] | None = None  # an extra line for each record, printed first
    _calls: dict[AgentId, CallId | None] = {}  # the call that started an agent
    _turn_began: int = 0
    _denials: list[Denied] = []
    _told: int = 0  # how many of them the last result included
    _last_result: dict[str, Any] = {}
    _outlived: bool = False  # the session outlived its last result: its team went on, or a job ended
    _ended_at: int = 0
    _answer: str = ""  # to the last prompt, with what was said later
    _beside: str | None = None  # the answer so far, while that of a command stands in its place
    _interim: bool = False  # agents or teammates were at work when it was given
    _reported: bool = False  # the turn brings more than idle notices
    _asked: bool = False  # the lead was asked for its last message
    _at_work: set[str] = set()
    _data: Any = None  # the answer as data, if a program wants that
    _place: tuple[AgentId, int] | None = None  # the transcript line that is being shown

    async def show(self, record: Record) -> None:
        if self.mirror is not None and (frame := self.mirror(record)) is not None:
            await self._line(frame)
        self._place = (record.agent, record.n) if record.n else None
        await self._show(record)
        self._place = None
        if self.heard is not None:
            await self.heard(record)

    async def _show(self, record: Record) -> None:
        match record.event:
            case AgentStarted() as event:
                self._calls[record.agent] = event.call_id
            case TurnStarted() as event if record.agent == self.session.main:
                self._count(event, record.at)
                await self._line(self._init_line())
            case Streamed(delta=delta):
                await self._stream(record.agent, delta)
            case Replied() as event if event.message.blocks:
                message = api_json.message_of(event.message, event.id, event.stop, event.usage)
                await self._line({"type": "assistant", "message": message} | self._parent(record.agent))
            case Compacted() as event:
                await self._line(lines.boundary_of(event) | self._parent(record.agent))
            case Rewound() as event:
                await self._line(lines.rewound_of(event, record.agent))
            case LettersTaken() as event if record.agent == self.session.main:
                self._reported = self._reported or not all(id.startswith("i-") for id in event.letters)
                self._asked = self._asked or any(id.startswith(ASKS) for id in event.letters)
                if self.replay:
                    await self._line({"type": "user"} | lines.replayed(event.message) | self._parent(record.agent))
            case ToolEnded() as event:
                self._note_data(record.agent, event)
                line = {"type": "user", "message": api_json.user_of(event)} | self._parent(record.agent)
                await self._line(line | {"tool_use_result": _data_of(event)})
            case TurnEnded() as event if record.agent == self.session.main:
                await self._ended(event, record.at)
            case _:
                await self._show_news(record)

    async def _stream(self, agent: AgentId, delta: Delta) -> None:
        if isinstance(delta, Retrying):
            await self._line(lines.retry_of(delta))
            if self.format != "stream-json":
                sys.stderr.write(f"teamwright: {visible(retry_words(delta))}\n")
        elif self.partial:
            for event in lines.stream_events(delta):
                await self._line({"type": "stream_event", "event": event} | self._parent(agent))

    async def _show_news(self, record: Record) -> None:
        """Events that no model caused."""
        match record.event:
            case Denied() as event:
                self._denied(event)
            case Asked() as event:
                await self._line(lines.question_of(event.question, self.session.main))
            case Answered(decision=None) as event:
                await self._line(lines.cancel_of(event.question))
            case JobStarted() | JobProgressed() | JobEnded() as event:
                await self._job(event)
            case Suggested() | TeamChanged() as event:
                if isinstance(event, TeamChanged):
                    self._outlived = True
                    self._note_work(event.agent, begins=event.kind in {"spawn", "wake"}, ends=event.kind in _RESTS)
                await self._line({"type": "system"} | lines.news_of(event))
                if isinstance(event, TeamChanged) and (task := lines.mate_of(event)) is not None:
                    await self._line({"type": "system"} | task)
            case Warned() as event:
                sys.stderr.write(f"teamwright: {visible(event.text)}\n")
            case _:
                pass

    async def _job(self, event: JobStarted | JobProgressed | JobEnded) -> None:
        if not isinstance(event, JobProgressed):
            begins = isinstance(event, JobStarted) and event.kind in {"agent", "remote"}
            self._note_work(event.job, begins=begins, ends=isinstance(event, JobEnded))
        if isinstance(event, JobStarted):  # an agent's job has its id; an agent that is woken again has a new call
            self._calls[AgentId(event.job)] = event.call_id
        if isinstance(event, JobEnded):
            self._outlived = True
            await self._line({"type": "system"} | lines.ended_of(event))
        await self._line({"type": "system"} | lines.task_of(event))

    def _note_work(self, who: str, *, begins: bool, ends: bool) -> None:
        if begins:
            self._at_work.add(who)
        elif ends:
            self._at_work.discard(who)

    def _denied(self, event: Denied) -> None:
        self._denials.append(event)
        if self.format != "stream-json":  # otherwise nobody would see it
            from teamwright.runtime.permissions.judgement import for_the_person  # noqa: PLC0415  # after a judgement

            sys.stderr.write(f"teamwright: {visible(for_the_person(event.reason))}\n")

    def _note_data(self, agent: AgentId, event: ToolEnded) -> None:
        if agent == self.session.main and event.data and "structured_output" in event.data:
            self._data = event.data["structured_output"]

    async def line(self, line: dict[str, Any]) -> None:
        """A line that is not an event: the answer to a control request."""
        await self._line(line)

    async def finish(self) -> None:
        """Print what the other two formats print: only the last result. In a stream it is the last line, too."""
        if (self._outlived or self.holds) and self.last is not None:  # repeat the result with all figures
            self._last_result = self._result(self.last, self._ended_at)
            await self._line(self._last_result | lines.open_of(self.open_work))
        for work in self.open_work:
            again = resume_command(self.session.id, self.engine)
            sys.stderr.write(f"teamwright: {visible(str(work))}; `{again}` continues\n")
        if self.format == "json" and self._last_result:
            await self._print_object(self._last_result | lines.open_of(self.open_work))
        elif self.format == "text" and self.last:
            await self._print_text(self.last)

    async def _print_object(self, result: dict[str, Any]) -> None:
        if self._data is None:
            result["result"] = lines.with_open(result["result"], self.open_work)
        await self.out.write(lines.encode_line(result | self._stamp()))

    async def _print_text(self, last: TurnEnded) -> None:
        if text := lines.with_open(self._answer, () if self._data is not None else self.open_work):
            await self.out.write(visible(text).encode() + b"\n")
        if last.reason != "done":
            sys.stderr.write(f"teamwright: {visible(last.error)}\n")

    def _count(self, started: TurnStarted, at: int) -> None:
        """Count anew at each prompt; a turn that continues it belongs to the same result."""
        self._reported = self._asked = False
        if started.asked or not self._turn_began:
            self._turn_began, self._data, self._answer, self._beside = at, None, "", None
            self._denials, self._told = self._denials[self._told :], 0

    async def _ended(self, end: TurnEnded, at: int) -> None:
        self.last = end
        if end.reason == "failed" and end.stop is None:
            failure = Message("assistant", (Text(end.error),), "teamwright/none")
            message = api_json.message_of(failure, "", None, Usage()) | {"model": "<synthetic>"}
            line = {"type": "assistant", "message": message, "error": _error_kind(end.status)}
            await self._line(line | {"parent_tool_use_id": None})
        if end.reason == "done" and end.stop is None:  # of a command, also while a turn runs
            self._beside, self._answer = self._answer if self._beside is None else self._beside, end.text
        else:
            self._add_to_answer(end.text)
        self._outlived, self._ended_at = False, at
        self.open_work = await self.session.open_work()
        self._last_result = self._result(end, at)
        self._told = len(self._denials)
        if not self.holds:
            await self._line(self._last_result | lines.open_of(self.open_work))

    def _add_to_answer(self, words: str) -> None:
        """Later words are added to the answer. They take its place if agents were still at work on it and have
        reported since."""
        if self._beside is not None:
            self._answer, self._beside = self._beside, None
        if self._asked or (self._interim and self._reported):
            self._answer = ""
        if not self._answer and not words and self._data:
            words = msgspec.json.encode(self._data).decode()
        if words not in self._answer:
            self._answer = "\n\n".join(filter(None, (self._answer, words)))
        self._interim = bool(self._at_work)

    async def _line(self, line: dict[str, Any]) -> None:
        if self.format == "stream-json":
            await self.out.write(lines.encode_line(line | self._stamp()))

    def _parent(self, agent: AgentId) -> dict[str, Any]:
        if agent == self.session.main:
            return {"parent_tool_use_id": None}
        return {"parent_tool_use_id": self._calls.get(agent), "agent_id": agent}

    def _stamp(self) -> dict[str, str]:
        """Ids for a line. A line from a transcript always has the same id; only its first output line gets it."""
        place, self._place = self._place, None
        return {"session_id": self.session.id, "uuid": line_uuid(*place) if place else str(uuid.uuid4())}

    async def hooked(self, event: str, name: str, fired: Fired | None) -> None:
        """A hook begins (`fired` is None), or has answered."""
        line = {"type": "system", "hook_event": event, "hook_name": name}
        if fired is None:
            await self._line(line | {"subtype": "hook_started"})
            return
        outcome = "error" if fired.messages else "success"
        said = "\n".join((*fired.context, *((fired.blocked,) if fired.blocked else ())))
        exit_code = 2 if fired.blocked is not None else 0
        await self._line(
            line | {"subtype": "hook_response", "output": said, "exit_code": exit_code, "outcome": outcome}
        )

    def _init_line(self) -> dict[str, Any]:
        view = self.session.snapshot()
        from teamwright.surfaces.headless.greeting import init_of  # noqa: PLC0415  # only stream-json has one

        now = {"model": api_json.bare(view.model), "permissionMode": view.mode, "cwd": view.cwd}
        return {"type": "system", "subtype": "init"} | init_of(self.session) | now

    def _result(self, end: TurnEnded, at: int) -> dict[str, Any]:
        used = self.session.report_usage()
        known = all(usd is not None for usd in used.usd_by_model.values())
        return {
            "type": "result",
            "subtype": lines.subtype_of(end),
            "is_error": end.reason != "done",
            "result": self._answer or end.error,
            "errors": [end.error] if end.error else [],
            "api_error_status": end.status,
            "stop_reason": end.stop,
            "num_turns": used.turns,
            "duration_ms": at - self._turn_began,
            "duration_api_ms": round(used.api_seconds * 1000),
            "total_cost_usd": used.usd if known else None,
            "usage": api_json.usage_of(used.usage),
            "modelUsage": {
                api_json.bare(m): _model_usage(usage, used.usd_by_model.get(m)) for m, usage in used.by_model.items()
            },
            "permission_denials": [
                {"tool_name": d.tool, "tool_use_id": d.call_id, "tool_input": d.args} for d in self._denials
            ],
            "structured_output": self._data,
        }


def _model_usage(usage: Usage, usd: float | None) -> dict[str, Any]:
    return {
        "inputTokens": usage.input,
        "outputTokens": usage.output,
        "cacheReadInputTokens": usage.cache_read,
        "cacheCreationInputTokens": usage.cache_write,
        "costUSD": usd,
    }


def _data_of(ended: ToolEnded) -> Any:
    """The result as data, or else its words."""
    if ended.data is not None:
        return ended.data
    text = "\n".join(c.text for c in ended.content if isinstance(c, Text))
    return f"Error: {text}" if ended.is_error else text


_ERROR_KINDS = {401: "authentication_failed", 403: "authentication_failed", 402: "billing_error", 429: "rate_limit"}


def _error_kind(status: int | None) -> str:
    if status is None:
        return "unknown"
    return _ERROR_KINDS.get(status, "server_error" if status >= 500 else "invalid_request")
