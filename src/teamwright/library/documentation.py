"""The documentation of the program: pages that are installed with it, and in a source tree a link to them."""

from functools import cache
from pathlib import Path


@cache
def documentation() -> Path | None:
    """None where somebody has left it out."""
    place = Path(__file__).resolve().parents[1] / "docs"
    return place.resolve() if (place / "index.md").is_file() else None
