"""Skills and commands of a session. Their code is imported only if somebody has written one."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from teamwright.app.options import Options
from teamwright.app.workspace import Workspace
from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.message import ToolSpec
from teamwright.core.permissions.rules import READ, SKILL, Rule, Rules
from teamwright.core.ports import Tool
from teamwright.library.agents.places import SKILL_HOMES

if TYPE_CHECKING:
    from teamwright.core.data.extensions.unread import Unread
    from teamwright.library.plugins import Plugin
    from teamwright.library.skills.book import SkillBook, Skills
    from teamwright.library.skills.file import Skill

MANAGED = Path("/etc/teamwright")
_FOLDERS = ("skills", "commands")


class Skillset(Struct, eq=False):
    """The written skills, read again when they change. `SkillRunner` runs them."""

    options: Options
    workspace: Workspace
    plugins: "Sequence[Plugin]" = ()
    only: frozenset[str] | None = None  # skills offered to the model; None: all
    rules: Rules = Rules()  # let agents read the skills' folders
    _book: "SkillBook | None" = None
    _spec: "tuple[Skills, ToolSpec] | None" = None

    def book(self) -> "SkillBook | None":
        if self._book is None and (self.plugins or any(map(os.path.isdir, self._folders()))):
            from teamwright.library.skills.book import SkillBook  # noqa: PLC0415
            from teamwright.library.skills.places import find_shelves, readable_folders  # noqa: PLC0415

            workspace = self.workspace
            shelves = find_shelves(
                cwd=workspace.cwd,
                project=workspace.project,
                home=workspace.user,
                state=workspace.home.root,
                trusted=workspace.trusted,
                sources=self.options.setting_sources,
                plugins=self.plugins,
                managed=MANAGED,
            )
            self._book = SkillBook(shelves, cache=workspace.home.root / "cache")
            bases = (os.path.realpath(folder) for folder in readable_folders(shelves))
            self.rules = Rules(allow=tuple(Rule(READ, "/**", base=base) for base in bases))
        return self._book

    def _folders(self) -> list[Path]:
        """Folders that may hold skills or commands."""
        workspace, sources = self.workspace, self.options.setting_sources
        homes = [
            MANAGED,
            *(
                (workspace.user / ".agents", workspace.user / ".claude", workspace.home.root)
                if "user" in sources
                else ()
            ),
        ]
        if "project" in sources and workspace.trusted:
            between = [p for p in (workspace.cwd, *workspace.cwd.parents) if p.is_relative_to(workspace.project)]
            homes += [p / name for p in between or [workspace.project] for name in SKILL_HOMES]
        return [home / name for home in homes for name in _FOLDERS]

    @property
    def problems(self) -> tuple[str, ...]:
        book = self.book()
        return () if book is None else book.current().problems

    @property
    def unread(self) -> "tuple[Unread, ...]":
        book = self.book()
        return () if book is None else book.current().unread

    @property
    def offered(self) -> "list[Skill]":
        book = self.book()
        return [] if book is None else self._chosen(book.current())

    def choose(self, names: Sequence[str]) -> None:
        self.only, self._spec = frozenset(names), None

    def _chosen(self, skills: "Skills") -> "list[Skill]":
        return [skill for skill in skills.offered if self.only is None or skill.name in self.only]

    @property
    def all(self) -> "list[Skill]":
        book = self.book()
        return [] if book is None else list(book.current().by_name.values())

    @property
    def commands(self) -> "list[Skill]":
        book = self.book()
        return [] if book is None else book.current().commands

    def spec(self) -> ToolSpec | None:
        """Spec of the Skill tool, the same object as long as the skills do not change. None without skills."""
        book = self.book()
        skills = book.current() if book else None
        if skills is None or not skills.by_name:
            return None
        if self._spec is None or self._spec[0] is not skills:
            from teamwright.tools.agents.skill import skill_spec  # noqa: PLC0415

            self._spec = skills, skill_spec(self._chosen(skills))
        return self._spec[1]

    def tool(self, *, can_read: bool) -> dict[str, Tool]:
        """The Skill tool, if there are skills. `can_read`: its owner can read an output file."""
        spec = None if self.book() is None else self.spec()
        if spec is None:
            return {}
        from teamwright.tools.agents.skill import SkillTool  # noqa: PLC0415

        return {SKILL: SkillTool(spec, can_read=can_read)}

    def preloaded(self, definition: AgentDefinition) -> tuple[str, tuple[str, ...]]:
        """The texts of the skills that a definition names, and what is missing of them."""
        if not definition.skills:
            return "", ()
        book = self.book()
        if book is None:
            return "", (f"the agent {definition.name} names skills, and there are none",)
        from teamwright.library.skills.book import preload  # noqa: PLC0415

        return preload(book, definition.skills, definition.name)
