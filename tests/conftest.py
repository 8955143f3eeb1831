"""Fixtures for all tests."""

import gc
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from msgspec import Struct

from program import Program
from store_kit import Chosen
from teamwright.app import Options, open_session
from teamwright.core.data.event import Durable, Record, Replied, ToolEnded, TurnEnded, is_durable
from teamwright.core.data.message import Message, Text
from teamwright.models.scripted import ScriptedModel
from teamwright.runtime.session import Session

# The machine's current speed must not fail a property test; where time matters, a test says so itself.
settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-snapshots", action="store_true", help="write down anew what the screens show")
    parser.addoption("--store", choices=("sqlite", "engine"), default="sqlite", help="which store the tests run on")


def pytest_configure(config: pytest.Config) -> None:
    Chosen.engine = config.getoption("--store") == "engine"


def pytest_runtest_teardown() -> None:
    gc.enable()  # a command that ran in this process may have left it off: a process of its own would have ended


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what was skipped and why, and list failed tests for a script that repeats them one by one."""
    skipped = Counter(str(report.longrepr[-1]) for report in terminalreporter.stats.get("skipped", ()))
    for why, many in sorted(skipped.items()):
        terminalreporter.write_line(f"{many} skipped: {why.removeprefix('Skipped: ')}")
    if file := os.environ.get("TEAMWRIGHT_TEST_FAILED"):
        bad = [report.nodeid for kind in ("failed", "error") for report in terminalreporter.stats.get(kind, ())]
        Path(file).write_text("".join(f"{id}\n" for id in dict.fromkeys(bad)))


def pytest_unconfigure() -> None:
    if (kit := sys.modules.get("engine_kit")) is not None:
        kit.Engines.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if Chosen.engine:
        alone = pytest.mark.skip(reason="needs the store of one machine")
        for item in items:
            if item.get_closest_marker("one_machine") is not None:
                item.add_marker(alone)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Walk(Struct):
    """A session's events, as its watchers saw them."""

    session: Session
    model: ScriptedModel
    records: list[Record]
    ends: list[TurnEnded]

    @property
    def events(self) -> list[Durable]:
        return [r.event for r in self.records if is_durable(r.event)]

    def of(self, kind: type) -> list[Any]:
        return [r.event for r in self.records if isinstance(r.event, kind)]

    @property
    def results(self) -> list[tuple[str, bool]]:
        """(text, is_error) of each tool result, in the order they ended."""
        ended = [e for e in self.events if isinstance(e, ToolEnded)]
        return [("\n".join(c.text for c in e.content if isinstance(c, Text)), e.is_error) for e in ended]

    @property
    def said(self) -> list[Message]:
        return [e.message for e in self.events if isinstance(e, Replied)]


class Walker:
    """Opens sessions in one home and one project, plays prompts, and keeps what was seen."""

    def __init__(self, root: Path) -> None:
        self.project, self.home = root / "project", root / "home"
        for directory in (self.project, self.home):
            directory.mkdir()
        self.env = {"HOME": str(self.home), "TEAMWRIGHT_HOME": str(self.home / ".teamwright"), "PATH": "/usr/bin:/bin"}
        if Chosen.engine:
            from engine_kit import Engines

            self.env["TEAMWRIGHT_ENGINE"] = str(Engines.get().new_space())

    @property
    def store(self) -> Path:
        """The directory of transcripts and rows: in the session's home, or of the one engine space that it knows."""
        home = self.home / ".teamwright"
        return next((path for path in home.glob("engines/*") if path.is_dir()), home) if Chosen.engine else home

    def options(self, script: Any = None, **more: Any) -> Options:
        model = script if isinstance(script, ScriptedModel) else ScriptedModel(script or ["done"])
        return Options(**{"cwd": self.project, "env": self.env, "own_model": model} | more)

    async def walk(self, script: Any, prompts: Sequence[str] = ("go",), **more: Any) -> Walk:
        options = self.options(script, **more)
        session = await open_session(options)
        assert isinstance(options.own_model, ScriptedModel)
        walk = Walk(session, options.own_model, [], [])
        async with session:
            watch = session.watch()
            for prompt in prompts:
                walk.ends.append(await session.ask(prompt))
        async for record in watch:
            walk.records.append(record)
        return walk


@pytest.fixture
def walker(tmp_path: Path) -> Walker:
    return Walker(tmp_path)


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    """Run the program as a subprocess, in a home and a project of its own."""
    program = Program(tmp_path)
    yield program
    program.close()


# One conftest for all tests: they import `Walker` from the module of this name.


@pytest.fixture
def collector() -> Iterator[Callable[..., Any]]:
    """Opens collectors of telemetry."""
    from collector import Collector

    opened: list[Collector] = []

    def open_one(status: int = 200, *, holds: bool = False) -> Collector:
        opened.append(Collector(status, holds=holds))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Any]:
    """A lead's machine with a repository, connected to an engine, for workers to join."""
    from engine_kit import Engines
    from remote_stage import Stage

    stage = Stage(tmp_path, Engines.get().new_space())
    yield stage
    stage.close()


@pytest.fixture
def shop(tmp_path: Path) -> Any:
    """The workshop of the editor tests."""
    from acp_editor import Workshop

    return Workshop(tmp_path)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Close the browser before other files' tests: Playwright keeps an event loop open, which allows no other."""
    from browser_kit import open_browser

    yield from open_browser()


@pytest.fixture
def web(chromium: Any, program: Program) -> Iterator[Any]:
    """A hub for a browser to open."""
    from web_kit import WebHub

    hub = WebHub(program).enter()
    yield hub
    hub.close()


@pytest.fixture
def page(chromium: Any, web: Any) -> Iterator[Callable[..., Any]]:
    """Open pages of the hub."""
    from browser_kit import open_pages

    yield from open_pages(chromium, web)
