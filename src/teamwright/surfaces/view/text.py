"""The one door for words from outside to the screen: hidden characters are written out, lengths are bounded."""

import textwrap
from typing import Any, cast

from teamwright.tools.bounds import visible

LONGEST_LINE = 10_000  # characters of one line; a longer one is cut in the middle, and says so
MOST_TEXT = 60_000  # characters of what is drawn as one piece
TABS = 4

_NAMED = ("command", "file_path", "notebook_path", "pattern", "url", "query", "skill", "task_id", "taskId", "to")


def safe(text: str, *, most: int = MOST_TEXT) -> str:
    """Text as it may be drawn: no control, direction or invisible character, no endless line, no endless text."""
    if len(text) > most:
        left = len(text) - most
        text = f"{text[: most // 2]}\n[… {left:,} characters left out here …]\n{text[len(text) - most // 2 :]}"
    shown = visible(text).expandtabs(TABS)
    if len(shown) <= LONGEST_LINE:
        return shown
    return "\n".join(map(_cut, shown.split("\n")))


def _cut(line: str) -> str:
    if len(line) <= LONGEST_LINE:
        return line
    half = LONGEST_LINE // 2
    return f"{line[:half]} [… {len(line) - 2 * half:,} characters …] {line[-half:]}"


def one_line(text: str, most: int = 200) -> str:
    """The first words, on one line."""
    return safe(textwrap.shorten(text[: 8 * most], most, placeholder=" …"))


def title(tool: str, args: dict[str, Any]) -> str:
    """What a call is about, in a few words; safe to draw."""
    match tool:
        case "Agent":
            kind, about = str(args.get("subagent_type") or "general-purpose"), str(args.get("description", ""))
            return one_line(f"{args['name']} ({kind}): {about}" if args.get("name") else f"{kind}: {about}")
        case "SendMessage":
            return one_line(f"{args.get('to', '')}: {_said(args)}")
        case "TaskUpdate" | "TaskGet":
            owner = f"owner {args['owner']}" if args.get("owner") else ""
            return one_line(" ".join(filter(None, (f"#{args.get('taskId', '')}", str(args.get("status", "")), owner))))
        case "AskUserQuestion" if isinstance(args.get("questions"), list):
            asked = (
                cast("dict[str, Any]", one) for one in cast("list[Any]", args["questions"]) if isinstance(one, dict)
            )
            return one_line(" · ".join(str(one.get("question", "")) for one in asked))
        case "ExitPlanMode":
            return one_line(str(args.get("plan", "")).strip().partition("\n")[0].lstrip("# "))
        case _:
            named = [args[name] for name in _NAMED if isinstance(args.get(name), str)]
            return one_line(next((value for value in [*named, *args.values()] if isinstance(value, str)), ""))


def _said(args: dict[str, Any]) -> str:
    message = args.get("message")
    if isinstance(message, dict):
        return str(cast("dict[str, Any]", message).get("type", "")).replace("_", " ")
    return str(args.get("summary") or message or "")


def duration(ms: int) -> str:
    seconds = max(ms, 0) / 1000
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def tokens(count: int) -> str:
    if count < 1_000:
        return str(count)
    return f"{count / 1_000:.1f}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"


def money(usd: float | None) -> str:
    return "$?" if usd is None else f"${usd:.2f}" if usd >= 0.01 or usd == 0 else f"${usd:.4f}"
