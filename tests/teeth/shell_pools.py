"""The material of command lines: the grammar's sections, commands with their flags, and a seed's random choices."""

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from random import Random

import msgspec
from msgspec import Struct, structs

HERE = Path(__file__).resolve().parent
_PART = re.compile("‹([a-z. ]+)›")
Say = Callable[["Dice"], str]


@cache
def pools() -> dict[str, list[str]]:
    """The sections of the grammar, and the lines that must stay allowed."""
    found, section = dict[str, list[str]](), ""
    for line in HERE.joinpath("shell_grammar.txt").read_text().splitlines():
        if re.fullmatch(r"\[[a-z][a-z0-9. ]+\]", line):
            section = line[1:-1]
            found[section] = []
        elif line and not line.startswith("#"):
            found[section].append(msgspec.json.decode(line) if line.startswith('"') else line)
    found["everyday"] = entries("allowed.txt")
    return found


def entries(name: str) -> list[str]:
    """The lines of a file of the corpus, without comments."""
    lines = HERE.joinpath("shell_corpus", name).read_text().splitlines()
    return [msgspec.json.decode(x) if x.startswith('"') else x for x in lines if x and not x.startswith("#")]


class Flag(Struct, frozen=True):
    """`takes`: nothing, a value ("="), or an optional one ("[=")."""

    name: str
    takes: str = ""


@cache
def real_flags() -> dict[str, list[Flag]]:
    """The flags in the programs' own help, from shell_flags.txt."""
    found = dict[str, list[Flag]]()
    for line in HERE.joinpath("shell_flags.txt").read_text().splitlines():
        name, _, rest = line.partition(": ")
        found[name] = [Flag(word.rstrip("[="), word[len(word.rstrip("[=")) :]) for word in rest.split()]
    for name in ("log", "show", "whatchanged", "stash show", "stash list", "reflog"):
        found[f"git {name}"] = [*found.get(f"git {name}", []), *found["git diff"]]
    return found


@cache
def known_flags() -> dict[str, list[Flag]]:
    """The flags that the judge knows, read from its tables whatever their structure."""
    from teamwright.host.shell.programs import git as git_commands
    from teamwright.host.shell.programs import readonly as commands

    found = dict[str, list[Flag]]()
    for prefix, table in (("", commands.KNOWN), ("git ", git_commands.GIT)):
        for name, flags in table.items():
            told = {key: value for key, value in structs.asdict(flags).items() if isinstance(value, str)}
            long = [w for value in told.values() for w in value.split() if w.startswith("--")]
            short = [c for key in ("short", "valued", "glued") for c in told.get(key, "") if c.isalnum()]
            valued = [*told.get("valued", ""), *told.get("long_valued", "").split()]
            listed = [Flag(f"-{c}", "=" if c in valued else "") for c in short]
            found[prefix + name] = listed + [Flag(w, "=" if w in valued else "") for w in long]
    return found


@cache
def commands() -> list[str]:
    names = {name for table in (real_flags(), known_flags()) for name in table if " " not in name}
    return sorted(names - set(pools()["wrappers"]))


class Dice(Random):
    """A seed's random choices."""

    def chance(self, share: float) -> bool:
        return self.random() < share

    def pick(self, section: str) -> str:
        return self.choice(pools()[section])

    def word(self, name: str, harm: float = 0.35) -> str:
        """A word for this command, which may do harm."""
        if not self.chance(harm):
            return self.pick("plain")
        return self.pick(f"harm {name}" if f"harm {name}" in pools() and self.chance(0.6) else "harm")

    def say(self, section: str, more: Mapping[str, Say | str] | None = None) -> str:
        """An entry of the section with all its parts filled in; `more` lists what else a part may be."""
        return self.fill(self.pick(section), more or {})

    def fill(self, text: str, more: Mapping[str, Say | str]) -> str:
        def part(found: re.Match[str]) -> str:
            told = more.get(found[1])
            if told is None:
                return self.say(found[1], more)
            return told if isinstance(told, str) else told(self)

        return _PART.sub(part, text) if "‹" in text else text
