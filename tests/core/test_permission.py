"""The judgement: modes, rules and protected paths over plain facts."""

import pytest

from teamwright.core.permissions.consent import MODES, Mode, mode_allowed
from teamwright.core.permissions.facts import Edits, Facts, Fetches, Place, Reads, Runs, Uses
from teamwright.core.permissions.judge import Verdict, judge
from teamwright.core.permissions.path_rules import from_project, is_protected
from teamwright.core.permissions.protected import home_marks, mentioned
from teamwright.core.permissions.rules import Rules, parse_rules

ROOT, HOME, STATE = "/p", "/h", "/h/.teamwright"


def at(path: str, given: str = "") -> Place:
    return Place(given or path, path)


def write(path: str, tool: str = "Write", given: str = "") -> Edits:
    return Edits(tool, (at(path, given),))


def read(path: str, tool: str = "Read", given: str = "") -> Reads:
    return Reads(tool, (at(path, given),))


def rules(**kinds: list[str]) -> Rules:
    return Rules(**{kind: parse_rules(texts, "user", ROOT, HOME)[0] for kind, texts in kinds.items()})


def ask(facts: Facts, mode: Mode = "default", roots: tuple[str, ...] = (ROOT,), **kinds: list[str]) -> Verdict:
    return judge(
        facts, mode=mode, rules=rules(**kinds), roots=roots, readable=("/h/.teamwright/s/outputs",), protected=(STATE,)
    )


def kind(facts: Facts, mode: Mode = "default", roots: tuple[str, ...] = (ROOT,), **kinds: list[str]) -> str:
    return ask(facts, mode, roots, **kinds).kind


TABLE: list[tuple[Facts, list[str]]] = [  # plan, dontAsk, default, acceptEdits, bypassPermissions
    (read("/p/a"), ["allow", "allow", "allow", "allow", "allow"]),
    (read("/etc/x"), ["ask", "deny", "ask", "ask", "allow"]),
    (read("/p2/x"), ["ask", "deny", "ask", "ask", "allow"]),
    (read("/h/.teamwright/s/outputs/o.txt"), ["allow"] * 5),
    (read("/h/.teamwright/s/x"), ["ask", "deny", "ask", "ask", "allow"]),
    (write("/p/a"), ["deny", "deny", "ask", "allow", "allow"]),
    (write("/p/a", "Edit"), ["deny", "deny", "ask", "allow", "allow"]),
    (write("/p/a", "NotebookEdit"), ["deny", "deny", "ask", "allow", "allow"]),
    (write("/q/a"), ["deny", "deny", "ask", "ask", "allow"]),
    (write("/p/.git/config"), ["deny", "deny", "ask", "ask", "allow"]),
    (Fetches("WebFetch", "example.com"), ["ask", "deny", "ask", "ask", "allow"]),
    (Uses("mcp__a__b"), ["deny", "deny", "ask", "ask", "allow"]),
    (Uses("their_tool"), ["deny", "deny", "ask", "ask", "allow"]),
    (Runs("Bash", "x", broken="it is odd"), ["deny", "deny", "ask", "ask", "allow"]),
    (Runs("Bash", "x", ruin="/"), ["deny"] * 5),
    (Uses("Agent", own=True), ["allow"] * 5),
    (Uses("ExitWorktree", "discard", own=True, weighty=True), ["deny", "deny", "ask", "ask", "allow"]),
]


@pytest.mark.spec("M2", "A6")
@pytest.mark.parametrize(("facts", "kinds"), TABLE, ids=lambda x: str(x)[:60])
def test_modes(facts: Facts, kinds: list[str]) -> None:
    assert [kind(facts, mode) for mode in MODES] == kinds
    assert kind(facts, "bubble") == kinds[2]


