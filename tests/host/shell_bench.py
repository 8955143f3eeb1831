"""A project, a home and a directory outside both, with commands judged in the project."""

from pathlib import Path

from teamwright.core.permissions.judge import Verdict, judge
from teamwright.core.permissions.rules import Rules, guarded_patterns, parse_rules
from teamwright.host.shell.analysis import read_command
from teamwright.host.shell.cwd import ShellContext


class Bench:
    def __init__(self, top: Path) -> None:
        self.root, self.home, self.outside = top / "project", top / "home/ann", top / "outside"
        for path in (self.root / "src", self.root / "keys", self.root / ".git", self.home, self.outside):
            path.mkdir(parents=True)
        (self.root / "src/a.py").write_text("a\n")
        (self.root / "keys/k").write_text("key\n")
        (self.root / "b.txt").write_text("b\n")
        (self.outside / "secret").write_text("s\n")
        (self.root / "way").symlink_to(self.outside)
        (self.root / "leak").symlink_to(self.outside / "secret")

    def judge(
        self, command: str, mode: str = "default", cwd: Path | None = None, *, later: bool = False, **kinds: list[str]
    ) -> Verdict:
        rules = Rules(**{k: parse_rules(v, "flag", str(self.root), str(self.home))[0] for k, v in kinds.items()})
        guarded = guarded_patterns(rules)
        around = ShellContext(str(cwd or self.root), str(self.home), (str(self.root),), guarded=guarded, later=later)
        facts = read_command(command, "Bash", around)
        return judge(facts, mode=mode, rules=rules, roots=(str(self.root),), protected=(str(self.home / ".tw"),))

    def kind(self, command: str, mode: str = "default", *, later: bool = False, **kinds: list[str]) -> str:
        return self.judge(command, mode, later=later, **kinds).kind
