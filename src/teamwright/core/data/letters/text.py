"""Letters as their reader's model sees them: one message, in which nobody's words can pose as somebody else's."""

from collections.abc import Sequence
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
    is_idle_notice,
    is_quiet,
)
from teamwright.core.data.message import Block, Content, Message, Text
from teamwright.core.text import neutral, quoted

ROOM = 200_000  # characters for what waits together, where the window is not known: a quarter of 200,000 tokens
LEAST = 500  # characters that every shortened text keeps
FRAME = 600  # characters of a notice besides its result
# In the record for programs and people, but of no use to a model: the frame names the sender.
_UNSEEN = frozenset({"from", "timestamp", "completedStatus", "backendType", "paneId"})
_ANSWERS = {
    "shutdown_request": ("shutdown_response", "a reason"),
    "plan_approval_request": ("plan_approval_response", "feedback"),
}


def as_message(letters: Sequence[Letter], room: int = ROOM) -> Message:
    """What waits together is given together: one user message, each letter in blocks of its own.

    A person's words are whole. The rest share `room` characters; what is too long for its share is shortened, and
    where there are too many notices for that, the later ones are told in a line each.
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
    """With what hooks have to say beside it, marked: it is not the person's own word."""
    blocks = tuple(Text(f"<hook-context>\n{neutral(words)}\n</hook-context>") for words in context)
    return Message(message.role, (*message.blocks, *blocks)) if blocks else message


# --- one notice of each that went idle


def _coalesced(letters: Sequence[Letter]) -> list[Letter]:
    """Of several idle notices of one member the newest, with what was news in the others."""
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


def _whose(letter: Letter) -> str:
    return letter.sender.id or letter.sender.name


def _merged(letters: Sequence[Letter], *, left: bool) -> dict[str, Any]:
    """Nothing if it has shut down since and there is no other news of it."""
    records = [_record(letter.body) for letter in letters if isinstance(letter.body, Signal)]
    news = [not is_quiet(letter) for letter in letters[:-1]] + [not left or not is_quiet(letters[-1])]
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


# --- what there is room for


def _divide(letters: Sequence[Letter], room: int) -> tuple[Sequence[Letter], list[Notice]]:
    """What is shown one by one, and the notices beyond what there is room for."""
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
    """Of text that is neutral already, `inside` as in `neutral`: its length is what the window sees."""
    if most is None or len(text) <= most:
        return text
    head = neutral(text[: most // 2], *inside)  # a longer name may be cut to that of an element
    tail = text[-(most // 2) :]
    return f"{head}\n[... {len(text) - most} characters left out; the whole is in {whole} ...]\n{tail}"


# --- the frames


def _blocks(letter: Letter, most: int | None) -> tuple[Content, ...]:
    body = letter.body
    match body:
        case Prompt():
            return body.content
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


def _said(sender: Sender, body: Said, most: int | None) -> str:
    """Marked with its sender: it cannot pose as the person or the system."""
    marks = [f"teammate_id={quoted(sender.name)}"]
    marks += [f"summary={quoted(body.summary)}"] if body.summary else []
    marks += [f"color={quoted(body.color)}"] if body.color else []
    text = _short(neutral(body.text), most, "its sender")
    return f"<teammate-message {' '.join(marks)}>\n{text}\n</teammate-message>"


def _signal(sender: Sender, body: Signal) -> str:
    """One line of JSON, and for a request one that says how it is answered. Ids are spelled as they are sent."""
    fields = {("request_id" if key == "requestId" else key): value for key, value in _record(body).items()}
    if fields.get("assignedBy") == sender.name:
        del fields["assignedBy"]
    seen = {key: value for key, value in fields.items() if key not in _UNSEEN and value not in (None, "", [])}
    line = msgspec.json.encode(seen).decode()
    answer = how_to_answer(body.kind, str(seen.get("request_id", "")), sender.name)
    return f"{line}\n{answer}" if answer else line


def how_to_answer(kind: SignalKind, request: str, asker: str) -> str:
    """Empty for a record that is no request of an agent."""
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
    """Without what did not happen: a command uses no tokens."""
    return "\n".join(f"{name}: {value}" for name, value in msgspec.structs.asdict(usage).items() if value)


def _lines(body: Lines, most: int | None) -> str:
    text = _short(neutral(body.text), most, "the job's output file")
    return f"<monitor-lines>{_tag('task-id', body.job)}{_tag('summary', body.description)}\n{text}\n</monitor-lines>"


def _tag(name: str, text: str) -> str:
    """A child element; nothing for what is empty."""
    return f"<{name}>{neutral(text, name)}</{name}>" if text else ""
