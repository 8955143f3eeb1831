"""The mail of a team as a timeline."""

import pytest
from tui_parts import EVIL, NOW, Host, mail, make_view, screen_text, side_host, until

from teamwright.runtime.port import Crew
from teamwright.store.tables.mail import MailEntry
from teamwright.surfaces.terminal.widgets.timeline import MOST, happenings
from teamwright.surfaces.view.shapes import TeamEvent

MAIL = [
    mail(1, "team-lead", "ada", "please write the parser"),
    mail(2, "ada", "bert", "the interface is there", "It is in parser.py.\nLook at read()."),
    mail(3, "bert", "team-lead", "done", state="stored"),
]


def timeline(entries: list[MailEntry]) -> Host:
    return side_host(make_view(), "mail", Crew(("site",), (), tuple(entries)))


def test_mail_and_doings_come_in_the_order_of_time() -> None:
    events = [
        TeamEvent(NOW - 59_500, "site", "spawn", "ada@site", "writes the parser"),
        TeamEvent(NOW - 58_500, "site", "message", "ada@site", "the interface", "bert@site"),
        TeamEvent(NOW, "site", "claim", "bert@site", task="4"),
    ]
    found = [(h.who, h.to, h.text) for h in happenings(MAIL, events)]
    assert found == [
        ("ada", "", "joined: writes the parser"),
        ("team-lead", "ada", "please write the parser"),
        ("ada", "bert", "the interface is there"),
        ("bert", "team-lead", "done"),
        ("bert", "", "took task #4"),
    ]


def test_records_are_told_in_words_and_idleness_once() -> None:
    idle = mail(1, "ada", "team-lead", "", '{"type":"idle_notification","from":"ada"}')
    plan = mail(2, "ada", "team-lead", "", '{"type":"plan_approval_request","from":"ada","plan":"1. Read"}')
    said = mail(3, "team-lead", "ada", "", '{"type":"plan_approval_response","approve":false,"feedback":"tests first"}')
    odd = mail(4, "ada", "bert", "", '{"type": [1')
    texts = [h.text for h in happenings([idle, plan, said, odd], [])]
    assert texts == ["plan approval request: 1. Read", "plan approval response (no): tests first", '{"type": [1']


def test_only_the_newest_stay() -> None:
    found = happenings([mail(n, "ada", "bert", f"n{n}") for n in range(MOST + 10)], [])
    assert len(found) == MOST and found[-1].text == f"n{MOST + 9}"


@pytest.mark.anyio
@pytest.mark.parametrize("width", [60, 120])
async def test_messages_are_seen_with_what_became_of_them(width: int) -> None:
    host = timeline(MAIL)
    async with host.run_test(size=(width, 20)) as pilot:
        await until(pilot, lambda: "bert → team-lead  done" in screen_text(host))
        text = screen_text(host)
        assert "team-lead → ada  please write" in text and "unread" in text and "bert  went idle" in text


@pytest.mark.anyio
async def test_enter_shows_the_whole_message() -> None:
    host = timeline(MAIL)
    async with host.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "went idle" in screen_text(host))
        await pilot.press("up", "up", "enter")
        await until(pilot, lambda: "Look at read()." in screen_text(host))


@pytest.mark.anyio
@pytest.mark.spec("A12")
async def test_hostile_messages_are_written_out() -> None:
    host = timeline([mail(1, "ada", "bert", EVIL, f"{EVIL}\n{'x' * 1_000_000}")])
    async with host.run_test(size=(160, 24)) as pilot:
        await until(pilot, lambda: "\\x1b[31mred" in screen_text(host))
        await pilot.press("up", "enter")
        await until(pilot, lambda: screen_text(host).count("\\x1b[31mred") == 2)
        assert "\u202e" not in screen_text(host) and "[bold]x[/bold]" in screen_text(host)
