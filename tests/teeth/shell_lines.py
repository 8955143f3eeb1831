"""Command lines out of a grammar and a seed: what people write, what attackers write, and what lies between.

Line `n` of a seed is always the same, so that a difference can be played again by these two alone.
"""

from collections.abc import Callable

from msgspec import Struct
from shell_pools import (
    FORMATS,
    HARM,
    JQ,
    NEEDS,
    PLAIN,
    PREFIXES,
    READERS,
    SED,
    SUBS,
    WRAPPERS,
    Dice,
    Flag,
    commands,
    known_flags,
    real_flags,
)
from shell_spell import GAPS, JOINTS, NOISE, disturb, hide, spell
from shell_texts import deep, document, evaluation, place, ruin, soup, tail


class Line(Struct, frozen=True):
    """`must`: it has to run unasked. `bypass`: it is tried with all questions off, too. `still`: judged, never run."""

    text: str
    shape: str = ""
    ground: str = "plain"
    bypass: bool = False
    must: bool = False
    still: bool = False


PAYLOADS = [
    "touch PW",
    "./evil",
    "zz",
    "cat ../secret",
    "rm README.md",
    ": > PW",
    "cp README.md PW",
    "echo x > PW",
    "cat .env",
]


def make_line(seed: str, n: int) -> Line:
    dice = Dice(f"{seed}/{n}")
    shape = dice.choices(list(SHAPES), [weight for weight, _ in SHAPES.values()])[0]
    text = SHAPES[shape][1](dice)
    if dice.chance(0.12):
        text = disturb(dice, text)
    hostile = shape == "git" and dice.chance(0.1)
    bypass = shape == "ruin" or ("touch" in text and dice.chance(0.3))
    return Line(text, shape, "hostile" if hostile else "plain", bypass)


# --- one command


def name_of(dice: Dice) -> str:
    return (
        dice.choice(commands())
        if dice.chance(0.7)
        else dice.choice(["find", "sort", "rg", "grep", "head", "cat", "xxd", "od"])
    )


def flag(dice: Dice, name: str, value: Callable[[], str]) -> str:
    """One flag in one of its spellings; its value glued, apart, missing, or too much."""
    tables = [t for t in (known_flags().get(name), real_flags().get(name)) if t]
    if not tables:
        return dice.choice(["-a", "-n", "--all", "-1"])
    one: Flag = dice.choice(tables[0] if dice.chance(0.65) else tables[-1])
    if one.name.startswith("--"):
        long = one.name
        if dice.chance(0.1) and len(long) > 5:
            long = long[: dice.randrange(4, len(long))]
        apart = (
            dice.choice(["=", " "])
            if one.takes == "="
            else "="
            if dice.chance(0.15)
            else " "
            if dice.chance(0.15)
            else ""
        )
        return f"{long}{apart}{value()}" if apart else long
    letters = one.name
    if dice.chance(0.3):
        other = dice.choice(tables[0]).name
        letters = (
            letters
            if other.startswith("--")
            else f"-{other[1:]}{letters[1:]}"
            if dice.chance(0.5)
            else letters + other[1:]
        )
    if one.takes or dice.chance(0.1):
        return letters + dice.choice(["", " ", " "]) + value()
    return letters


def command(dice: Dice, name: str = "", harm: float = 0.3) -> str:
    """A known command with flags and operands, some of which hide others."""
    name = name or name_of(dice)
    parts, before, after = list[str](), "", ""

    def word() -> str:
        nonlocal before, after
        if dice.chance(0.15) and not before:
            before, found = hide(dice, dice.choice(PLAIN), dice.word(name, 0.9))
            found, _, rest = found.partition("; done")
            after = "; done" if before.endswith("do ") else rest
            return found
        text = dice.word(name, harm)
        return spell(dice, text) if dice.chance(0.1) else text

    parts += [flag(dice, name, word) for _ in range(dice.choice([0, 0, 1, 1, 1, 2, 3]))]
    if name == "jq":
        parts.append(dice.choice(JQ))
    elif name == "sed":
        parts += ["-n", dice.choice(SED)]
    elif name == "find":
        parts += [word() for _ in range(dice.randrange(3))] + expression(dice, word)
    parts += [word() for _ in range(dice.choice([0, 1, 1, 1, 2]))]
    if dice.chance(0.06):
        parts.insert(dice.randrange(len(parts) + 1), "--")
    return f"{before}{spell(dice, name) if dice.chance(0.04) else name} {' '.join(parts)}{after}".rstrip(" ")


