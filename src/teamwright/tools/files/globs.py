"""Path patterns: `*`, `?`, `[abc]`, `{a,b}` and `**`. Matched component by component, so that no pattern is slow."""

import re
from collections.abc import Callable, Sequence
from fnmatch import translate

from teamwright.core.errors import ToolError

_MOST_CHOICES = 256

Part = re.Pattern[str] | None  # None stands for `**`


def matcher(pattern: str) -> Callable[[str], bool]:
    """A test whether a relative path matches. A pattern without `/` matches the last component at any depth."""
    globs = [_parts(choice) for choice in choices(pattern)]

    def fits(path: str) -> bool:
        parts = path.split("/")
        return any(_fit(parts, glob) for glob in globs)

    return fits


def choices(pattern: str) -> list[str]:
    """Expands braces: one pattern for each combination."""
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        found = waiting.pop()
        start = found.find("{")
        if start < 0:
            done.append(found)
        else:
            end, options = _braces(found, start)
            waiting += [found[:start] + option + found[end:] for option in reversed(options)]
        if len(done) + len(waiting) > _MOST_CHOICES:
            raise ToolError(f"The pattern has more than {_MOST_CHOICES} combinations in braces. Use a simpler one.")
    return done


def _braces(pattern: str, start: int) -> tuple[int, list[str]]:
    """The end of a brace group, and its options; nested groups are left for later."""
    depth, at, options = 0, start + 1, list[str]()
    for index in range(start, len(pattern)):
        match pattern[index]:
            case "{":
                depth += 1
            case "," if depth == 1:
                options.append(pattern[at:index])
                at = index + 1
            case "}":
                depth -= 1
                if depth == 0:
                    return index + 1, [*options, pattern[at:index]]
            case _:
                pass
    raise ToolError(f"The pattern {pattern} has a {{ without its }}. Correct it, or write [{{] for the character.")


def _parts(pattern: str) -> tuple[Part, ...]:
    anchored = "/" in pattern
    pattern = pattern.removeprefix("./").strip("/") + ("/**" if pattern.endswith("/") else "")
    names = [name for name in pattern.split("/") if name not in ("", ".")]
    if ".." in names:
        raise ToolError("The pattern contains `..`. Give the directory to search as `path` instead.")
    parts = tuple(None if name == "**" else re.compile(translate(name)) for name in names)
    return parts if anchored else (None, *parts)


def _fit(parts: Sequence[str], glob: Sequence[Part]) -> bool:
    """Walks both; on a mismatch the last `**` takes one more component."""
    at = place = 0
    retry = -1
    tried = 0
    while at < len(parts):
        part = glob[place] if place < len(glob) else ""
        if part is None:
            retry, tried, place = place, at, place + 1
        elif part and part.match(parts[at]):
            at, place = at + 1, place + 1
        elif retry >= 0:
            tried += 1
            at, place = tried, retry + 1
        else:
            return False
    return all(part is None for part in glob[place:])
