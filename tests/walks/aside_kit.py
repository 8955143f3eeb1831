"""A session with a separate script for the answers to side questions."""

import json
import re
from typing import Any

import anyio

from crew import LIMIT, Crew, bash
from teamwright.core.data.message import Request
from teamwright.models.scripted import ScriptedModel

SUMMARIES = {"agentSummaries": True, "summarySeconds": 0.001}
KINDS = {
    "suggest": "what would they most likely type next",
    "summary": "looks over your shoulder",
    "notes": "Later sessions in this project",
    "shorter": "Write all of them anew",
    "aside": "<side-question>",
    "check": "</calls>",
}
_MARK = re.compile(r"SCRIPT:(\w+)")


def kind_of(request: Request) -> str:
    last = request.messages[-1].text
    return next((kind for kind, words in KINDS.items() if words in last), "talk")


def stage(talk: list[Any], **asides: Any) -> ScriptedModel:
    """`talk` plays the conversation, a prompt names its agent's script; each kind of side question has its answer."""

    async def play(request: Request) -> Any:
        kind = kind_of(request)
        said = sum(m.role == "assistant" for m in request.messages)
        name = _MARK.search(request.messages[0].text)
        steps = {"kid": KID, **asides}[name[1]] if name else talk
        step = asides[kind] if kind != "talk" else steps[said] if said < len(steps) else "done"
        step = step(request) if callable(step) else step
        return await step if hasattr(step, "__await__") else step

    return ScriptedModel(play)


KID: list[Any] = [bash("true"), bash("echo again"), "report"]


def kinds(walk: Crew) -> list[str]:
    return [kind_of(r) for r in walk.model.requests]


def settings(**own: Any) -> str:
    return json.dumps({"teamwright": own})


class Thinker:
    """An answer that never comes; it reports when it was requested and when it was given up."""

    def __init__(self) -> None:
        self.asked, self.left = anyio.Event(), anyio.Event()

    async def __call__(self, _: Request) -> Any:
        self.asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.left.set()


async def seen(event: anyio.Event) -> None:
    with anyio.fail_after(LIMIT):
        await event.wait()
