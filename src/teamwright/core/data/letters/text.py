"""Renders letters for the reader's model: one message, in which nobody's words can pose as somebody else's."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

import msgspec
from msgspec.structs import replace

from teamwright.core.data.letter import (
    Body,
    Figures,
    Letter,
    Lines,
    Notice,
    Prompt,
    Said,
    Sender,
    Signal,
    SignalKind,
    has_news,
    is_idle_notice,
)
from teamwright.core.data.message import Block, Content, Message, Text
from teamwright.core.ids import JobId
from teamwright.core.text import has_marks, neutral, quoted, shown, without_marks

ROOM = 200_000  # characters for all waiting letters if the window is unknown: a quarter of 200,000 tokens
LEAST = 500  # characters that a shortened text keeps at least
MOST_META, MOST_VALUE = 16, 200  # attributes of a channel's message, and characters of one
_META = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")
FRAME = 600  # characters of a notice besides its result
# Fields for programs and people that are no use to a model: the frame already names the sender.
_UNSEEN = frozenset({"from", "timestamp", "completedStatus", "backendType", "paneId"})
_ANSWERS = {
    "shutdown_request": ("shutdown_response", "a reason"),
    "plan_approval_request": ("plan_approval_response", "feedback"),
}


def as_message(letters: Sequence[Letter], room: int = ROOM) -> Message:
    """Combines the waiting letters into one user message, each letter in its own blocks.

    A person's words are never shortened. The rest share `room` characters: texts beyond their share are shortened, and
    if there are too many notices even for that, the later ones get one line each.
    """
    shown, rest = _divide(_coalesced(letters), room)
    share = room // 2 - len(shown) * FRAME if rest else room
    most = max(LEAST, share // max(1, len(shown)))
    fits = sum(_size(letter.body) for letter in shown) <= share
    blocks: list[Block] = []
    for letter in shown:
        blocks += _blocks(letter, None if fits else most)
    if rest:
        blocks.append(Text(_in_short(rest, room // 2)))
    return Message("user", tuple(blocks))


def added(message: Message, context: Sequence[str]) -> Message:
    """The message with what hooks add, marked so that it does not pass for the person's words."""
    blocks = tuple(Text(f"<hook-context>\n{neutral(words)}\n</hook-context>") for words in context)
    return Message(message.role, (*message.blocks, *blocks)) if blocks else message


# --- one idle notice per member


def _coalesced(letters: Sequence[Letter]) -> list[Letter]:
    """Merges the idle notices of each member into its newest, keeping the news of the others."""
    idle: dict[str, list[Letter]] = {}
    for letter in filter(is_idle_notice, letters):
        idle.setdefault(_whose(letter), []).append(letter)
    left = {_whose(x) for x in letters if isinstance(x.body, Signal) and x.body.kind == "shutdown_approved"}
    found: list[Letter] = []
    for letter in letters:
        if not is_idle_notice(letter):
            found.append(letter)
        elif (told := idle[_whose(letter)])[-1] is letter and (record := _merged(told, left=_whose(letter) in left)):
            found.append(_with_record(letter, record))
    return found


def finished_tasks(letter: Letter) -> list[str]:
    """The ids of the tasks that an idle notice calls completed."""
    assert isinstance(letter.body, Signal)
    return [id for id in str(_record(letter.body).get("completedTaskId", "")).split(", ") if id]


def with_tasks(letter: Letter, tasks: Sequence[str]) -> Letter | None:
    """The idle notice with only these tasks. None: that they were completed was all that it had to say."""
    assert isinstance(letter.body, Signal)
    record = _record(letter.body)
    if not tasks and record.get("idleReason") == "available":
        return None
    rest = {key: value for key, value in record.items() if key not in {"completedTaskId", "completedStatus"}}
    return _with_record(letter, rest | ({"completedTaskId": ", ".join(tasks)} if tasks else {}))


def _whose(letter: Letter) -> str:
    return letter.sender.id or letter.sender.name


