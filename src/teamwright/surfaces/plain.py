"""Prints a session's events as plain lines, one for each step, when there is no app."""

import os
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, TextIO

from teamwright.core.data.event import (
    AgentEnded,
    AgentStarted,
    AsideAnswered,
    Denied,
    JobEnded,
    JobProgressed,
    JobStarted,
    LettersTaken,
    Record,
    Replied,
    Streamed,
    Suggested,
    ToolEnded,
    TurnEnded,
)
from teamwright.core.data.message import Delta, Retrying, Text, TextDelta, ToolCall, words_of
from teamwright.core.ids import AgentId, CallId, JobId
from teamwright.surfaces.view.sentences import retry_words
from teamwright.tools.bounds import visible
from teamwright.tools.catalog import traits_of

SHOWN_LINES, LONGEST = 6, 150  # lines of a tool's output, and characters of one line
COLUMNS = 98  # of what agents beneath the main one say
CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "purple": "35",
    "cyan": "36",
}
MACHINE_MADE = ("<task-notification>", "<teammate-message ", "<monitor-lines>", "<skill-output ")


class Progress:
    """Writes to a terminal or a file; in colour only if that is wanted.

    The main agent's words come as they are written. Other agents work at the same time, so their steps come whole,
    indented below their names, and wait until the main agent has finished its sentence.
    """

    def __init__(self, out: TextIO, *, colours: bool) -> None:
        self._out = out
        self._colours = colours
        self._calls: dict[CallId, tuple[ToolCall, int]] = {}
        self._others: dict[AgentId, AgentStarted] = {}  # every agent but the main one
        self._background: set[JobId] = set()
        self._speaker: AgentId | None = None  # the agent whose lines come last
        self._open_line = False
        self._held: list[str] = []  # lines of others, held back while a sentence is being written

    def show(self, record: Record) -> None:
        match record.event:
            case AgentStarted() as event if event.parent is not None:
                self._others[record.agent] = event
            case JobStarted() as event if event.background:
                self._background.add(event.job)
            case JobEnded() as event if event.job in self._background:
                self._job(event)
            case JobProgressed(summary=summary) as event if summary:
                who = self._others.get(AgentId(event.job))
                if who is not None:
                    self._say_as(AgentId(event.job), who, [self._paint("dim", visible(summary))])
            case _ if record.agent in self._others:
                self._show_other(record, self._others[record.agent])
            case _:
                self._show_main(record)

    def _show_main(self, record: Record) -> None:
        match record.event:
            case LettersTaken() as event:
                self._prompt(event)
            case Streamed(delta=delta):
                self._delta(delta)
            case Replied() as event:
                self._end_line()
                self._note_calls(event, record.at)
            case ToolEnded() as event:
                for line in self._tool(event, record.at):
                    self._line(line)
            case Denied() as event:
                self._line(self._paint("yellow", f"  refused: {visible(event.reason)}"))
            case TurnEnded() as event if event.error:
                self._line(self._paint("red", visible(event.error)), gap=True)
            case TurnEnded():
                self._end_line()
            case AsideAnswered() | Suggested() as event:
                self._show_aside(event)
            case _:
                pass

    def _prompt(self, event: LettersTaken) -> None:
        if said := _typed(event):
            self._line(self._paint("bold", f"> {visible(said)}"), gap=True)

    def _delta(self, delta: Delta) -> None:
        match delta:
            case TextDelta():
                self._stream(delta.text)
            case Retrying():
                self._line(self._paint("yellow", f"  {visible(retry_words(delta))}"))
            case _:
                pass

    def _note_calls(self, event: Replied, at: int) -> None:
        self._calls.update({call.id: (call, at) for call in event.message.calls})

    def _show_aside(self, event: AsideAnswered | Suggested) -> None:
        match event:
            case AsideAnswered():
                for line in visible(event.text).splitlines():
                    self._hold(self._paint("dim", f"  {line}"))
            case Suggested():
                self._hold(self._paint("dim", f"  next: {visible(event.text)}"))

    def _show_other(self, record: Record, who: AgentStarted) -> None:
        match record.event:
            case Replied() as event:
                self._note_calls(event, record.at)
                lines = [line for part in visible(event.message.text).splitlines() for line in _wrap(part, who.depth)]
            case ToolEnded() as event:
                lines = self._tool(event, record.at)
            case Denied() as event:
                lines = [self._paint("yellow", f"refused: {visible(event.reason)}")]
            case AgentEnded() as event if event.error:
                lines = [self._paint("red", visible(event.error))]
            case _:
                return
        self._say_as(record.agent, who, lines)

    def _say_as(self, id: AgentId, who: AgentStarted, lines: list[str]) -> None:
        """Print lines below an agent's name, which is repeated after somebody else has spoken."""
        margin = "  " * who.depth
        if lines and self._speaker != id:
            about = self._paint("dim", visible(who.description))
            self._hold(f"{margin}{self._paint('bold', visible(who.name))}  {about}")
            self._speaker = id
        for line in lines:
            self._hold(f"{margin}| {line}")

    def _job(self, ended: JobEnded) -> None:
        who = self._others.get(AgentId(ended.job))
        margin = "  " * who.depth if who else ""
        mark = self._mark(good=ended.status == "completed")
        took = self._paint("dim", f"{ended.usage.duration_ms / 1000:.1f} s")
        self._hold(f"{margin}{mark} {visible(ended.summary)}  {took}")
        self._speaker = None

    def _tool(self, ended: ToolEnded, at: int) -> list[str]:
        call, began = self._calls.pop(ended.call_id, (None, at))
        what = f"{call.name} {visible(summary(call))}".rstrip() if call else "tool"
        launched = ended.data is not None and ended.data.get("status") == "async_launched"
        took = "in the background" if launched else f"{(at - began) / 1000:.1f} s"
        head = f"{self._mark(good=not ended.is_error)} {self._paint('cyan', what)}  {self._paint('dim', took)}"
        if call is not None and traits_of(call.name).delegates and not ended.is_error:
            return [head]  # its own words are above, or still to come
        lines = last_lines(visible(result_text(ended)).splitlines())
        return [head, *(self._paint("dim", f"    {line}") for line in lines)]

    def _mark(self, *, good: bool) -> str:
        return self._paint("green", "+") if good else self._paint("red", "x")

    def _stream(self, text: str) -> None:
        if not self._open_line:
            self._out.write("\n")
        self._out.write(visible(text))
        self._out.flush()
        self._open_line, self._speaker = True, None

    def _end_line(self) -> None:
        if self._open_line:
            self._out.write("\n\n")
            self._open_line = False
        for line in self._held:
            self._out.write(line + "\n")
        self._held.clear()

    def _line(self, text: str, *, gap: bool = False) -> None:
        self._end_line()
        self._out.write(("\n" if gap else "") + text + "\n")
        self._out.flush()
        self._speaker = None

    def _hold(self, text: str) -> None:
        self._held.append(text)
        if not self._open_line:
            self._end_line()
            self._out.flush()

    def _paint(self, style: str, text: str) -> str:
        return paint(style, text, colours=self._colours)


