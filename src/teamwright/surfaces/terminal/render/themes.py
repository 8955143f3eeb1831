"""Colours: a dark theme, a light one, and one without any colour, for Textual's drawing and for ours."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from textual.theme import Theme

from teamwright.osfiles.private import write_file

NAMES = ("dark", "light", "none")


class Palette(Struct, frozen=True):
    """Rich styles by meaning."""

    name: str
    dark: bool
    text: str
    dim: str
    accent: str
    good: str
    warn: str
    bad: str
    person: str  # the person's own words
    person_back: str  # their background
    code: str
    added: str
    removed: str
    added_mark: str  # changed words in a line
    removed_mark: str
    selected: str  # background of the chosen item
    syntax: str  # the theme of code blocks


DARK = Palette(
    "dark",
    dark=True,
    text="#d7dae0",
    dim="#858d9b",
    accent="#7fb4ff",
    good="#86c98a",
    warn="#e5b567",
    bad="#ef7d7d",
    person="#eef1f6",
    person_back="#232936",
    code="#c3a6ff",
    added="#9bd69e on #1c2a22",
    removed="#f29a9a on #30201f",
    added_mark="on #2c5238",
    removed_mark="on #66302e",
    selected="#29303f",
    syntax="nord-darker",
)
LIGHT = Palette(
    "light",
    dark=False,
    text="#24292f",
    dim="#57606a",
    accent="#0757b8",
    good="#14702e",
    warn="#7d5200",
    bad="#b3261e",
    person="#1b1f24",
    person_back="#e6ecf4",
    code="#6f42c1",
    added="#116329 on #e8f7eb",
    removed="#9c1c15 on #fceeed",
    added_mark="on #c8edd0",
    removed_mark="on #f8d5d2",
    selected="#dbe5f3",
    syntax="xcode",
)
NONE = Palette(
    "none",
    dark=True,
    text="",
    dim="dim",
    accent="bold",
    good="",
    warn="bold",
    bad="bold",
    person="bold",
    person_back="",
    code="italic",
    added="bold",
    removed="dim",
    added_mark="underline",
    removed_mark="underline",
    selected="reverse",
    syntax="bw",
)
PALETTES = {palette.name: palette for palette in (DARK, LIGHT, NONE)}

AGENT_COLORS = {
    "blue": "#6ea8fe",
    "green": "#79c98f",
    "yellow": "#d9b44a",
    "purple": "#b58cf0",
    "orange": "#e59a5a",
    "pink": "#ea8fc0",
    "cyan": "#5ec4d4",
    "red": "#ef7d7d",
    "teal": "#4fc2a5",
    "gold": "#c9a13b",
    "lime": "#a3c85a",
    "violet": "#9d8df1",
}
_ON_LIGHT = {
    "blue": "#0757b8",
    "green": "#14702e",
    "yellow": "#735800",
    "purple": "#6f42c1",
    "orange": "#a24a00",
    "pink": "#b02a75",
    "cyan": "#006a83",
    "red": "#b3261e",
    "teal": "#0b7261",
    "gold": "#7a5c00",
    "lime": "#4f7000",
    "violet": "#5a3fc0",
}


def agent_style(color: str, palette: Palette) -> str:
    """The style of an agent's name; names of colours come from files that people wrote."""
    if palette.name == "none":
        return "bold"
    known = AGENT_COLORS if palette.dark else _ON_LIGHT
    return f"bold {known.get(color, palette.accent)}"


def _theme(name: str, p: Palette, *, background: str, surface: str, panel: str, thumb: str = "") -> Theme:
    cursor = "reverse" if p.name == "none" else "none"  # otherwise it would be invisible without colours
    return Theme(
        name=name,
        primary=p.accent,
        secondary=p.code,
        accent=p.accent,
        warning=p.warn,
        error=p.bad,
        success=p.good,
        foreground=p.text,
        background=background,
        surface=surface,
        panel=panel,
        dark=p.dark,
        variables={
            "border": p.dim,
            "border-blurred": p.dim,
            "block-cursor-foreground": p.text,
            "block-cursor-background": p.selected,
            "block-cursor-text-style": cursor,
            "block-cursor-blurred-text-style": "none",
            "input-cursor-text-style": cursor,
            "scrollbar": thumb or panel,
            "scrollbar-hover": p.dim,
            "scrollbar-active": p.accent,
            "scrollbar-background": background,
            "scrollbar-corner-color": background,
        },
    )


def themes() -> list[Theme]:
    grey = Palette(
        "none",
        dark=True,
        text="#e0e0e0",
        dim="#909090",
        accent="#ffffff",
        good="#e0e0e0",
        warn="#e0e0e0",
        bad="#ffffff",
        person="#ffffff",
        person_back="#303030",
        code="#e0e0e0",
        added="#e0e0e0",
        removed="#909090",
        added_mark="underline",
        removed_mark="underline",
        selected="#404040",
        syntax="bw",
    )
    return [
        _theme("tw-dark", DARK, background="#16191f", surface="#1b1f27", panel="#232936"),
        _theme("tw-light", LIGHT, background="#fbfcfd", surface="#f3f5f8", panel="#e6ecf4", thumb="#b6c0cc"),
        _theme("tw-none", grey, background="#000000", surface="#101010", panel="#202020"),
    ]


def keep(root: Path, name: str) -> None:
    """Remember the theme for the next time. Blocks."""
    write_file(root / "input" / "theme", name.encode())


def wanted(root: Path, env: Mapping[str, str]) -> str:
    """NO_COLOR counts more than a choice; without either, the terminal's background decides, if it is known."""
    if env.get("NO_COLOR"):
        return "none"
    try:
        chosen = (root / "input" / "theme").read_text()
    except (OSError, ValueError):
        chosen = ""
    if chosen in NAMES:
        return chosen
    return "light" if env.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15") else "dark"