def _merged(letters: Sequence[Letter], *, left: bool) -> dict[str, Any]:
    """The merged record; empty if the member has shut down since and there is no other news."""
    records = [_record(letter.body) for letter in letters if isinstance(letter.body, Signal)]
    news = [has_news(letter) for letter in letters[:-1]] + [not left or has_news(letters[-1])]
    words = [r["lastMessage"] for r, new in zip(records, news, strict=True) if new and "lastMessage" in r]
    tasks = [r["completedTaskId"] for r in records if "completedTaskId" in r]
    merged = {key: value for key, value in records[-1].items() if key != "lastMessage"}
    if words:
        merged["lastMessage"] = "\n".join(dict.fromkeys(words))
    if tasks:
        merged["completedTaskId"] = ", ".join(dict.fromkeys(tasks))
    if left and merged.get("idleReason") == "available":
        del merged["idleReason"]
    return {"type": "idle_notification"} | merged if merged.keys() - _UNSEEN - {"type"} else {}


def _record(body: Signal) -> dict[str, Any]:
    return msgspec.json.decode(body.line, type=dict[str, Any])


def _with_record(letter: Letter, record: dict[str, Any]) -> Letter:
    assert isinstance(letter.body, Signal)
    return replace(letter, body=replace(letter.body, line=msgspec.json.encode(record).decode()))


# --- what fits


