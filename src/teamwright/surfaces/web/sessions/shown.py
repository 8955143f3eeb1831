"""Sessions, agents, questions and items for pages: plain JSON in which all text is safe to draw."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import msgspec
from anyio import to_thread

from teamwright.core.data.extensions.server import ELICITATION
from teamwright.core.data.tasks import Task
from teamwright.core.jsontext import as_object
from teamwright.core.permissions.consent import Question
from teamwright.store.files.paths import SessionEntry
from teamwright.surfaces.view.diff import DiffRow, count_lines, read_before, rows_of
from teamwright.surfaces.view.shapes import AgentView, Item, Note, Spoken, Step, Thought
from teamwright.surfaces.view.text import one_line, safe
from teamwright.surfaces.web.sessions.fold import PageFold
from teamwright.tools.agents.ask import AskArgs
from teamwright.tools.bounds import visible
from teamwright.tools.catalog import traits_of

State = Literal["running", "waiting", "idle", "ended", "gone"]
MOST_TEXT = 16_000  # characters of an item in a list; opening it shows all of it
MOST_FIELDS = 20  # fields in a server's form

Json = dict[str, Any]


def row(found: DiffRow) -> Json:
    shown: Json = {"kind": found.kind, "text": found.text}
    if found.number:
        shown["number"] = found.number
    if found.marks:
        shown["marks"] = found.marks
    return shown


def item(id: str, found: Item, most: int = MOST_TEXT) -> Json:
    base: Json = {"id": id, "at": found.at}
    match found:
        case Spoken() | Thought():
            base["type"] = found.role if isinstance(found, Spoken) else "thought"
            base["text"] = safe(found.text, most=most)
            if found.streaming:
                base["streaming"] = True
            return base | {"cut": True} if len(found.text) > most else base
        case Note():
            return base | {"type": "note", "kind": found.kind, "who": visible(found.who), "text": safe(found.text)}
        case Step():
            return base | _step(found)


def _step(step: Step) -> Json:
    shown: Json = {
        "type": "step",
        "text": "",
        "call": step.call_id,
        "tool": visible(step.tool),
        "title": step.title,
        "status": step.status,
        "asked": step.asked,
        "change": count_lines(step.patch),
        "begun": step.begun,
        "ended": step.ended,
    }
    if step.agent:
        shown["agent"] = step.agent
    if step.progress:
        shown["progress"] = one_line(step.progress[-400:])
    return shown


def agent(found: AgentView, tasks: Sequence[Task] = (), worktrees: Mapping[str, str] | None = None) -> Json:
    own = next((t for t in tasks if t.agent == found.id and t.status == "in_progress"), None)
    return {
        "id": found.id,
        "name": visible(found.name),
        "kind": visible(found.kind),
        "parent": found.parent,
        "team": visible(found.team),
        "color": found.color,
        "state": found.state,
        "doing": found.doing,
        "waiting_for": visible(found.waiting_for),
        "description": one_line(found.description),
        "summary": found.summary,
        "since": found.ended or found.turn or found.started,
        "tokens": found.tokens,
        "usd": found.usd,
        "started": found.started,
        "ended": found.ended,
        "model": visible(found.model),
        "background": found.background,
        "worktree": visible((worktrees or {}).get(found.id, "")),
        "task": {"id": str(own.id), "subject": one_line(own.subject)} if own else None,
    }


def state_of(fold: PageFold) -> State:
    """State of a session whose process lives."""
    if fold.questions:
        return "waiting"
    busy = any(found.state in ("running", "waiting") for found in fold.agents.values() if not found.ended)
    return "running" if busy else "idle"


def listed(entry: SessionEntry, state: State) -> Json:
    """A session of which only the head was read."""
    return {
        "id": entry.id,
        "title": visible(entry.name or entry.prompt),
        "cwd": visible(entry.cwd),
        "state": state,
        "steerable": False,
        "model": "",
        "mode": "",
        "team": "",
        "usd": None,
        "budget_left": "",
        "updated": entry.modified,
        "agents": [],
    }


# --- questions


def kind_of(question: Question) -> Literal["permission", "plan", "ask", "form"]:
    if question.tool == ELICITATION:
        return "form"
    asks = traits_of(question.tool).asks
    return "ask" if asks == "questions" else "plan" if asks == "plan" else "permission"


async def asked(question: Question, session: str, at: int) -> Json:
    """The whole question, without cuts."""
    before = None if question.patch else await to_thread.run_sync(read_before, question.tool, question.args)
    rows = await to_thread.run_sync(rows_of, question.tool, question.args, before, question.patch)
    kind = kind_of(question)
    shown: Json = {
        "id": question.id,
        "session": session,
        "agent": question.agent,
        "agent_name": visible(question.agent_name),
        "color": question.color,
        "kind": kind,
        "tool": visible(question.tool),
        "title": one_line(traits_of(question.tool).subject(question.args)),
        "reason": visible(question.reason),
        "rows": [row(one) for one in rows],
        "rules": [visible(rule) for rule in question.outside or question.suggestions],
        "outside": bool(question.outside),  # "always" means outside of the sandbox, and holds for all agents
        "is_edit": question.is_edit,
        "asked": at,
    }
    parts = _parts(question) if kind == "ask" else _fields(question) if kind == "form" else None
    return shown if parts is None else shown | {"parts": parts}


def _parts(question: Question) -> list[Json] | None:
    try:
        parts = msgspec.convert(question.args, AskArgs).questions
    except (msgspec.ValidationError, ValueError):
        return None
    return [
        {
            "question": part.question,  # key of its answer; `text` is what is drawn
            "text": visible(part.question),
            "header": visible(part.header),
            "options": [
                {"label": o.label, "text": visible(o.label), "description": visible(o.description)}
                for o in part.options
            ],
            "several": part.multi_select,
        }
        for part in parts
    ]


def _fields(question: Question) -> list[Json]:
    """The fields of a server's form; unknown kinds become text fields."""
    schema = as_object(question.args.get("schema"))
    fields = list(as_object(schema.get("properties")).items())[:MOST_FIELDS]
    return [_field(name, as_object(spec), schema.get("required")) for name, spec in fields]


def _field(name: str, spec: Json, required: Any) -> Json:
    kinds = {"boolean": "boolean", "number": "number", "integer": "integer"}
    found = spec.get("enum")
    choices = cast("list[object]", found) if isinstance(found, list) else None
    return {
        "name": name,
        "title": one_line(str(spec.get("title") or name)),
        "description": visible(str(spec.get("description") or "")),
        "kind": "choice" if choices is not None else kinds.get(str(spec.get("type")), "text"),
        "values": choices or [],
        "texts": [one_line(str(choice)) for choice in choices or ()],
        "required": isinstance(required, list) and name in required,
    }
