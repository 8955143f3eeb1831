"""A session whose project has skills, with a desk for them and a gate that knows what they allow."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from conftest import Walker
from crew import Crew, stage
from teamwright.app import open_session
from teamwright.core.data.message import ToolCall, ToolSpec
from teamwright.core.ids import AgentId
from teamwright.core.permissions.consent import Decision, Mode
from teamwright.core.permissions.rules import Rules, parse_rules
from teamwright.core.ports import Outcome, ToolContext
from teamwright.library.skills.book import SkillBook
from teamwright.library.skills.places import find_shelves
from teamwright.models.scripted import ScriptedModel
from teamwright.runtime.agents.spawner import Spawner
from teamwright.runtime.extensions.skills import SkillContext, SkillRunner
from teamwright.runtime.permissions.call_facts import FactReader
from teamwright.runtime.permissions.gate import SessionGate
from teamwright.runtime.permissions.grants import Grants
from teamwright.runtime.permissions.judgement import Standing
from teamwright.runtime.services import SessionContext
from teamwright.tools.agents.skill import SkillTool, skill_spec
from teamwright.tools.bounds import visible
from teamwright.tools.catalog import CATALOG


class StagedSkillTool(SkillTool):
    """The session's tool, with the stage's desk in place of the session's."""

    def __init__(self, made: "SkillStage", spec: ToolSpec, *, can_read: bool) -> None:
        super().__init__(spec, can_read=can_read)
        self._made = made

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        assert isinstance(ctx, SessionContext)
        session: Any = SimpleNamespace(skills=self._made.desk, spawner=ctx.session.spawner)
        return await super().call(args, replace(ctx, session=session))


class SkillStage:
    def __init__(self, walker: Walker, mode: Mode, rules: dict[str, list[str]]) -> None:
        self.walker, self.mode = walker, mode
        self.rules = Rules(**{k: parse_rules(v, "user", str(walker.project), "/")[0] for k, v in rules.items()})
        shelves = find_shelves(
            cwd=walker.project, project=walker.project, home=walker.home, state=walker.home / ".teamwright",
            trusted=True, managed=walker.home / "none",
        )  # fmt: skip
        self.book = SkillBook(shelves)
        self.grants = Grants(self.agent, base=walker.project, home=walker.home)
        self.asked: list[ToolCall] = []
        self.crew: Crew | None = None
        around = SkillContext(agent=self.agent, ask=self.ask, clean=visible, env=walker.env, spawner=self.spawner)
        self.desk = SkillRunner(self.book, self.grants, around)
        self.tool = StagedSkillTool(self, skill_spec(self.book.current().offered), can_read=True)

    def agent(self, id: AgentId) -> Any:
        assert self.crew is not None
        return self.crew.session.supervisor.agent(id)

    def spawner(self) -> Spawner:
        assert self.crew is not None
        return self.crew.session.services.spawner

    def standing(self, id: AgentId) -> Standing:
        rules, protected = self.rules + self.grants.of(id), str((self.walker.home / ".teamwright").resolve())
        return Standing("main", self.mode, rules, self.agent(id).desk, protected=(protected,))

    async def ask(self, id: AgentId, call: ToolCall) -> Decision:
        self.asked.append(call)
        gate = SessionGate(standing=self.standing, facts=FactReader(CATALOG, self.walker.home), put=None)
        return await gate.ask(id, call)

    async def text(self, name: str, args: str = "") -> str:
        assert self.crew is not None
        return await self.desk.text(self.desk.find(name), args, self.crew.id)

    async def expand(self, text: str) -> Any:
        assert self.crew is not None
        return await self.desk.expand(text, self.crew.id)


@asynccontextmanager
async def staged(
    walker: Walker, scripts: Any = None, *, mode: Mode = "default", tools: Sequence[str] | None = None,
    rules: dict[str, list[str]] | None = None, **more: Any,
) -> AsyncIterator[SkillStage]:  # fmt: skip
    made = SkillStage(walker, mode, rules or {})
    model = scripts if isinstance(scripts, ScriptedModel) else stage(scripts or {"main": ["done"]})
    options = walker.options(model, mode="bypassPermissions", tools=tools, own_tools=(made.tool,), **more)
    session = await open_session(options)
    async with session:
        made.crew = Crew(session, model)
        yield made
    await made.crew.rest()


def skill(walker: Walker, name: str, body: str, *fields: str) -> Path:
    return _write(walker.project / ".claude/skills" / name / "SKILL.md", body, fields)


def command(walker: Walker, name: str, body: str, *fields: str) -> Path:
    return _write(walker.project / ".claude/commands" / f"{name}.md", body, fields)


def _write(file: Path, body: str, fields: Sequence[str]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(["---", f"description: about {file.stem}", *fields, "---", "", body, ""]))
    return file
