"""Rules as people write them: which are read, and what each covers."""

import pytest

from teamwright.core.permissions.patterns import command_fits, command_pattern, path_pattern
from teamwright.core.permissions.rules import (
    Problem,
    Rule,
    Rules,
    detail_rule,
    domain_rule,
    hidden_tools,
    names_tool,
    parse_rule,
    parse_rules,
    path_rule,
    split_rules,
    whole_rule,
)


def rule(text: str, base: str = "/p", home: str = "/h") -> Rule:
    found = parse_rule(text, "user", base, home)
    assert isinstance(found, Rule), found
    return found


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    "text",
    [
        "Bash", "Bash(git log:*)", "Bash(*)", "Bash(echo (a))", "Read(./keys/**)", "Edit(//abs/path/**)", "Read(~/x)",
        "WebFetch(domain:example.com)",
        "Agent(name)", "mcp__server", "mcp__server__*", "mcp__server__tool", " Write ", "Edit([ab].txt)",
    ],
)  # fmt: skip
def test_a_rule_is_read_and_shown_as_it_was_written(text: str) -> None:
    assert str(rule(text)) == text.strip()


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    "text",
    ["", "Bash(", "Bash)", "(x)", "Bash()", "1Tool", "Bash(a) x", "WebFetch(example.com)", "WebFetch(domain:)",
        "mcp__a__b(x)", "Edit(!x)",
             "Edit(*/../x)", "Edit([z-a])", "*"]
)  # fmt: skip
def test_a_bad_rule_is_a_problem_that_names_it_and_the_others_hold(text: str) -> None:
    rules, problems = parse_rules(["Read", text, "Write"], "project", "/p", "/h")
    assert [r.tool for r in rules] == ["Read", "Write"] and len(problems) == 1
    assert isinstance(problems[0], Problem) and f"`{text}` (project) is ignored: " in str(problems[0])


def test_several_rules_in_one_argument() -> None:
    assert split_rules("Bash(git log *), Write  Edit(a, b),") == ["Bash(git log *)", "Write", "Edit(a, b)"]


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    ("text", "tools"),
    [
        ("Edit", {"Edit", "Write", "NotebookEdit"}), ("Write", {"Write"}), ("Read", {"Read", "Glob", "Grep"}),
        ("Bash", {"Bash", "Monitor"}),
        ("mcp__a", {"mcp__a__x", "mcp__a__y"}), ("mcp__a__*", {"mcp__a__x", "mcp__a__y"}),
        ("mcp__a__x", {"mcp__a__x"}), ("Task", set()),
    ],
)  # fmt: skip
def test_which_tools_a_name_means(text: str, tools: set[str]) -> None:
    names = [
        "Edit",
        "Write",
        "NotebookEdit",
        "Read",
        "Glob",
        "Grep",
        "Bash",
        "Monitor",
        "mcp__a__x",
        "mcp__a__y",
        "mcp__ab__x",
        "TaskList",
    ]
    assert {name for name in names if names_tool(rule(text), name)} == tools
    assert hidden_tools(Rules(deny=(rule(text),)), names) == tools


@pytest.mark.spec("M1")
def test_a_pattern_does_not_hide_a_tool() -> None:
    deny = tuple(map(rule, ("Bash(sh *)", "Read(./keys/**)", "Agent(red)")))
    assert hidden_tools(Rules(deny=deny), ["Bash", "Read", "Agent"]) == set()
    assert whole_rule((rule("Bash(*)"),), "Bash") and whole_rule((rule("Bash(:*)"),), "Bash")


PATHS = [
    ("src/**", "/p/src/a", True), ("src/**", "/p/src/a/b", True), ("src/**", "/p/src", True),
    ("src/**", "/p/srcx", False), ("src/**", "/p/x/src/a", False),
    ("src/*", "/p/src/a", True), ("src/*.py", "/p/src/a.py", True), ("src/*.py", "/p/src/x/a.py", False),
    ("src/**/a.py", "/p/src/a.py", True),
    ("src/**/a.py", "/p/src/x/y/a.py", True), ("./keys/**", "/p/keys/k", True), ("/keys/**", "/p/keys/k", True),
    ("/keys/**", "/keys/k", False),
    ("//etc/**", "/etc/x", True), ("//etc/**", "/p/etc/x", False), ("//", "/anything", True), ("~/x", "/h/x", True),
    ("~/x", "/h/x/y", True),
    ("~/x", "/h/xy", False), ("~/**", "/h/a/b", True), ("*.env", "/p/a/b/x.env", True), ("*.env", "/q/x.env", False),
    (".env", "/p/.env", True),
    ("docs", "/p/docs/a/b", True), ("docs/", "/p/docs/a", True), ("docs", "/p/x/docs/a", True),
    ("a?c", "/p/abc", True), ("a?c", "/p/a/c", False),
    ("[ab].txt", "/p/b.txt", True), ("[!ab].txt", "/p/b.txt", False), ("[!ab].txt", "/p/c.txt", True),
    ("\\*.txt", "/p/*.txt", True), ("\\*.txt", "/p/a.txt", False),
    ("../q/**", "/q/a", True), ("**", "/p/a/b", True), ("**/*.key", "/p/a/b.key", True),
    ("**/*.key", "/p/b.key", True), (".", "/p/a", True), ("a.b", "/p/aXb", False),
    ("*", "/p/a", True), ("a/**/b/**", "/p/a/x/b/y", True), ("a/**/b/**", "/p/a/x/y", False),
    ("src/../x", "/p/x", True), ("~", "/h/z", True),
]  # fmt: skip


