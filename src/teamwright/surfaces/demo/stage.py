"""Plays the demo's story with real tools on a real repository: `python -m teamwright.surfaces.demo.stage PLAN`.

Run as a program, it is what `teamwright demo --kill` kills.
"""

import os
import sys
from pathlib import Path

import anyio
import msgspec
from msgspec import Struct

from teamwright.app import Options, open_session
from teamwright.core.data.event import TeamChanged, TurnEnded
from teamwright.core.data.message import Text
from teamwright.core.data.op import Say
from teamwright.core.data.team import Member, split_address
from teamwright.models.scripted import ScriptedModel
from teamwright.runtime.agents.resume import Origin
from teamwright.runtime.bus import Watch
from teamwright.runtime.local_session import LocalSession
from teamwright.runtime.session import Session
from teamwright.store.files.paths import Home
from teamwright.surfaces.demo.advice import advice
from teamwright.surfaces.demo.screen import Screen
from teamwright.surfaces.demo.story import (
    ALLOWED,
    KILLED_AT,
    PROMPT,
    TEAM,
    AskedInDemo,
    Cue,
    Idle,
    SaidInDemo,
    StoryLeft,
    parts,
    replies,
    tell,
)
from teamwright.surfaces.view.newcomer import Newcomer

PACE, LIVE_PACE = 250.0, 120.0  # characters per second
STEP, LIVE_STEP = 0.15, 0.7  # seconds before each reply, so that people can read
LOOK = 0.05  # seconds until a cue is checked again without an event
LIMIT, LIVE_LIMIT = 60.0, 3600.0  # seconds for anything that the story waits for; a person may take longer


class DemoPlan(Struct, frozen=True):
    """One run. The session is kept in the same directory as `shop`. `moment`: report there, and wait to be killed."""

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
    """Without a screen the story is live: a person watches it in the app and answers its question."""

    def __init__(self, plan: DemoPlan, screen: Screen | None = None) -> None:
        self._plan, self._screen, self._live = plan, screen, screen is None
        self._session: LocalSession | None = None
        self._news = anyio.Event()
        self._asked: dict[str, int] = {}  # the reply that each part is about to give
        self._left = set[str]()
        self.end: TurnEnded | None = None

    def options(self) -> Options:
        plan = self._plan
        pace = LIVE_PACE if self._live else PACE
        return Options(
            cwd=plan.shop,
            env=dict(os.environ) | {"TEAMWRIGHT_HOME": str(plan.home), "XDG_RUNTIME_DIR": plan.root},
            origin=Origin(plan.session) if plan.resume else Origin(id=plan.session),
            own_model=ScriptedModel(tell(self._wait, live=self._live), pace=0.0 if plan.fast else pace),
            mode="acceptEdits",
            allowed_tools=ALLOWED,
            setting_sources=(),
            trust=True,  # we made this directory ourselves
            teammate_mode="in-process",
            can_ask=self._live,
            interactive=self._live,
        )

    def enter(self, session: Session) -> Watch:
        """Call this before any agent continues its work."""
        self._session = LocalSession(session, Home(self._plan.home))
        return session.watch(deltas=False)

    async def play(self) -> bool:
        """Play the story; True if it came to its end."""
        assert self._screen is not None
        session = await open_session(self.options())
        watch = self.enter(session)
        async with anyio.create_task_group() as group, session:
            for member in self._members():
                if not member.is_lead:
                    self._screen.meet(member.agent, member.name)
            group.start_soon(self.follow, watch)
            if not self._plan.resume:
                await session.submit(Say((Text(PROMPT),)))
            await session.idle()
        return self.over

    @property
    def over(self) -> bool:
        """Whether the lead has said its last words."""
        if self._session is None or self.end is None or self.end.reason != "done":
            return False
        return self._replies("lead") >= len(parts(live=self._live)["lead"])

    def advise(self, seen: Newcomer) -> str:
        return advice(seen, over=self.over)

    async def follow(self, watch: Watch) -> None:
        """Runs until the session is closed."""
        assert self._session is not None
        async for record in watch:
            if self._screen is not None:
                self._screen.show(record)
            if isinstance(record.event, TurnEnded) and record.agent == self._session.main:
                self.end = record.event
            if isinstance(record.event, TeamChanged) and record.event.kind == "shutdown":
                self._left.add(split_address(record.event.agent)[0])
            self._announce()

    # --- cues

    def _announce(self) -> None:
        self._news.set()
        self._news = anyio.Event()

    async def _wait(self, part: str, number: int, cue: Cue | None) -> None:
        self._asked[part] = number
        self._announce()
        if self._plan.moment is not None and (part, number) == KILLED_AT:
            os.write(self._plan.moment, b".")  # so that the killer of this process need not guess the moment
            await anyio.sleep(LIMIT)
        with anyio.fail_after(LIVE_LIMIT if self._live else LIMIT):
            while cue is not None and not self._given(cue):
                with anyio.move_on_after(LOOK):
                    await self._news.wait()
        if not self._plan.fast:
            await anyio.sleep(LIVE_STEP if self._live else STEP)

    def _given(self, cue: Cue) -> bool:
        match cue:
            case SaidInDemo():
                return self._replies(cue.part) >= cue.replies
            case AskedInDemo():
                return self._asked.get(cue.part, -1) >= cue.reply
            case Idle():
                return (member := self._member(cue.name)) is not None and member.state == "idle"
            case StoryLeft():
                return self._left.issuperset(cue.names)

    def _members(self) -> list[Member]:
        return self._session.members(TEAM) if self._session is not None else []

    def _member(self, name: str) -> Member | None:
        return next((member for member in self._members() if member.name == name), None)

    def _replies(self, part: str) -> int:
        """How often this part has spoken; -1 if nobody plays it now."""
        assert self._session is not None
        agents = {member.name: member.agent for member in self._members()} | {"lead": self._session.main}
        messages = self._session.messages(agents[part]) if part in agents else None
        return -1 if messages is None else replies(messages)


def main(argv: list[str]) -> int:
    plan = msgspec.json.decode(argv[0], type=DemoPlan)
    screen = Screen(sys.stdout, colours=plan.colours)
    try:
        return 0 if anyio.run(Stage(plan, screen).play) else 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
