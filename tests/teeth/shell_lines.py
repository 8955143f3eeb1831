"""Generates command lines from a grammar and a seed: what people write, what attackers write, and all in between.

Line `n` of a seed is always the same, as long as the grammar and the judge's tables of flags are: seed and number
reproduce a difference.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct
from shell_ground import POISONS
from shell_pools import Dice, Flag, Say, commands, known_flags, pools, real_flags
from shell_spell import disturb, hide, spell


class Line(Struct, frozen=True):
    """`must`: it has to run unasked; `edits`: in acceptEdits. `bypass`: it is tried with all questions off, too.
    `still`: judged, never run. `guard`: beside a rule that denies reading .env it is `spared`, or `kept` back.
    """

    text: str
    shape: str = ""
    ground: str = "plain"
    bypass: bool = False
    must: bool = False
    still: bool = False
    edits: bool = False
    guard: str = ""


def make_line(seed: str, n: int) -> Line:
    dice = Dice(f"{seed}/{n}")
    shape = dice.choices(list(SHAPES), [weight for weight, _ in SHAPES.values()])[0]
    text = SHAPES[shape][1](dice)
    if dice.chance(0.12) and shape != "deep":
        text = disturb(dice, text)
    ground = dice.choice(sorted(POISONS)) if shape == "git" and dice.chance(0.15) else "plain"
    if shape in ("guarded", "git") and dice.chance(0.5):
        ground = dice.choice(["unknown", "removed", "dropped"])
    bypass = shape in ("ruin", "denied") or ("touch" in text and dice.chance(0.3))
    return Line(text, shape, ground, bypass)


# --- one command


def name_of(dice: Dice) -> str:
    return dice.choice(
        commands() if dice.chance(0.7) else ["find", "sort", "rg", "grep", "head", "cat", "xxd", "od", "jq"]
    )


def flag(dice: Dice, name: str, value: Callable[[], str]) -> str:
    """One flag in one of its spellings; its value attached, separate, missing, or superfluous."""
    tables = [table for table in (known_flags().get(name), real_flags().get(name)) if table]
    if not tables:
        return dice.choice(["-a", "-n", "--all", "-1"])
    optional = [one for one in tables[-1] if one.takes == "[="]
    one: Flag = dice.choice(optional if optional and dice.chance(0.25) else tables[0 if dice.chance(0.65) else -1])
    if one.name.startswith("--"):
        long = one.name[: dice.randrange(4, len(one.name))] if dice.chance(0.1) and len(one.name) > 5 else one.name
        apart = dice.choice(["=", " "]) if one.takes == "=" else dice.choices(["", "=", " "], [5, 2, 3])[0]
        return f"{long}{apart}{value()}" if apart else long
    letters = one.name
    second = dice.choice(tables[0]).name
    if dice.chance(0.3) and not second.startswith("--"):
        letters = f"-{second[1:]}{letters[1:]}" if dice.chance(0.5) else letters + second[1:]
    return letters + dice.choice(["", " ", " "]) + value() if one.takes or dice.chance(0.1) else letters


def command(dice: Dice, name: str = "", harm: float = 0.3) -> str:
    """A known command with flags and operands, some of which hide others."""
    name = name or name_of(dice)
    parts, around = list[str](), ("", "")

    def word() -> str:
        nonlocal around
        if dice.chance(0.15) and around == ("", ""):
            before, found, after = hide(dice, dice.pick("plain"), dice.word(name, 0.9))
            around = before, after
            return found
        text = dice.word(name, harm)
        return spell(dice, text) if dice.chance(0.1) else text

    parts += [flag(dice, name, word) for _ in range(dice.choice([0, 0, 1, 1, 1, 2, 3]))]
    if name in ("jq", "sed"):
        parts += ["-n"] if name == "sed" and dice.chance(0.9) else []
        parts.append(dice.pick(name))
    elif name == "find":
        parts += [word() for _ in range(dice.randrange(3))] + expression(dice, word)
    parts += [word() for _ in range(dice.choice([0, 1, 1, 1, 2]))]
    if dice.chance(0.06):
        parts.insert(dice.randrange(len(parts) + 1), "--")
    if dice.chance(0.12):
        parts.insert(dice.randrange(len(parts) + 1), dice.pick("redirect"))
    name = spell(dice, name) if dice.chance(0.04) else name
    return around[0] + " ".join([name, *parts]) + around[1]


def expression(dice: Dice, word: Callable[[], str]) -> list[str]:
    """Expressions of find: conditions, and what it runs."""
    own: Mapping[str, Say | str] = {"own": lambda _: word()}
    found = [dice.say("find.test", own) for _ in range(dice.randrange(3))]
    if dice.chance(0.4):
        inner = [dice.pick("find.word") for _ in range(dice.randrange(4))]
        found += [dice.pick("find.exec"), dice.pick("find.run"), *inner, dice.say("find.end", own)]
    more = dice.chance(0.2)
    return found + ([dice.say("find.test", own), dice.pick("find.word")] if more else [])


def git(dice: Dice) -> str:
    sub = dice.pick("subs")
    key = f"git {sub}" if f"git {sub}" in real_flags() else f"git {sub.split()[0]}"
    around = ("", "")

    def word() -> str:
        nonlocal around
        if dice.chance(0.9) or around != ("", ""):
            return dice.word("git", 0.25)
        before, found, after = hide(dice, "1", dice.word("git", 0.9))
        around = before, after
        return found

    flags = [flag(dice, key, word) for _ in range(dice.choice([0, 0, 1, 1, 2, 3]))]
    operands = [word() for _ in range(dice.choice([0, 0, 0, 1, 2]))]
    text = " ".join([f"git {dice.pick('git.before')}{sub}", *flags, *operands])
    return dice.pick("git.where") + around[0] + text + around[1]


def simple(dice: Dice) -> str:
    return dice.say("other") if dice.chance(0.25) else git(dice) if dice.chance(0.1) else command(dice)


# --- shapes


def hidden(dice: Dice) -> str:
    """Words that bash splits into several, as operands and as values of flags."""
    name = name_of(dice) if dice.chance(0.7) else "git " + dice.pick("subs")
    first = name.split()[0]
    known = [f.name for f in known_flags().get(" ".join(name.split()[:2]), []) if f.takes] or [""]
    one = dice.choice(known) if dice.chance(0.7) else ""
    if name == "find":
        one = dice.choice([". -name", "-name", ". -maxdepth", ". -path", ". -type", "."])
    if dice.chance(0.12):
        return f"echo '{dice.word(first, 0.9)}' | xargs {name} {one}"
    lead = dice.choice(["1", "README.md", "a", "x", "2", "%s", "."])
    before, found, after = hide(dice, lead, dice.word(first, 0.9))
    glue = "=" if one.startswith("--") and dice.chance(0.6) else " " if dice.chance(0.8) else ""
    tail = dice.choice(["", "", " README.md", " .", " foo", " src"])
    return f"{before}{name} {one}{glue if one else ''}{found}{tail}{after}"


def wrapped(dice: Dice) -> str:
    """Commands that run others, and have flags that take a value, or may."""
    words = list[str]()
    for _ in range(dice.choice([1, 1, 1, 2, 3])):
        name = dice.pick("wrappers")
        words.append((dice.pick("prefixes") if dice.chance(0.15) else "") + name)
        for _ in range(dice.choice([0, 0, 1, 1, 2])):
            words.append(flag(dice, name, lambda: dice.pick("wrapper.value")))
        if name == "env" and dice.chance(0.3):
            words.append(dice.pick("wrapper.assign"))
        if name == "timeout" and dice.chance(0.9):
            words.append(dice.pick("needs timeout"))
        if dice.chance(0.12):
            words.append(dice.pick("wrapper.value"))
    feed = dice.pick("wrapper.feed") if "xargs" in words or dice.chance(0.2) else ""
    return f"{feed}{' '.join(words)} {dice.say('wrapper.inner', {'command': command})}"


def by_path(dice: Dice) -> str:
    name = dice.say("path.name")
    inner = "-c true" if name.endswith("sh") and dice.chance(0.7) else command(dice, harm=0)
    inner = f"5 {inner}" if name == "timeout" else inner
    return f"{dice.choice(['', '', 'echo a | ', 'env ', 'command '])}{dice.pick('prefixes')}{name} {inner}"


def shells(dice: Dice, depth: int = 2) -> str:
    """Code in words, for bash and for shells that read it differently."""
    kinds: list[Say] = [
        soup,
        comment,
        simple,
        ridden,
        lambda d: d.say("shells.dash"),
        lambda d: statement(d, depth - 1),
    ]
    code = dice.choice(kinds)(dice)
    match dice.randrange(4):
        case 0:
            quoted = "'" + code.replace("'", "'\\''") + "'"
        case 1:
            quoted = '"' + "".join("\\" + c if c in '"\\$`' else c for c in code) + '"'
        case 2:
            quoted = spell(dice, code)
        case _:
            quoted = dice.choice(['"', "'", ""]).join(["", code, ""])
    return f"{dice.pick('shells.name')} {quoted}{dice.pick('shells.more')}"


def ridden(dice: Dice) -> str:
    return dice.say("other") + dice.pick("joints") + dice.pick("payloads")


def comment(dice: Dice) -> str:
    """What may or may not begin a comment, and what follows it."""
    base = dice.say("comment.base", {"command": lambda d: command(d, harm=0)})
    gap = dice.pick("gaps") + (dice.pick("gaps") if dice.chance(0.3) else "")
    junk = "".join(dice.choices([*pools()["noise"], "a", " ", "note"], k=dice.randrange(3)))
    ends = {"(": ")", "{": "; }", "i": "; fi", "c": "esac", "e": ")"}
    close = ends.get(base[:1], "") if dice.chance(0.5) or base[:1] in ("(", "{") else ""
    return f"{base}{gap}#{junk}{dice.pick('joints')}{dice.pick('payloads')}{close}"


def statement(dice: Dice, depth: int = 2) -> str:
    """Statements of every kind, nested."""
    if depth <= 0:
        return simple(dice)
    parts: dict[str, Say | str] = {
        "inner": lambda d: statement(d, depth - 1), "simple": simple, "name": name_of,
        "some": lambda d: d.word("cat"), "written": lambda d: d.word("tee", 0.5),
    }  # fmt: skip
    return dice.say("statement", parts)


def soup(dice: Dice) -> str:
    text = dice.pick("heads") + "".join(dice.choices(pools()["pieces"], k=dice.randrange(2, 12)))
    return text + dice.pick("soup.end")


def document(dice: Dice) -> str:
    """Here-documents: where they end, what they expand, what comes after."""
    return dice.say("document", {"end": dice.pick("document.end")})


def deep(dice: Dice) -> str:
    """Long and deeply nested lines, which must be judged quickly."""
    n = dice.choice([50, 300, 1000, 2000, 4000])
    before, opening, middle, closing, after = dice.pick("deep").split("\t")
    return before + opening * n + middle + closing * n + after


def everyday(dice: Dice) -> str:
    """What people write, with a slip in it or something after it."""
    line = dice.pick("everyday")
    match dice.randrange(4):
        case 0:
            return disturb(dice, line)
        case 1:
            return line + dice.pick("joints") + dice.pick("everyday")
        case 2:
            return disturb(dice, line + dice.pick("joints") + dice.pick("payloads"))
        case _:
            return disturb(dice, disturb(dice, line))


def runs(dice: Dice) -> str:
    """What find runs, and where that ends."""
    return dice.say("runs", {"own": section("find.own")})


def section(name: str) -> Say:
    return lambda dice: dice.say(name)


SHAPES: dict[str, tuple[float, Say]] = {
    "command": (14, command), "hidden": (16, hidden), "wrapped": (9, wrapped), "path": (3, by_path),
    "shells": (7, shells), "comment": (5, comment), "statement": (14, statement), "git": (9, git),
    "places": (6, section("places")), "moved": (3, section("moved")),
    "runs": (3, runs), "made": (3, section("made")), "soup": (6, soup), "document": (4, document),
    "evaluation": (5, section("evaluation")), "ruin": (1.5, section("ruin")), "denied": (2, section("denied")),
    "everyday": (4, everyday), "edits": (9, section("edits")), "reads": (10, section("reads")),
    "guarded": (8, section("guarded")), "deep": (0.05, deep),
}  # fmt: skip
