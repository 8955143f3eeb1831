"""The documents are true: links lead somewhere, options exist, code runs, settings are known."""

import doctest
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest

from teamwright.core.data.definition import BUILT_IN, AgentDefinition
from teamwright.library.agents.definition_fields import find_field
from teamwright.library.agents.definition_file import DefinitionFolder, read_file
from teamwright.store.settings.file import fields_of, layer_of
from teamwright.store.settings.sandbox import SANDBOX_PARTS, OwnSandbox
from teamwright.store.settings.schema import Own

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
PAGES = [ROOT / "README.md", ROOT / "AGENTS.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
TOLD = (
    "README.md",
    "docs/using.md",
    "docs/agents.md",
    "docs/teams.md",
    "docs/sandbox.md",
    "docs/editors.md",
    "docs/web.md",
)
COMMANDS = (
    "acp",
    "demo",
    "agents",
    "sessions",
    "import",
    "teams",
    "inbox",
    "tasks",
    "jobs",
    "why",
    "web",
    "worktrees",
    "land",
    "cost",
    "config",
    "doctor",
    "attach",
    "mcp",
    "permissions",
    "trust",
    "untrust",
    "plugins",
    "otel",
    "engine",
    "completion",
    "help",
    "worker",
    "workers",
)

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_FLAG = re.compile(r"(?<![\w-])--?[a-zA-Z][\w-]*")


def blocks(kind: str, pages: list[Path] | None = None) -> list:
    """The fenced blocks of one language, as test parameters named after their place."""
    return [
        pytest.param(found[2], id=f"{page.relative_to(ROOT)}:{page.read_text()[: found.start()].count(chr(10)) + 1}")
        for page in pages or PAGES
        for found in _FENCE.finditer(page.read_text())
        if found[1] == kind
    ]


def code_in(text: str) -> list[str]:
    """Lines of shell blocks without their comments, and code spans."""
    shell = [
        line.partition(" #")[0] for kind, body in _FENCE.findall(text) if kind == "sh" for line in body.split("\n")
    ]
    return shell + _SPAN.findall(_FENCE.sub("", text))


def home(place: Path) -> dict[str, str]:
    keys = ("_KEY", "_TOKEN", "_BASE_URL")
    env = {k: v for k, v in os.environ.items() if not k.startswith("TEAMWRIGHT_") and not k.endswith(keys)}
    return env | {"HOME": str(place), "PATH": f"{BIN}{os.pathsep}{env.get('PATH', '')}", "COLUMNS": "200"}


def run(*args: str, cwd: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(args, cwd=cwd, env=dict(env), capture_output=True, text=True, timeout=60, check=False)


@cache
def help_of(command: str) -> str:
    words = (command, "--help") if command else ("--help",)
    ended = run(str(BIN / "teamwright"), *words, cwd=ROOT, env=os.environ)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def flags_of(command: str) -> set[str]:
    return set(_FLAG.findall(help_of(command)))


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file_of_the_project(page: Path) -> None:
    for link in _LINK.findall(_FENCE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists() and target.is_relative_to(ROOT), f"{page.name}: {link}"
        assert not anchor or anchor in anchors(target), f"{page.name}: no heading for {link}"


def test_every_page_is_reachable_from_the_readme() -> None:
    seen, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen:
            continue
        seen.add(page)
        links = _LINK.findall(page.read_text())
        waiting += [p for link in links if (p := (page.parent / link.partition("#")[0]).resolve()).suffix == ".md"]
    assert set(PAGES) <= seen


@pytest.mark.parametrize("name", TOLD)
def test_every_command_and_option_that_is_told_of_exists(name: str) -> None:
    checked = 0
    for code in code_in((ROOT / name).read_text()):
        ours = code.partition("teamwright ")[2] if "teamwright " in code else code if code.startswith("-") else ""
        words = ours.split()
        if not words or "uninstall" in code:
            continue
        command = words[0] if words[0] in COMMANDS else ""
        assert command or words[0].startswith("-"), f"{name}: there is no command in `{code}`"
        plain = re.sub(r'"[^"]*"', "", ours)  # a prompt may hold anything
        known = flags_of(command) if command or "teamwright " in code else set().union(*map(flags_of, ("", *COMMANDS)))
        for flag in _FLAG.findall(plain):
            checked += 1
            assert flag in known, f"{name}: `{code}`: {flag} is not in --help"
    assert checked > 5


def test_every_option_is_told_of() -> None:
    told = " ".join((ROOT / name).read_text() for name in ("docs/using.md", "docs/permissions.md", "docs/protocol.md"))
    quiet = {"-h", "--help", "-v", "-V", "--version", "--allowedTools", "--disallowedTools"}
    help = help_of("")
    flags = set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", help, re.MULTILINE)) - quiet
    assert len(flags) > 20 and [flag for flag in sorted(flags) if flag not in told] == []


@pytest.mark.parametrize("code", blocks("python"))
def test_the_python_in_the_documents_runs(code: str, tmp_path: Path) -> None:
    file = tmp_path / "block.py"
    file.write_text(code)
    ended = run(sys.executable, "-W", "error", str(file), cwd=tmp_path, env=home(tmp_path))
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("text", blocks("json"))
def test_the_json_in_the_documents_is_json(text: str) -> None:
    json.loads(text)


@pytest.mark.parametrize(
    "text",
    blocks("json", [ROOT / "docs" / f"{n}.md" for n in ("settings", "permissions", "models", "agents", "sandbox")]),
)
def test_the_settings_in_the_documents_are_known(text: str) -> None:
    problems: list[str] = []
    layer = layer_of(json.loads(text), "user", "the page", problems)
    assert problems == [] and layer.values


def test_every_setting_of_our_own_is_told_of() -> None:
    told = (ROOT / "docs" / "settings.md").read_text()
    assert [name for name in fields_of(Own) if name not in told] == []


def test_every_setting_of_the_sandbox_is_told_of() -> None:
    told = (ROOT / "docs" / "sandbox.md").read_text()
    names = [name for part in (*SANDBOX_PARTS, OwnSandbox) for name in fields_of(part)]
    assert len(names) > 35 and [name for name in names if name not in told] == []


def test_every_kind_and_every_field_of_a_definition_is_told_of() -> None:
    told = set(_SPAN.findall((ROOT / "docs" / "agents.md").read_text()))
    fields = {found.name for word in told if (found := find_field(word))}
    assert fields == set(AgentDefinition.__struct_fields__) - {"one_shot", "source", "path"}
    assert {kind.name for kind in BUILT_IN} <= told


@pytest.mark.parametrize("text", blocks("markdown", [ROOT / "docs" / "agents.md"]))
def test_the_definitions_in_the_documents_are_without_fault(text: str, tmp_path: Path) -> None:
    (tmp_path / "example.md").write_text(text)
    outcome = read_file(str(tmp_path / "example.md"), DefinitionFolder("user", tmp_path))
    assert outcome.problems == () and outcome.definition is not None and outcome.definition.tools


@pytest.mark.parametrize("text", blocks("json", [ROOT / "docs" / "scripts.md"]))
def test_the_scripts_in_the_documents_play(text: str, tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(text)
    args = ("-p", "Please count.", "--model", "script/script.json", "--permission-mode", "acceptEdits")
    ended = run(str(BIN / "teamwright"), *args, cwd=tmp_path, env=home(tmp_path))
    ends = ("It is in note.txt.\n", "One.\n", "It has counted.\n")
    assert (ended.returncode, ended.stderr) == (0, "") and ended.stdout in ends


@pytest.mark.parametrize("name", ["teamwright.api", "teamwright.tools.function"])
def test_the_examples_in_docstrings_hold(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name), raise_on_error=True)
    assert found.attempted > 0 and found.failed == 0


def test_the_picture_of_the_demo_can_be_drawn_again(tmp_path: Path) -> None:
    def words(file: Path) -> str:
        rows = ElementTree.parse(file).iter("{http://www.w3.org/2000/svg}text")
        text = " ".join("".join(row.itertext()) for row in rows)
        text = re.sub(r"\S*teamwright-demo-\w+|worktree-\w+", "", text)  # names by chance
        return " ".join(text.split())

    drawn = tmp_path / "demo.svg"
    ended = run(sys.executable, str(ROOT / "scripts" / "demo-svg"), str(drawn), cwd=tmp_path, env=home(tmp_path))
    assert ended.returncode == 0, ended.stderr
    assert words(drawn).endswith("The tests pass.")
    kept = words(ROOT / "docs" / "demo.svg")  # two teammates are made at the same time: either may join first
    assert sorted(words(drawn).split()) == sorted(kept.split()), "the demo has changed: run scripts/demo-svg"


def test_every_picture_is_shown_and_fetches_nothing() -> None:
    shown = {(page.parent / link).resolve() for page in PAGES for link in _LINK.findall(page.read_text())}
    pictures = sorted((ROOT / "docs" / "pictures").glob("*.svg"))
    assert len(pictures) > 10 and [file.name for file in pictures if file not in shown] == []
    for file in pictures:
        assert next(ElementTree.parse(file).iter("{http://www.w3.org/2000/svg}text")) is not None
        assert not re.search(r"(?<!xmlns=.)https?:", file.read_text())


def test_agents_md_is_short_enough_to_be_read() -> None:
    assert (ROOT / "AGENTS.md").read_text().count("\n") < 150
