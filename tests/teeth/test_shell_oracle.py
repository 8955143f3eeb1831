"""The short form of the shell's oracle: every line that ever fooled the judge, and some new ones."""

from typing import Any

import pytest
import shell_cage
import shell_oracle
from shell_lines import SHAPES, make_line
from shell_pools import known_flags, pools, real_flags

pytestmark = pytest.mark.skipif(bool(shell_cage.why_not()), reason=shell_cage.why_not() or "there is a cage")
WORKERS = 2


def differences(seed: str, orders: list[dict[str, Any]]) -> str:
    report = shell_cage.work(orders)
    assert report.counts["lines"], "nothing was judged"
    return "\n".join(shell_oracle.shown(seed, found) for found in report.differences)


def lines(kind: str) -> list[dict[str, Any]]:
    return [line for line in shell_oracle.corpus() if line["shape"].partition("_")[0] == kind]


@pytest.mark.spec("M7")
def test_everyday_lines_run_unasked_and_change_nothing() -> None:
    assert len(lines("allowed")) >= 150
    assert not differences("", shell_oracle.given(lines("allowed"), WORKERS))


@pytest.mark.spec("M3", "M7")
def test_no_line_that_ever_passed_does_so_again() -> None:
    assert not differences("", shell_oracle.given(lines("ask"), WORKERS))


@pytest.mark.spec("A6", "M3")
def test_with_questions_off_no_home_is_removed_and_what_is_denied_stays_so() -> None:
    assert not differences("", shell_oracle.given(lines("bypass"), WORKERS))


@pytest.mark.spec("M11")
def test_beside_a_rule_on_reading_only_what_can_show_the_file_is_kept_back() -> None:
    assert len(lines("spared")) >= 50 and len(lines("kept")) >= 70
    assert not differences("", shell_oracle.given([*lines("spared"), *lines("kept")], WORKERS))


@pytest.mark.spec("A9")
def test_lines_that_are_hard_to_judge_are_judged_at_once() -> None:
    assert not differences("", shell_oracle.given(lines("judge"), WORKERS))


@pytest.mark.spec("M7")
@pytest.mark.parametrize("seed", ["one", "two", "three"])
def test_what_is_allowed_does_no_more_than_was_judged(seed: str) -> None:
    assert not differences(seed, shell_oracle.made(seed, 1000, WORKERS))


# --- the oracle itself


@pytest.mark.spec("M7")
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("./evil", "ran the trap evil"), ("zz", "ran the trap zz"), ("touch PW", "changed"),
        ("rm README.md", "changed"), ("chmod 600 README.md", "changed"), ("echo x > /tmp/PW", "changed /tmp/PW"),
        ("cat ../secret > /dev/null", "opened secret"), ("ls ../vault", "opened vault"), ("ls ..", "opened home/"),
        ("cat /proc/2/environ", "showed a secret: CANARY-OF-THE-KEY"), ("ln -s x PW", "changed"),
        ("mv README.md x", "changed"),
        ("(sleep 0.2; : > PW) &", "changed"), ("git branch new", "changed"), ("mkdir src/PW", "changed"),
        ("cp notes.txt README.md", "changed"), ("git stash drop -q", "changed"),
        ("cat leak", "showed a secret: CANARY-OF-THE-SECRET"),
    ],
)  # fmt: skip
def test_it_sees_what_a_line_does(text: str, fault: str) -> None:
    """Every one of these needs approval; if it is run all the same, the oracle must notice."""
    report = shell_cage.work([{"given": [{"text": text}, {"text": "ls"}], "forced": True}])
    (found,) = report.differences
    assert found["line"] == text and any(told.startswith(fault) for told in found["faults"]), found


@pytest.mark.spec("M7")
def test_a_ground_is_mended_after_whatever_was_done_to_it() -> None:
    texts = [
        "rm -rf ../* ../.[a-z]*",
        "rm -rf .git; : > .git",
        "rm -rf src; ln -s /etc src",
        "chmod 755 ../secret",
        "rm -rf /tmp/*",
    ]
    report = shell_cage.work(
        [{"given": [{"text": text} for text in [*texts, "ls", "git status", "cat src/a.py"]], "forced": True}]
    )
    assert [found["line"] for found in report.differences] == texts


@pytest.mark.spec("M7")
def test_a_line_is_the_same_for_the_same_seed_and_number() -> None:
    assert [make_line("a", n) for n in range(200)] == [make_line("a", n) for n in range(200)]
    assert make_line("a", 1) != make_line("b", 1)


def test_the_grammar_holds_together() -> None:
    """Every shape produces something, and the tables of flags are read."""
    assert {make_line("shapes", n).shape for n in range(20_000)} == set(SHAPES)
    assert all(pools().values()) and known_flags()["git log"] and real_flags()["xargs"]
    assert not [n for n in range(5000) if "‹" in make_line("parts", n).text]
