"""What a team costs its lead: requests, and conversation tokens without the system prompt and the tools.

`python bench/lead.py` plays the demo, and a crew whose members report as models do: each tells the lead what it has
done and ends its turn with a word. In `review`, two complete tasks and a third member reviews them. We count four
characters as a token.
"""

import asyncio
import io
import os
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import anyio
from msgspec import Struct

from teamwright.app import Options, open_session
from teamwright.core.data.conversation.history import History
from teamwright.core.data.event import LettersTaken, Replied
from teamwright.core.data.message import Request, Text
from teamwright.core.data.op import Say
from teamwright.core.policies.compaction import size
from teamwright.models.script import read_step
from teamwright.models.scripted import ScriptedModel, ScriptStep, call
from teamwright.runtime.agents.resume import Origin
from teamwright.store.files import transcripts
from teamwright.store.files.paths import Home, find_transcript
from teamwright.surfaces.demo.screen import Screen
from teamwright.surfaces.demo.shop import make_shop
from teamwright.surfaces.demo.stage import DemoPlan, Stage

CREW = ("ada", "ben", "cleo")
REPORT = "Done: `if a < b && c > d` in src/{}.py was wrong, commit ab4d95c on my branch. All 223 tests pass."
PACE = {"ada": 0.3, "ben": 0.8, "cleo": 1.3}  # seconds, so that they do not end at the same moment


class LeadCost(Struct):
    requests: int = 0
    arrived: int = 0  # tokens of letters
    all: int = 0  # tokens at the end
    sent: int = 0  # tokens of all requests


def cost_of(home: Path, session: str) -> LeadCost:
    path = find_transcript(Home(home), session)
    assert path is not None
    found, history = LeadCost(), History()
    for _, line in transcripts.read(path):
        event = line.event
        if isinstance(event, LettersTaken):
            found.arrived += size(event.message) // 4
        if isinstance(event, Replied):
            found.requests += 1
            found.sent += sum(map(size, history.messages)) // 4
        history.apply(event)
    found.all = sum(map(size, history.messages)) // 4
    return found


async def play_demo(root: Path) -> LeadCost:
    plan = DemoPlan(str(root), str(uuid4()), fast=True)
    make_shop(plan.shop)
    await Stage(plan, Screen(io.StringIO(), colours=False)).play()
    return cost_of(plan.home, plan.session)


def _team() -> list[Any]:
    mates = [call("Agent", name=name, description=f"{name}'s part", prompt=f"You are {name}.") for name in CREW]
    return [call("TeamCreate", team_name="crew", description="x"), *mates]


def _work(name: str) -> list[Any]:
    return [call("SendMessage", to="team-lead", message=REPORT.format(name), summary=f"part of {name} is done")]


def _tasks() -> list[Any]:
    made = [call("TaskCreate", subject=f"part of {n}", description=f"Mend {n}.", owner=n) for n in CREW]
    made[2] = call("TaskCreate", subject="review", description="Review both.", owner=CREW[2], blockedBy=["1", "2"])
    return [call("TeamCreate", team_name="crew", description="x"), *made]


def _review(name: str) -> list[list[Any]]:
    done = call("TaskUpdate", taskId=str(CREW.index(name) + 1), status="completed")
    return [[call("Glob", pattern="*")], [done, *_work(name)], ["My part is done, and team-lead knows."]]


async def crew(request: Request) -> ScriptStep:
    """The lead sets up everything in one reply and has little to say afterwards."""
    name, told = _part(request)
    if not name:
        return read_step(_team() if not told else ["I wait for the others."], ())
    await asyncio.sleep(PACE[name])
    steps = [[call("Glob", pattern="*")], _work(name), ["My part is done, and team-lead knows."]]
    return read_step(steps[told] if told < len(steps) else ["Nothing is left for me."], ())


async def review(request: Request) -> ScriptStep:
    """Tasks with owners; the reviewer waits for the other two."""
    name, told = _part(request)
    if not name:
        return read_step([_tasks(), _team()[1:]][told] if told < 2 else ["I wait for the others."], ())
    await asyncio.sleep(PACE[name])
    waits = [["I wait for both parts."]] if name == CREW[2] and "#3" not in request.messages[0].text else []
    steps = [*waits, *_review(name)]
    return read_step(steps[told] if told < len(steps) else ["Nothing is left for me."], ())


def _part(request: Request) -> tuple[str, int]:
    """Whose request it is (empty: the lead's), and how often that one has replied."""
    first = request.messages[0].text
    name = next((name for name in CREW if f"You are {name}." in first), "")
    return name, sum(message.role == "assistant" for message in request.messages)


async def play_crew(root: Path, script: Callable[[Request], Awaitable[ScriptStep]] = crew) -> LeadCost:
    session, home = str(uuid4()), root / "home"
    env = dict(os.environ) | {"TEAMWRIGHT_HOME": str(home), "XDG_RUNTIME_DIR": str(root)}
    options = Options(
        cwd=root, env=env, origin=Origin(id=session), own_model=ScriptedModel(script), mode="bypassPermissions",
        may_bypass=True, setting_sources=(), teammate_mode="in-process",
    )  # fmt: skip
    async with await open_session(options) as opened:
        await opened.submit(Say((Text("Mend it."),)))
        with anyio.fail_after(60):
            await opened.idle()
    return cost_of(home, session)


def main() -> int:
    print(f"{'':8}{'requests':>10}{'letters':>10}{'at the end':>12}{'all requests':>14}")
    for name, play in (("demo", play_demo), ("crew", play_crew), ("review", partial(play_crew, script=review))):
        with TemporaryDirectory(prefix="lead-") as root:
            cost = anyio.run(play, Path(root))
        print(f"{name:8}{cost.requests:>10,}{cost.arrived:>10,}{cost.all:>12,}{cost.sent:>14,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
