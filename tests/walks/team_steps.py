"""Helpers for stories about teams: what a lead and its teammates say, and what they leave on disk."""

import json
import re
from collections.abc import Mapping, Sequence
from inspect import isawaitable
from pathlib import Path
from typing import Any

import anyio

from conftest import Walker
from crew import LIMIT, Crew, agent, script_of
from teamwright.core.data.event import TeamChanged
from teamwright.core.data.message import Request, Text, ToolCall, ToolResult
from teamwright.models.scripted import ScriptedModel, call
from teamwright.store.tables.mail import MailEntry

TEAM = "crew"
# The id of the last request (a shutdown, a plan) that the scripted model can see.
REQUEST_ID = "{{re:request_?[iI]d(?:&quot;|[^A-Za-z0-9])*([\\w-]+)}}"


def create(team: str = TEAM, **more: Any) -> Any:
    return call("TeamCreate", team_name=team, description="a scripted team", **more)


def mate(name: str, script: str | None = None, **more: Any) -> Any:
    """Spawn a teammate that plays the script of its own name, unless another one is named."""
    return agent(script or name, name=name, **more)


def say(to: str, text: str, summary: str = "a note") -> Any:
    return call("SendMessage", to=to, message=text, summary=summary)


def control(to: str, type: str, **fields: Any) -> Any:
    return call("SendMessage", to=to, message={"type": type, **fields})


def shutdown(to: str, **fields: Any) -> Any:
    return control(to, "shutdown_request", **fields)


def agree(approve: bool = True, request_id: str = REQUEST_ID, **fields: Any) -> Any:
    return control("team-lead", "shutdown_response", request_id=request_id, approve=approve, **fields)


def answer_plan(to: str, approve: bool = True, request_id: str = REQUEST_ID, **fields: Any) -> Any:
    return control(to, "plan_approval_response", request_id=request_id, approve=approve, **fields)


def task(subject: str, description: str = "something to do", **fields: Any) -> Any:
    return call("TaskCreate", subject=subject, description=description, **fields)


def update(id: str, **fields: Any) -> Any:
    return call("TaskUpdate", taskId=id, **fields)


def scene(scripts: Mapping[str, Sequence[Any]]) -> ScriptedModel:
    """As `stage`, but the last mark counts: after `SCRIPT:x` in a prompt or message, its reader plays x."""

    async def play(request: Request) -> Any:
        script, step = part_of(request)
        steps = scripts.get(script, ())
        made = steps[step] if step < len(steps) else "on"
        made = made(request) if callable(made) else made
        return await made if isawaitable(made) else made

    return ScriptedModel(play)


def part_of(request: Request) -> tuple[str, int]:
    """The script that the last mark names, and the number of replies since then."""
    script, step = "main", 0
    for message in request.messages:
        if message.role == "assistant":
            step += 1
        elif marks := re.findall(r"SCRIPT:(\w+)", message.text):
            script, step = marks[-1], 0
    return script, step


def parts(play: Crew, script: str) -> list[Request]:
    """The requests that a script answered."""
    return [r for r in play.model.requests if part_of(r)[0] == script]


# --- what was seen


def texts(request: Request) -> str:
    """What people and agents said to it, without tool results."""
    return "\n".join(b.text for m in request.messages if m.role == "user" for b in m.blocks if isinstance(b, Text))


def answers(request: Request, tool: str) -> list[tuple[str, bool]]:
    """(text, is_error) of every call of one tool in a conversation."""
    calls = {b.id for m in request.messages for b in m.blocks if isinstance(b, ToolCall) and b.name == tool}
    found = [b for m in request.messages for b in m.blocks if isinstance(b, ToolResult) and b.call_id in calls]
    return [("\n".join(c.text for c in b.content if isinstance(c, Text)), b.is_error) for b in found]


def last(play: Crew, script: str = "main") -> Request:
    return play.requests(script)[-1]


async def heard(play: Crew, script: str, text: str) -> Request:
    """Wait for a script's first request whose conversation contains this text."""
    with anyio.fail_after(LIMIT):
        while True:
            for request in play.model.requests:
                if script_of(request) == script and text in texts(request):
                    return request
            await anyio.sleep(0.005)


async def until(check: Any) -> Any:
    """Wait until a lookup succeeds, with a limit."""
    with anyio.fail_after(LIMIT):
        while True:
            found = check()
            found = await found if hasattr(found, "__await__") else found
            if found:
                return found
            await anyio.sleep(0.005)


def kinds(play: Crew, name: str = "ada") -> list[str]:
    """The life of a teammate as watchers see it."""
    return [e.kind for e in play.of(TeamChanged) if e.agent == f"{name}@{TEAM}"]


def member(play: Crew, name: str, team: str = TEAM) -> Any:
    return play.session.teamwork.roster.find(team, name)


def state_of(play: Crew, name: str, team: str = TEAM) -> str:
    found = member(play, name, team)
    return found.state if found else "nobody"


async def mail_of(play: Crew, team: str = TEAM) -> list[MailEntry]:
    return await play.session.teamwork.tables.mail.audit(team)


# --- what is on the disk


def home(walker: Walker) -> Path:
    return walker.home / ".teamwright"


def config(walker: Walker, team: str = TEAM) -> dict[str, Any]:
    return json.loads((home(walker) / "teams" / team / "config.json").read_text())


def members(walker: Walker, team: str = TEAM) -> dict[str, dict[str, Any]]:
    return {m["name"]: m for m in config(walker, team)["members"]}


def inbox(walker: Walker, name: str, team: str = TEAM) -> list[dict[str, Any]]:
    return json.loads((home(walker) / "teams" / team / "inboxes" / f"{name}.json").read_text())


def tasks(walker: Walker, team: str = TEAM) -> dict[str, dict[str, Any]]:
    files = (home(walker) / "tasks" / team).glob("[0-9]*.json")
    return {file.stem: json.loads(file.read_text()) for file in files}
