"""A session's events as a person likes to watch them: one calm line a step, text as it comes."""

import sys
import textwrap
from typing import Any, TextIO

from teamwright.core.event import Denied, LettersTaken, Record, Replied, Streamed, ToolEnded, TurnEnded
from teamwright.core.ids import CallId
from teamwright.core.message import Retrying, Text, TextDelta, ToolCall
from teamwright.tools.bounds import visible

SHOWN_LINES = 6  # of a tool's output


class Progress:
    """Writes to a terminal or a file; colours only where they are wanted."""

    def __init__(self, out: TextIO, *, colours: bool) -> None:
        self._out = out
        self._colours = colours
        self._calls: dict[CallId, tuple[ToolCall, int]] = {}
        self._open_line = False

    def show(self, record: Record) -> None:
        match record.event:
            case LettersTaken() as event:
                self._line(self._paint("bold", f"> {visible(event.message.text)}"), gap=True)
            case Streamed(delta=TextDelta() as delta):
                self._stream(delta.text)
            case Streamed(delta=Retrying() as delta):
                self._line(self._paint("yellow", f"  the model did not answer: {visible(delta.reason)}; again"))
            case Replied() as event:
                self._end_line()
                self._calls.update({call.id: (call, record.at) for call in event.message.calls})
            case ToolEnded() as event:
                self._tool(event, record.at)
            case Denied() as event:
                self._line(self._paint("yellow", f"  refused: {visible(event.reason)}"))
            case TurnEnded() as event if event.error:
                self._line(self._paint("red", visible(event.error)), gap=True)
            case _:
                pass

    def say(self, text: str, style: str = "") -> None:
        self._line(self._paint(style, text))

    def _tool(self, ended: ToolEnded, at: int) -> None:
        call, began = self._calls.pop(ended.call_id, (None, at))
        mark = self._paint("red", "x") if ended.is_error else self._paint("green", "+")
        what = f"{call.name} {visible(summary(call))}" if call else "tool"
        self._line(f"{mark} {self._paint('cyan', what)}  {self._paint('dim', f'{(at - began) / 1000:.1f} s')}")
        text = "\n".join(c.text for c in ended.content if isinstance(c, Text)).strip()
        lines = visible(text).splitlines()
        if len(lines) > SHOWN_LINES:
            lines = ["...", *lines[-SHOWN_LINES:]]
        for line in lines:
            self._line(self._paint("dim", f"    {textwrap.shorten(line, 150) if len(line) > 150 else line}"))

    def _stream(self, text: str) -> None:
        if not self._open_line:
            self._out.write("\n")
        self._out.write(visible(text))
        self._out.flush()
        self._open_line = True

    def _end_line(self) -> None:
        if self._open_line:
            self._out.write("\n\n")
            self._open_line = False

    def _line(self, text: str, *, gap: bool = False) -> None:
        self._end_line()
        self._out.write(("\n" if gap else "") + text + "\n")
        self._out.flush()

    def _paint(self, style: str, text: str) -> str:
        codes = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
        return f"\x1b[{codes[style]}m{text}\x1b[0m" if self._colours and style else text


def summary(call: ToolCall) -> str:
    """What a call is about, in a few words."""
    args: dict[str, Any] = call.args
    for name in ("command", "file_path", "notebook_path", "pattern", "url", "query"):
        if isinstance(args.get(name), str):
            return textwrap.shorten(args[name], 100)
    return ""


def wants_colours(out: TextIO, env: "dict[str, str]") -> bool:
    return out.isatty() and not env.get("NO_COLOR") and env.get("TERM") != "dumb"


def standard(env: "dict[str, str]") -> Progress:
    return Progress(sys.stdout, colours=wants_colours(sys.stdout, env))
