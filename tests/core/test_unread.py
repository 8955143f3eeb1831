"""Setup that we do not use, reported in a few words."""

from teamwright.core.data.extensions.unread import Unread, in_one_line


def test_equal_fields_of_many_files_are_one_group() -> None:
    agents = [Unread("agent file", "subtask", f"a{n}.md", 3) for n in range(12)]
    events = [Unread("hook event", name, "settings.json") for name in ("Setup", "InstructionsLoaded")]
    line = in_one_line([*agents, *events, Unread("setting", "spinnerVerbs", "settings.json")])
    assert line == (
        "not used here: field `subtask` in 12 agent files; hook events `Setup`, `InstructionsLoaded`; "
        "setting `spinnerVerbs`. `teamwright doctor` lists them."
    )
    assert in_one_line([]) == ""


def test_the_line_stays_short_and_harmless() -> None:
    settings = [Unread("setting", f"name\x1b[31m{n}", "s.json") for n in range(100)]
    fields = [Unread("skill", f"field{n}", "SKILL.md") for n in range(100)]
    line = in_one_line([*settings, *fields])
    assert line.isprintable() and len(line) < 600 and "93 more" in line


def test_each_is_told_with_its_place_and_what_to_do() -> None:
    field = Unread("agent file", "subtask", "a.md", 3)
    setting = Unread("setting", "agent", "s.json", why="start with `--agent NAME`")
    assert field.text == "a.md, line 3: field `subtask` is not used"
    assert setting.text == "s.json: setting `agent` is not used: start with `--agent NAME`"
