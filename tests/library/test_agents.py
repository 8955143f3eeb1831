"""Agent definitions: every field in every spelling, precedence, and reports about bad files."""

import os
from pathlib import Path
from typing import Any

import pytest
from agent_house import PROJECT, USER, House

from teamwright.core.data.definition import BUILT_IN, AgentDefinition
from teamwright.core.errors import UsageError
from teamwright.library.agents.book import MOST_PROBLEMS, AgentObjects, DefinitionBook, Definitions
from teamwright.library.agents.definition_file import MOST_BYTES
from teamwright.library.agents.places import MOST_FILES
from teamwright.library.agents.tool_choice import tool_names
from teamwright.library.documentation import documentation

KINDS = {kind.name for kind in BUILT_IN}


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


FULL = {
    "tools": ["Read", "Bash(git *, x)"],
    "disallowedTools": "Edit, Agent(x, y)",
    "model": "haiku",
    "effort": "high",
    "permissionMode": "acceptEdits",
    "background": True,
    "isolation": "worktree",
    "maxTurns": 7,
    "color": "red",
    "memory": "project",
    "requiredMcpServers": ["near"],
    "mcpServers": ["far", {"own": {"command": "x"}, "two": {"url": "y"}}],
    "hooks": {"Stop": []},
    "skills": "tides, moon phases",
    "initialPrompt": "Look first.",
}
EXPECTED = AgentDefinition(
    name="full",
    description="d",
    prompt="You help.",
    tools=("Read", "Bash(git *, x)"),
    disallowed_tools=("Edit", "Agent(x, y)"),
    model="haiku",
    effort="high",
    permission_mode="acceptEdits",
    background=True,
    isolation="worktree",
    max_turns=7,
    color="red",
    memory="project",
    required_mcp_servers=("near",),
    mcp_servers=("far", {"own": {"command": "x"}}, {"two": {"url": "y"}}),
    hooks={"Stop": []},
    skills=("tides", "moon phases"),
    initial_prompt="Look first.",
)


def spelled(key: str, sign: str) -> str:
    return "".join(f"{sign}{c.lower()}" if c.isupper() else c for c in key) if sign else key


@pytest.mark.spec("D1", "D2")
@pytest.mark.parametrize("sign", ["", "-", "_"])
def test_every_field_in_a_file_and_in_json(house: House, sign: str) -> None:
    fields = {spelled(key, sign): value for key, value in FULL.items()}
    path = house.write(f"{PROJECT}/x.md", name="full", description="d", **fields)
    found = house.load({"inline": {"description": "d", "prompt": "You help.", **fields}})
    made = {k: getattr(found.by_name["full"], k) for k in EXPECTED.__struct_fields__}
    assert AgentDefinition(**made | {"source": "code", "path": ""}) == EXPECTED
    assert (made["source"], made["path"]) == ("project", str(path))
    inline = found.by_name["inline"]
    assert {k: getattr(inline, k) for k in made if k not in ("name", "source", "path")} == {
        k: v for k, v in made.items() if k not in ("name", "source", "path")
    }
    assert inline.source == "flag" and found.problems == ()


@pytest.mark.spec("D2", "D6")
@pytest.mark.parametrize(
    ("line", "field", "expected"),
    [
        ("tools: Read, Bash(git log, x), Grep", "tools", ("Read", "Bash(git log, x)", "Grep")),
        ("tools: *", "tools", ("*",)),
        ('tools: "*"', "tools", ("*",)),
        ("tools: []", "tools", ()),
        ("tools:\n- Read\n- Grep", "tools", ("Read", "Grep")),
        ("model: inherit", "model", None),
        ("model: sonnet", "model", "sonnet"),
        ("effort: 3000", "effort", 3000),
        ("effort: MAX", "effort", "max"),
        ("background: yes", "background", True),
        ("background: 'false'", "background", False),
        ("maxTurns: '12'", "max_turns", 12),
        ("permissionMode: dont-ask", "permission_mode", "dontAsk"),
        ("mcpServers: near, far", "mcp_servers", ("near", "far")),
        ("mcpServers:\n  own:\n    command: x", "mcp_servers", ({"own": {"command": "x"}},)),
        ("requiredMcpServers: a b, c", "required_mcp_servers", ("a b", "c")),
        ("skills:", "skills", ()),
    ],
)
def test_forms_of_one_field(house: House, line: str, field: str, expected: Any) -> None:
    house.write(f"{USER}/a.md", f"description: Use when: asked\n{line}\n")
    found = house.load()
    assert found.problems == () and found.by_name["a"].description == "Use when: asked"
    assert getattr(found.by_name["a"], field) == expected


