"""Script files: they equal scripts in code, and errors name file and line."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from teamwright.core.data.message import Message, Reply, Request, Text, user
from teamwright.core.errors import ModelError, SettingsError
from teamwright.models.scripted import ScriptedModel

HELLO = user("hello")


def ask(replies: int) -> Request:
    """A conversation in which the model has already replied that many times."""
    said = Message("assistant", (Text("x"),), "script/x")
    return Request("script/x", (), (), (HELLO, *[said] * replies))


async def play(model: ScriptedModel, request: Request) -> Reply:
    return await model.reply(request, lambda _: None)


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


STEPS: list[Any] = [
    "plain",
    {"text": "as object"},
    [{"thinking": "hm"}, "and", {"tool": "Bash", "input": {"command": "ls"}, "id": "b1"}],
    {"blocks": ["cut"], "stop": "max_tokens"},
    {"error": {"fault": "overloaded", "message": "busy", "status": 529}},
]
AS_YAML = """\
main:
  when: begin
  steps:
    - plain
    - text: as object
    - - thinking: hm
      - and
      - {tool: Bash, input: {command: ls}, id: b1}
    - blocks: [cut]
      stop: max_tokens
    - error: {fault: overloaded, message: busy, status: 529}
"""


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("list.json", json.dumps(STEPS)),
        ("one", json.dumps({"steps": STEPS, "pace": 0})),
        ("named.json", json.dumps({"main": STEPS, "other": []})),
        ("s.yaml", AS_YAML),
        ("s.YML", AS_YAML),
    ],
)
async def test_a_file_says_the_same_as_code(tmp_path: Path, name: str, content: str) -> None:
    loaded = ScriptedModel.load(write(tmp_path / name, content))
    for n in range(len(STEPS) - 1):
        request = ask(n)
        assert await play(loaded, request) == await play(ScriptedModel(STEPS), request)
    with pytest.raises(ModelError, match="busy"):
        await play(loaded, ask(len(STEPS) - 1))


@pytest.mark.parametrize(
    ("name", "content", "place", "about"),
    [
        ("a.json", '[\n "x",\n oops\n]', "line 3", "JSON"),
        ("a.yaml", "main:\n  - a\n bad: [", "line 3", "YAML"),
        ("a.json", '"text"', "line 1", "list of steps"),
        ("a.json", "", "line 1", "JSON"),
        ("a.yaml", "", "line 1", "list of steps"),
        ("a.json", '[\n "x",\n {"txt": "y"}\n]', "line 3", "A step is"),
        ("a.json", '{"main": [\n\t"x",\n\t5\n]}', "line 3", "A step is"),
        ("a.yaml", "main:\n  - x\n  - text: y\n    colour: red\n", "line 3", "A step is"),
        ("a.json", '{"main": "x"}', "line 1", "list of steps"),
        ("a.json", '{\n"main": {"when": 3,\n "steps": []}}', "line 2", "`when`"),
        ("a.json", '{"main": {"when": "x", "steps": [\n"x",\n5]}}', "line 3", "A step is"),
        ("a.json", '{"steps": [\n"x",\n5]}', "line 3", "A step is"),
        ("a.json", '[{"tool": "Bash",\n "input": "ls"}]', "line 1", "`input`"),
        ("a.json", '[{"text": "x",\n "stop": "enough"}]', "line 2", "max_tokens"),
        ("a.json", '[{"text": "x", "delay": -1}]', "line 1", "`delay`"),
        ("a.json", '[{"text": "x", "delay": 9999}]', "line 1", "`delay`"),
        ("a.json", '[{"text": "x", "pace": "fast"}]', "line 1", "`pace`"),
        ("a.json", '[{"text": "x", "pace": true}]', "line 1", "`pace`"),
        ("a.json", '["x",\n{"error": {"fault": "tired"}}]', "line 2", "rate_limit"),
        ("a.json", '["x",\n{"error": "tired"}]', "line 2", "rate_limit"),
        ("a.json", '["x",\n{"error": {"fault": "server"}, "text": "y"}]', "line 2", "A step is"),
        ("a.json", '["x",\n{"blocks": "y"}]', "line 2", "`blocks`"),
        ("a.json", '["x",\n["y", ["z"]]]', "line 2", "A step is"),
    ],
)
def test_a_wrong_file_is_named_with_its_line(tmp_path: Path, name: str, content: str, place: str, about: str) -> None:
    file = write(tmp_path / name, content)
    with pytest.raises(SettingsError) as caught:
        ScriptedModel.load(file)
    assert f"{file}, {place}: " in str(caught.value)
    assert about in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("latin.json", b'["\xe9"]'),
        ("half.json", rb'["\ud800"]'),
        ("deep.json", b"[" * 100_000),
        ("long.json", b"[" + b"9" * 5_000 + b"]"),
        ("cycle.yaml", b"main: &a\n  - *a\n"),
        ("control.yaml", b"main: \x07\n"),
        ("date.yaml", b"- 2026-99-99\n"),
    ],
)
def test_hostile_files_are_refused_by_name(tmp_path: Path, name: str, content: bytes) -> None:
    file = write(tmp_path / name, content)
    with pytest.raises(SettingsError, match=name):
        ScriptedModel.load(file)


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "missing.json", tmp_path, tmp_path / "fifo"):
        with pytest.raises(SettingsError, match=str(path)):
            ScriptedModel.load(path)


@pytest.mark.parametrize("script", ["text", [5], {"main": [5]}, {"main": 5}, [b"x"], [[["x"]]]])
def test_code_is_checked_when_the_model_is_made(script: Sequence[Any]) -> None:
    with pytest.raises(SettingsError):
        ScriptedModel(script)