EVERYTHING: list[tuple[Facts, str]] = [
    (read("/p/a"), "Read"), (read("/p/a"), "Read(a)"), (read("/p/a", "Grep"), "Read(./a)"), (write("/p/a"), "Write"),
    (write("/p/a"), "Edit(*)"),
    (write("/p/a", "NotebookEdit"), "Edit"), (Fetches("WebFetch", "a.com"), "WebFetch(domain:a.com)"),
    (Uses("Agent", "red"), "Agent(red)"),
    (Uses("Agent", "red"), "Agent"), (Uses("mcp__a__b"), "mcp__a"), (Runs("Bash", "ls"), "Bash"),
    (write("/p/a", "Edit"), "Read(a)"),
]  # fmt: skip


@pytest.mark.spec("M3")
@pytest.mark.parametrize(("facts", "text"), EVERYTHING, ids=str)
@pytest.mark.parametrize("mode", MODES)
def test_deny_beats_ask_beats_allow_in_every_mode(facts: Facts, text: str, mode: Mode) -> None:
    denied = ask(facts, mode, deny=[text], ask=[text], allow=[text])
    assert denied.kind == "deny" and denied.final and f"`{text}` (user)" in denied.reason
    asked = ask(facts, mode, ask=[text], allow=[text])
    reading = isinstance(facts, Reads | Fetches) and "(" in text
    assert asked.kind == ("deny" if mode == "dontAsk" or (mode == "plan" and not reading) else "ask") or (
        mode == "plan" and text == "Read(a)"
    )
    assert not asked.final


@pytest.mark.spec("M3", "M8")
def test_rules_that_restrict_hold_by_either_name_and_rules_that_allow_only_by_the_real_one() -> None:
    link, target = "/p/alias", "/p/keys/k"
    for text in ("Read(keys/**)", "Read(alias)"):
        assert kind(read(target, given=link), deny=[text]) == "deny"
    assert kind(write("/q/c", given="/p/docs/out/c"), allow=["Edit(docs/**)"]) == "ask"
    assert kind(write("/q/c", given="/p/docs/out/c"), allow=["Edit(//q/**)"]) == "allow"


@pytest.mark.spec("M3")
def test_allow_rules_on_paths() -> None:
    assert kind(write("/p/docs/a"), allow=["Edit(./docs/**)"]) == "allow"
    assert kind(write("/p/b"), allow=["Edit(./docs/**)"]) == "ask"
    assert kind(write("/q/a"), allow=["Write"]) == "allow" and kind(write("/q/a", "Edit"), allow=["Write"]) == "ask"
    assert (
        kind(read("/etc/x"), allow=["Read(//etc/**)"]) == "allow"
        and kind(read("/etc/x", "Grep"), allow=["Read"]) == "allow"
    )
    assert kind(write("/p/docs/a"), "plan", allow=["Edit", "Edit(docs/**)"]) == "deny"


@pytest.mark.spec("A6")
@pytest.mark.parametrize(
    "path",
    ["/p/.git/config", "/p/.git", "/p/sub/.claude/settings.json", "/p/.teamwright/x", "/p/.mcp.json",
        "/p/sub/.mcp.json", "/p/.GIT/x", "/h/.teamwright/state.db", "/q/.git/x"]
)  # fmt: skip
def test_protected_paths_need_a_yes_or_a_rule_that_names_them(path: str) -> None:
    for wide in (["Write"], ["Edit"], ["Edit(**)"], ["Edit(//**)"], ["Edit(//p/**)"], ["Edit(//h/**)"], ["Edit(*)"]):
        verdict = ask(write(path), "acceptEdits", allow=wide)
        assert verdict.kind == "ask" and verdict.blocked_path == path, wide
    (named,) = verdict.suggestions
    assert kind(write(path), allow=[named]) == "allow" and kind(write(path), "bypassPermissions") == "allow"
    assert kind(write(path), "dontAsk", allow=["Write"]) == "deny"