def _divide(letters: Sequence[Letter], room: int) -> tuple[Sequence[Letter], list[Notice]]:
    """The letters shown in full, and the notices for which there is no room."""
    notices = [letter.body for letter in letters if isinstance(letter.body, Notice)]
    fits = sum(_size(letter.body) for letter in letters) <= room
    if len(notices) * (FRAME if fits else LEAST + FRAME) <= room:
        return letters, []
    rest = notices[max(1, room // (2 * (LEAST + FRAME))) :]
    short = {notice.job for notice in rest}
    return [x for x in letters if not (isinstance(x.body, Notice) and x.body.job in short)], rest


def _in_short(notices: Sequence[Notice], room: int) -> str:
    """Ids and states, as many as fit; the output files have the rest."""
    lines = [f"{neutral(notice.job)} {notice.status}" for notice in notices]
    fitting = lines[: max(1, room // 30)]
    more = f"\n... and {len(lines) - len(fitting)} more" if len(fitting) < len(lines) else ""
    folder = neutral(notices[0].output.rpartition("/")[0])
    return (
        f"<task-notifications>\n{len(lines)} further jobs have ended; what each said is in {folder}/ID.output\n"
        + "\n".join(fitting)
        + more
        + "\n</task-notifications>"
    )


def _size(body: Body) -> int:
    match body:
        case Prompt():
            return 0
        case Said() | Lines():
            return len(neutral(body.text))
        case Signal():
            return len(neutral(body.line))
        case Notice():
            return len(neutral(body.result, "result"))
        case _:
            assert_never(body)


def _short(text: str, most: int | None, whole: str, *inside: str) -> str:
    """Cuts text that is already neutral (`inside` as in `neutral`), because its neutral length is what fills the
    window."""
    if most is None or len(text) <= most:
        return text
    head = neutral(text[: most // 2], *inside)  # the cut may turn a longer name into that of an element
    tail = text[-(most // 2) :]
    return f"{head}\n[... {len(text) - most} characters left out; the whole is in {whole} ...]\n{tail}"


# --- the frames


def _blocks(letter: Letter, most: int | None) -> tuple[Content, ...]:
    body = letter.body
    match body:
        case Prompt():
            return tuple(_without_marks(block) for block in body.content)
        case Said():
            return (Text(_said(letter.sender, body, most)),)
        case Signal():
            return (Text(_said(letter.sender, Said(_signal(letter.sender, body)), None)),)
        case Notice():
            return (Text(_notice(body, most)),)
        case Lines():
            return (Text(_lines(body, most)),)
        case _:
            assert_never(body)


def _without_marks(block: Content) -> Content:
    """A prompt may hold text that was pasted. Screens show it as it was."""
    if not isinstance(block, Text) or not has_marks(block.text):
        return block
    return Text(without_marks(block.text), block.shown)


def _said(sender: Sender, body: Said, most: int | None) -> str:
    """Another agent's words, marked with their sender so that they cannot pose as the person or the system."""
    marks = [f"teammate_id={quoted(sender.name)}"]
    marks += [f"summary={quoted(body.summary)}"] if body.summary else []
    marks += [f"color={quoted(body.color)}"] if body.color else []
    text = _short(neutral(body.text), most, "its sender")
    return f"<teammate-message {' '.join(marks)}>\n{text}\n</teammate-message>"


def _signal(sender: Sender, body: Signal) -> str:
    """One line of JSON; for a request also one line that says how to answer. Ids are spelled as they are sent."""
    fields = {("request_id" if key == "requestId" else key): value for key, value in _record(body).items()}
    if fields.get("assignedBy") == sender.name:
        del fields["assignedBy"]
    seen = {key: value for key, value in fields.items() if key not in _UNSEEN and value not in (None, "", [])}
    line = msgspec.json.encode(seen).decode()
    answer = how_to_answer(body.kind, str(seen.get("request_id", "")), sender.name)
    return f"{line}\n{answer}" if answer else line


def how_to_answer(kind: SignalKind, request: str, asker: str) -> str:
    """How to answer a request of another agent; empty for records that are no requests."""
    if kind not in _ANSWERS:
        return ""
    type, words = _ANSWERS[kind]
    message = msgspec.json.encode({"type": type, "request_id": request, "approve": True}).decode()
    return f"Answer it by SendMessage to {asker} with the message {message}; to refuse, approve is false, with {words}."


def _notice(body: Notice, most: int | None) -> str:
    parts = [
        _tag("task-id", body.job),
        _tag("tool-use-id", body.call_id or ""),
        _tag("output-file", body.output),
        _tag("status", body.status),
        _tag("summary", body.summary),
    ]
    if body.result:
        result = _short(neutral(body.result, "result"), most, neutral(body.output), "result")
        parts.append(f"<result>\n{result}\n</result>")
    parts.append(_tag("usage", _usage(body.usage)))
    return "<task-notification>\n" + "\n".join(filter(None, parts)) + "\n</task-notification>"


def _usage(usage: Figures) -> str:
    """The figures without zeros."""
    return "\n".join(f"{name}: {value}" for name, value in msgspec.structs.asdict(usage).items() if value)


def skill_output(job: JobId, typed: str, summary: str, text: str) -> str:
    """What a skill with a context of its own has said, for the main agent, when nobody waited for it."""
    head = f"The person called {neutral(typed)}, a skill that ran in the background as an agent of its own, {job}: "
    head += f"{neutral(shown(summary))}. What follows is its output, not the person's words."
    return f"<skill-output command={quoted(typed)}>\n{head}\n\n{neutral(text)}\n</skill-output>"


def channel_message(server: str, text: str, meta: Mapping[str, Any]) -> str:
    """What an MCP server has pushed. Its `meta` become attributes, as far as their names are plain."""
    named = [(key, value) for key, value in meta.items() if _META.fullmatch(key) and key != "source"][:MOST_META]
    marks = {"source": server} | {
        key: value if isinstance(value, str) else msgspec.json.encode(value).decode() for key, value in named
    }
    attributes = " ".join(f"{key}={quoted(shown(value, MOST_VALUE))}" for key, value in marks.items())
    return f"<channel-message {attributes}>\n{neutral(text)}\n</channel-message>"


def _lines(body: Lines, most: int | None) -> str:
    text = _short(neutral(body.text), most, "the job's output file")
    return f"<monitor-lines>{_tag('task-id', body.job)}{_tag('summary', body.description)}\n{text}\n</monitor-lines>"


def _tag(name: str, text: str) -> str:
    """A child element; empty if the text is empty."""
    return f"<{name}>{neutral(text, name)}</{name}>" if text else ""
