"""Output styles: how the main agent answers, selected by `outputStyle`."""

from collections.abc import Iterable
from itertools import chain, islice
from pathlib import Path
from typing import Any

from msgspec import Struct

from teamwright.core.errors import SettingsError
from teamwright.core.text import closest, shown
from teamwright.library.frontmatter import Document, split
from teamwright.osfiles.reading import read_plain

MOST_CHARACTERS = 40_000
MOST_FILES = 200
DEFAULT = "default"
BUILT_IN = {
    "explanatory": (
        "# Style: explanatory\nWhile you work, explain your choices in two or three sentences where they are worth "
        "learning from: why this approach, what the code base does elsewhere, what was given up. Keep such notes in "
        "your answers, never in the code."
    ),
    "learning": (
        "# Style: learning\nThe person wants to learn by doing. Where a decision or a piece of about five to twenty "
        "lines is instructive, prepare the place, mark it `TODO(human)`, say what belongs there and which "
        "trade-offs count, and wait until they have written it. Do the rest yourself, and explain what you did."
    ),
}


class OutputStyle(Struct, frozen=True):
    """`keeps`: the style is added to the usual coding instructions instead of replacing them."""

    name: str
    text: str
    keeps: bool = True


class StyleFault(SettingsError):
    """What is wrong with the chosen style; the session continues without one."""


def find_style(name: str, folders: Iterable[Path]) -> OutputStyle | None:
    """None means the usual style. `folders` are ordered nearest first. Raises StyleFault."""
    wanted = name.strip().lower()
    if wanted in ("", DEFAULT):
        return None
    known: dict[str, None] = {}
    for path in chain.from_iterable(map(_files, folders)):
        document = _read(path)
        called = document.fields.get("name")
        names = [path.stem, *([called] if isinstance(called, str) else [])]
        if wanted in (one.strip().lower() for one in names):
            return OutputStyle(names[-1], document.body.strip(), keeps=_is_yes(document))
        known |= dict.fromkeys(names)
    if wanted in BUILT_IN:
        return OutputStyle(wanted, BUILT_IN[wanted])
    meant = closest(name, [*known, "Explanatory", "Learning"])
    raise StyleFault(
        f"outputStyle: there is no style `{shown(name, 80)}`{f', did you mean {shown(meant, 80)}?' if meant else ''}; "
        "the usual one is used"
    )


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(islice(folder.glob("*.md"), MOST_FILES))
    except OSError:
        return []


def _read(path: Path) -> Document:
    try:
        data = read_plain(path, MOST_CHARACTERS * 4) or b""
        return split(data.decode(errors="replace")[:MOST_CHARACTERS], str(path))
    except SettingsError as error:
        raise StyleFault(f"{shown(str(error), 500)}; no output style is used") from None


def _is_yes(document: Document) -> bool:
    said: Any = document.fields.get("keep-coding-instructions")
    return said is True or (isinstance(said, str) and said.lower() in ("true", "yes", "on"))
