"""Splits a message to an agent for the screen: the person's words, mail, notices, shell lines."""

import json
import re

from teamwright.core.data.message import Image, Message, Text
from teamwright.core.ids import CallId
from teamwright.core.text import neutral, restored, unquoted
from teamwright.surfaces.view.shapes import Item, Note, Spoken, Step
from teamwright.surfaces.view.text import duration, near, one_line, said
from teamwright.tools.bounds import bounded

MOST_RESULT = 20_000  # characters of a tool's result kept in memory

_MAIL = re.compile(
    r'<teammate-message teammate_id="([^"]*)"(?: summary="([^"]*)")?[^>]*>\n(.*)\n</teammate-message>', re.S
)
_TAG = {name: re.compile(f"<{name}>(.*?)</{name}>", re.S) for name in ("summary", "status", "task-id")}
_TOOK = re.compile(r"duration_ms: (\d{1,15})")
_CHANNEL = re.compile(r'<channel-message source="([^"]*)"')
_ATTACHED = re.compile(r'<attached-\w+ name="([^"]*)">')
_SHELL = re.compile(r'<shell-input>(.*)</shell-input>\n<shell-output exit="(-?\d+)">\n(.*)\n</shell-output>', re.S)
_CHILDREN = re.compile(r"(?<=^<monitor-lines>)(?:<(task-id|summary)>.*?</\1>)+", re.S)
_SIGNALS = {
    "idle_notification": "is idle",
    "shutdown_request": "asks for a shutdown",
    "shutdown_approved": "shuts down",
    "shutdown_rejected": "declines to shut down",
    "plan_approval_request": "asks for approval of a plan",
    "plan_approval_response": "answers a plan",
    "task_assignment": "assigns a task",
}


def shell_text(command: str, status: int, output: str) -> str:
    """How a `!` line of the person reaches the model."""
    body = neutral(bounded(output))
    return f'<shell-input>{neutral(command)}</shell-input>\n<shell-output exit="{status}">\n{body}\n</shell-output>'


def items_of(message: Message, n: int, at: int, cwd: str = "") -> list[Item]:
    """All items of a message to an agent; file paths are relative to `cwd`."""
    found: list[Item] = []
    for block in message.blocks:
        if isinstance(block, Text) and block.typed is not None:
            found += [Spoken("person", said(block.typed), n=n, at=at)] if block.typed else []
        elif isinstance(block, Text):
            found.append(_item(block.text, n, at, cwd))
        elif isinstance(block, Image):
            found.append(Note("info", f"image attached ({block.media_type})", n=n, at=at))
    return found


def _item(text: str, n: int, at: int, cwd: str) -> Item:
    if text.startswith("<teammate-message ") and (mail := _MAIL.match(text)):
        who, summary = (unquoted(part or "") for part in mail.groups()[:2])
        return Note("message", mail_words(restored(mail[3]), summary), who, n=n, at=at)
    if text.startswith("<task-notification"):
        return _notice(text, n, at)
    if text.startswith("<monitor-lines>"):
        lines, about = restored(_inside(_CHILDREN.sub("", text))), _tag("summary", text)
        return Note("notice", f"{about}\n{lines}" if about else lines, n=n, at=at)
    if text.startswith("<hook-context>"):
        return Note("info", f"a hook adds: {one_line(restored(_inside(text)))}", n=n, at=at)
    if text.startswith("<scheduled-prompt "):
        return Note("notice", f"scheduled: {restored(_inside(text))}", n=n, at=at)
    if text.startswith("<channel-message ") and (source := _CHANNEL.match(text)):
        return Note("message", restored(_inside(text)), unquoted(source[1]), n=n, at=at)
    if text.startswith("<skill-output "):
        head, _, output = restored(_inside(text)).partition("\n\n")
        return Note("notice", output or head, n=n, at=at)
    if attached := _ATTACHED.match(text):
        return Note("info", f"attached: {one_line(near(unquoted(attached[1]), cwd))}", n=n, at=at)
    if text.startswith("<shell-input>") and (ran := _SHELL.match(text)):
        return _shell_step(restored(ran[1]), int(ran[2]), restored(ran[3]), n, at)
    return Spoken("person", said(text), n=n, at=at)


def _inside(text: str) -> str:
    """The text between the first tag and the last one."""
    return text.partition(">")[2].rpartition("</")[0].strip("\n")


def _shell_step(command: str, status: int, output: str, n: int, at: int) -> Step:
    return Step(
        CallId(f"shell-{n}"),
        "!",
        one_line(command),
        {"command": command},
        "error" if status else "ok",
        bounded(output, most=MOST_RESULT),
        n=n,
        at=at,
        ended=at,
    )


def _tag(name: str, text: str) -> str:
    found = _TAG[name].search(text)
    return restored(found[1], name) if found else ""


def _notice(text: str, n: int, at: int) -> Note:
    """The end of a job, or a notice about one that still runs."""
    summary, running = _tag("summary", text) or "jobs have ended", _tag("status", text) == "running"
    took = _TOOK.search(text.rpartition("<usage>")[2])
    if running or took is None:
        return Note("notice", summary, n=n, at=at, job="" if running else _tag("task-id", text))
    return Note("notice", job_end(summary, int(took[1])), n=n, at=at, job=_tag("task-id", text))


def job_end(summary: str, ms: int) -> str:
    """What the job was, how it ended and how long it took, on one line."""
    return f"{one_line(summary, 300)} · {duration(ms)}"


def mail_words(body: str, summary: str) -> str:
    """A record becomes a sentence; a teammate's own text stays as it is."""
    if body.startswith("{"):
        try:
            kind = json.loads(body.partition("\n")[0]).get("type")
        except (ValueError, AttributeError):
            kind = None
        if isinstance(kind, str) and kind in _SIGNALS:
            return _SIGNALS[kind]
    return f"{summary}\n{body}" if summary and not body.startswith(summary) else body
