"""A team's work as a person likes to watch it: who, then what, one calm line a step."""

import textwrap
from pathlib import PurePath
from typing import Any, TextIO

from teamwright.core.event import AgentStarted, Denied, LettersTaken, Record, Replied, TeamChanged, ToolEnded, TurnEnded
from teamwright.core.ids import AgentId, CallId
from teamwright.core.message import Text, ToolCall
from teamwright.core.team import split_address
from teamwright.tools.bounds import visible

COLUMNS, GUTTER = 98, 7
MOST_TAIL = 44  # characters of a result
CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "purple": "35", "cyan": "36"}
NAMES = ("yellow", "purple", "green", "blue")  # of teammates, as they come
QUIET = frozenset({"TaskUpdate", "Agent"})  # events of the team tell of them


class Screen:
    def __init__(self, out: TextIO, *, colours: bool) -> None:
        self._out, self._colours = out, colours
        self._names: dict[AgentId, str] = {}
        self._paints: dict[str, str] = {"lead": "cyan"}
        self._calls: dict[CallId, ToolCall] = {}
        self._last = ""  # whose line stands last

    def say(self, text: str = "", style: str = "") -> None:
        self._write(self._paint(style, text))
        self._last = ""

    def show(self, record: Record) -> None:
        who = self._names.get(record.agent, "lead")
        match record.event:
            case AgentStarted() as event if event.parent is not None:
                self._meet(record.agent, event.name)
            case LettersTaken() as event:
                texts = [block.text for block in event.message.blocks if isinstance(block, Text)]
                if who == "lead" and texts and not texts[0].startswith("<"):
                    self._prompt(texts[0])
            case Replied() as event:
                self._calls.update({call.id: call for call in event.message.calls})
                if event.message.text:
                    self._line(who, visible(event.message.text))
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

    def _meet(self, agent: AgentId, name: str) -> None:
        self._names[agent] = name
        self._paints.setdefault(name, NAMES[(len(self._paints) - 1) % len(NAMES)])

    def _prompt(self, text: str) -> None:
        self._write("")
        for line in textwrap.wrap(f"> {visible(text)}", COLUMNS):
            self._write(self._paint("bold", line))
        self._write("")

    def _team(self, agent: AgentId, event: TeamChanged) -> None:
        name = split_address(event.agent)[0]
        if name == "team-lead":
            name = "lead"
        elif agent not in self._names:
            self._meet(agent, name)
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
        self._line(name, self._paint("dim", "* ") + self._paint(self._paints.get(name, ""), visible(words)))

    def _tool(self, who: str, ended: ToolEnded) -> None:
        call = self._calls.pop(ended.call_id, None)
        if call is None or (call.name in QUIET and not ended.is_error) or _is_text(call):
            return
        text = "\n".join(part.text for part in ended.content if isinstance(part, Text)).strip()
        tail = text.splitlines()[-1] if text and (call.name == "Bash" or ended.is_error) else ""
        if tail.startswith("Exit code"):
            tail = next((line for line in reversed(text.splitlines()[:-1]) if line.strip()), tail)
        mark = self._paint("red", "x") if ended.is_error else self._paint("green", "+")
        short = textwrap.shorten(visible(tail), MOST_TAIL, placeholder=" ...")
        what = textwrap.shorten(visible(about(call, ended)), COLUMNS - GUTTER - 4, placeholder=" ...")
        self._line(who, f"{mark} {what}" + (f"  {self._paint('dim', short)}" if short else ""))

    def _line(self, who: str, text: str) -> None:
        """The name stands before its first line; then only where somebody else has spoken in between."""
        margin = " " * GUTTER
        for n, line in enumerate(textwrap.wrap(text, COLUMNS - GUTTER, break_long_words=False) or [""]):
            name = self._paint(self._paints.get(who, ""), f"{who:>{GUTTER - 2}}") + "  "
            self._write((name if n == 0 and who != self._last else margin) + line)
        self._last = who

    def _write(self, line: str) -> None:
        self._out.write(line.rstrip() + "\n")
        self._out.flush()

    def _paint(self, style: str, text: str) -> str:
        return f"\x1b[{CODES[style]}m{text}\x1b[0m" if self._colours and style in CODES and text else text


def _is_text(call: ToolCall) -> bool:
    return call.name == "SendMessage" and isinstance(call.args.get("message"), str)


def about(call: ToolCall, ended: ToolEnded) -> str:
    """A call in a few words."""
    args: dict[str, Any] = call.args
    data = ended.data or {}
    match call.name:
        case "Bash":
            return f"{args['command']}"
        case "Read" | "Edit" | "Write":
            return f"{call.name} {PurePath(args['file_path']).name}"
        case "TeamCreate":
            return f"a team: {args['team_name']}"
        case "TaskCreate":
            waits = ", ".join(f"#{id}" for id in args.get("blockedBy", ()))
            return f"task #{data.get('taskId', '?')}: {args['subject']}" + (f" (waits for {waits})" if waits else "")
        case "SendMessage":
            asks = args["message"].get("type") == "shutdown_request"
            return f"asks {args['to']} to shut down" if asks else "agrees to shut down"
        case _:
            return call.name