@pytest.mark.spec("A6")
@pytest.mark.parametrize(
    "name",
    [
        ".GIT/config", ".git./config", ".git /config", ".git . ./config", ".git::$INDEX_ALLOCATION/config", ".git:x",
        "git~1/config", "GIT~12/config", "GI7EBA~1", "CLAUDE~1/settings.json", "MCP~1.JSO", "TEAMWR~1/x",
        ".g\u200cit/config", "\u200d.git/config", ".gi\ufefft/config", "．ｇｉｔ/config", ".git\\config",
        ".ＣLAUDE/settings.json", ".envrc", "sub/.envrc", ".husky/pre-commit", ".husky/_/h", ".vscode/tasks.json",
        ".vscode/settings.json", ".VSCode/launch.json", ".devcontainer/devcontainer.json", ".devcontainer.json",
        ".gitmodules", ".gitattributes", "a/b/.gitattributes", ".pre-commit-config.yaml", ".idea/workspace.xml",
        ".bashrc", ".zshenv", ".profile", ".npmrc", ".inputrc", ".hg/hgrc", ".cursor/mcp.json", ".gemini/settings.json",
        ".codex/config.toml", ".kiro/settings/mcp.json", ".pnpmfile.cjs", "lefthook.yml", ".lefthook-local.toml",
        "lefthook-local.yaml", "mise.toml", ".mise.local.toml", "mise.test.toml", ".mise/config.toml",
        "a.code-workspace", ".dir-locals.el", ".claude.json",
    ],
)  # fmt: skip
def test_what_runs_later_and_other_spellings_need_a_yes_too(name: str) -> None:
    for wide in ([], ["Edit"], ["Edit(**)"]):
        verdict = ask(write(f"/p/{name}"), "acceptEdits", allow=wide)
        assert verdict.kind == "ask" and verdict.guarded
    if "\\" not in name:  # a special character in a pattern
        assert kind(write(f"/p/{name}"), allow=list(verdict.suggestions)) == "allow"
    assert kind(write(f"/p/{name}"), "bypassPermissions") == "allow"
    assert mentioned(f"x y {name} z")  # in words that do not resolve to a path


@pytest.mark.spec("A6")
@pytest.mark.parametrize(
    "name", [".github/workflows/x.yml", ".gitignore", "CLAUDE.md", "AGENTS.md", "git/x", "a~1", ".env", "config.py",
             ".vscodeignore", "x.git", "gitmodules", ".profile.d/x", ".config/x", "mise", "mise-en-place.md",
             "lefthook/x", "code-workspace", "bin/x"],
)  # fmt: skip
def test_documents_and_other_names_are_plain_edits(name: str) -> None:
    assert kind(write(f"/p/{name}"), "acceptEdits") == "allow"


@pytest.mark.spec("A6")
def test_in_a_home_that_is_worked_in_every_name_with_a_dot_is_protected() -> None:
    for roots in ((HOME,), ("/",), (ROOT, HOME)):
        marks = home_marks(HOME, roots)
        for name in (
            ".claude.json",
            ".ssh/authorized_keys",
            ".config/autostart/x",
            ".Foo",
            "bin/x",
            "mise/config.toml",
        ):
            found = judge(
                write(f"/h/{name}"), mode="acceptEdits", rules=rules(allow=["Edit"]), roots=roots, protected=marks
            )
            assert found.kind == "ask" and found.guarded, name
            said = rules(allow=list(found.suggestions))
            assert judge(write(f"/h/{name}"), mode="default", rules=said, roots=roots, protected=marks).kind == "allow"
        for name in ("notes.txt", "src/.eslintrc", "binary/x"):
            assert is_protected(f"/h/{name}", roots, marks) is False, name
        assert not is_protected("/h/.config/app/x", (*roots, "/h/.config/app"), marks)
    assert not home_marks(HOME, (ROOT, "/h/src", "/h2"))


@pytest.mark.spec("A6")
def test_what_only_looks_protected_is_not() -> None:
    for path in ("/p/.gitignore", "/p/.github/x", "/p/git/x", "/p/x.git/y", "/p/.claudex"):
        assert kind(write(path), "acceptEdits") == "allow"


@pytest.mark.spec("A6")
def test_a_worktree_is_judged_from_its_own_root() -> None:
    tree = "/p/.teamwright/worktrees/a"
    assert kind(write(f"{tree}/x"), "acceptEdits", (tree,)) == "allow"
    assert kind(write(f"{tree}/.git"), "acceptEdits", (tree,)) == "ask"
    assert kind(write(f"{tree}/x"), "acceptEdits", (ROOT,)) == "ask"
    memory = "/h/.teamwright/memory/agents/a"
    assert kind(write(f"{memory}/MEMORY.md"), "acceptEdits", (ROOT, memory)) == "allow"
    assert is_protected(f"{STATE}/x", (STATE,), (STATE,))


