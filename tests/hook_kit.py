"""Hooks in the user's settings that record their input."""

import json
from typing import Any

from conftest import Walker
from program import Program


def hook(command: str, matcher: str = "", **more: Any) -> dict[str, Any]:
    return {"matcher": matcher, "hooks": [{"type": "command", "command": command} | more]}


def logging(place: Walker | Program, then: str = "true") -> str:
    """A command that notes its input as one line, then does something."""
    return f"x=$(cat); printf '%s\\n' \"$x\" >> '{place.home}/hooks.jsonl'; {then}"


def saying(**answer: Any) -> str:
    """A command that answers with JSON."""
    return f"echo '{json.dumps(answer)}'"


def deciding(event: str, **fields: Any) -> str:
    return saying(hookSpecificOutput={"hookEventName": event, **fields})


def use_hooks(place: Walker | Program, **events: Any) -> None:
    file = place.home / ".claude/settings.json"
    file.parent.mkdir(exist_ok=True)
    entries = {event: made if isinstance(made, list) else [made] for event, made in events.items()}
    file.write_text(json.dumps({"hooks": entries}))


def hooked(place: Walker | Program, event: str | None = None) -> list[dict[str, Any]]:
    """What the logging hooks were told, in order."""
    file = place.home / "hooks.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [line for line in lines if event in (None, line["hook_event_name"])]
