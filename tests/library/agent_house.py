"""A home and a project with agent definitions, on a real disk."""

import json
from pathlib import Path
from typing import Any

from teamwright.library.agents.book import Definitions, load_definitions
from teamwright.library.agents.definition_file import DefinitionFolder
from teamwright.library.agents.places import find_places

USER, PROJECT = "home/.claude/agents", "project/.claude/agents"


class House:
    """A home, a state directory and a project on a real disk."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home, self.project = root / "home", root / "project"
        self.state, self.managed = self.home / ".teamwright", root / "policy"
        self.cwd = self.project / "sub" / "deep"
        for folder in (self.state, self.cwd):
            folder.mkdir(parents=True)

    def write(self, file: str, head: str = "", body: str = "You help.", **fields: Any) -> Path:
        path = self.root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        head += "".join(f"{k}: {json.dumps(v)}\n" for k, v in fields.items())
        path.write_text(f"---\n{head}---\n{body}\n")
        return path

    def places(self, **more: Any) -> tuple[DefinitionFolder, ...]:
        usual = {"cwd": self.cwd, "project": self.project, "home": self.home, "state": self.state}
        return find_places(**usual | {"trusted": True, "managed": self.managed} | more)

    def load(self, flag: Any = None, **more: Any) -> Definitions:
        text = flag if flag is None or isinstance(flag, str) else json.dumps(flag)
        return load_definitions(self.places(**more), flag=text, cwd=self.cwd)
