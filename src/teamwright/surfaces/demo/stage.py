"""Plays the demo's story with real tools on a real repository: `python -m teamwright.surfaces.demo.stage PLAN`.

As a program it is what `teamwright demo --kill` kills.
"""

import os
import sys
from pathlib import Path
from typing import Any

import anyio
import msgspec
from msgspec import Struct

from teamwright.app import Options, open_session
from teamwright.core.event import TurnEnded
from teamwright.core.message import Text
from teamwright.core.op import Say
from teamwright.models.scripted import ScriptedModel
from teamwright.runtime.agent import Agent
from teamwright.runtime.bus import Watch
from teamwright.runtime.resume import Origin
from teamwright.runtime.session import Session
from teamwright.surfaces.demo.screen import Screen
from teamwright.surfaces.demo.story import ALLOWED, KILLED_AT, PROMPT, TEAM, Cue, Left, Owned, Said, tell

PACE = 90.0  # characters a second
STEP = 0.35  # seconds before each reply, for people to read
LIMIT = 60.0  # seconds for anything that the story waits for


class Plan(Struct, frozen=True):
    """One run: a directory with `shop`, in which the session is kept, too. `moment`: say so there and wait to die."""

    root: str
    session: str
    fast: bool = False
    resume: bool = False
    colours: bool = False
    moment: int | None = None

    @property
    def shop(self) -> Path:
        return Path(self.root, "shop")

    @property
    def home(self) -> Path:
        return Path(self.root, "home")


class Stage:
    def __init__(self, plan: Plan, screen: Screen) -> None:
        self._plan, self._screen = plan, screen
        self._session: Session | None = None
        self._news = anyio.Event()
        self.end: TurnEnded | None = None

    async def play(self) -> bool:
        """Did it come to its end?"""
        plan = self._plan
        origin = Origin(plan.session) if plan.resume else Origin(id=plan.session)
        options = Options(
            cwd=plan.shop,
            env=dict(os.environ) | {"TEAMWRIGHT_HOME": str(plan.home), "HOME": plan.root},
            origin=origin,
            own_model=ScriptedModel(tell(self._wait), pace=0.0 if plan.fast else PACE),
            mode="acceptEdits",
            allowed_tools=ALLOWED,
            setting_sources=(),
            teammate_mode="in-process",
        )
        session = self._session = await open_session(options)
        async with anyio.create_task_group() as group, session:
            group.start_soon(self._show, session.watch(deltas=False))
            if not plan.resume:
                await session.submit(Say((Text(PROMPT),)))
            await session.idle()
        return self.end is not None and self.end.reason == "done"

    async def _show(self, watch: Watch) -> None:
        """Until the session is closed."""
        assert self._session is not None
        async for record in watch:
            self._screen.show(record)
            if isinstance(record.event, TurnEnded) and record.agent == self._session.main.id:
                self.end = record.event
            self._news.set()
            self._news = anyio.Event()

    # --- cues

    async def _wait(self, part: str, number: int, cue: Cue | None) -> None:
        if self._plan.moment is not None and (part, number) == KILLED_AT:
            os.write(self._plan.moment, b".")
            await anyio.sleep(LIMIT)
        with anyio.fail_after(LIMIT):
            while cue is not None and not await self._given(cue):
                with anyio.move_on_after(1.0):
                    await self._news.wait()
        if not self._plan.fast:
            await anyio.sleep(STEP)

    async def _given(self, cue: Cue) -> bool:
        assert self._session is not None
        work = self._session.teamwork
        match cue:
            case Said():
                agent = self._agent(cue.part)
                return agent is not None and _replies(agent) >= cue.replies
            case Left():
                found = [work.teams.find(TEAM, name) for name in cue.names]
                return all(member is None or member.state == "shutdown" for member in found)
            case Owned():
                tasks = (await work.board.table.list(TEAM)).tasks
                return any(task.id == cue.task and task.owner for task in tasks)

    def _agent(self, part: str) -> Agent | None:
        assert self._session is not None
        if part == "lead":
            return self._session.main
        member = self._session.teamwork.teams.find(TEAM, part)
        return self._session.supervisor.agent(member.agent) if member else None


def _replies(agent: Agent) -> int:
    return sum(message.role == "assistant" for message in agent.history.messages)


def main(argv: list[str]) -> int:
    plan: Any = msgspec.json.decode(argv[0], type=Plan)
    screen = Screen(sys.stdout, colours=plan.colours)
    return 0 if anyio.run(Stage(plan, screen).play) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
