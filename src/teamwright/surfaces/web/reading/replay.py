"""A session as it was at a moment, and the moments worth visiting, from its transcripts alone."""

from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from typing import Any

from teamwright.core.data.event import (
    AgentEnded,
    LettersTaken,
    Record,
    Replied,
    ToolEnded,
    TurnEnded,
)
from teamwright.core.data.message import ToolCall
from teamwright.core.errors import StoreError
from teamwright.core.ids import AgentId, CallId
from teamwright.surfaces.view.letters import items_of
from teamwright.surfaces.view.shapes import Spoken
from teamwright.surfaces.view.text import one_line
from teamwright.surfaces.web.sessions import shown
from teamwright.surfaces.web.sessions.brief import Brief
from teamwright.surfaces.web.sessions.disk import transcripts_of
from teamwright.surfaces.web.sessions.fold import PageFold
from teamwright.tools.agents.messages import SendMessage
from teamwright.tools.catalog import traits_of

MOST_MOMENTS = 2_000
MOST_ITEMS = 1
_TOLD = {kind.__struct_config__.tag for kind in (LettersTaken, Replied, TurnEnded, AgentEnded)}
_ENDED = ToolEnded.__struct_config__.tag

Asked = Sequence[tuple[Record, ToolCall | None]]

Json = dict[str, Any]


class Replay:
    """Blocks: call it in a thread. The last session that was asked for stays in memory."""

    def __init__(self) -> None:
        self._past = _PastSession(Path())

    def _of(self, path: Path) -> "_PastSession":
        if path != self._past.path:
            self._past = _PastSession(path)
        self._past.refresh()
        return self._past

    def at(self, path: Path, ms: int) -> Json:
        """Agents, tasks and questions as they were."""
        past = self._of(path)
        fold = past.fold(ms)
        agents = [shown.agent(a, (), fold.worktrees) for a in fold.agents.values() if a.started or a.id == fold.main]
        waiting = open_questions(past.asked, ms)
        for agent in agents:
            if any(question["agent"] == agent["id"] for question in waiting):
                agent["state"], agent["waiting_for"] = "waiting", "your answer"
        busy = any(agent["state"] in ("running", "waiting") for agent in agents)
        return {
            "id": path.stem,
            "at": ms,
            "state": "waiting" if waiting else "running" if busy else "idle",
            "steerable": False,
            "model": fold.agent(fold.main).model,
            "mode": fold.mode,
            "usd": sum(a["usd"] or 0.0 for a in agents),
            "agents": agents,
            "tasks": tasks_in(past.listed, ms),
            "questions": waiting,
        }

    def moments(self, path: Path) -> Json:
        past = self._of(path)
        found = [moment for record in past.records(_TOLD) for moment in moments_of(record)]
        found += _asked_moments(past.asked)
        found.sort(key=_time)
        if len(found) > MOST_MOMENTS:
            found = [moment for moment in found if moment["kind"] != "turn_end"][-MOST_MOMENTS:]
        begin, end = past.span()
        return {"from": begin, "to": end, "moments": found}


