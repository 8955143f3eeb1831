"""Prints a team's work, one line per step: who, then what."""

import textwrap
from pathlib import PurePath
from typing import Any, TextIO

from teamwright.core.data.event import (
    AgentStarted,
    Denied,
    LettersTaken,
    Record,
    Replied,
    TeamChanged,
    ToolEnded,
    TurnEnded,
)
from teamwright.core.data.message import Message, Text, ToolCall
from teamwright.core.data.team import split_address
from teamwright.core.ids import AgentId, CallId
from teamwright.surfaces.plain import paint, result_text
from teamwright.tools.agents.tasks import TaskCreate
from teamwright.tools.agents.team import TeamCreate
from teamwright.tools.bounds import visible
from teamwright.tools.catalog import traits_of

COLUMNS, GUTTER = 98, 7
MOST_CALL, MOST_TAIL, MOST_LINES = 64, 36, 4  # characters of a call and of its result, lines of a result
NAMES = ("yellow", "purple", "green", "blue")  # colours of teammates, in the order in which they come


class Screen:
    def __init__(self, out: TextIO, *, colours: bool) -> None:
        self._out, self._colours = out, colours
        self._names: dict[AgentId, str] = {}
        self._paints: dict[str, str] = {"lead": "cyan"}
        self._calls: dict[CallId, ToolCall] = {}
        self._last = ""  # who had the last line

    def say(self, text: str = "", style: str = "") -> None:
        self._write(self._paint(style, text))
        self._last = ""

    def show(self, record: Record) -> None:
        who = self._names.get(record.agent, "lead")
        match record.event:
            case AgentStarted() as event if event.parent is not None:
                self.meet(record.agent, event.name)
            case LettersTaken() as event:
                if who == "lead":
                    self._prompt(event.message)
            case Replied() as event:
                self._reply(who, event.message)
            case ToolEnded() as event:
                self._tool(who, event)
            case Denied() as event:
                self._line(who, self._paint("yellow", f"refused: {visible(event.reason)}"))
            case TurnEnded() as event if event.error:
                self._line(who, self._paint("red", visible(event.error)))
            case TeamChanged() as event:
                self._team(record.agent, event)
            case _:
                pass

    def _reply(self, who: str, message: Message) -> None:
        self._calls.update({call.id: call for call in message.calls})
        if message.text:
            self._line(who, visible(message.text))
        for call in message.calls:
            if traits_of(call.name).talks and isinstance(call.args.get("message"), dict):
                asks = f"asks {call.args['to']} to shut down"
                agrees = call.args["message"].get("type") == "shutdown_response"
                self._step(who, "agrees to shut down" if agrees else asks)

    def meet(self, agent: AgentId, name: str) -> None:
        self._names[agent] = name
        self._paints.setdefault(name, NAMES[(len(self._paints) - 1) % len(NAMES)])

    def _prompt(self, message: Message) -> None:
        texts = [block.text for block in message.blocks if isinstance(block, Text)]
        if not texts or texts[0].startswith("<"):
            return
        self._write("")
        for line in textwrap.wrap(f"> {visible(texts[0])}", COLUMNS):
            self._write(self._paint("bold", line))
        self._write("")

    def _team(self, agent: AgentId, event: TeamChanged) -> None:
        name = split_address(event.agent)[0]
        if name == "team-lead":
            name = "lead"
        elif agent not in self._names:
            self.meet(agent, name)
        words = {
            "spawn": "joins the team, in a worktree of its own",
            "idle": "is idle",
            "wake": "wakes up",
            "claim": f"claims #{event.task}  {event.text}",
            "completed": f"completes #{event.task}  {event.text}",
            "message": f"to {split_address(event.to)[0]}: {event.text}",
            "shutdown": "has shut down",
            "died": f"is gone: {event.text}",
        }[event.kind]
        self._step(name, words)

    def _step(self, name: str, words: str) -> None:
        self._line(name, f"* {self._paint(self._paints.get(name, ''), visible(words))}")

    def _tool(self, who: str, ended: ToolEnded) -> None:
        call = self._calls.pop(ended.call_id, None)
        if call is None or (traits_of(call.name).told and not ended.is_error):  # an event of the team tells of it
            return
        tail = _tail(call, result_text(ended)) if traits_of(call.name).runs or ended.is_error else []
        mark = self._paint("red", "x") if ended.is_error else self._paint("green", "+")
        what = textwrap.shorten(visible(about(call, ended)), MOST_CALL, placeholder=" ...")
        beside = f"  {self._paint('dim', visible(tail[0]))}" if len(tail) == 1 else ""
        self._line(who, f"{mark} {what}{beside}")
        for line in tail if not beside else ():
            self._line(who, self._paint("dim", f"  {visible(line)}"))

    def _line(self, who: str, text: str) -> None:
        """The name comes before the first line, and again after somebody else has spoken."""
        margin = " " * GUTTER
        for n, line in enumerate(textwrap.wrap(text, COLUMNS - GUTTER, break_long_words=False) or [""]):
            name = self._paint(self._paints.get(who, ""), f"{who:>{GUTTER - 2}}") + "  "
            self._write((name if n == 0 and who != self._last else margin) + line)
        self._last = who

    def _write(self, line: str) -> None:
        self._out.write(line.rstrip() + "\n")
        self._out.flush()

    def _paint(self, style: str, text: str) -> str:
        return paint(style, text, colours=self._colours)


def _tail(call: ToolCall, text: str) -> list[str]:
    """What a person wants to see of a result: the verdict of tests, a list of commits, an error."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("Exit code")]
    command = str(call.args.get("command", ""))
    if command.startswith("git log"):
        return lines[:MOST_LINES]
    if lines and (command.startswith("python3") or not command):
        return [textwrap.shorten(lines[-1], MOST_TAIL, placeholder=" ...")]
    return []


def about(call: ToolCall, ended: ToolEnded) -> str:
    """A call in a few words."""
    args: dict[str, Any] = call.args
    data = ended.data or {}
    traits = traits_of(call.name)
    if traits.runs:
        return f"{args['command']}"
    if traits.path is not None and traits.path.access != "search":
        return f"{call.name} {PurePath(args[traits.path.name]).name}"
    if call.name == TeamCreate.spec.name:
        return f"a team: {args['team_name']}"
    if call.name == TaskCreate.spec.name:
        waits = ", ".join(f"#{id}" for id in args.get("blockedBy", ()))
        return f"task #{data.get('taskId', '?')}: {args['subject']}" + (f" (waits for {waits})" if waits else "")
    return call.name