@pytest.mark.spec("D5")
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("effort: enormous", "effort: must be one of low, medium, high, xhigh, max"),
        ("maxTurns: 0", "maxTurns: must be a whole number above 0"),
        ("maxTurns: true", "maxTurns: must be a whole number above 0"),
        ("background: perhaps", "background: must be true or false"),
        ("memory: elsewhere", "memory: must be one of user, project, local"),
        ("color: [red]", "color: must be text"),
        ("skills: {a: 1}", "skills: must be a list of names"),
        ("mcpServers: [3]", "mcpServers: must be a list of names or of"),
        ("mcpServers: {own: x}", "mcpServers: must be a list of names or of"),
        ("model: [a]", "model: must be text"),
    ],
)
def test_a_field_that_is_wrong_is_named_and_left_out(house: House, line: str, words: str) -> None:
    path = house.write(f"{USER}/a.md", f"description: d\n{line}\n")
    found = house.load()
    plain = AgentDefinition(name="a", description="d", prompt="You help.", source="user", path=str(path))
    assert found.by_name["a"] == plain
    assert len(found.problems) == 1 and found.problems[0].startswith(f"{path}, line 3: {words}")


@pytest.mark.spec("D5")
def test_fields_of_other_programs_are_no_problem_and_are_noted(house: House) -> None:
    path = house.write(f"{USER}/a.md", "description: d\ncolour: red\n\nkind: x\n")
    found = house.load()
    assert found.by_name["a"].description == "d" and found.problems == ()
    assert [(one.name, one.file, one.line) for one in found.unread] == [
        ("colour", str(path), 3),
        ("kind", str(path), 5),
    ]


@pytest.mark.spec("D5")
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("tools: 5", "tools: must be a list"),
        ("disallowedTools: {Bash: no}", "disallowedTools: must be a list"),
        ("permissionMode: paln", "permissionMode: must be one of plan, dontAsk"),
        ("isolation: maybe", "isolation: must be one of worktree, remote"),
        ("hooks: [x]", "hooks: must be an object"),
    ],
)
def test_a_limit_that_cannot_be_read_never_widens_the_agent(house: House, line: str, words: str) -> None:
    path = house.write(f"{USER}/a.md", f"description: d\n{line}\n")
    found = house.load()
    assert "a" not in found.by_name
    assert found.problems[0].startswith(f"{path}, line 3: {words}")
    entry = next(e for e in found.entries if e.name == "a")
    assert entry.error and entry.error.startswith(f"line 3: {words}") and entry.description == "d"


@pytest.mark.spec("D5")
@pytest.mark.parametrize(
    ("line", "words", "left"),
    [
        ("tools:", "tools: is empty, so the agent has no tools", frozenset[str]()),
        ("tools: Read, Bash(git", "tools: `Bash(git`", {"Read"}),
        ("tools: [Read, TodoWrite]", "tools: `TodoWrite`: there is no such tool", {"Read"}),
        ("tools: TodoRead", "tools: `TodoRead`: there is no such tool", frozenset[str]()),
        ("disallowedTools: [Bash()]", "disallowedTools: `Bash()`: the parentheses are empty", {"Read", "TodoList"}),
    ],
)
def test_a_tool_that_is_not_there_narrows_the_agent(house: House, line: str, words: str, left: set[str]) -> None:
    path = house.write(f"{USER}/a.md", f"description: d\n{line}\n")
    found = house.load()
    assert [words in one for one in found.problems] == [True] and found.problems[0].startswith(f"{path}, line 3: ")
    choice = tool_names(found.by_name["a"], ("Read", "Bash", "TodoList"))
    assert {name for name in ("Read", "Bash", "TodoList") if choice.sees(name)} == left


