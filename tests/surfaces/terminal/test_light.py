"""The light theme is readable: every text colour contrasts with its background."""

from typing import Any

import pytest
from pygments.styles import get_style_by_name
from rich.style import Style
from stage import staged

from teamwright.surfaces.terminal.render import themes
from teamwright.surfaces.terminal.render.themes import LIGHT

pytestmark = pytest.mark.anyio
ENOUGH = 4.5  # the contrast that WCAG 2 asks for
SIZES = [(40, 24), (100, 30), (120, 34), (200, 50)]
BARS = set("▁▂▃▄▅▆▇█▏▎▍▌▋▊▉│─╭╮╰╯ ")


def light_of(color: str) -> float:
    parts = (int(color[n : n + 2], 16) / 255 for n in (1, 3, 5))
    red, green, blue = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((light_of(one), light_of(other)))
    return (high + 0.05) / (low + 0.05)


def hex_of(style: Style | None, part: str, default: str) -> str:
    color = getattr(style, part) if style else None
    return default if color is None or color.is_default else color.get_truecolor().hex


def faint(app: Any) -> dict[str, float]:
    """Texts on the screen with too little contrast."""
    lines = app.screen._compositor.render_update(full=True).strips
    found: dict[str, float] = {}
    for segment in (segment for line in lines for strip in line for segment in strip):
        if set(segment.text) <= BARS:
            continue
        ink, back = hex_of(segment.style, "color", LIGHT.text), hex_of(segment.style, "bgcolor", "#fbfcfd")
        if segment.style and segment.style.reverse:
            ink, back = back, ink
        if (has := contrast(ink, back)) < ENOUGH:
            found[segment.text.strip()] = has
    return found


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_the_input_its_lists_and_an_answer_can_be_read(walker: Any, size: tuple[int, int]) -> None:
    answer = (
        "# Done\n\n`cheapest()` is **mended**:\n\n```python\ndef cheapest(prices):\n    return min(prices) or 100\n```"
    )
    async with staged(walker, [answer], size=size, theme="light") as stage:
        await stage.shows("Ask, or type")
        assert not faint(stage.app)
        await stage.type("/c")
        await stage.shows("replace the conv")
        assert not faint(stage.app)
        stage.app.prompt.put("")
        await stage.say("mend it")
        await stage.shows("return min")
        await stage.rests()
        assert not faint(stage.app)


@pytest.mark.parametrize("name", ["text", "dim", "accent", "good", "warn", "bad", "code", "person"])
async def test_words_stand_out_from_every_ground(name: str) -> None:
    (theme,) = (theme for theme in themes.themes() if theme.name == "tw-light")
    grounds = [theme.background, theme.surface, theme.panel, LIGHT.selected, LIGHT.person_back]
    assert [back for back in grounds if contrast(getattr(LIGHT, name), str(back)) < ENOUGH] == []


async def test_names_of_agents_stand_out_where_they_are_chosen() -> None:
    inks = {name: themes.agent_style(name, LIGHT).split()[-1] for name in themes.AGENT_COLORS}
    assert [name for name, ink in inks.items() if contrast(ink, LIGHT.selected) < ENOUGH] == []


@pytest.mark.parametrize("part", ["added", "removed", "added_mark", "removed_mark"])
async def test_code_stands_out_in_a_changed_line(part: str) -> None:
    back = getattr(LIGHT, part).split()[-1]
    inks = {f"#{found['color']}" for token, found in get_style_by_name(LIGHT.syntax) if found["color"]}
    assert [ink for ink in inks if contrast(ink, back) < 3.5] == []
