"""A model that does only what the texts say: it takes what it is given, and answers in the form that it was shown.

It knows no tool's arguments in advance except those of commands, and tries none that would be refused by what it was
told of its permissions. It builds its calls from words that it has read: a
request's id, the form of its answer, the number of a task, the branch of a worktree. If the words are missing, it ends
its turn.
"""

import html
import json
import re
from collections.abc import Sequence
from fnmatch import fnmatch
from typing import Any

from teamwright.core.data.message import Message, Request, Text, ToolCall, ToolResult
from teamwright.models.scripted import call

_REQUEST = re.compile(r"(shutdown|plan_approval)_request")
_ID = re.compile(r"request_?[iI]d\W+([\w-]+-[0-9a-f]{6,})|_request ((?:plan|shutdown)-[0-9a-f]+)")
_TASK = re.compile(r"Task #(\d+) is yours|\"taskId\":\s*\"(\d+)\"|task-assigned id=\"(\d+)\"")
_ORDER = re.compile(r"run: `(.+?)`")
_BRANCH = re.compile(r"\bbranch (worktree-[\w.+-]+)")


class Reader:
    """Plays every agent by what it reads. `opening` is what the main agent was asked to set up, call by call."""

    def __init__(self, opening: Sequence[Any]) -> None:
        self._opening = opening

    def __call__(self, request: Request) -> Any:
        done = [m for m in request.messages if m.role == "assistant"]
        main = not any("You are" in part and "a teammate in the team" in part for part in request.system)
        if main and len(done) < len(self._opening):
            return self._opening[len(done)]
        return self._obey(request) or "I have nothing left to do."

    def _obey(self, request: Request) -> Any:
        """Do the first thing that a text asks for and that is not done yet."""
        known, calls = _everything(request), [c for m in request.messages for c in m.calls]
        for text in _read(request.messages):
            for step in self._steps(text, known):
                if not any(c.name == step.name and c.args == step.args for c in calls) and _permitted(step, known):
                    return step
        return None

    def _steps(self, text: str, known: str) -> list[ToolCall]:
        return [
            *_answer(text, known),
            *_plan(text),
            *_carry_out(text, known),
            *_work(text, known),
            *_check(text),
            *_merge(text, known),
        ]


def _everything(request: Request) -> str:
    """Everything it knows: its prompt, its tools, the conversation."""
    tools = [f"{tool.name}: {tool.description} {json.dumps(tool.schema)}" for tool in request.tools]
    return "\n".join([*request.system, *tools, *_read(request.messages)])


def _read(messages: Sequence[Message]) -> list[str]:
    """What it was told and what its calls returned, in order, each text separately."""
    found: list[str] = []
    for block in (b for m in messages if m.role == "user" for b in m.blocks):
        inner = block.content if isinstance(block, ToolResult) else (block,)
        found += [html.unescape(item.text) for item in inner if isinstance(item, Text)]
    return found


def _form(kind: str, known: str) -> list[str] | None:
    """The fields of an answer, as a text shows them: {type: x_response, request_id, approve, reason?}."""
    shown = re.search(rf"\{{\s*\"?type\"?: \"?{kind}_response\"?,([^{{}}]*)\}}", known)
    return [field.split(":")[0].strip(' "') for field in shown[1].split(",")] if shown else None


def _answer(text: str, known: str) -> list[ToolCall]:
    asked, id = _REQUEST.search(text), _ID.search(text)
    if asked is None or id is None or '"type":"idle' in text:
        return []
    fields = _form(asked[1], known)
    sender = re.search(r'teammate_id="([\w-]+)"', text) or re.search(r'"from":\s*"([\w-]+)"', text)
    if fields is None or sender is None or sender[1] == "teamwright":
        return []
    values = {"request_id": id[1] or id[2], "approve": True}
    body = {"type": f"{asked[1]}_response"} | {name: values[name] for name in fields if name in values}
    return [call("SendMessage", to=sender[1], message=body)]


def _plan(text: str) -> list[ToolCall]:
    """Plan only if told to: plan mode alone is not enough."""
    told = "lan mode" in text and re.search(r"(?:call|with|hand it in with) ExitPlanMode", text)
    return [call("ExitPlanMode", plan="1. Do what I was asked for.")] if told else []


def _carry_out(text: str, known: str) -> list[ToolCall]:
    order = _ORDER.search(known) if "approved" in text and "carry it out" in text else None
    return [call("Bash", command=order[1])] if order and '"plan"' not in text else []


def _work(text: str, known: str) -> list[ToolCall]:
    """Run the command that it is told to run; for a task, complete it afterwards."""
    order, task = _ORDER.search(text), _TASK.search(text)
    if task is None:
        return [call("Bash", command=order[1])] if order and "teammate-message" in text else []
    id = next(group for group in task.groups() if group)
    done = [call("TaskUpdate", taskId=id, status="completed")] if "completed" in known else []
    return [*([call("Bash", command=order[1])] if order else []), *done]


def _check(text: str) -> list[ToolCall]:
    """Run the tests that its prompt names."""
    order = _ORDER.search(text) if "Prove it" in text else None
    return [call("Bash", command=order[1])] if order else []


def _permitted(step: ToolCall, known: str) -> bool:
    """A command that would be refused, by what it was told of its permissions, is not tried."""
    told = re.findall(r"^Permissions: (.*)", known, re.MULTILINE)
    if step.name != "Bash" or not told or "is refused: nobody is there" not in told[-1]:
        return True
    rules = re.findall(r"Bash\(([^)]*)\)", told[-1])
    return "any command" in told[-1] or any(fnmatch(step.args["command"], rule) for rule in rules)


def _merge(text: str, known: str) -> list[ToolCall]:
    """As the lead, merge the branches that it is told about, if it is told to."""
    found = _BRANCH.search(text)
    return [call("Bash", command=f"git merge -q {found[1]}")] if found and "git merge" in known else []
