"""Ways to spell a word, to hide words in others, and to disturb a line."""

from shell_pools import Dice, Say

SPECIAL = set(" \t\n'\"\\$`|&;<>()*?[]{}#~!=")


def spell(dice: Dice, word: str) -> str:
    """The same word for bash, quoted differently."""
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


def hide(dice: Dice, lead: str, words: str) -> tuple[str, str, str]:
    """What comes before, within and after the command: bash makes `lead` and `words` of it."""
    both = f"{lead} {words}"
    parts: dict[str, Say | str] = {"lead": lead, "words": words, "both": both, "commas": ",".join(both.split())}
    before, inside, after = [*dice.say("hide", parts).split("\t"), ""][:3]
    return before, inside, after


def disturb(dice: Dice, line: str) -> str:
    """Small slips in a text: most break the line, and some make bash read another line than a parser does."""
    for _ in range(dice.choice([1, 1, 1, 2, 3])):
        at, words = dice.randrange(len(line) + 1), line.split(" ")
        some, other = dice.randrange(len(words)), dice.randrange(len(words))
        match dice.randrange(8):
            case 0:
                line = line[:at] + dice.pick("noise") + line[at:]
                continue
            case 1:
                line = line[:at] + line[at + dice.randrange(1, 4) :]
                continue
            case 6:
                line = line[:at] + "\\\n" + line[at:]  # nothing for bash, nearly everywhere
                continue
            case 7:
                words.insert(some, dice.pick("redirect"))
            case 2 if some:
                words[some - 1 : some + 1] = [words[some - 1] + dice.pick("gaps") + words[some]]
            case 3:
                words[some] = spell(dice, words[some])
            case 4:
                words.insert(some, dice.pick("plain"))
            case _:
                words[some], words[other] = words[other], words[some]
        line = " ".join(words)
    return line
