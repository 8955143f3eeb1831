"""Code on the screen: which parts of a line have which meaning, by Pygments, and which words of a changed line
differ."""

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any

LONGEST = 2_000  # characters of a line that is analysed
MOST = 60_000  # characters of lines that are analysed together
ALIKE = 0.4  # share of a line that must be unchanged for single words to be marked
_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_PLAIN = frozenset({"Token.Text", "Token.Text.Whitespace", "Token.Name", "Token.Punctuation", "Token.Error"})
Span = tuple[int, int]
Named = tuple[int, int, str]


def marks_between(old: str, new: str) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Where two lines differ; empty if they have little in common."""
    if max(len(old), len(new)) > LONGEST:
        return (), ()
    gone, come = _WORD.findall(old), _WORD.findall(new)
    matcher = difflib.SequenceMatcher(None, gone, come, autojunk=False)
    if matcher.ratio() < ALIKE:
        return (), ()
    changed = [codes for codes in matcher.get_opcodes() if codes[0] != "equal"]
    return _spans(gone, [(a, b) for _, a, b, _, _ in changed]), _spans(come, [(c, d) for _, _, _, c, d in changed])


def _spans(words: Sequence[str], places: Sequence[Span]) -> tuple[Span, ...]:
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word))
    return tuple((starts[a], starts[b]) for a, b in places if b > a)


def highlight(lines: Sequence[str], path: str) -> list[tuple[Named, ...]]:
    """The parts of each line that are not plain text, by Pygments' names; empty for an unknown language."""
    empty: list[tuple[Named, ...]] = [()] * len(lines)
    if sum(map(len, lines)) > MOST:
        return empty
    from pygments import lexers  # noqa: PLC0415  # slow to import

    known = lexers.find_lexer_class_for_filename(path)
    if known is None:
        return empty
    lexer = known(stripnl=False, ensurenl=False)
    return _by_line(lexer.get_tokens("\n".join(lines)), len(lines))


def _by_line(tokens: Iterable[tuple[Any, str]], count: int) -> list[tuple[Named, ...]]:
    found: list[list[Named]] = [[] for _ in range(count)]
    line = column = 0
    for kind, text in tokens:
        for n, part in enumerate(text.split("\n")):
            line, column = (line + 1, 0) if n else (line, column)
            if part.strip() and str(kind) not in _PLAIN and line < len(found):
                found[line].append((column, column + len(part), str(kind)))
            column += len(part)
    return [tuple(names) for names in found]
