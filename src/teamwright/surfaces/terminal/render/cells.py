"""Text measured in terminal cells: cut to a width, or wrapped below its last column."""

import re
import textwrap

from rich.cells import cell_len, set_cell_size


def hang(line: str, width: int) -> str:
    """Wrap a long line of a table below its last column."""
    if cell_len(line) <= width:
        return line
    columns = [found.end() for found in re.finditer(r"\S {2,}(?=\S)", line) if found.end() <= width * 2 // 3]
    indent = columns[-1] if columns else len(line) - len(line.lstrip())
    lines = textwrap.wrap(line, width, subsequent_indent=" " * min(indent, width * 2 // 3), break_on_hyphens=False)
    return "\n".join(lines)


def fit(text: str, cells: int) -> str:
    """Cut to at most so many cells; a cut text ends in an ellipsis."""
    if cells <= 0:
        return ""
    return text if cell_len(text) <= cells else set_cell_size(text, cells - 1).rstrip() + "…"
