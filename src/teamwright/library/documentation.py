"""Finds the program's documentation: pages installed with it, or in a source tree a link to them."""

from functools import cache
from pathlib import Path


@cache
def documentation() -> Path | None:
    """None if the installation lacks it."""
    place = Path(__file__).resolve().parents[1] / "docs"
    return place.resolve() if (place / "index.md").is_file() else None
