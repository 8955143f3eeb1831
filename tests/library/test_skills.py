"""Skills and commands: where they are found, precedence, reloading on change, and bad files."""

import os
import time
from pathlib import Path

import pytest
from skill_house import SkillHouse

from teamwright.core.errors import SettingsError
from teamwright.library.skills.book import MOST_PROBLEMS, SkillBook, preload
from teamwright.library.skills.file import MOST_BYTES
from teamwright.library.skills.places import readable_folders


@pytest.fixture
def house(tmp_path: Path) -> SkillHouse:
    return SkillHouse(tmp_path)


@pytest.mark.spec("S1")
def test_every_field(house: SkillHouse) -> None:
    path = house.skill(
        "review", "Look at $0.", name="review", description="Reviews a change", allowed_tools="Bash(git diff:*), Read",
        model="haiku", context="fork", agent="explore", argument_hint="[file] [words]", effort="high",
        disable_model_invocation=True, user_invocable=False, license="MIT",
    )  # fmt: skip
    skills = house.load()
    skill = skills.by_name["review"]
    assert skills.problems == () and skill.path == str(path) and skill.folder == str(path.parent)
    assert (skill.description, skill.allowed_tools) == ("Reviews a change", ("Bash(git diff:*)", "Read"))
    assert (skill.model, skill.context, skill.agent, skill.effort) == ("haiku", "fork", "explore", "high")
    assert skill.argument_hint == "[file] [words]" and skill.source == "project"
    assert skill.disable_model_invocation and not skill.user_invocable
    assert skills.offered == [] and skills.commands == []


@pytest.mark.spec("S1")
def test_names_come_from_files_and_descriptions_from_bodies(house: SkillHouse) -> None:
    house.skill("plain", "# Make tea\n\nBoil water.")
    house.skill("titled", name="A title with spaces", description="d")
    house.command("ship", "Ship it")
    house.command("front/button", description="A button")
    found = house.load()
    assert {n: s.description for n, s in found.by_name.items()} == {
        "front:button": "A button", "plain": "Make tea", "ship": "Ship it", "titled": "d",
    }  # fmt: skip
    assert found.problems == () and found.by_name["ship"].folder == ""


@pytest.mark.spec("S1")
def test_the_nearest_wins(house: SkillHouse) -> None:
    house.skill("x", description="user of many programs", at="home/.agents")
    house.command("y", description="not a place for commands", at="home/.agents")
    assert {n: s.description for n, s in house.load().by_name.items()} == {"x": "user of many programs"}
    house.skill("x", description="user claude", at="home/.claude")
    assert house.load().by_name["x"].description == "user claude"
    house.command("x", description="user", at="home/.teamwright")
    assert house.load().by_name["x"].description == "user"
    house.command("x", description="project command")
    house.skill("x", description="project of many programs", at="project/.agents")
    house.skill("X", description="project skill")
    assert house.load().find("x") == house.load().by_name["X"] and "x" not in house.load().by_name
    house.skill("x", description="ours", at="project/.teamwright")
    house.skill("x", description="near", at="project/sub/.claude")
    assert house.load().by_name["x"].description == "near"
    assert len(house.load().outcomes) == 8
    assert house.load(cwd=house.project).by_name["x"].description == "ours"
    house.skill("x", description="policy", at="policy")
    assert house.load().by_name["x"].description == "policy"
    assert house.load(trusted=False, managed=house.root / "none").by_name["x"].description == "user"
    assert house.load(sources=(), managed=house.root / "none").by_name == {}


@pytest.mark.spec("S1", "D10")
def test_plugins_have_names_of_their_own(house: SkillHouse) -> None:
    house.write("home/.teamwright/plugins/plugins.json", '{"plugins": {"kit": {}, "other": {"enabled": false}}}')
    for plugin in ("kit", "other"):
        house.write(f"home/.teamwright/plugins/{plugin}/.claude-plugin/plugin.json", f'{{"name": "{plugin}"}}')
        house.skill("soup", "Never boil twice.", at=f"home/.teamwright/plugins/{plugin}", description="d")
    house.command("a/go", description="d", at="home/.teamwright/plugins/kit")
    skills = house.load()
    assert list(skills.by_name) == ["kit:a:go", "kit:soup"]
    assert skills.find("soup") == skills.find("KIT:Soup") == skills.by_name["kit:soup"]
    assert skills.by_name["kit:soup"].root == str(house.state / "plugins/kit")
    house.skill("soup", "Mine.", description="mine")
    assert (found := house.load().find("soup")) and found.description == "mine"
    house.command("b/go", description="d")
    assert house.load().find("go") is None, "two have that ending"