@pytest.mark.spec("M3")
@pytest.mark.parametrize(("pattern", "path", "covered"), PATHS)
def test_path_patterns(pattern: str, path: str, covered: bool) -> None:
    found = path_pattern(pattern, "/p", "/h")
    assert found.covers(path, wide=True) == covered and found.covers(path, wide=False) == covered


@pytest.mark.spec("M3")
def test_a_star_covers_what_is_below_a_match_only_where_it_restricts() -> None:
    found = path_pattern("src/*", "/p", "/h")
    assert found.covers("/p/src/a/b", wide=True) and not found.covers("/p/src/a/b", wide=False)


def test_a_base_with_wildcard_characters_means_itself() -> None:
    found = path_pattern("x/*", "/odd[1]*", "/h")
    assert found.covers("/odd[1]*/x/a", wide=True) and not found.covers("/odd1/x/a", wide=True)


@pytest.mark.spec("M3")
def test_path_rules_speak_of_their_family() -> None:
    rules = (rule("Edit(src/**)"), rule("Read(keys/**)"), rule("Write(w/**)"))
    assert path_rule(rules, "Write", ["/p/src/a"], wide=False) == rules[0]
    assert path_rule(rules, "Grep", ["/p/keys/a"], wide=True) == rules[1]
    assert path_rule(rules, "Edit", ["/p/w/a"], wide=True) is None and path_rule(rules, "Write", ["/p/w/a"], wide=True)
    assert path_rule(rules, "Read", ["/p/src/a"], wide=True) is None


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    ("pattern", "host", "allows", "denies"),
    [
        ("example.com", "example.com", True, True), ("example.com", "EXAMPLE.com.", True, True),
        ("example.com", "a.example.com", False, True),
        ("*.example.com", "a.example.com", True, True), ("*.example.com", "example.com", False, True),
        ("example.com", "badexample.com", False, False),
        ("example.com", "example.com.evil.org", False, False),
    ],
)  # fmt: skip
def test_domains(pattern: str, host: str, allows: bool, denies: bool) -> None:
    rules = (rule(f"WebFetch(domain:{pattern})"),)
    assert (domain_rule(rules, host, wide=False) is not None) == allows
    assert (domain_rule(rules, host, wide=True) is not None) == denies


@pytest.mark.spec("M1")
def test_agents_are_named_without_regard_to_case() -> None:
    rules = (rule("Agent(Red)"),)
    assert detail_rule(rules, "Agent", "red", wide=True) and not detail_rule(rules, "Agent", "blue", wide=True)


@pytest.mark.spec("M7")
@pytest.mark.parametrize(
    ("pattern", "words", "fit"),
    [
        ("git log *", "git log", "yes"), ("git log:*", "git log a b", "yes"), ("git log *", "git logs", "no"),
        ("git log", "git log a", "no"),
        ("git * x", "git a b x", "yes"), ("git * x", "git x", "no"), ("git *", "\0", "maybe"),
        ("git log", "git \0", "maybe"), ("git log *", "git log \0", "yes"),
        ("git log", "ls \0", "no"), ("rm *", "r\0", "maybe"), ("rm *", "x\0", "no"), ("a*c", "abc", "yes"),
        ("a*c", "abd", "no"), ("git log*", "git logs x", "yes"),
    ],
)  # fmt: skip
def test_words_of_a_command(pattern: str, words: str, fit: str) -> None:
    assert command_fits(command_pattern(pattern), words.split(" ")) == fit


def test_quoted_wildcards_in_a_rule_are_plain() -> None:
    pattern = command_pattern("git add '*'")
    assert command_fits(pattern, ["git", "add", "*"]) == "yes" and command_fits(pattern, ["git", "add", "x"]) == "no"


def test_many_wildcards_and_words_stay_cheap() -> None:
    assert command_fits(command_pattern("a * b * c * d * e"), ["a"] + ["b", "c", "d"] * 2000) == "no"


@pytest.mark.spec("M3")
def test_names_of_older_rules_mean_the_tools_of_today() -> None:
    older = [("Task", "Agent"), ("Task(explore)", "Agent(explore)"), ("MultiEdit(a)", "Edit(a)"), ("LS", "Glob")]
    older += [("SlashCommand", "Skill"), ("SlashCommand(/review:*)", "Skill(review)"), ("NotebookRead(a)", "Read(a)")]
    for old, new in (*older, ("KillShell", "TaskStop"), ("BashOutput", "TaskOutput")):
        assert str(parse_rule(old, "user")) == new
    problem = parse_rule("TodoWrite", "user")
    assert isinstance(problem, Problem) and "TaskCreate" in problem.reason
