"""Decides where a teammate runs, from the request and what the machine offers."""

from typing import Literal

from msgspec import Struct

Asked = Literal["auto", "in-process", "tmux", "iterm2", "local", "remote"]
Backend = Literal["in-process", "tmux", "iterm2", "local"]

_GET_TMUX = "Install it (`apt install tmux`, `brew install tmux`) to give each teammate a pane."
_GET_IT2 = "install its command-line tool (`pip install it2`, then switch on the Python API in iTerm2's settings)"


class Detected(Struct, frozen=True):
    """What was found on this machine at start. An empty path means that the program is missing."""

    inside_tmux: bool = False
    in_iterm: bool = False
    tmux: str = ""
    it2: str = ""


class PlacementChoice(Struct, frozen=True):
    """`note` tells the person why it is not the requested place, and what to do about it."""

    backend: Backend
    note: str = ""


def choose(asked: Asked, seen: Detected, *, interactive: bool, prefer_tmux: bool) -> PlacementChoice:
    """Where a session's teammates run. Whatever is missing, the answer is a place that works."""
    match asked:
        case "in-process" | "local":
            return PlacementChoice(asked)
        case "remote":  # each new one is sent to a worker; teammates from before the engine run here
            return PlacementChoice("in-process")
        case "auto":
            return _by_itself(seen) if interactive else PlacementChoice("in-process")
        case "iterm2":
            return _iterm(seen)
        case "tmux":
            return _tmux(seen, prefer_tmux=prefer_tmux)


def _by_itself(seen: Detected) -> PlacementChoice:
    if not seen.inside_tmux:
        return PlacementChoice("in-process")
    if not seen.tmux:
        return PlacementChoice(
            "in-process", f"This is a tmux pane, but tmux is not on PATH: teammates run here. {_GET_TMUX}"
        )
    return PlacementChoice("tmux")


def _tmux(seen: Detected, *, prefer_tmux: bool) -> PlacementChoice:
    if not seen.inside_tmux and seen.in_iterm and not prefer_tmux:
        if seen.it2:
            return PlacementChoice("iterm2")
        if seen.tmux:
            advice = f"For panes of iTerm2, {_GET_IT2}; `preferTmux` keeps tmux and this note away."
            return PlacementChoice("tmux", f"it2 is not on PATH: teammates get a tmux session of their own. {advice}")
        return PlacementChoice(
            "in-process", f"Neither it2 nor tmux is on PATH: teammates run here. For panes, {_GET_IT2}."
        )
    if not seen.tmux:
        return PlacementChoice("in-process", f"tmux is not on PATH: teammates run here. {_GET_TMUX}")
    return PlacementChoice("tmux")


def _iterm(seen: Detected) -> PlacementChoice:
    if not seen.in_iterm:
        return PlacementChoice(
            "in-process", "This is not a window of iTerm2: teammates run here. Start it there, or ask for tmux."
        )
    if not seen.it2:
        return PlacementChoice("in-process", f"it2 is not on PATH: teammates run here. For panes, {_GET_IT2}.")
    return PlacementChoice("iterm2")