# As people write them: no two of these lines are valid YAML for the same reason, and some are not valid at all.
NAMES = ("reviewer", "Code Reviewer", "team:reviewer", "api_reviewer-2", "\u6d4b\u8bd5-reviewer")
DESCRIPTIONS = (
    "Reviews changes",
    "Use this agent when: code was written. Examples: <example>user: \"done\" assistant: 'I review'</example>",
    'Use it after a change.\\n\\n<example>\\nContext: a "new" file\\n</example>',
    "[beta] reviews: {style}, #tags and `code`",
    "| reviews | and | tables",
    "@me: *all* of it, 100%",
    ">-\n  Reviews changes:\n  all of them",
    'Reviews changes\n  whenever they: come\n\n  <example>\n  user: "look"\n  </example>\n',
)
TOOLS = (
    "",
    "tools: Read, Grep, Glob, Bash, TodoWrite\n",
    "tools: [Read, Write, Edit, MultiEdit, LS, NotebookRead, Task, TodoRead]\nmodel: claude-opus-4\ncolor: #14B8A6\n",
    "tools:\n  - Read\n  - Bash(npm run test:*)\n  - mcp__plugin_x_y__*\n  - WebFetch(domain:x.org)\nmodel: inherit\n",
    "tools: *\npermissionMode: auto\nisolation: none\ntier: T2\nx-rules:\n  - when: asked\n",
)


@pytest.mark.spec("D1", "D5")
@pytest.mark.parametrize("tools", TOOLS)
def test_files_as_people_write_them_all_load(house: House, tools: str) -> None:
    written = {
        f"{name}-{n}": house.write(f"{USER}/{m}/{n}.md", f"name: {name}-{n}\ndescription: {words}\n{tools}")
        for m, name in enumerate(NAMES)
        for n, words in enumerate(DESCRIPTIONS)
    }
    found = house.load()
    assert set(written) <= set(found.by_name)
    gone = ("TodoWrite", "TodoRead")
    assert all("there is no such tool" in words for words in found.problems)
    assert len(found.problems) == (len(written) if any(word in tools for word in gone) else 0)


@pytest.mark.spec("D5")
@pytest.mark.parametrize(
    "name", ["fork", "FORK", "a/b", "a\\b", "..", "x" * 65, "a\x1b[2J", "a,b", "a(b)", "\u202eevil"]
)
def test_names_that_cannot_be(house: House, name: str) -> None:
    house.write(f"{USER}/a.md", name=name, description="d")
    found = house.load({name: {"description": "d"}, "": {"description": "d"}, "ok": {"description": "d"}})
    assert set(found.by_name) == {*KINDS, "ok"}
    assert [bool(e.error) for e in found.entries if e.source in ("user", "flag")] == [True, True, True, False]
    assert len(found.problems) == 3 and all(words.isprintable() for words in found.problems)


@pytest.mark.spec("D5", "A5")
def test_bad_files_are_named_and_the_rest_load(house: House) -> None:
    folder = house.root / USER
    good = house.write(f"{USER}/good.md", description="d")
    house.write(f"{USER}/nodescription.md", "name: x\n")
    house.write(f"{USER}/broken.md", "name: broken\ndescription: [unclosed\n")
    (folder / "bare.md").write_text("only words")
    (folder / "huge.md").write_bytes(b"---\ndescription: d\n---\n" + b"x" * MOST_BYTES)
    (folder / "latin.md").write_bytes(b"---\ndescription: d\n---\ncaf\xe9")
    (folder / "gone.md").symlink_to("nowhere.md")
    (folder / "device.md").symlink_to("/dev/zero")
    (folder / "folder.md").mkdir()
    os.mkfifo(folder / "fifo.md")
    (folder / "README.md").write_text("about these")
    (folder / ".hidden.md").write_text("an editor's")
    found = house.load()
    assert set(found.by_name) == {*KINDS, "good", "latin"}
    assert found.by_name["latin"].prompt == "caf\ufffd"
    errors = {Path(e.path).name: e.error for e in found.entries if e.error}
    assert errors == {
        "bare.md": "line 1: there is no frontmatter; begin with `---`, `description: ...`, `---`",
        "broken.md": "line 3: not valid YAML: did not find expected ',' or ']'",
        "device.md": "not a regular file",
        "fifo.md": "not a regular file",
        "folder.md": "not a regular file",
        "gone.md": "there is no such file",
        "huge.md": "larger than 1,000,000 bytes",
        "nodescription.md": "there is no description, which says when to use the agent",
    }
    assert all(any(str(folder / name) in words for words in found.problems) for name in (*errors, "latin.md"))
    assert len(found.problems) == len(errors) + 1 and not any(str(good) in words for words in found.problems)


