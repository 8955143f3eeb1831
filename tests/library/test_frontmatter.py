"""Frontmatter: what people write is read, errors name file and line, and no file can do harm."""

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from teamwright.core.errors import SettingsError
from teamwright.library import frontmatter
from teamwright.library.fields import FieldFault, Fields, scalar
from teamwright.library.frontmatter import MOST_CHARACTERS, read_fields, split
from teamwright.library.yamltext import DEEPEST, read_mapping


def fields(head: str) -> dict[str, Any]:
    return split(f"---\n{head}\n---\nbody", "f.md").fields


@pytest.mark.parametrize(
    ("text", "expected", "body"),
    [
        ("---\nname: a\n---\nb\n", {"name": "a"}, "b\n"),
        ("---\r\nname: a\r\n---\r\nb\r\nc", {"name": "a"}, "b\nc"),
        ("\ufeff---\nname: a\n---\nb", {"name": "a"}, "b"),
        ("\n\n---\nname: a\n---  \nb", {"name": "a"}, "b"),
        ("---\nname: a\n---", {"name": "a"}, ""),
        ("---\n---\nb", {}, "b"),
        ("---\nname: a\n---\nb\n---\nc: d\n---\n", {"name": "a"}, "b\n---\nc: d\n---\n"),
        ("---\nd: |\n  x\n  ---\n  y\n---\nb", {"d": "x\n---\ny"}, "b"),
        ("only words\n---\nname: a\n---\n", {}, "only words\n---\nname: a\n---\n"),
        ("", {}, ""),
        ("----\nname: a\n", {}, "----\nname: a\n"),
    ],
)
@pytest.mark.spec("D1")
def test_where_frontmatter_ends_and_the_body_begins(text: str, expected: dict[str, Any], body: str) -> None:
    found = split(text, "f.md")
    assert (found.fields, found.body) == (expected, body)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("d: Use when: the user asks: now", {"d": "Use when: the user asks: now"}),
        ("d: Examples:", {"d": "Examples:"}),
        (
            "d: Use when: it\n  goes on: here\n\n  and there\nn: 3",
            {"d": "Use when: it goes on: here\nand there", "n": 3},
        ),
        ("d: @someone\nn: 3", {"d": "@someone", "n": 3}),
        ("tools: *\nn: 3", {"tools": "*", "n": 3}),
        ("d: *emphasis* here", {"d": "*emphasis* here"}),
        ("d: `code` here", {"d": "`code` here"}),
        ("d: !important do it", {"d": "!important do it"}),
        ("d: &x do it", {"d": "&x do it"}),
        ("d: %s is: it", {"d": "%s is: it"}),
        ("d: - or: so", {"d": "- or: so"}),
        ("hint: [file] [options]", {"hint": "[file] [options]"}),
        ("hint: {a} b", {"hint": "{a} b"}),
        ('d: "One" and two', {"d": '"One" and two'}),
        ("d: 'Don't do: it'", {"d": "Don't do: it"}),
        ("tools:\n\t- Read\n\t- Bash", {"tools": ["Read", "Bash"]}),
        ("d:\tUse when: x", {"d": "Use when: x"}),
        (" name: a\nd: b: c", {"name": "a", "d": "b: c"}),
        ("# note\nd: a: b\n# note\nmodel: x", {"d": "a: b", "model": "x"}),
    ],
)
@pytest.mark.spec("D1")
def test_what_yaml_refuses_and_people_write(head: str, expected: dict[str, Any]) -> None:
    assert fields(head) == expected


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("a: 1\nb: -2\nc: 1.5\nd: true\ne: False\nf: null\ng:\nh: ~", [1, -2, 1.5, True, False, None, None, None]),
        (
            "a: 007\nb: 2024-99-99\nc: yes\nd: 1e3\ne: 0x10\nf: " + "9" * 5000,
            ["007", "2024-99-99", "yes", "1e3", "0x10"],
        ),
        ("a: '1'\nb: \"true\"\nc: C# code # or not", ["1", "true", "C# code"]),
        ("a: [x, 2, {y: [z]}]\nb:\n- 1\n- k: v", [["x", 2, {"y": ["z"]}], [1, {"k": "v"}]]),
        ("a: >\n  one\n  two\nb: |\n  x\n  y", ["one two\n", "x\ny"]),
        ('{"a": {"b": 1}}', [{"b": 1}]),
    ],
)
def test_values_are_what_they_look_like(head: str, expected: list[Any]) -> None:
    assert list(fields(head).values())[: len(expected)] == expected