def test_what_may_be_read_of_skills(house: SkillHouse) -> None:
    found = readable_folders(house.shelves())
    assert found == (
        house.home / ".agents/skills",
        house.home / ".claude/skills",
        house.state / "skills",
        house.root / "policy/skills",
    )


@pytest.mark.spec("D10")
def test_skills_of_a_definition_as_text(house: SkillHouse) -> None:
    path = house.skill("soup", "Never boil twice. !`touch pwned` $ARGUMENTS.", description="d")
    text, problems = preload(house.book(), ("soup", "soup", "no-such\x1b"), "cook")
    assert text.count("Never boil twice. !`touch pwned` .") == 1 and str(path.parent) in text
    (problem,) = problems
    assert "no-such\\u001b" in problem and "cook" in problem and not list(house.root.rglob("pwned"))
    assert preload(house.book(), (), "cook") == ("", ())


@pytest.mark.spec("S1")
def test_read_again_on_change(house: SkillHouse) -> None:
    path = house.skill("x", "old body", description="old")
    os.utime(path, (1, 1))
    book = house.book()
    before = book.current()
    assert book.current() is before
    house.skill("x", "new body", description="new")
    assert (
        book.current().by_name["x"].description == "new" and book.body(book.current().by_name["x"]) == "\nnew body"[1:]
    )
    house.skill("y", description="added")
    assert set(book.current().by_name) == {"x", "y"}
    path.unlink()
    assert set(book.current().by_name) == {"y"}
    with pytest.raises(SettingsError, match="no such file"):
        book.body(before.by_name["x"])


@pytest.mark.spec("S1")
def test_bodies_are_read_on_use(house: SkillHouse) -> None:
    path = house.skill("long", "word " * 100_000, description="d")
    book = house.book()
    skill = book.current().by_name["long"]
    assert len(book.body(skill)) > 400_000
    path.write_text("---\ndescription: d\n---\n" + "x" * MOST_BYTES)
    with pytest.raises(SettingsError, match="larger than"):
        book.body(skill)


BAD = {
    "bomb": ("---\na: &a [x,x]\nb: &b [*a,*a]\ndescription: [*b,*b]\n---\n", "line 2"),
    "unclosed": ("---\ndescription: x\n", "no line `---`"),
    "brackets": ("---\ndescription: " + "[" * 5000 + "\n---\n", "line 2"),
    "huge": ("---\ndescription: " + "x" * 1_100_000 + "\n---\n", "larger than"),
    "long": ("---\ndescription: " + "x" * 900_000 + "\n---\n", "longer than 64,000 characters"),
    "binary": ("\0\1\2" * 100, "not a text file"),
    "context": ("---\ncontext: forc\n---\n", "line 2: context: must be fork"),
    "shy": ("---\ndisable-model-invocation: maybe\n---\n", "line 2: disable-model-invocation: must be true or false"),
    "list": ("---\nagent: [a]\n---\n", "line 2: agent: must be text"),
}


@pytest.mark.spec("S1", "D5")
@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_told_and_the_rest_load(house: SkillHouse, name: str) -> None:
    text, words = BAD[name]
    path = house.write(f"project/.claude/skills/{name}/SKILL.md", text)
    house.command("good", description="d")
    found = house.load()
    assert list(found.by_name) == ["good"]
    (problem,) = found.problems
    assert str(path) in problem and words in problem and "ignored" in problem and len(problem) < 3000


