"""Text for people: outside text made safe to show on one line, and counted nouns."""


def shown(text: str, most: int = 300) -> str:
    """One line: control, invisible and direction characters are written out, and what is too long is cut."""
    line = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text[: most + 1])
    return line if len(line) <= most else line[: most - 1] + "…"


def plural(count: int, noun: str) -> str:
    """`1 file`, `2 files`, `1,200 files`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
