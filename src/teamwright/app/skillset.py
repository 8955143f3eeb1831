"""Skills and commands of a session. Nothing of them is imported before somebody has written one."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.app.options import Options
from teamwright.app.workspace import Workspace, passed_names
from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.message import ToolSpec
from teamwright.core.permissions.rules import READ, Rule, Rules
from teamwright.core.ports import Tool
from teamwright.runtime.agents.spawner import Spawner
from teamwright.runtime.agents.supervisor import Supervisor
from teamwright.runtime.permissions.grants import Grants
from teamwright.tools.bounds import visible

if TYPE_CHECKING:
    from teamwright.library.plugins import Plugin
    from teamwright.library.skills.book import SkillBook, Skills
    from teamwright.library.skills.file import Skill
    from teamwright.runtime.extensions.skills import Judge, SkillRunner

MANAGED = Path("/etc/teamwright")
_FOLDERS = ("skills", "commands")


class Skillset:
    def __init__(self, options: Options, ground: Workspace, plugins: "Sequence[Plugin]", grants: Grants) -> None:
        self._options, self._ground, self._plugins, self._grants = options, ground, plugins, grants
        self._book: SkillBook | None = None
        self._desk: SkillRunner | None = None
        self._spec: tuple[Skills, ToolSpec] | None = None
        self._judge: Callable[[], Judge] | None = None
        self._people: Callable[[], tuple[Supervisor, Spawner]] | None = None
        self.only: frozenset[str] | None = None  # what the model is told of, where somebody chose
        self.rules = Rules()  # skills lie where agents may not read otherwise

    def introduce(self, judge: "Callable[[], Judge]", people: Callable[[], tuple[Supervisor, Spawner]]) -> None:
        self._judge, self._people = judge, people

    def book(self) -> "SkillBook | None":
        if self._book is None and (self._plugins or any(map(os.path.isdir, self._folders()))):
            from teamwright.library.skills.book import SkillBook  # noqa: PLC0415
            from teamwright.library.skills.places import find_shelves, readable_folders  # noqa: PLC0415

            ground = self._ground
            shelves = find_shelves(
                cwd=ground.cwd,
                project=ground.project,
                home=ground.user,
                state=ground.home.root,
                trusted=ground.trusted,
                sources=self._options.setting_sources,
                plugins=self._plugins,
                managed=MANAGED,
            )
            self._book = SkillBook(shelves, cache=ground.home.root / "cache")
            bases = (os.path.realpath(folder) for folder in readable_folders(shelves))
            self.rules = Rules(allow=tuple(Rule(READ, "/**", base=base) for base in bases))
        return self._book

    def _folders(self) -> list[Path]:
        """Where skills or commands would lie."""
        ground, sources = self._ground, self._options.setting_sources
        homes = [MANAGED, *((ground.user / ".claude", ground.home.root) if "user" in sources else ())]
        if "project" in sources and ground.trusted:
            between = [p for p in (ground.cwd, *ground.cwd.parents) if p.is_relative_to(ground.project)]
            homes += [p / name for p in between or [ground.project] for name in (".claude", ".teamwright")]
        return [home / name for home in homes for name in _FOLDERS]

    @property
    def problems(self) -> tuple[str, ...]:
        book = self.book()
        return () if book is None else book.current().problems

    @property
    def offered(self) -> "list[Skill]":
        book = self.book()
        return [] if book is None else self._chosen(book.current())

    def choose(self, names: Sequence[str]) -> None:
        self.only, self._spec = frozenset(names), None

    def _chosen(self, skills: "Skills") -> "list[Skill]":
        return [skill for skill in skills.offered if self.only is None or skill.name in self.only]

    @property
    def commands(self) -> "list[Skill]":
        book = self.book()
        return [] if book is None else book.current().commands

    def spec(self) -> ToolSpec | None:
        """Of the Skill tool: the same object as long as the skills do not change. None where there are none."""
        book = self.book()
        skills = book.current() if book else None
        if skills is None or not skills.by_name:
            return None
        if self._spec is None or self._spec[0] is not skills:
            from teamwright.tools.agents.skill import skill_spec  # noqa: PLC0415

            self._spec = skills, skill_spec(self._chosen(skills))
        return self._spec[1]

    def tool(self, spec: ToolSpec, *, can_read: bool) -> Tool:
        from teamwright.tools.agents.skill import SkillTool  # noqa: PLC0415

        return SkillTool(self._get_desk, lambda: self._get_people()[1], spec, can_read=can_read)

    def desk(self) -> "SkillRunner | None":
        return None if self.book() is None else self._get_desk()

    def _get_people(self) -> tuple[Supervisor, Spawner]:
        assert self._people is not None
        return self._people()

    def _get_desk(self) -> "SkillRunner":
        if self._desk is None:
            from teamwright.runtime.extensions.skills import SkillContext, SkillRunner  # noqa: PLC0415

            book = self.book()
            assert book is not None and self._judge is not None
            supervisor, _ = self._get_people()
            around = SkillContext(
                agent=supervisor.agent,
                ask=self._judge(),
                clean=visible,
                env=self._ground.env,
                passed=passed_names(self._ground),
            )
            self._desk = SkillRunner(book, self._grants, around, lambda: self._get_people()[1])
        return self._desk

    def preloaded(self, definition: AgentDefinition) -> tuple[str, tuple[str, ...]]:
        """The texts of the skills that a definition names, and what is missing of them."""
        if not definition.skills:
            return "", ()
        book = self.book()
        if book is None:
            return "", (f"the agent {definition.name} names skills, and there are none",)
        from teamwright.library.skills.book import preload  # noqa: PLC0415

        return preload(book, definition.skills, definition.name)