def _typed(taken: LettersTaken) -> str:
    """What a person said. Notices and agents' messages are shown in other ways."""
    texts = (block.shown for block in taken.message.blocks if isinstance(block, Text))
    return "\n".join(text for text in texts if text and not text.startswith(MACHINE_MADE))


def _wrap(text: str, depth: int) -> list[str]:
    return textwrap.wrap(text, COLUMNS - 2 * depth - 2) or [""]


def paint(style: str, text: str, *, colours: bool) -> str:
    """Wrap text in the codes of a style, if colours are wanted."""
    return f"\x1b[{CODES[style]}m{text}\x1b[0m" if colours and text and style in CODES else text


def last_lines(lines: Sequence[str]) -> list[str]:
    """The end of a tool's output, without long lines."""
    shown = lines if len(lines) <= SHOWN_LINES else ["...", *lines[-SHOWN_LINES:]]
    return [textwrap.shorten(line, LONGEST) if len(line) > LONGEST else line for line in shown]


def result_text(ended: ToolEnded) -> str:
    return words_of(ended.content).strip()


def summary(call: ToolCall) -> str:
    """What a call is about, in a few words."""
    args: dict[str, Any] = call.args
    traits = traits_of(call.name)
    if traits.delegates:  # its name is where it speaks
        return textwrap.shorten(traits.subject({**args, "name": None}), 100)
    for name in ("command", "file_path", "notebook_path", "pattern", "url", "query", "task_id", "to"):
        if isinstance(args.get(name), str):
            return textwrap.shorten(args[name], 100)
    return ""


def is_terminal() -> bool:
    """Whether a person sits at a terminal. Standard error counts too, because Textual draws on it."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return all(stream.isatty() for stream in streams) and os.environ.get("TERM") != "dumb"


def wants_colours(out: TextIO, env: "dict[str, str]") -> bool:
    return out.isatty() and not env.get("NO_COLOR") and env.get("TERM") != "dumb"
