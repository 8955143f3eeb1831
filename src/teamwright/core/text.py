"""Makes outside text safe for our elements, for attributes and for single lines; counts nouns, shortens lists of names,
suggests corrections."""

import re
from collections.abc import Collection, Iterable
from functools import lru_cache

OWN_ELEMENTS = (  # elements in which the runtime shows a model what others say
    "teammate-message",
    "task-notification",
    "task-notifications",
    "monitor-lines",
    "hook-context",
    "scheduled-prompt",
    "skill-output",
    "channel-message",
    "attached-file",
    "attached-resource",
    "shell-input",
    "shell-output",
    "web-content",
    "side-question",
    "fork-boilerplate",
    "asked-so-far",
    "still-true",
)
# Names that models were taught to take for the system's, because the templates of providers use them.
TAGS = (  # like elements
    "system[-_ ]?reminder",  # Anthropic; also of programs like this one
    "antml:[a-z_]+",
    "function_calls",
    "function_results",
    "tool_calls?",  # Qwen, and others after Hermes
    "tool_response",
    "(?:start|end)_of_turn",  # Gemma
)
TOKENS = (  # between `<|` and `|>`
    "im_(?:start|end|sep)",  # OpenAI, Qwen
    "endof(?:text|prompt)",
    "start|end|message|channel|constrain|return|call",  # OpenAI's gpt-oss
    "(?:begin|end)_of_text",  # Llama
    "(?:start|end)_header_id|header_(?:start|end)",
    "eot(?:_id)?|eom(?:_id)?|python_tag",
    "system|user|assistant|tool|observation",  # others
)
BRACKETS = (  # Mistral; always in capitals
    "INST",
    "SYSTEM_PROMPT",
    "AVAILABLE_TOOLS",
    "TOOL_CALLS",
    "TOOL_RESULTS",
)


def neutral(text: str, *inside: str) -> str:
    """The text with tags of our own elements escaped as `&lt;`, so that none can be forged, and with them the marks of
    providers' templates.

    `inside`: further element names, if the text goes into a child element.
    """
    return _marks((*OWN_ELEMENTS, *inside)).sub(_escape, text) if "<" in text or "[" in text else text


def without_marks(text: str) -> str:
    """The text with the marks of providers' templates escaped; our own elements in it stay."""
    return _marks(()).sub(_escape, text) if has_marks(text) else text


def has_marks(text: str) -> bool:
    """Does it contain something that a model could take for the system's?"""
    return ("<" in text or "[" in text) and _marks(()).search(text) is not None


def restored(text: str, *inside: str) -> str:
    """Reverses `neutral`, for people."""
    if "&" not in text:
        return text
    return _escaped_marks((*OWN_ELEMENTS, *inside)).sub(lambda found: _UNESCAPED[found[0]], text)


def quoted(text: str) -> str:
    """An attribute value in quotes, on one line."""
    return '"' + " ".join(text.splitlines()).replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;") + '"'


def unquoted(text: str) -> str:
    """Reverses `quoted`, without the quotes."""
    return text.replace("&quot;", '"').replace("&lt;", "<").replace("&amp;", "&") if "&" in text else text


# Letters and marks to Unicode, but drawn as nothing.
# Variation selectors are normal after emoji and other characters outside ASCII.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\uffa0\U000e0100-\U000e01ef]"
    "|(?<![^\x00-\x22\x24-\x29\x2b-\x2f\x3a-\x9f\ufe00-\ufe0f])[\ufe00-\ufe0f]"
)


def shown(text: str, most: int = 300) -> str:
    """One line: control, invisible and direction characters are escaped, and long text is cut."""
    line = text[: most + 1]
    if not line.isprintable():
        line = "".join(c if c.isprintable() else _escaped(c) for c in line)
    if not line.isascii():
        line = _UNSEEN.sub(lambda found: _escaped(found[0]), line)
    return line if len(line) <= most else line[: most - 1] + "…"


def _escaped(c: str) -> str:
    return f"\\u{ord(c):04x}"


def closest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The known word that was probably meant; empty if none is close."""
    import difflib  # noqa: PLC0415 -- needed only for mistyped words

    by_case = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word.lower(), by_case, n=1, cutoff=cutoff)
    return by_case[found[0]] if found else ""


def few(names: Collection[str], most: int) -> str:
    """`a, b and 3 more`."""
    more = len(names) - most
    return ", ".join(list(names)[:most]) + (f" and {more} more" if more > 0 else "")


def line_count(text: str) -> int:
    """A newline at the end begins no further line."""
    return text.count("\n") + (text != "" and not text.endswith("\n"))


MOST_DIGITS = 9  # of a number that somebody sets: Python itself fails at more than 4,300


def whole_number(text: str) -> int | None:
    """A number from 0 on; None if the text is none, or a longer one."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else None


def plural(count: int, noun: str) -> str:
    """`1 file`, `2 files`, `1,200 files`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


_ESCAPES = {"<": "&lt;", "[": "&#91;"}
_UNESCAPED = {escape: mark for mark, escape in _ESCAPES.items()}


def _escape(found: re.Match[str]) -> str:
    return _ESCAPES[found[0]]


@lru_cache
def _marks(elements: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(_begins("<", r"\[", elements))


@lru_cache
def _escaped_marks(elements: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(_begins("&lt;", "&#91;", elements))


def _begins(tag: str, bracket: str, elements: tuple[str, ...]) -> str:
    """A pattern for the beginning of a mark; what follows it is only looked at."""
    names = rf"(?i:\s*/?\s*(?:{'|'.join((*elements, *TAGS))})(?![\w-]))"
    tokens = rf"\|(?:{'|'.join(TOKENS)})\||</?SYS>>|\uff5c"  # the last one is DeepSeek's
    return rf"{tag}(?={names}|{tokens})|{bracket}(?=/?(?:{'|'.join(BRACKETS)})\])"
