"""Cron expressions, times, and clocks that jump."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from teamwright.core.data.schedule import (
    LATE_MS,
    MOST_COUNTED,
    Schedule,
    ScheduleId,
    count_times,
    local,
    next_time,
    read_cron,
    read_time,
    scheduled_words,
)

pytestmark = pytest.mark.spec("Q1")
BERLIN, YORK, APIA, LORD_HOWE = map(
    ZoneInfo, ("Europe/Berlin", "America/New_York", "Pacific/Apia", "Australia/Lord_Howe")
)


def at(text: str, zone: ZoneInfo = BERLIN) -> int:
    """An ISO time with its offset, or in the zone."""
    return read_time(text, zone)


def following(cron: str, after: str, many: int = 1, zone: ZoneInfo = BERLIN) -> list[str]:
    found, now = [], at(after, zone)
    for _ in range(many):
        now = next_time(read_cron(cron), now, zone)
        assert now is not None
        found.append(local(now, zone).strftime("%Y-%m-%d %H:%M %z"))
    return found


@pytest.mark.parametrize(
    ("cron", "after", "due"),
    [
        ("* * * * *", "2026-05-01T10:00:00", "2026-05-01 10:01"),
        ("* * * * *", "2026-05-01T10:00:59.999", "2026-05-01 10:01"),
        ("*/15 * * * *", "2026-05-01T10:14", "2026-05-01 10:15"),
        ("5/20 * * * *", "2026-05-01T10:06", "2026-05-01 10:25"),
        ("0 9 * * 1-5", "2026-05-01T09:00", "2026-05-04 09:00"),
        ("0 9 * * MON-fri", "2026-05-01T09:00", "2026-05-04 09:00"),
        ("0 0 * * 7", "2026-05-01T09:00", "2026-05-03 00:00"),
        ("0 0 * * 5-7", "2026-05-03T09:00", "2026-05-08 00:00"),
        ("30 8 1 jan,jul *", "2026-05-01T09:00", "2026-07-01 08:30"),
        ("0 0 29 2 *", "2026-05-01T09:00", "2028-02-29 00:00"),
        ("0 0 29 2 *", "2096-05-01T09:00", "2104-02-29 00:00"),
        ("0 0 13 * 5", "2026-05-01T09:00", "2026-05-08 00:00"),  # the 13th, and every Friday
        ("0 0 13 * *", "2026-05-01T09:00", "2026-05-13 00:00"),
        ("0 0 31 * *", "2026-05-31T00:00", "2026-07-31 00:00"),
        ("59 23 31 12 *", "2026-12-31T23:59", "2027-12-31 23:59"),
    ],
)
def test_the_next_time(cron: str, after: str, due: str) -> None:
    assert following(cron, after)[0].startswith(due)


@pytest.mark.parametrize(
    ("cron", "words"),
    [
        ("", "five fields"),
        ("* * * *", "five fields"),
        ("* * * * * *", "five fields"),
        ("* " * 150, "five fields"),
        ("60 * * * *", "minute: '60' is not between 0 and 59"),
        ("* 24 * * *", "hour: '24'"),
        ("* * 0 * *", "day of month: '0'"),
        ("* * * 13 *", "month: '13'"),
        ("* * * * 8", "day of week: '8'"),
        ("*/0 * * * *", "'0' is not between 1"),
        ("5-1 * * * *", "runs backwards"),
        ("1-b * * * *", "'b' is not"),
        ("-1 * * * *", "'' is not"),
        ("1,,2 * * * *", "'' is not"),
        ("1- * * * *", "'' is not"),
        ("*/ * * * *", "'' is not"),
        ("٣ * * * *", "is not between"),
        ("0 jan * * *", "'jan' is not"),
        ("* * * * @daily", "is not between"),
    ],
)
def test_what_is_no_expression(cron: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_cron(cron)


def test_a_day_that_never_comes() -> None:
    assert next_time(read_cron("0 0 30 2 *"), at("2026-05-01"), BERLIN) is None
    assert next_time(read_cron("* * * * *"), at("9999-12-31T23:58:00+00:00"), ZoneInfo("UTC")) is None


# --- clocks that jump


def test_a_time_that_the_clocks_skip_comes_when_they_jump() -> None:
    # 2026-03-29, Berlin: 02:00 +01:00 is 03:00 +02:00
    assert following("30 2 * * *", "2026-03-28T03:00", 2) == ["2026-03-29 03:00 +0200", "2026-03-30 02:30 +0200"]
    assert following("*/20 2 * * *", "2026-03-28T03:00", 2) == ["2026-03-29 03:00 +0200", "2026-03-30 02:00 +0200"]
    times = following("*/30 * * * *", "2026-03-29T01:00", 3)
    assert times == ["2026-03-29 01:30 +0100", "2026-03-29 03:00 +0200", "2026-03-29 03:30 +0200"]
    assert local(at("2026-03-29T02:30"), BERLIN).isoformat() == "2026-03-29T03:00:00+02:00"


def test_a_time_that_the_clocks_show_twice_comes_once() -> None:
    # 2026-10-25, Berlin: 03:00 +02:00 is 02:00 +01:00
    assert following("30 2 * * *", "2026-10-24T03:00", 2) == ["2026-10-25 02:30 +0200", "2026-10-26 02:30 +0100"]
    assert following("30 1-3 * * *", "2026-10-25T00:00", 3) == [
        "2026-10-25 01:30 +0200", "2026-10-25 02:30 +0200", "2026-10-25 03:30 +0100",
    ]  # fmt: skip


def test_what_comes_every_hour_comes_in_both() -> None:
    assert following("30 * * * *", "2026-10-25T01:00", 4) == [
        "2026-10-25 01:30 +0200", "2026-10-25 02:30 +0200", "2026-10-25 02:30 +0100", "2026-10-25 03:30 +0100",
    ]  # fmt: skip
    assert following("0 * * * *", "2026-10-25T01:30", 3) == [
        "2026-10-25 02:00 +0200", "2026-10-25 02:00 +0100", "2026-10-25 03:00 +0100",
    ]  # fmt: skip


def test_a_day_that_is_skipped_and_half_an_hour_that_is() -> None:
    # Apia has no 2011-12-30; Lord Howe's clocks jump by half an hour.
    assert following("0 12 * * *", "2011-12-29T13:00", 2, APIA) == ["2011-12-31 00:00 +1400", "2011-12-31 12:00 +1400"]
    assert following("15 2 * * *", "2026-10-03T12:00", 1, LORD_HOWE) == ["2026-10-04 02:30 +1100"]


ZONES = st.sampled_from(
    [BERLIN, YORK, APIA, LORD_HOWE, ZoneInfo("UTC"), ZoneInfo("America/Sao_Paulo"), ZoneInfo("Asia/Beirut")]
)
MOMENTS = st.datetimes(datetime(2012, 1, 1), datetime(2035, 1, 1)).map(
    lambda d: int(d.replace(tzinfo=UTC).timestamp() * 1000)
)


def field(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high).map(str)
    span = st.tuples(st.integers(low, high), st.integers(low, high)).map(lambda p: f"{min(p)}-{max(p)}")
    step = st.integers(1, high).map(lambda n: f"*/{n}")
    return st.one_of(st.just("*"), number, span, step, st.lists(number, min_size=2, max_size=4).map(",".join))


CRONS = st.tuples(field(0, 59), field(0, 23), field(1, 28), field(1, 12), field(0, 7)).map(" ".join)


@given(CRONS, MOMENTS, ZONES)
@example("* * */7 2 2", 1_325_376_000_000, ZoneInfo("Europe/Berlin"))  # ten years ahead
@settings(deadline=None, max_examples=200)
def test_it_is_later_and_matches_and_nothing_lies_between(text: str, now: int, zone: ZoneInfo) -> None:
    cron = read_cron(text)
    due = next_time(cron, now, zone)
    assert due is not None and due > now and due % 1000 == 0
    wall = local(due, zone)
    skipped = wall.utcoffset() != local(due - 1000, zone).utcoffset()  # the clocks have just jumped
    assert skipped or (cron.on(wall.date()) and wall.hour in cron.hours and wall.minute in cron.minutes)
    between = now + (due - now) // 2
    assert next_time(cron, between, zone) == due or between == now
    assert next_time(cron, due - 1, zone) == due
    assert count_times(cron, due, due, zone) == 1


@given(MOMENTS, ZONES)
@settings(deadline=None, max_examples=100)
def test_every_minute_is_every_minute(now: int, zone: ZoneInfo) -> None:
    due = next_time(read_cron("* * * * *"), now, zone)
    assert due is not None
    assert 0 < due - now <= 60_000


@given(st.text(max_size=30))
def test_any_text_is_an_expression_or_a_sentence(text: str) -> None:
    for reader in (read_cron, lambda text: read_time(text, BERLIN)):
        try:
            reader(text)
        except ValueError as error:
            assert " " in str(error)


# --- times


def test_times_with_and_without_an_offset() -> None:
    assert at("2026-07-01T09:00") == at("2026-07-01T09:00:00+02:00") == at("2026-07-01T07:00Z")
    assert at("2026-10-25T02:30") == at("2026-10-25T02:30+02:00")  # shown twice: the first
    for wrong in ("", "tomorrow", "2026-13-01T00:00", "25:00"):
        with pytest.raises(ValueError, match="is no time such as"):
            at(wrong)


# --- words


def test_what_the_model_reads() -> None:
    due = at("2026-07-01T09:00")
    schedule = Schedule(ScheduleId("s1"), "Look </scheduled-prompt> at <it>", "0 9 * * *", True, due, 0)
    words = scheduled_words(schedule, due, due + 500, BERLIN)
    assert words == (
        '<scheduled-prompt id="s1" due="2026-07-01T09:00:00+02:00" cron="0 9 * * *">\n'
        "Look &lt;/scheduled-prompt> at <it>\n</scheduled-prompt>"
    )
    late = scheduled_words(schedule, due, due + LATE_MS + int(timedelta(days=3).total_seconds()) * 1000, BERLIN)
    assert "It comes late, at 2026-07-04T09:01:00+02:00" in late and "due 4 times meanwhile" in late
    once = Schedule(ScheduleId("s2"), "x", "", False, due, 0)
    assert "times meanwhile" not in scheduled_words(once, due, due + 10 * LATE_MS, BERLIN)
    often = Schedule(ScheduleId("s3"), "x", "* * * * *", True, due, 0)
    assert f"due {MOST_COUNTED} or more times" in scheduled_words(often, due, due + 10**9, BERLIN)
