"""Hunks: applied to any old text, they give the new text."""

from hypothesis import given
from hypothesis import strategies as st

from teamwright.core.data.content.patch import Hunk, hunks_between

texts = st.lists(st.sampled_from(["a", "b", "", "c c", "a\n"]), max_size=30).map("\n".join)


def apply(before: str, hunks: tuple[Hunk, ...]) -> list[str]:
    old = before.removesuffix("\n").split("\n") if before else []
    new: list[str] = []
    at = 0
    for hunk in hunks:
        new += old[at : hunk.old_start - 1]
        at = hunk.old_start - 1
        assert len(new) == hunk.new_start - 1
        for line in hunk.lines:
            if line[0] in " -":
                assert old[at] == line[1:]
                at += 1
            if line[0] in " +":
                new.append(line[1:])
    return [*new, *old[at:]]


@given(texts, texts)
def test_applied_to_the_text_before_hunks_give_the_text_after(before: str, after: str) -> None:
    expected = after.removesuffix("\n").split("\n") if after else []
    assert apply(before, hunks_between(before, after)) == expected


def test_a_change_has_three_lines_around_it_and_their_numbers() -> None:
    before = "".join(f"line {n}\n" for n in range(1, 21))
    (hunk,) = hunks_between(before, before.replace("line 10\n", "ten\n"))
    assert (hunk.old_start, hunk.new_start) == (7, 7)
    assert [line[0] for line in hunk.lines] == [" ", " ", " ", "-", "+", " ", " ", " "]


def test_far_changes_of_a_huge_text_have_no_hunks() -> None:
    before = "".join(f"{n}\n" for n in range(10_000))
    assert hunks_between(before, f"first\n{before}last\n") == ()