@pytest.mark.spec("S1", "D5")
def test_wrong_fields_cost_only_themselves(house: SkillHouse) -> None:
    house.write(
        "project/.claude/commands/x.md",
        "---\ndescription: first\ndescription: d\nallowed-tools: [Read, 7, 'Bash(', '*', Bash(ls)]\nmodel: [a]\n"
        "colour: red\nargument-hint: [file]\n---\nGo.\n",
    )
    found = house.load()
    skill = found.by_name["x"]
    assert (skill.description, skill.allowed_tools, skill.model) == ("d", ("Read", "Bash(ls)"), None)
    assert skill.argument_hint == "[file]"
    told = "\n".join(found.problems)
    assert all(words in told for words in ("line 3: `description` is given twice", "line 5: model", "Bash("))
    assert [(one.kind, one.name, one.line) for one in found.unread] == [("command", "colour", 6)]


@pytest.mark.spec("S1", "A5")
def test_devices_links_and_names(house: SkillHouse) -> None:
    outside = house.write("outside/secret.md", "secret words")
    folder = house.project / ".claude/commands"
    folder.mkdir(parents=True)
    (folder / "null.md").symlink_to("/dev/zero")
    (folder / "away.md").symlink_to(outside)
    os.mkfifo(folder / "pipe.md")
    house.command("two words", description="d")
    found = house.load()
    assert found.by_name == {} and "secret" not in "".join(o.name for o in found.outcomes)
    assert len(found.problems) == 4 and all("ignored" in words for words in found.problems)


@pytest.mark.spec("S1")
def test_a_link_that_is_turned_elsewhere_is_not_read(house: SkillHouse) -> None:
    path = house.command("x", "fine", description="d")
    book = house.book()
    skill = book.current().by_name["x"]
    path.unlink()
    path.symlink_to(house.write("outside/secret.md", "secret words"))
    with pytest.raises(SettingsError, match="leads out"):
        book.body(skill)


def test_many_problems_are_told_in_few_lines(house: SkillHouse) -> None:
    for n in range(MOST_PROBLEMS + 20):
        house.command(f"c{n}", context="x")
    problems = house.load().problems
    assert len(problems) == MOST_PROBLEMS + 1 and "20 more" in problems[-1]


@pytest.mark.spec("S1")
def test_heads_are_kept_from_one_start_to_the_next(house: SkillHouse) -> None:
    cache = house.state / "cache"
    for name in ("a", "b"):
        os.utime(house.skill(name, description=f"about {name}"), (1, 1))
    first = SkillBook(house.shelves(), cache)
    wait_until_settled(first)
    (file,) = cache.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600 and b"about a" in file.read_bytes()
    # Read from the index if the file is unchanged, from the file if not, and never from a broken index.
    file.write_bytes(file.read_bytes().replace(b"about a", b"from the index"))
    assert SkillBook(house.shelves(), cache).current().by_name["a"].description == "from the index"
    house.skill("a", description="changed")
    assert SkillBook(house.shelves(), cache).current().by_name["a"].description == "changed"
    assert SkillBook(house.shelves(trusted=False), cache).current().by_name == {}
    for nonsense in (b"", b"{", b"[" * 9999, b'{"version": "x", "entries": []}', b"\xff"):
        file.write_bytes(nonsense)
        assert set(SkillBook(house.shelves(), cache).current().by_name) == {"a", "b"}
    cache.chmod(0o500)
    assert set(SkillBook(house.shelves(), cache).current().by_name) == {"a", "b"}


def wait_until_settled(book: SkillBook) -> None:
    """Wait until the files' change times are old enough for their content to be cached."""
    until = time.monotonic() + 5
    while book.current() is not None and book._unsure and time.monotonic() < until:
        pass


def test_two_hundred_skills_cost_little(house: SkillHouse) -> None:
    for n in range(200):
        house.skill(f"s{n}", "word " * 2000, name=f"s{n}", description=f"Does {n}", allowed_tools=["Read", "Bash(ls)"])
    cache = house.state / "cache"
    wait_until_settled(SkillBook(house.shelves(), cache))
    book = SkillBook(house.shelves(), cache)
    began = time.process_time()
    assert len(book.current().by_name) == 200
    assert time.process_time() - began < 0.2  # 7 ms on a quiet machine, and 50 to 100 without the index
