"""Rows of the table: figures, what they are compared with, and their limits."""

from dataclasses import dataclass
from statistics import median


@dataclass
class Row:
    """`ours : other`. Limits apply to the minima, which a busy machine affects least."""

    name: str
    ours: list[float]
    other: list[float] | None = None
    unit: str = "ms CPU"
    most: float | None = None
    most_ratio: float | None = None

    @property
    def ratio(self) -> float | None:
        return min(self.ours) / min(self.other) if self.other else None

    @property
    def within(self) -> bool | None:
        """None if there is no limit."""
        if self.most is not None:
            return min(self.ours) <= self.most
        return None if self.most_ratio is None or self.ratio is None else self.ratio <= self.most_ratio


def ms(seconds: list[float]) -> list[float]:
    return [value * 1000 for value in seconds]


def table(rows: list[Row]) -> str:
    head = ["min / median", "unit", "ours", "other", "ratio", "at most", ""]
    lines = [head, *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


def _cells(row: Row) -> list[str]:
    limit = f"{row.most:g}" if row.most is not None else f"× {row.most_ratio:g}" if row.most_ratio else ""
    verdict = {None: "", True: "ok", False: "OVER"}[row.within]
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    return [row.name, row.unit, _pair(row.ours), _pair(row.other or []), ratio, limit, verdict]


def _pair(values: list[float]) -> str:
    if not values:
        return ""
    figures = (min(values), median(values)) if len(values) > 1 else (values[0],)
    return " / ".join(f"{x:.0f}" if abs(x) >= 100 else f"{x:.1f}" if abs(x) >= 10 else f"{x:.2f}" for x in figures)
