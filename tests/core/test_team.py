"""Teams as values: names, colours, states, what other programs read."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.core.data.team import (
    COLORS,
    FOLLOWS,
    LEAD_NAME,
    Member,
    Team,
    address,
    config,
    iso,
    may_follow,
    next_color,
    safe_name,
    split_address,
)
from teamwright.core.ids import AgentId


@pytest.mark.spec("T3")
@pytest.mark.parametrize(
    ("wanted", "safe"),
    [
        ("ada", "ada"),
        ("Ada.Lovelace_1", "Ada.Lovelace_1"),
        ("worker 1", "worker-1"),
        ("../../evil", "evil"),
        ("/etc/passwd", "etc-passwd"),
        ("..", "teammate"),
        (".hidden", "hidden"),
        ("-rf", "rf"),
        ("a/b\\c", "a-b-c"),
        ("a\x00b\x1b[31mc\n", "a-b-31mc"),
        ("\u202eada\u2066", "ada"),
        ("Zoë", "Zoe"),
        ("", "teammate"),
        ("  ", "teammate"),
        ("日本", "teammate"),
        ("x" * 300, "x" * 48),
        ("ada@crew", "ada-crew"),
        ("*", "teammate"),
        ('a" color="red', "a-color-red"),
    ],
)
def test_a_name_is_made_safe_for_files_and_addresses(wanted: str, safe: str) -> None:
    assert safe_name(wanted) == safe


@pytest.mark.spec("T3", "L3")
@pytest.mark.parametrize(
    "wanted",
    [
        "team-lead", "Team-Lead", "team_lead", "teamlead", "team lead", "team--lead", "team-1ead", "tearn-lead",
        "t3am-l34d", "ｔｅａｍ－ｌｅａｄ", "lead", "user", "System", "task-list", "task_list", "tas\u200bk-list",
        "main",
    ],
)  # fmt: skip
def test_nobody_can_pass_for_the_lead_the_person_or_the_program(wanted: str) -> None:
    assert safe_name(wanted) == "teammate"


@pytest.mark.spec("T3")
def test_a_letter_of_another_script_does_not_make_a_second_lead() -> None:
    assert safe_name("t\u0435am-lead") == "t-am-lead"  # a Cyrillic e


@pytest.mark.spec("T3")
def test_a_name_that_is_taken_gets_a_number_whatever_its_case() -> None:
    assert safe_name("ada", ["ada"]) == "ada-2"
    assert safe_name("ADA", ["ada", "Ada-2"]) == "ADA-3"
    assert safe_name("team-lead", ["teammate"]) == "teammate-2"


@given(st.text(), st.lists(st.text(max_size=5), max_size=4))
def test_every_text_becomes_a_name_that_stays_in_its_directory(wanted: str, others: list[str]) -> None:
    taken = [safe_name(other) for other in others]
    given = safe_name(wanted, taken)
    assert re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", given) and len(given) < 60
    assert given.casefold() not in {t.casefold() for t in taken} and safe_name(given) == given


@pytest.mark.spec("T3")
def test_colours_are_given_evenly() -> None:
    used: list[str] = []
    for _ in COLORS * 2:
        used.append(next_color(used))
    assert len(COLORS) >= 8 and used == [*COLORS, *COLORS]
    assert next_color([c for c in COLORS if c != "pink"]) == "pink"


@pytest.mark.spec("T5")
def test_what_may_follow_what() -> None:
    allowed = {(a, b) for a in FOLLOWS for b in FOLLOWS if may_follow(a, b)}
    assert allowed == {
        ("created", "running"), ("created", "shutdown"), ("running", "idle"), ("running", "shutdown"),
        ("idle", "running"), ("idle", "shutdown"),
    }  # fmt: skip


@pytest.mark.spec("T2")
def test_the_config_that_other_programs_read() -> None:
    lead = Member(AgentId("s"), LEAD_NAME, "crew", "team-lead", joined_at=5, state="running")
    ada = Member(AgentId("a1"), "ada", "crew", "reviewer", "haiku", "look", "green", 7, "tmux", "/w", True, "idle")
    gone = Member(AgentId("a2"), "bob", "crew", "x", state="shutdown")
    found = config(Team("crew", "words", lead.agent, 3), [ada, gone, lead])
    assert list(found) == ["name", "description", "leadAgentId", "createdAt", "members"]
    assert found["leadAgentId"] == "team-lead@crew" and [m["name"] for m in found["members"]] == [LEAD_NAME, "ada"]
    assert found["members"][1] == {
        "agentId": "ada@crew", "name": "ada", "agentType": "reviewer", "model": "haiku", "prompt": "look",
        "color": "green", "joinedAt": 7, "backendType": "tmux", "cwd": "/w", "planModeRequired": True, "state": "idle",
    }  # fmt: skip


def test_addresses_and_times() -> None:
    assert split_address(address("ada", "crew")) == ("ada", "crew") and split_address("ada") == ("ada", "")
    assert iso(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
