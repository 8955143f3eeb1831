"""Completes commands after `/` and files after `@`. Pure, except for the list of files."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from teamwright.core.errors import ToolError
from teamwright.host.files.search import search_below
from teamwright.surfaces.terminal.widgets.rows import palette_of, row
from teamwright.surfaces.view.text import one_line

MOST_FILES = 50_000
MOST_SHOWN = 50
_AT = re.compile(r'(?:^|(?<=\s))@(?:"([^"]*)|(\S*))$')
_SLASH = re.compile(r"^/([\w:.-]*)$")


class Completion(Struct, frozen=True):
    word: str  # the inserted text
    about: str = ""


class TypedWord(Struct, frozen=True):
    """The word before the cursor that can be completed, which begins at `start` in its line."""

    kind: str  # "/" or "@"
    text: str
    start: int


def word_at(text: str, row: int, column: int) -> TypedWord | None:
    before = text.split("\n")[row][:column]
    if row == 0 and (found := _SLASH.match(before)):
        return TypedWord("/", found[1], 0)
    if found := _AT.search(before):
        return TypedWord("@", found[1] if found[1] is not None else found[2], found.start())
    return None


def rank(choices: Iterable[Completion], wanted: str, most: int = MOST_SHOWN) -> list[Completion]:
    """Matching choices, best first: by their beginning, a file name's beginning, any place, or scattered letters."""
    asked = wanted.casefold()
    found: list[tuple[int, int, str, Completion]] = []
    for choice in choices:
        score = _score(choice.word.casefold(), asked)
        if score is not None:
            found.append((score, len(choice.word), choice.word, choice))
    found.sort(key=lambda entry: entry[:3])
    return [entry[3] for entry in found[:most]]


def rank_commands(choices: Iterable[Completion], wanted: str, used: Sequence[str]) -> list[Completion]:
    """Matches at the beginning come first; among equals, commands used most recently, then the alphabet."""
    asked, places = wanted.casefold(), {name: place for place, name in reversed(list(enumerate(used)))}

    def order(choice: Completion) -> tuple[int, int, str]:
        return _score(choice.word.casefold(), asked) or 0, places.get(choice.word, len(used)), choice.word

    return sorted((one for one in choices if _score(one.word.casefold(), asked) is not None), key=order)[:MOST_SHOWN]


def _score(word: str, asked: str) -> int | None:
    if word.startswith(asked):
        return 0
    name = word.rstrip("/").rpartition("/")[2]
    if name.startswith(asked):
        return 1
    if asked in word:
        return 2
    letters = iter(word)
    return 3 if all(letter in letters for letter in asked) else None


def quoted(path: str) -> str:
    return f'@"{path}"' if re.search(r"\s", path) else f"@{path}"


async def list_files(root: Path) -> list[str]:
    """Files and directories below `root`, as the person would name them, without those that git ignores."""
    files: list[str] = []

    def take(name: bytes) -> bool:
        if name:
            files.append(name.decode(errors="replace").removeprefix("./"))
        return len(files) < MOST_FILES

    try:
        await search_below(root, ["--files", "--null"], [], take, separator=b"\0")
    except (ToolError, OSError):
        return []
    folders = {f"{parent}/" for file in files for parent in map(str, Path(file).parents) if parent != "."}
    return sorted([*folders, *files])


class Completions(OptionList):
    """The list above the input. It never has the focus: the input drives it."""

    can_focus = False
    DEFAULT_CSS = """
    Completions { display: none; height: auto; max-height: 8; border: none; padding: 0 1; background: $surface; }
    Completions > .option-list--option { padding: 0; }
    Completions > .option-list--option-highlighted {
        color: $foreground; background: $block-cursor-background; text-style: $block-cursor-text-style;
    }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self.choices: Sequence[Completion] = ()

    def offer(self, choices: Sequence[Completion]) -> None:
        self.choices = choices
        self.display = bool(choices)
        palette, width = palette_of(self), max(20, self.screen.size.width - 3)
        longest = max((len(choice.word) for choice in choices), default=0)
        rows: list[Content] = []
        for choice in choices:
            left = one_line(choice.word, 200)
            pieces = [(left, palette.text), (" " * (min(longest, width // 2) - len(left) + 2), "")]
            rows.append(row([*pieces, (one_line(choice.about, 200), palette.dim)], [], width))
        self.set_options([Option(content) for content in rows])
        if choices:
            self.highlighted = 0

    @property
    def chosen(self) -> Completion | None:
        if not self.display or self.highlighted is None or not self.choices:
            return None
        return self.choices[self.highlighted]

    def move(self, step: int) -> None:
        if self.choices:
            self.highlighted = ((self.highlighted or 0) + step) % len(self.choices)

    def close(self) -> None:
        self.offer(())