@pytest.mark.spec("D3", "D4")
def test_later_sources_win_and_the_others_are_listed_as_shadowed(house: House) -> None:
    plugin = house.write("plugin/agents/one.md", description="plugin").parent
    files = {
        "claude": house.write(f"{USER}/one.md", description="user claude"),
        "user": house.write("home/.teamwright/agents/deep/er/one.md", description="user own"),
        "root": house.write(f"{PROJECT}/one.md", description="root claude"),
        "own": house.write("project/.teamwright/agents/one.md", description="root own"),
        "sub": house.write("project/sub/.claude/agents/other.md", name="ONE", description="sub"),
        "deep": house.write("project/sub/deep/.claude/agents/one.md", description="deep"),
    }
    house.write("project/sub/other/.claude/agents/one.md", description="beside the way")

    def state(found: Definitions) -> list[tuple[str, str | None]]:
        return [(e.description, e.shadowed_by) for e in found.entries if e.name.lower() == "one"]

    order = ["user claude", "user own", "root claude", "root own", "sub"]
    found = house.load(plugins=[("kit", plugin)])
    assert found.by_name["kit:one"].description == "plugin"
    assert state(found) == [*((d, str(files["deep"])) for d in order), ("deep", None)]
    found = house.load({"One": {"description": "flag"}})
    assert state(found) == [*((d, "flag") for d in [*order, "deep"]), ("flag", None)]
    policy = house.write("policy/one.md", description="policy")
    found = house.load({"One": {"description": "flag"}})
    assert state(found) == [*((d, str(policy)) for d in [*order, "deep", "flag"]), ("policy", None)]
    assert found.find("oNe") is found.by_name["one"] and found.find("two") is None
    assert found.problems == ()


@pytest.mark.spec("D3", "D4")
def test_built_ins_are_there_and_can_be_replaced_in_any_case(house: House) -> None:
    assert [(d.name, d.tools) for d in house.load().by_name.values()] == [(d.name, d.tools) for d in BUILT_IN]
    path = house.write(f"{PROJECT}/x.md", name="Explore", description="mine")
    found = house.load()
    assert found.find("explore") == found.by_name["Explore"] and "explore" not in found.by_name
    assert [e.shadowed_by for e in found.entries if e.name == "explore"] == [str(path)]


@pytest.mark.spec("D4")
def test_the_guide_knows_where_the_documentation_is(house: House) -> None:
    where = documentation()
    guide = house.load().find("guide")
    assert where is not None and guide is not None and f"{where}/*.md" in guide.prompt
    assert {"index.md", "settings.md", "permissions.md"} <= {page.name for page in where.glob("*.md")}


@pytest.mark.spec("D3")
def test_a_broken_policy_still_holds_its_name(house: House) -> None:
    house.write(f"{USER}/guard.md", description="user")
    house.write("policy/guard.md", "description: d\ntools: {\n")
    found = house.load()
    assert found.find("guard") is None
    assert [bool(e.shadowed_by or e.error) for e in found.entries if e.name == "guard"] == [True, True]


def test_a_project_that_is_not_trusted_is_not_looked_at(house: House) -> None:
    house.write(f"{PROJECT}/one.md", description="d")
    house.write(f"{USER}/two.md", description="d")
    assert set(house.load(trusted=False).by_name) == {*KINDS, "two"}
    assert set(house.load(sources=("project",)).by_name) == {*KINDS, "one"}
    assert not any(house.project in p.folder.parents for p in house.places(trusted=False))


