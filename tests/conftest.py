"""Fixtures that every room uses."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from program import Program
from teamwright.app import Options, open_session
from teamwright.core.data.event import Durable, Record, Replied, ToolEnded, TurnEnded, is_durable
from teamwright.core.data.message import Message, Text
from teamwright.models.scripted import ScriptedModel
from teamwright.runtime.session import Session


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-snapshots", action="store_true", help="write down anew what the screens show")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Walk(Struct):
    """What a session did, as its watchers saw it."""

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
    """The program as a subprocess, in a home and a project of its own."""
    program = Program(tmp_path)
    yield program
    program.close()