class _PastSession:
    """The transcripts of one session: an index of each, changes of the task list, and questions."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.listed: list[Record] = []  # results of calls that changed a task list, in order
        self.asked: list[tuple[Record, ToolCall | None]] = []  # results of calls that somebody was asked about
        self._briefs: dict[Path, Brief] = {}
        self._seen: dict[Path, int] = {}

    def refresh(self) -> None:
        for path in transcripts_of(self.path):
            brief = self._briefs.setdefault(path, Brief(path))
            try:
                if brief.refresh():
                    self._note(path, brief)
            except StoreError:
                continue  # damaged or gone: keep what could be read
        self.listed.sort(key=_when)

    def _note(self, path: Path, brief: Brief) -> None:
        first, self._seen[path] = self._seen.get(path, 0) + 1, len(brief.lines)
        ends = [n for n in range(first, len(brief.lines) + 1) if brief.lines.kinds[n - 1] == _ENDED]
        wanted = [n for n, data in brief.lines.raw(ends) if b'"taskId"' in data or b'"consent"' in data]
        for record in brief.lines.records(wanted):
            event = record.event
            if isinstance(event, ToolEnded) and event.data and event.data.get("success") and "taskId" in event.data:
                self.listed.append(record)
            if isinstance(event, ToolEnded) and event.consent is not None:
                self.asked.append((record, _call(brief, record.n, event.call_id)))

    def records(self, kinds: Container[str]) -> list[Record]:
        """Records of some kinds, in order of time."""
        found: list[Record] = []
        for brief in self._briefs.values():
            found += brief.lines.records(n for n, kind in enumerate(brief.lines.kinds, 1) if kind in kinds)
        return sorted(found, key=_when)

    def fold(self, ms: int) -> PageFold:
        fold = PageFold(AgentId(self.path.stem), most=MOST_ITEMS)
        told = [(brief.agent, *brief.tell(brief.lines.until(ms))) for brief in self._briefs.values()]
        for record in sorted((record for _, records, _ in told for record in records), key=_when):
            fold.apply(record)
        for agent, records, used in told:
            if records:
                fold.spend(agent, used)
        fold.price_all()
        return fold

    def span(self) -> tuple[int, int]:
        spans = [brief.lines.span() for brief in self._briefs.values() if len(brief.lines)]
        return min((a for a, _ in spans), default=0), max((b for _, b in spans), default=0)


def _call(brief: Brief, line: int, id: CallId) -> ToolCall | None:
    """The call that ended on this line."""
    reply = brief.reply_before(line)
    for record in brief.lines.records([reply] if reply else []):
        if isinstance(record.event, Replied):
            return next((call for call in record.event.message.calls if call.id == id), None)
    return None


def moments_of(record: Record) -> list[Json]:
    base = {"at": record.at, "agent": record.agent}
    match record.event:
        case LettersTaken(message=message):
            items = items_of(message, record.n, record.at)
            return [base | {"kind": "prompt", "text": one_line(i.text)} for i in items if isinstance(i, Spoken)]
        case Replied(message):
            return [base | told for call in message.calls if (told := _told(call)) is not None]
        case TurnEnded():
            return [base | {"kind": "turn_end", "text": one_line(record.event.text)}]
        case AgentEnded():
            return [base | {"kind": "end", "text": one_line(record.event.text)}]
        case _:
            return []


def _told(call: ToolCall) -> Json | None:
    """A message, or a change of a task; other calls are not moments of their own."""
    args = {} if call.fault else call.args
    if call.name == SendMessage.spec.name:
        return {
            "kind": "message",
            "text": one_line(f"to {args.get('to') or args.get('recipient') or ''}: {args.get('summary') or ''}"),
        }
    if traits_of(call.name).lists:
        return {"kind": "task", "text": one_line(traits_of(call.name).subject(args))}
    return None


def _asked_moments(asked: Asked) -> list[Json]:
    """Questions and their answers, which the results of calls record."""
    out: list[Json] = []
    for record, call in asked:
        consent = record.event.consent if isinstance(record.event, ToolEnded) else None
        if consent is not None:
            name = call.name if call else ""
            answer = f"{name}: {consent.verdict} by {consent.by} ({consent.via or 'nowhere'})"
            out.append({"at": consent.asked, "agent": record.agent, "kind": "question", "text": one_line(name)})
            out.append({"at": consent.answered, "agent": record.agent, "kind": "answer", "text": one_line(answer)})
    return out


def open_questions(asked: Asked, ms: int) -> list[Json]:
    """Questions that waited at that moment and were answered later."""
    out: list[Json] = []
    for record, call in asked:
        consent = record.event.consent if isinstance(record.event, ToolEnded) else None
        if consent is not None and consent.asked <= ms < consent.answered:
            args = call.args if call is not None and not call.fault else {}
            title = one_line(traits_of(call.name).subject(args)) if call is not None else ""
            tool = call.name if call is not None else ""
            out.append({"agent": record.agent, "tool": tool, "title": title, "asked": consent.asked})
    return out


def tasks_in(listed: Iterable[Record], ms: int) -> list[Json]:
    """The task list, as its tools' results reported it."""
    tasks: dict[str, Json] = {}
    for record in listed:
        data = record.event.data if isinstance(record.event, ToolEnded) else None
        if record.at > ms or data is None:
            break
        id, task = str(data["taskId"]), data.get("task")
        if isinstance(task, dict):
            tasks[id] = {"id": id} | {str(name): value for name, value in task.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        else:
            tasks.pop(id, None)
    return [tasks[id] for id in sorted(tasks, key=_as_number)]


def _as_number(id: str) -> tuple[int, str]:
    return (int(id), id) if id.isdigit() else (0, id)


def _when(record: Record) -> int:
    return record.at


def _time(moment: Json) -> int:
    return moment["at"]
