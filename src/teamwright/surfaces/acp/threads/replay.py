"""Replays the conversation so far, in order, from its transcript."""

import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from teamwright.core.data.event import Record
from teamwright.core.ids import AgentId, line_uuid
from teamwright.surfaces.acp.updates import content as shows
from teamwright.surfaces.acp.updates.speech import chunk_of
from teamwright.surfaces.view.shapes import Item, Note, Spoken, Step, Thought
from teamwright.surfaces.view.talk import TalkFold
from teamwright.tools.bounds import visible
from teamwright.tools.catalog import traits_of

_ENDS = {"ok": "completed", "error": "failed", "denied": "failed", "running": "in_progress"}
ALL = 1 << 40


def fold_again(records: Iterable[Record], agent: AgentId) -> list[Item]:
    """All items of one agent's conversation, without those that a rewind removed. Takes a while."""
    fold = TalkFold(most=ALL)
    for record in records:
        if record.agent == agent:
            fold.apply(record)
    return fold.talk.items


def updates_of(items: Iterable[Item], agent: AgentId, cwd: str) -> Iterator[dict[str, Any]]:
    for item in items:
        match item:
            case Spoken(role="person"):
                yield chunk_of("user_message_chunk", visible(item.text), line_uuid(agent, item.n))
            case Spoken():
                yield chunk_of("agent_message_chunk", item.text, line_uuid(agent, item.n))
            case Thought():
                id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"thought:{line_uuid(agent, item.n)}"))
                yield chunk_of("agent_thought_chunk", item.text, id)
            case Step():
                yield step_of(item, cwd)
            case Note():
                yield chunk_of("agent_thought_chunk", note_words(item), str(uuid.uuid4()))


def note_words(note: Note) -> str:
    return visible(f"{note.who}: {note.text}" if note.who else note.text)


def step_of(step: Step, cwd: str) -> dict[str, Any]:
    """A whole call in one update."""
    traits, shown = traits_of(step.tool), list[dict[str, Any]]()
    if traits.change is not None and traits.path is not None and step.status == "ok":
        path = str(Path(cwd) / str(step.args.get(traits.path.name, "")))
        new = step.args.get(traits.change.new)
        shown = shows.diffs_of_patch(path, step.patch)
        if not shown and isinstance(new, str):
            old = step.args.get(traits.change.old) if traits.change.old else None
            shown = [shows.diff_content(path, old if isinstance(old, str) and old else None, new)]
    if not shown and step.result:
        shown = [shows.text_content(visible(step.result))]
    return {
        "sessionUpdate": "tool_call",
        "toolCallId": step.call_id,
        "title": shows.title_of(step.tool, step.args, cwd),
        "kind": shows.kind_of(step.tool),
        "status": _ENDS[step.status],
        "rawInput": step.args,
        "locations": shows.locations_of(step.tool, step.args, cwd),
        "content": shown,
        "_meta": {"claudeCode": {"toolName": step.tool}},
    }