@pytest.mark.parametrize(
    ("head", "line"),
    [
        ("name: a\ndescription: [unclosed", 3),
        ("name: a\ndescription: [unclosed\n\ntools: Read", 3),
        ("d: Use when: fine\ntools: {Read: 1\nm: x", 3),
        ('name: "open\nd: x', 2),
        ("d: a: b\nwords without a key", 2),
        ("just words", 2),
        ("- a\n- b", 2),
        ("a: 1\n? [x]\n: 2", 3),
        ("x: &a [1]\ny:\n  z: *a", 2),
        ("x: 1\ny:\n  z: *a", 4),
        ("a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]", 2),
        ("a: !!python/object/apply:os.system [ls]", 2),
        ("a: 1\nb: [\x00]", 3),
        ("a: 1\n--- b\nc: 1", 3),
    ],
)
@pytest.mark.spec("D5")
def test_faults_name_file_and_line(head: str, line: int) -> None:
    with pytest.raises(SettingsError, match=rf"^some/f\.md, line {line}: ."):
        split(f"---\n{head}\n---\nbody", "some/f.md")


def test_frontmatter_that_never_ends() -> None:
    with pytest.raises(SettingsError, match=r"f\.md, line 2: no line `---` ends"):
        split("\n---\nname: a\n", "f.md")


@pytest.mark.parametrize(
    "head", ["[" * 60_000, "- " * 30_000, "? " * 30_000, "a: " + "{b: " * 15_000, "a:\n " + "- " * 500]
)
def test_nesting_without_end_is_a_fault_not_a_crash(head: str) -> None:
    with pytest.raises(FieldFault, match=r"levels deep|expected|plain word"):
        read_fields(head.split("\n"))
    assert read_mapping("a: " + "[" * (DEEPEST - 1) + "]" * (DEEPEST - 1)).values["a"]


def test_length_is_bounded() -> None:
    with pytest.raises(SettingsError, match="longer than"):
        fields("d: " + "x" * MOST_CHARACTERS)


@pytest.mark.parametrize("head", ["name: a\nx: 1\nname: b", "name: a\nx: [1]\nname: b", "name: a\nx: c: d\nname: b"])
def test_of_two_equal_keys_the_last_counts_and_it_is_told(head: str) -> None:
    found = split(f"---\n{head}\n---\n", "f.md")
    assert found.fields["name"] == "b" and found.lines["name"] == 4
    assert found.warnings == ("line 4: `name` is given twice; the last one counts",)


def test_a_key_that_is_given_twice_further_down_is_told_too() -> None:
    assert split("---\nhooks:\n  a: 1\n  a: 2\n---\n", "f.md").warnings[0].startswith("line 4: `a`")


_VALUES = st.one_of(
    st.text(st.characters(exclude_characters="\n\r"), max_size=30),
    st.text("ab:#- .,*&'\"[]{}?!|>%@`~0\t", max_size=12),
)


def _slow(lines: list[str]) -> Fields | None:
    try:
        return read_mapping("\n".join(lines))
    except FieldFault:
        try:
            return frontmatter._read_by_key(lines)
        except FieldFault:
            return None


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b-c", "D_e"]), st.sampled_from([": ", ":", ":  "]), _VALUES), max_size=4)
)
@example([("a", ": ", "x: y #z")])
@example([("a", ": ", "x #z")])
@example([("a", ": ", "x:")])
@example([("a", ":", ""), ("a", ": ", "1 ")])
def test_the_short_way_reads_what_the_long_way_reads(parts: list[tuple[str, str, str]]) -> None:
    """Simple lines are read without YAML, with the same result as with it."""
    lines = ["".join(part) for part in parts]
    short = frontmatter._read_plain(lines)
    assert short is None or short == _slow(lines)


@given(st.text("ab:#-[]{}\"'&*!|>%@`\n\t ,?~", max_size=200))
def test_no_text_does_anything_but_load_or_name_a_line(text: str) -> None:
    head = text.split("\n")
    try:
        found = read_fields(head)
    except FieldFault as fault:
        assert 0 <= fault.line < len(head) and fault.reason
    else:
        assert all(0 <= line < len(head) for line in found.lines.values())


def test_scalars_are_exact_or_text() -> None:
    assert scalar("9" * 18) == 10**18 - 1 and scalar("9" * 19) == "9" * 19


def test_simple_frontmatter_does_not_import_yaml() -> None:
    code = (
        "import sys; from teamwright.library.frontmatter import split\n"
        "assert split('---\\nname: a\\ndescription: Use when: x, y\\ntools: Read, Bash(git *)\\n---\\nb', 'f').fields\n"
        "assert 'yaml' not in sys.modules\n"
        "split('---\\ntools: [Read]\\n---\\nb', 'f'); assert 'yaml' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
