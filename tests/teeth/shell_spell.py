"""Ways to spell a word, to hide words in others, and to disturb a line."""

from shell_pools import PLAIN, Dice

SPECIAL = set(" \t\n'\"\\$`|&;<>()*?[]{}#~!=")


def spell(dice: Dice, word: str) -> str:
    """The same word for bash, in other quotes."""
    match dice.randrange(10):
        case 0:
            return "'" + word.replace("'", "'\\''") + "'"
        case 1:
            return '"' + "".join("\\" + c if c in '"\\$`' else c for c in word) + '"'
        case 2:
            return "$'" + "".join(_ansi(dice, c) for c in word) + "'"
        case 3:
            return "".join("\\" + c if c in SPECIAL or dice.chance(0.2) else c for c in word)
        case 4 if len(word) > 1:
            at = dice.randrange(1, len(word))
            middle = dice.choice(["''", '""', "\\\n", "$u", "$''", '$""', "${u}", "$(:)", "``", "$@", "{,}", "$u''"])
            return escaped(word[:at]) + middle + escaped(word[at:])
        case 5 if len(word) > 1:
            at = dice.randrange(1, len(word))
            return spell(dice, word[:at]) + spell(dice, word[at:])
        case 6:
            return '$"' + "".join("\\" + c if c in '"\\$`' else c for c in word) + '"'
        case _:
            return escaped(word)


def escaped(word: str) -> str:
    return "".join("\\" + c if c in SPECIAL else c for c in word)


def _ansi(dice: Dice, c: str) -> str:
    match dice.randrange(6):
        case 0:
            return f"\\x{ord(c):02x}" if ord(c) < 128 else c
        case 1:
            return f"\\{ord(c):03o}" if ord(c) < 128 else c
        case 2:
            return f"\\u{ord(c):04x}"
        case _:
            return "\\" + c if c in "'\\" else c


def hide(dice: Dice, lead: str, words: str) -> tuple[str, str]:
    """(what comes before the command, what stands in it): bash makes `lead` and `words` of it."""
    both = f"{lead} {words}"
    forms = [
        ("", both),
        ("", "{" + ",".join(both.split()) + "}"),
        ("", lead + "{,' '}" + words),
        (f"x='{both}'; ", "$x"),
        (f"x='{both}'; ", "${x}"),
        (f'x="{both}"; ', "$x"),
        (f"x=' {words}'; ", f"{lead}$x"),
        (f"x=' {words}' y={lead}; ", "$y$x"),
        ("", f"$(echo {both})"),
        ("", f"{lead}$(echo ' {words}')"),
        ("", f"`echo {both}`"),
        ("", f"$(printf '%s ' {both})"),
        ("", f"${{u:-{both}}}"),
        ("", f"{lead}${{u- {words}}}"),
        ("", "${HOME:+" + both + "}"),
        (f"a=({both}); ", dice.choice(["${a[@]}", '"${a[@]}"', "${a[*]}", "${a[0]} ${a[1]}"])),
        (f"read -r x <<< '{both}'; ", "$x"),
        (f"read -r x y <<< '{both}'; ", "$x $y"),
        (f"echo '{both}' | while read -r x; do ", "$x; done"),
        (f"for x in '{both}'; do ", "$x; done"),
        (f"for x in {both}; do ", "$x; done"),
        (f"set -- {both}; ", dice.choice(["$@", '"$@"', "$*", "$1 $2"])),
        (f"IFS=,; x={','.join(both.split())}; ", "$x"),
        (f"x={','.join(both.split())}; IFS=, ", "$x"),
        (f"export x='{both}'; ", "$x"),
        (f"printf -v x '%s' '{both}'; ", "$x"),
        (f"x='{both}'; ", '"$x"'),
        (f"x='{both}'; y=$x; ", "$y"),
        (f"x=Q{words}; ", f"{lead}${{x/Q/ }}"),
        ("", "$(< words)"),
        ("", "$(cat words)"),
        (f"x='{both}' ", "$x"),
        ("cd flags; ", dice.choice(["*", "-*", "[-]*", "?*", "./*", "-[a-z]*", "[!a]*", "*[A-Z]*", "@(-*)", "!(a)"])),
        ("", f"$'{lead}\\x20{words}'"),
        (f"x='{both}'; ", "${x@E}"),
        (f"x='{both}'; ", "${x,,}"),
        (f"x='z{both}'; ", "${x:1}"),
        (f"x='z{both}'; ", "${x#z}"),
        (f"case '{both}' in *) x='{both}';; esac; ", "$x"),
        (f"[[ '{both}' =~ .* ]]; ", "${BASH_REMATCH[0]}"),
        (f"x='{both}'; n=x; ", "${!n}"),
        ("", f"~+/../project/{lead} {words}"),
    ]
    return dice.choice(forms)


GAPS = [" ", "  ", "\t", "\\\n", " \\\n ", "\\ ", "\\\t", " \\ ", " \\\t", "\r", "\u00a0", "\u2003", "\v", "\f", "\\\r", " ''", ' ""', " $u ",
    " $(:) ", " `:` ", " \\\n", "\n", " $'' ", "\u200b", " {,} "]  # fmt: skip
JOINTS = ["; ", " && ", " || ", " | ", " & ", "\n", " |& ", ";", "|", "&", "&&", "||", " ;\n", "\r\n", " ! ", " ;; "]
NOISE = ["#", " #", "\\ #", "'", '"', "\\", "`", "$", "!", "{", "}", "(", ")", "[", "]", "~", "*", "?", "\\\n", "<", ">", "<<E\n", "\nE\n", "$'",
    '$"', "$(", "${", "$((", "))", ";", "&", "|", "\n", "\t", "=", "#;", "!!", "^a^b", "@", "%", "\\\\", "\\'", '\\"', "\r", "\u00a0", "\\\t#",
    "{,}", "''", '""', "\x7f", "\xe9", "\u3000", ",", "..", "//", "--", "-"]  # fmt: skip


def disturb(dice: Dice, line: str) -> str:
    """Small accidents of text: most break the line, and some make bash see another one than a parser does."""
    for _ in range(dice.choice([1, 1, 1, 2, 3])):
        at = dice.randrange(len(line) + 1)
        match dice.randrange(6):
            case 0:
                line = line[:at] + dice.choice(NOISE) + line[at:]
            case 1 if " " in line:
                blanks = [n for n, c in enumerate(line) if c == " "]
                at = dice.choice(blanks)
                line = line[:at] + dice.choice(GAPS) + line[at + 1 :]
            case 2:
                line = line[:at] + line[at + dice.randrange(1, 4) :]
            case 3:
                words = line.split(" ")
                at = dice.randrange(len(words))
                words[at] = spell(dice, words[at])
                line = " ".join(words)
            case 4:
                words = line.split(" ")
                words.insert(dice.randrange(len(words) + 1), dice.choice(PLAIN))
                line = " ".join(words)
            case _:
                words = line.split(" ")
                a, b = dice.randrange(len(words)), dice.randrange(len(words))
                words[a], words[b] = words[b], words[a]
                line = " ".join(words)
    return line
