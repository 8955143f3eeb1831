"""Finds `@path` imports in Markdown text outside code, in linear time."""

import re

MOST_IMPORTS = 100
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$")
_TICKS = re.compile(r"`+")
_IMPORT = re.compile(r"(?:^|(?<=[\s(]))@((?:[^\s\\`]|\\ )+)")
_PATH_LIKE = re.compile(r"^(?:~/|\.{0,2}/|[\w.-])")


def imports(text: str) -> list[tuple[str, ...]]:
    """The imports in order, each as alternatives: the path as written, then without trailing punctuation."""
    found: dict[tuple[str, ...], None] = {}
    for paragraph in _paragraphs(text):
        for match in _IMPORT.finditer(_without_code_spans(paragraph)):
            path = match[1].replace("\\ ", " ")
            bare = path.rstrip(".,;:!?)\"'*_]}>")
            if bare and _PATH_LIKE.match(path):
                found[tuple(dict.fromkeys((path, bare)))] = None
            if len(found) == MOST_IMPORTS:
                return list(found)
    return list(found)


def _paragraphs(text: str) -> list[str]:
    """Runs of lines outside fenced code; a code span never crosses an empty line."""
    paragraphs: list[list[str]] = [[]]
    fence = ""
    for line in text.splitlines():
        if fence:
            if closes_fence(line, fence):
                fence = ""
        elif opened := opened_fence(line):
            fence = opened[1]
            paragraphs.append([])
        elif line.strip():
            paragraphs[-1].append(line)
        else:
            paragraphs.append([])
    return ["\n".join(lines) for lines in paragraphs if lines]


def opened_fence(line: str) -> re.Match[str] | None:
    """Matches an opening code fence: its marks, and the text after them."""
    found = _FENCE.match(line)
    return None if found and found[1][0] == "`" and "`" in found[2] else found


def closes_fence(line: str, fence: str) -> bool:
    found = _FENCE.match(line)
    return found is not None and found[1].startswith(fence) and not found[2].strip()


def _without_code_spans(text: str) -> str:
    """Removes code spans. A span runs from a row of backticks to the next row of the same length."""
    runs = [match.span() for match in _TICKS.finditer(text)]
    following: dict[int, int] = {}  # length -> index of the next run of that length
    closes = [-1] * len(runs)
    for n in range(len(runs) - 1, -1, -1):
        length = runs[n][1] - runs[n][0]
        closes[n] = following.get(length, -1)
        following[length] = n
    kept: list[str] = []
    at, n = 0, 0
    while n < len(runs):
        if closes[n] < 0:
            n += 1
            continue
        kept += [text[at : runs[n][0]], "`"]
        at = runs[closes[n]][1]
        n = closes[n] + 1
    return "".join([*kept, text[at:]])
