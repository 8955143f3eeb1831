"""Where teammates run, for every combination of wish and machine."""

from itertools import product
from typing import get_args

import pytest

from teamwright.core.policies.placement import Asked, Backend, Detected, PlacementChoice, choose

NOTHING = Detected()
TMUX, IT2 = "/usr/bin/tmux", "/usr/local/bin/it2"
INSIDE = Detected(inside_tmux=True, tmux=TMUX)
ITERM = Detected(in_iterm=True, tmux=TMUX, it2=IT2)


def chosen(asked: Asked, seen: Detected, *, interactive: bool = True, prefer_tmux: bool = False) -> PlacementChoice:
    return choose(asked, seen, interactive=interactive, prefer_tmux=prefer_tmux)


@pytest.mark.spec("E1", "E5")
@pytest.mark.parametrize(
    ("asked", "seen", "interactive", "backend"),
    [
        ("auto", INSIDE, True, "tmux"),
        ("auto", INSIDE, False, "in-process"),
        ("auto", Detected(tmux=TMUX), True, "in-process"),
        ("auto", ITERM, True, "in-process"),
        ("auto", NOTHING, True, "in-process"),
        ("in-process", INSIDE, True, "in-process"),
        ("local", INSIDE, True, "local"),
        ("local", NOTHING, False, "local"),
        ("tmux", INSIDE, False, "tmux"),
        ("tmux", Detected(tmux=TMUX), False, "tmux"),
        ("tmux", ITERM, True, "iterm2"),
        ("tmux", Detected(inside_tmux=True, in_iterm=True, tmux=TMUX, it2=IT2), True, "tmux"),
        ("iterm2", ITERM, False, "iterm2"),
    ],
)
def test_what_is_asked_for_is_given_without_a_word(
    asked: Asked, seen: Detected, interactive: bool, backend: Backend
) -> None:
    assert chosen(asked, seen, interactive=interactive) == PlacementChoice(backend)


@pytest.mark.spec("E5")
def test_tmux_can_be_preferred_in_iterm() -> None:
    assert chosen("tmux", ITERM, prefer_tmux=True) == PlacementChoice("tmux")


@pytest.mark.spec("E5")
@pytest.mark.parametrize(
    ("asked", "seen", "backend", "words"),
    [
        ("tmux", NOTHING, "in-process", ("tmux is not on PATH", "brew install tmux")),
        ("auto", Detected(inside_tmux=True), "in-process", ("tmux is not on PATH", "apt install tmux")),
        ("tmux", Detected(in_iterm=True, tmux=TMUX), "tmux", ("it2 is not on PATH", "pip install it2", "preferTmux")),
        ("tmux", Detected(in_iterm=True), "in-process", ("Neither it2 nor tmux", "pip install it2")),
        ("iterm2", Detected(in_iterm=True, tmux=TMUX), "in-process", ("pip install it2", "Python API")),
        ("iterm2", Detected(tmux=TMUX, it2=IT2), "in-process", ("not a window of iTerm2",)),
    ],
)
def test_what_is_missing_is_said_and_replaced(
    asked: Asked, seen: Detected, backend: Backend, words: tuple[str, ...]
) -> None:
    choice = chosen(asked, seen)
    assert choice.backend == backend and all(word in choice.note for word in words)


@pytest.mark.spec("E5")
def test_no_choice_needs_a_program_that_is_not_there() -> None:
    flags = (False, True)
    for asked, inside, iterm, tmux, it2, interactive, prefer in product(
        get_args(Asked), flags, flags, ("", TMUX), ("", IT2), flags, flags
    ):
        seen = Detected(inside, iterm, tmux, it2)
        backend = choose(asked, seen, interactive=interactive, prefer_tmux=prefer).backend
        assert {"tmux": tmux, "iterm2": it2}.get(backend, "nothing needed")
