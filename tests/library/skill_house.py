"""A home and a project with skills, commands and plugins, on a real disk."""

import json
from pathlib import Path
from typing import Any

from teamwright.library.plugins import find_plugins
from teamwright.library.skills.book import SkillBook, Skills
from teamwright.library.skills.file import Shelf
from teamwright.library.skills.places import find_shelves


class SkillHouse:
    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.home, self.project = self.root / "home", self.root / "project"
        self.state, self.cwd = self.home / ".teamwright", self.project / "sub"
        for folder in (self.state, self.cwd):
            folder.mkdir(parents=True)

    def write(self, file: str, text: str) -> Path:
        path = self.root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def skill(self, folder: str, /, body: str = "Do it.", at: str = "project/.claude", **fields: Any) -> Path:
        return self.write(f"{at}/skills/{folder}/SKILL.md", document(fields, body))

    def command(self, file: str, /, body: str = "Do it.", at: str = "project/.claude", **fields: Any) -> Path:
        return self.write(f"{at}/commands/{file}.md", document(fields, body))

    def shelves(self, **more: Any) -> tuple[Shelf, ...]:
        usual: dict[str, Any] = {
            "cwd": self.cwd, "project": self.project, "home": self.home, "state": self.state, "trusted": True,
            "managed": self.root / "policy", "plugins": find_plugins(self.state).plugins,
        }  # fmt: skip
        return find_shelves(**usual | more)

    def book(self, **more: Any) -> SkillBook:
        return SkillBook(self.shelves(**more))

    def load(self, **more: Any) -> Skills:
        return self.book(**more).current()


def document(fields: dict[str, Any], body: str) -> str:
    head = "".join(f"{k.replace('_', '-')}: {v if isinstance(v, str) else json.dumps(v)}\n" for k, v in fields.items())
    return f"---\n{head}---\n\n{body}\n" if fields else f"{body}\n"