def test_in_the_home_directory_the_users_files_are_not_the_projects_too(house: House) -> None:
    house.write(f"{USER}/one.md", description="d")
    found = house.load(cwd=house.home, project=house.home)
    assert [e.source for e in found.entries if e.name == "one"] == ["user"]


def test_links_of_a_project_stay_inside_it_and_the_users_lead_anywhere(house: House) -> None:
    outside = house.write("outside/out.md", description="d")
    inside = house.write("project/docs/in.md", description="d")
    for folder in (house.root / USER, house.root / PROJECT):
        folder.mkdir(parents=True)
    (house.root / PROJECT / "inner.md").symlink_to(inside)
    (house.root / PROJECT / "outer.md").symlink_to(outside)
    (house.root / PROJECT / "folder").symlink_to(outside.parent)
    (house.root / PROJECT / "loop").symlink_to(house.root / PROJECT)
    (house.root / USER / "dotfiles").symlink_to(outside.parent)
    found = house.load()
    assert {n: d.source for n, d in found.by_name.items() if d.path} == {"inner": "project", "out": "user"}
    errors = [(Path(e.path).name, e.error) for e in found.entries if e.error]
    assert errors == [(n, "a link that leads out of the project") for n in ("out.md", "outer.md")]


def test_one_name_twice_in_a_folder_is_told(house: House) -> None:
    house.write(f"{USER}/a.md", name="same", description="first")
    house.write(f"{USER}/b.md", name="same", description="second")
    found = house.load()
    assert found.by_name["same"].description == "second"
    assert len(found.problems) == 1 and "a.md" in found.problems[0] and "b.md" in found.problems[0]


def test_crowds_of_files_are_bounded(house: House) -> None:
    folder = house.root / USER
    folder.mkdir(parents=True)
    for n in range(MOST_FILES + 1):
        (folder / f"{n:05}.md").touch()
    found = house.load()
    assert len(found.entries) == MOST_FILES + len(BUILT_IN) and len(found.problems) == MOST_PROBLEMS + 1
    assert "more than 1,000 files" in found.problems[0] and "more problems" in found.problems[-1]


def test_a_folder_that_cannot_be_listed_is_told(house: House) -> None:
    (house.home / ".claude").mkdir()
    (house.home / ".claude" / "agents").write_text("not a folder")
    found = house.load()
    assert set(found.by_name) == KINDS and "cannot be listed" in found.problems[0]


@pytest.mark.spec("D1")
def test_the_flag_takes_a_file_too(house: House) -> None:
    file = house.cwd / "agents.json"
    file.write_text('{"scout": {"description": "d", "prompt": "p", "model": null, "name": "other"}, "bad": 3}')
    found = house.load("agents.json")
    assert found.by_name["scout"].prompt == "p" and found.by_name["scout"].path == str(file)
    assert found.problems == (
        f"{file}: scout: name: differs from the key, which counts",
        f"{file}: bad: must be an object; the definition is ignored",
    )


@pytest.mark.parametrize("flag", ["", "{", "[]", "nowhere.json", "x" * 5000, "a\0b", "~nobody-here/x", "{\ud800}", "."])
def test_a_flag_that_cannot_be_read_is_wrong_use(house: House, flag: str) -> None:
    with pytest.raises(UsageError, match=r"^--agents: "):
        house.load(flag)


@pytest.mark.spec("D1")
def test_definitions_in_python_and_in_settings(house: House) -> None:
    own = AgentDefinition(name="mine", description="d", prompt="p")
    said = AgentObjects("user", "settings.json", {"said": {"description": "s"}, "mine": {"description": "s"}})
    book = DefinitionBook(house.places(), given=[own])
    book.add(said)
    found = book.current()
    assert found.by_name["mine"] is own and found.by_name["said"].source == "user"
    with pytest.raises(UsageError, match="reserved"):
        DefinitionBook((), given=[AgentDefinition(name="fork", description="d")])
