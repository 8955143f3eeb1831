"""Files are shown relative to the working directory, and a small change fits a small screen."""

from typing import Any

import pytest
from stage import staged

from teamwright.models.scripted import call

pytestmark = [pytest.mark.anyio, pytest.mark.spec("AP9")]
CODE = "".join(f"def part_{n}():\n    return {n}\n\n\n" for n in range(9))


async def test_a_small_change_is_read_and_allowed_without_scrolling(walker: Any) -> None:
    file = walker.project / "prices.py"
    file.write_text(CODE)
    edit = call("Edit", file_path=str(file), old_string="return 0", new_string="return 44")
    script = [[call("Read", file_path=str(file))], [edit], "done"]
    async with staged(walker, script, size=(80, 24)) as stage:
        await stage.say("go")
        await stage.shows("main: Edit prices.py?")
        await stage.shows("return 44")
        assert "PgDn" not in stage.screen and str(walker.project) not in stage.screen.partition("always:")[0]
        await stage.until(lambda: stage.app.screen.query_one("Choices").deaf is False)  # type: ignore[attr-defined]
        await stage.press("y")
        await stage.rests()
        await stage.shows("✓ Read  prices.py")
        await stage.shows("✓ Edit  prices.py")
    assert "return 44" in file.read_text()


async def test_the_reason_names_the_file_and_one_elsewhere_by_its_whole_path(walker: Any) -> None:
    outside = walker.project.parent / "beside.txt"
    script = [
        [call("Write", file_path=str(walker.project / "in.txt"), content="x")],
        [call("Write", file_path=str(outside), content="x")],
        "done",
    ]
    async with staged(walker, script, size=(160, 40)) as stage:
        await stage.say("go")
        await stage.shows("No allow rule covers changes to in.txt.")
        await stage.until(lambda: stage.app.screen.query_one("Choices").deaf is False)  # type: ignore[attr-defined]
        await stage.press("n")
        await stage.shows(f"No allow rule covers changes to {outside}, outside the working directories.")