def expression(dice: Dice, word: Callable[[], str]) -> list[str]:
    """Of find: conditions, and what it runs."""
    found = list[str]()
    for _ in range(dice.randrange(3)):
        test = dice.choice(
            [
                "-name",
                "-path",
                "-type f",
                "-size",
                "-newer",
                "-maxdepth 0",
                "-user",
                "-perm",
                "-o",
                "!",
                "\\(",
                "\\)",
                "-print",
                "-mtime",
                "-regex",
            ]
        )
        found.append(f"{test} {word()}" if " " not in test and len(test) > 3 and test != "-print" else test)
    if dice.chance(0.4):
        runs = dice.choice(
            ["echo", "cat", "rg .", "head", "grep foo", "ls", "wc -l", "sort", "git log", "./evil", "env", "test -f"]
        )
        inner = [
            runs,
            *dice.choices(
                [
                    "{}",
                    "+",
                    "a",
                    "{}+",
                    "x{}",
                    "';'",
                    "\\;",
                    "-user",
                    "--pre=./evil",
                    "-oPW",
                    "-perm",
                    "-exec",
                    "-name",
                    "-delete",
                ],
                k=dice.randrange(4),
            ),
        ]
        found.append(
            f"{dice.choice(['-exec', '-exec', '-execdir', '-ok'])} {' '.join(inner)} {dice.choice(['{} +', '{} +', chr(92) + ';', '{} ' + chr(92) + ';', '+', ''])}"
        )
    return found


def other(dice: Dice) -> str:
    """Builtins and small things."""
    forms = [
        f"echo {dice.word('echo')}", f"printf {dice.choice(FORMATS)} {dice.word('printf')}", "true", ":", "pwd", "cd src", "cd docs",
        f"cd {dice.word('cd')}", f"x={dice.word('echo')}", f"export x={dice.word('echo')}", f"test -f {dice.word('test')}", f"read -r x < {dice.word('cat')}",
        f"tee {dice.word('tee')}", f"type {dice.word('ls')}", f"command -v {dice.word('ls')}", "set -e", "set -euo pipefail", "false", "exit", "shopt -s extglob",
        f"unset x {dice.word('x')}", f"[ -f {dice.word('test')} ]", f"[[ -f {dice.word('test')} ]]", f"which {dice.word('ls')}", "echo *", "! ls", "time ls",
        f"local x={dice.word('x')}", "alias ls=./evil", "hash -p ./evil ls", "enable -f ./evil x", f"declare -x x={dice.word('x')}", "umask", "history", "bind -x a",
    ]  # fmt: skip
    return dice.choice(forms)


def simple(dice: Dice) -> str:
    return other(dice) if dice.chance(0.25) else git(dice) if dice.chance(0.1) else command(dice)


# --- shapes


def hidden(dice: Dice) -> str:
    """Words that bash makes several of, as operands and as values of flags."""
    name = name_of(dice) if dice.chance(0.7) else "git " + dice.choice(SUBS)
    known = [f for f in known_flags().get(" ".join(name.split()[:2]), []) if f.takes] or [Flag("")]
    before, found = hide(
        dice, dice.choice(["1", "README.md", "a", "x", "2", "%s", "."]), dice.word(name.split()[0], 0.9)
    )
    lead, _, rest = found.partition("; done")
    after = "; done" if before.endswith("do ") else rest
    one = dice.choice(known).name if dice.chance(0.7) else ""
    if name == "find":
        one = dice.choice([". -name", "-name", ". -maxdepth", ". -path", ". -type", "."])
    glue = "=" if one.startswith("--") and dice.chance(0.6) else " " if dice.chance(0.8) else ""
    tail = dice.choice(["", "", " README.md", " .", " foo", " src"])
    if dice.chance(0.12):
        return f"echo '{dice.word(name.split()[0], 0.9)}' | xargs {name} {one}"
    return f"{before}{name} {one}{glue if one else ''}{lead}{tail}{after}"


def wrapped(dice: Dice) -> str:
    """Commands that run others, with flags of theirs that take a value, or may."""
    words = list[str]()
    for _ in range(dice.choice([1, 1, 1, 2, 3])):
        name = dice.choice(WRAPPERS)
        words.append((dice.choice(PREFIXES) if dice.chance(0.15) else "") + name)
        pool = ["1", "5", "x", "./evil", "rm", "flock", "tee", "touch", "{}", "echo", "0", "L", "PW", "env", "TERM"]
        words += [flag(dice, name, lambda pool=pool: dice.choice(pool)) for _ in range(dice.choice([0, 0, 1, 1, 2]))]
        if name == "env" and dice.chance(0.3):
            words.append(dice.choice(["A=b", "LANG=C", "PATH=.", "x=1", "-", "BASH_ENV=./evil", "--"]))
        words += [dice.choice(NEEDS[name])] if name in NEEDS and dice.chance(0.9) else []
        if dice.chance(0.12):
            words.append(dice.choice(pool))
    inner = dice.choice(
        ["echo touch PW", "echo README.md", "ls", "echo a", command(dice), "cat", "bash -c true", "echo rm README.md"]
    )
    feed = dice.choice(
        [
            "",
            "echo a | ",
            "echo README.md | ",
            "echo ../secret | ",
            "printf '%s\\n' -delete | ",
            "echo -oPW README.md | ",
        ]
    )
    return f"{feed if 'xargs' in words or dice.chance(0.2) else ''}{' '.join(words)} {inner}"