@pytest.mark.spec("M8")
def test_a_protected_name_through_a_link_is_protected() -> None:
    assert kind(write("/p/elsewhere/config", given="/p/.git/config"), "acceptEdits") == "ask"


@pytest.mark.spec("M2")
def test_fetching_by_domain() -> None:
    fetch = Fetches("WebFetch", "docs.example.com")
    assert (
        kind(fetch, allow=["WebFetch(domain:docs.example.com)"]) == "allow"
        and kind(fetch, allow=["WebFetch"]) == "allow"
    )
    assert kind(fetch, allow=["WebFetch(domain:example.com)"]) == "ask"
    assert kind(fetch, "bypassPermissions", deny=["WebFetch(domain:example.com)"]) == "deny"
    assert ask(fetch).suggestions == ("WebFetch(domain:docs.example.com)",)


@pytest.mark.spec("M1")
def test_only_the_named_agent_is_refused() -> None:
    assert kind(Uses("Agent", "Red"), "bypassPermissions", deny=["Agent(red)"]) == "deny"
    assert kind(Uses("Agent", "blue", own=True), deny=["Agent(red)"]) == "allow"


@pytest.mark.spec("M2")
def test_other_tools_by_rule() -> None:
    assert (
        kind(Uses("mcp__a__b"), allow=["mcp__a"]) == "allow"
        and kind(Uses("mcp__a__b"), "plan", allow=["mcp__a"]) == "deny"
    )
    assert ask(Uses("mcp__a__b")).suggestions == ("mcp__a__b",)


def test_suggestions_for_paths_would_answer_them_and_are_never_a_whole_working_directory() -> None:
    for facts in (
        write("/p/src/x/a"),
        write("/p/a"),
        write("/q/r/s/t"),
        read("/etc/x"),
        read("/opt/[odd]*/deep/x"),
        write("/top"),
    ):
        (text,) = ask(facts).suggestions
        assert kind(facts, allow=[text]) == "allow", text
        assert text not in ("Edit(//p/**)", "Edit(//**)", "Read(//etc/**)")


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ("/p/src/x/a", "Edit(src/x/**)"),
        ("/p/a", "Edit(/a)"),
        ("/p/~/x/a", "Edit(/~/x/**)"),
        ("/p/[odd]/x/a", r"Edit(\[odd]/x/**)"),
        ("/q/r/s/t", "Edit(//q/r/s/**)"),
        ("/pp/r/s/t", "Edit(//pp/r/s/**)"),
    ],
)
def test_suggestions_within_the_project_are_written_from_its_root_and_mean_the_same(path: str, written: str) -> None:
    (text,) = ask(write(path)).suggestions
    assert from_project(text, "/p") == written
    assert kind(write(path), allow=[written]) == "allow"
    elsewhere = write(path.replace("a", "b") if path == "/p/a" else "/p/elsewhere/" + path.split("/", 2)[2])
    assert kind(elsewhere, allow=[written]) == "ask"
    assert from_project(text, "/") == text == from_project(text, "")


@pytest.mark.spec("A12")
def test_reasons_hold_no_control_characters() -> None:
    for facts in (write("/p/a\x1b[2J\u202eb"), Fetches("WebFetch", "a\x1b.com"), Uses("x\x07"), read("/q/\n")):
        assert ask(facts).reason.isprintable()


@pytest.mark.spec("M9", "P7")
def test_nobody_is_wider_than_its_parent() -> None:
    for parent in MODES:
        for child in MODES:
            assert MODES.index(mode_allowed(parent, child)) == min(MODES.index(parent), MODES.index(child))
        assert mode_allowed(parent, "bubble") == parent
    assert mode_allowed("bubble", "bypassPermissions") == "bubble" and mode_allowed("bubble", "plan") == "plan"
