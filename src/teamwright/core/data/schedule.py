"""Computes when a scheduled prompt is due: expressions, instants and a time zone in, instants out.

Instants are milliseconds since 1970. A time of day that a clock change skips is due at the jump; one that occurs
twice is due the first time, except that hourly schedules run both times.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import NewType

from msgspec import Struct

from teamwright.core.text import neutral, quoted

ScheduleId = NewType("ScheduleId", str)

FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day of month", 1, 31), ("month", 1, 12), ("day of week", 0, 7))
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_NAMES = {"month": {name: n + 1 for n, name in enumerate(_MONTHS)}, "day of week": {n: i for i, n in enumerate(_DAYS)}}
_AHEAD = 366 * 41  # days: 29 February on a given weekday may be forty years away
_LONGEST = 200  # characters in an expression
MOST_COUNTED = 1_000  # missed times are counted up to this
LATE_MS = 60_000  # a prompt that comes later than this says so


class Schedule(Struct, frozen=True):
    """A prompt for later. `cron` is empty if it has a single time instead. `next` is when it is due; `last` is the last
    due time that was delivered."""

    id: ScheduleId
    prompt: str
    cron: str
    recurring: bool
    next: int
    created: int
    last: int | None = None


class Cron(Struct, frozen=True):
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  # 0 is Sunday
    either: bool  # both day of month and day of week were given: either one is enough

    def on(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        month, week = day.day in self.days, (day.weekday() + 1) % 7 in self.weekdays
        return month or week if self.either else month and week


# --- reading


def read_cron(text: str) -> Cron:
    """Parses five fields of numbers, names, ranges, lists and steps. Raises ValueError with a sentence."""
    parts = text.split() if len(text) <= _LONGEST else []
    if len(parts) != len(FIELDS):
        raise ValueError("a cron expression has five fields: minute, hour, day of month, month, day of week")
    sets = [_read_field(part, *field) for part, field in zip(parts, FIELDS, strict=True)]
    weekdays = frozenset(day % 7 for day in sets[4])
    either = not parts[2].startswith("*") and not parts[4].startswith("*")
    return Cron(sets[0], sets[1], sets[2], sets[3], weekdays, either)


def _read_field(text: str, name: str, low: int, high: int) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, stepped, step = part.partition("/")
        every = _number(step, name, 1, high) if stepped else 1
        if span == "*":
            first, last = low, high
        else:
            begin, ranged, end = span.partition("-")
            first = _number(begin, name, low, high)
            last = _number(end, name, low, high) if ranged else high if stepped else first
            if first > last:
                raise ValueError(f"{name} {part!r}: the range runs backwards")
        found.update(range(first, last + 1, every))
    return frozenset(found)


def _number(text: str, name: str, low: int, high: int) -> int:
    value = _NAMES.get(name, {}).get(text.lower())
    if value is None and text.isascii() and text.isdigit() and len(text) <= 2:
        value = int(text)
    if value is None or not low <= value <= high:
        raise ValueError(f"{name}: {text!r} is not between {low} and {high}")
    return value


def read_time(text: str, zone: tzinfo) -> int:
    """Parses an ISO time; without an offset it is in that zone. Raises ValueError with a sentence."""
    try:
        found = datetime.fromisoformat(text.strip())
        if found.tzinfo is None:
            return _instant(found, zone)
        return round(found.timestamp() * 1000)
    except (ValueError, OverflowError):
        raise ValueError(f"{text[:60]!r} is no time such as 2026-03-01T09:00 or 2026-03-01T09:00:00+01:00") from None


# --- planning


def next_time(cron: Cron, after: int, zone: tzinfo) -> int | None:
    """The first due instant after `after`; None if there is none for decades."""
    return next(_times(cron, after, zone), None)


def count_times(cron: Cron, first: int, now: int, zone: tzinfo) -> int:
    """The number of due instants from `first`, itself one, to `now`, counted up to a limit."""
    count = 1
    for instant in _times(cron, first, zone):
        if instant > now or count == MOST_COUNTED:
            break
        count += 1
    return count


def _times(cron: Cron, after: int, zone: tzinfo) -> Iterator[int]:
    day = local(after, zone).date() - timedelta(days=1)  # where clocks go back at midnight, a date begins twice
    for _ in range(_AHEAD):
        if cron.on(day) and _instant(datetime(day.year, day.month, day.day, 23, 59), zone, fold=1) > after:
            for instant in sorted(_instants(cron, day, zone)):
                if instant > after:
                    after = instant
                    yield instant
        if day >= date.max - timedelta(days=2):
            return
        day += timedelta(days=1)


def local(instant: int, zone: tzinfo) -> datetime:
    return datetime.fromtimestamp(instant / 1000, zone)


def shown_time(instant: int, zone: tzinfo) -> str:
    return local(instant, zone).isoformat(timespec="seconds")


def _instants(cron: Cron, day: date, zone: tzinfo) -> Iterator[int]:
    hourly = len(cron.hours) == 24
    for hour in cron.hours:
        for minute in cron.minutes:
            wall = datetime(day.year, day.month, day.day, hour, minute)
            yield _instant(wall, zone)
            if hourly and (again := wall.replace(tzinfo=zone, fold=1)).utcoffset() != again.replace(fold=0).utcoffset():
                yield _instant(wall, zone, fold=1)


def _instant(wall: datetime, zone: tzinfo, fold: int = 0) -> int:
    """The instant of a wall-clock time. One that the clocks skip maps to the jump."""
    at = wall.replace(tzinfo=zone, fold=fold)
    seconds = at.timestamp()
    if datetime.fromtimestamp(seconds, zone).replace(tzinfo=None) == wall:
        return round(seconds * 1000)
    late, early = at.replace(fold=0).utcoffset(), at.replace(fold=1).utcoffset()
    assert late is not None and early is not None
    plain = wall.replace(tzinfo=UTC).timestamp()
    before, after = int(plain - early.total_seconds()), int(plain - late.total_seconds())
    old = _offset(before, zone)
    while after - before > 1:  # bisects for the jump, which lies in (before, after]
        middle = (before + after) // 2
        before, after = (middle, after) if _offset(middle, zone) == old else (before, middle)
    return after * 1000


def _offset(seconds: int, zone: tzinfo) -> timedelta | None:
    return datetime.fromtimestamp(seconds, zone).utcoffset()


# --- text


def scheduled_words(schedule: Schedule, due: int, now: int, zone: tzinfo) -> str:
    """What the model reads when a prompt is due; the prompt's text cannot close the element."""
    marks = [f'id="{schedule.id}"', f'due="{shown_time(due, zone)}"']
    marks += [f"cron={quoted(schedule.cron)}"] if schedule.recurring else []
    late = ""
    if now - due > LATE_MS:
        late = f"[It comes late, at {shown_time(now, zone)}: the program did not run then, or the machine slept."
        if schedule.recurring and (missed := count_times(read_cron(schedule.cron), due, now, zone)) > 1:
            many = f"{missed} or more" if missed == MOST_COUNTED else str(missed)
            late += f" It was due {many} times meanwhile, and is told once."
        late += "]\n"
    return f"<scheduled-prompt {' '.join(marks)}>\n{late}{neutral(schedule.prompt)}\n</scheduled-prompt>"