def by_path(dice: Dice) -> str:
    name = dice.choice([*WRAPPERS, "bash", "sh", "dash", "git", "ls", "cat", "find", "rg", "eval", "zsh"])
    inner = "-c true" if name in ("bash", "sh", "dash", "zsh") and dice.chance(0.7) else command(dice, harm=0)
    inner = f"5 {inner}" if name == "timeout" else inner
    return f"{dice.choice(['', '', 'echo a | ', 'env ', 'command '])}{dice.choice(PREFIXES)}{name} {inner}"


def shells(dice: Dice, depth: int = 2) -> str:
    """Code in words, for bash and for shells that read it otherwise."""
    name = dice.choice(
        [
            "bash -c",
            "sh -c",
            "dash -c",
            "eval",
            "bash -ec",
            "sh -xc",
            "command eval",
            "bash -lc",
            "builtin eval",
            "exec bash -c",
            "env sh -c",
            "trap",
        ]
    )
    code = dice.choice(
        [
            soup,
            lambda d: statement(d, depth - 1),
            comment,
            lambda d: other(d) + dice.choice(JOINTS) + dice.choice(PAYLOADS),
            simple,
        ]
    )(dice)
    match dice.randrange(4):
        case 0:
            quoted = "'" + code.replace("'", "'\\''") + "'"
        case 1:
            quoted = '"' + code.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$").replace("`", "\\`") + '"'
        case 2:
            quoted = spell(dice, code)
        case _:
            quoted = dice.choice(['"', "'", ""]).join(["", code, ""])
    return f"{name} {quoted}{dice.choice(['', '', '', ' a', ' ./evil', ' EXIT'])}"


def comment(dice: Dice) -> str:
    """What may or may not begin a comment, and what stands behind it."""
    base = dice.choice(
        ["ls", "echo hi", "git log -n1", "cat README.md", command(dice, harm=0), "true", "x=1", "(ls", "{ ls"]
    )
    gap = dice.choice(GAPS) + (dice.choice(GAPS) if dice.chance(0.3) else "")
    junk = "".join(dice.choices([*NOISE, "a", " ", "note"], k=dice.randrange(3)))
    close = {"(": ")", "{": "; }"}.get(base[0], "")
    return f"{base}{gap}#{junk}{dice.choice(JOINTS)}{dice.choice(PAYLOADS)}{close}"


def statement(dice: Dice, depth: int = 2) -> str:
    if depth <= 0:
        return simple(dice)
    inner = lambda: statement(dice, depth - 1)  # noqa: E731
    match dice.randrange(16):
        case 0:
            return f"({inner()})"
        case 1:
            return f"{{ {inner()}; }}"
        case 2:
            return f"if {inner()}; then {inner()}; fi"
        case 3:
            return f"for x in {dice.word('echo')} {dice.word('cat')}; do {dice.choice(['cat', 'echo', 'wc -l', 'head', 'ls', name_of(dice)])} {dice.choice(['$x', chr(34) + '$x' + chr(34), '$x/..', '-- $x'])}; done"
        case 4:
            return f"while read -r x; do {inner()}; done < {dice.word('cat')}"
        case 5:
            return f"case {dice.word('echo')} in {dice.choice(['*', 'a|b', '(a', '[a-z]*', 'esac'])}) {inner()};; esac"
        case 6:
            return f"{dice.choice(['f', 'ls', 'cd', 'echo', 'x-y'])}() {{ {inner()}; }}; {dice.choice(['f', 'ls', 'cd src', 'echo a'])}"
        case 7:
            return f"echo {dice.choice(['$(', chr(34) + '$(', '<(', '${x:-$('])}{inner()}{')'}{dice.choice(['', chr(34), '}'])}"
        case 8:
            return f"echo `{inner()}`"
        case 9:
            return f"{inner()} {dice.choice(['>', '>>', '2>', '&>', '>|', '<', '<>', '>&', '2>&1 >', '3<', '<<<', '9>', '{fd}>', '0<&', '&>>'])} {dice.word('tee', 0.5)}"
        case 10 | 11:
            return inner() + dice.choice(JOINTS) + inner()
        case 12:
            return f"cat <({inner()})"
        case 13:
            return f"until {inner()}; do {inner()}; break; done"
        case 14:
            return f"{dice.choice(['LANG=C', 'x=1', 'PATH=.', 'GIT_PAGER=./evil', 'a[0]=1', 'A=$(./evil)', 'IFS=/', 'GREP_OPTIONS=-r', 'LESSOPEN=x', 'TZ=../secret', 'LC_ALL=C'])} {inner()}"
        case _:
            return f"{inner()} | {simple(dice)}"


