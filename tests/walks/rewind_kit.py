"""A session that keeps its files, and steps for its agents."""

import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from conftest import Walker
from teamwright.app import open_session
from teamwright.core.data.message import ToolCall
from teamwright.core.data.op import Rewind
from teamwright.models.scripted import ScriptedModel, call
from teamwright.runtime.local_session import LocalSession
from teamwright.runtime.port import RewindPoint
from teamwright.runtime.session import Session
from teamwright.store.files.paths import home_from


def write(path: Path, text: str) -> ToolCall:
    return call("Write", file_path=str(path), content=text)


def run(command: str, **more: Any) -> ToolCall:
    return call("Bash", command=command, **more)


def repository(project: Path) -> None:
    for command in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "1"]):
        subprocess.run(["git", *command], cwd=project, check=True, timeout=30)


class Stage:
    def __init__(self, session: Session, walker: Walker, model: ScriptedModel) -> None:
        self.session, self.model = session, model
        self.port = LocalSession(session, home_from(walker.env))

    async def points(self) -> list[RewindPoint]:
        return await self.port.points()

    async def rewind(self, prompt: str, **how: bool) -> None:
        line = next(point.line for point in await self.points() if point.text == prompt)
        await self.port.submit(Rewind(line, **how))

    async def undo(self, **how: bool) -> None:
        line = [point.line for point in await self.points() if point.kind == "rewind"][-1]
        await self.port.submit(Rewind(line, **how))

    @property
    def conversation(self) -> list[str]:
        return [message.text for message in self.session.main.history.messages if message.text]


@asynccontextmanager
async def staged(walker: Walker, script: Any, **more: Any) -> AsyncGenerator[Stage]:
    options = walker.options(script, **{"keep_files": True, "mode": "bypassPermissions", "may_bypass": True} | more)
    assert isinstance(options.own_model, ScriptedModel)
    async with await open_session(options) as session:
        yield Stage(session, walker, options.own_model)


FILES = {"conversation": False, "files": True}
BOTH = {"conversation": True, "files": True}
