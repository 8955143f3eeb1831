"""When exit code 1 is an answer, and when it is an error."""

from pathlib import Path

import pytest
from bash_bench import Bench, words

from teamwright.core.errors import ToolError

pytestmark = pytest.mark.anyio


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    root = (tmp_path / "project").resolve()
    root.mkdir()
    return Bench(root)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("grep nothing f", "(no matches; exit code 1)"),
        ("grep -c nothing f", "0\n(no matches; exit code 1)"),
        ("cd . && LC_ALL=C grep -rn 'no | thing; ' . 2>/dev/null", "(no matches; exit code 1)"),
        ("cat f | grep nothing", "(no matches; exit code 1)"),
        ("echo first; grep nothing f", "first\n(no matches; exit code 1)"),
        ("git --no-pager -C . grep --no-index nothing", "(no matches; exit code 1)"),
        ("diff f g", "1c1\n< one\n---\n> two\n(they differ; exit code 1)"),
        ("test -e nothing", "(false; exit code 1)"),
        ("[ -e nothing ]", "(false; exit code 1)"),
    ],
)
async def test_exit_code_1_that_is_an_answer_is_no_error(bench: Bench, command: str, said: str) -> None:
    (bench.root / "f").write_text("one\n")
    (bench.root / "g").write_text("two\n")
    outcome = await bench(command)
    assert words(outcome) == said and not outcome.is_error and outcome.data["exitCode"] == 1


@pytest.mark.parametrize(
    "command",
    [
        "grep nothing f; false",
        "grep nothing f | false",
        "false && grep nothing f",
        "cd nowhere && diff f f",
        "set -o pipefail; false | grep one f",
        "(exit 1)",
        "grep nothing f || false",
        "if grep nothing f; then :; fi; false",
        "x=$(grep nothing f)",
        "echo a && grep nothing f",  # which of them was it?
        "false ';' grep nothing",
        "grep nothing f # here\nfalse",
        "! grep one f",
    ],
)
async def test_any_other_exit_code_1_is_an_error(bench: Bench, command: str) -> None:
    (bench.root / "f").write_text("one\n")
    outcome = await bench(command)
    assert outcome.is_error and words(outcome).endswith("Exit code 1")


async def test_missing_arguments_name_what_was_sent_instead(bench: Bench) -> None:
    with pytest.raises(ToolError, match=r"`command`. There is no `cmd`; the arguments are command, description"):
        await bench.tool.call({"cmd": "ls"}, None)