def git(dice: Dice) -> str:
    where = dice.choice(
        [
            "",
            "",
            "",
            "",
            "cd docs && ",
            "cd docs2 && ",
            "cd src && ",
            "cd sub; ",
            "cd docs; ",
            "(cd docs; ls); cd docs2; ",
        ]
    )
    before = dice.choice(
        [
            "",
            "",
            "",
            "",
            "--no-pager ",
            "-P ",
            "-c core.pager=./evil ",
            "-C docs ",
            "--git-dir=docs ",
            "--exec-path=. ",
            "--no-optional-locks ",
            "-c alias.x=!./evil ",
            "--config-env=core.pager=HOME ",
            "-p ",
        ]
    )
    sub = dice.choice(SUBS)
    word = lambda: dice.word("git", 0.25) if dice.chance(0.9) else hide(dice, "1", dice.word("git", 0.9))[1]  # noqa: E731
    key = f"git {sub}" if f"git {sub}" in real_flags() else f"git {sub.split()[0]}"
    parts = [flag(dice, key, word) for _ in range(dice.choice([0, 0, 1, 1, 2, 3]))] + [
        word() for _ in range(dice.choice([0, 0, 0, 1, 2]))
    ]
    return f"{where}git {before}{sub} {' '.join(parts)}".rstrip(" ")


def paths(dice: Dice) -> str:
    target = place(dice)
    reader = dice.choice(READERS)
    forms = [f"{reader} {target}", f"echo x > {target}", f"echo x | tee {target}", f"{reader} < {target}", f"echo x >> {target}", f"cat README.md {target}",
        f"cd {target}; ls", f"cd {target} && cat secret", f"x={target}; {reader} $x", f"x={target}; {reader} \"$x\"", f"echo {target}", f"for x in {target}; do {reader} \"$x\"; done",
        f"grep -sao 'CANARY-OF-THE-KEY' {target}", f"{reader} {target}*", f"{reader} {{{target},a}}", f"exec 3< {target}; cat <&3", f"{reader} {target}/../secret",
        f"cat /dev/fd/3 3< {target}", f"read -r x < {target}; echo $x", f"mapfile x < {target}", f"echo $(< {target})", f". {target}"]  # fmt: skip
    return dice.choice(forms)


def made(dice: Dice) -> str:
    """Files made by a line that it then stumbles over."""
    name = dice.choice(
        [
            "'--compress-program=./evil'",
            "-S1b",
            "'--pre=./evil'",
            "-delete",
            "-oPW",
            "src/PW",
            ".git/x",
            "a",
            "'[core]'",
            "../PW",
            "-exec",
            "-f",
            ".env",
            "--",
            "PW",
            "/tmp/PW",
            "way/PW",
            "leak",
        ]
    )
    first = dice.choice(
        [
            ": > {}",
            "echo a > {}",
            "echo '-S1b' | tee {}",
            "ls >> {}",
            "cat README.md &> {}",
            "echo x 2> {}",
            "echo x > {} > src/y",
            "tee {} < README.md",
            "echo ./evil > {}",
        ]
    ).format(name)
    second = ": > -S1b; " if dice.chance(0.4) else ""
    then = dice.choice(
        [
            "sort *",
            "cat *",
            "rg foo *",
            "find *",
            "git log -- *",
            "wc *",
            "ls",
            "grep foo *",
            "bash a",
            ". ./a",
            "sort -u *",
            "git status",
            "head *",
            "echo *",
            "uniq *",
        ]
    )
    return f"{first}; {second}{then}"


SHAPES: dict[str, tuple[float, Callable[[Dice], str]]] = {
    "command": (14, command), "hidden": (16, hidden), "wrapped": (9, wrapped), "path": (3, by_path), "shells": (7, shells),
    "comment": (5, comment), "statement": (14, statement), "git": (9, git), "places": (6, paths), "made": (3, made), "soup": (6, soup),
    "document": (4, document), "evaluation": (5, evaluation), "ruin": (1.5, ruin), "everyday": (4, tail), "deep": (0.05, deep),
}  # fmt: skip
