"""Words that came from outside, made safe to put into one line for a person."""


def shown(text: str, most: int = 300) -> str:
    """One line: control, invisible and direction characters are written out, and what is too long is cut."""
    line = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text[: most + 1])
    return line if len(line) <= most else line[: most - 1] + "…"
