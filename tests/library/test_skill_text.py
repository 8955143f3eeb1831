"""The text of a skill: arguments are data, and includes are only looked for in its author's words."""

import subprocess
from typing import Any

import pytest

from growth import is_linear
from teamwright.library.skills.text import MOST_SHELL, File, Shell, fill_words, render, shell_places, split_words


def filled(body: str, args: str, **names: str) -> str:
    return "".join(part if isinstance(part, str) else f"<{part.command}>" for part in render(body, args, names).parts)


@pytest.mark.spec("S1")
@pytest.mark.parametrize(
    ("body", "args", "text"),
    [
        ("Say $ARGUMENTS!", "the wide world", "Say the wide world!"),
        ("$ARGUMENTS[0] and $1, $0.", "a b c", "a and b, a."),
        ("$0|$1|$2", "'one two' \"three\"", "one two|three|"),
        ("$ARGUMENTS", "it's", "it's"),
        ("$0", "it's here", "it's"),
        ("costs $0.50 or $100, $5x", "a", "costs $0.50 or $100, $5x\n\nARGUMENTS: a"),
        (r"\$ARGUMENTS \$0 $0", "a", "$ARGUMENTS $0 a"),
        ("$ARGUMENTS_X ${ARGUMENTS} $HOME", "", "$ARGUMENTS_X ${ARGUMENTS} $HOME"),
        ("none", "", "none"),
        ("$0 $1", "$1 $0", "$1 $0"),
        ("$0", "${CLAUDE_SKILL_DIR}", "${CLAUDE_SKILL_DIR}"),
        ("at ${CLAUDE_SKILL_DIR}/x ${CLAUDE_OTHER}", "", "at /s/x ${CLAUDE_OTHER}"),
        ("$ARGUMENTS", r"\1 \g<0> C:\new", r"\1 \g<0> C:\new"),
    ],
)
def test_arguments_are_put_in_once(body: str, args: str, text: str) -> None:
    assert filled(body, args, CLAUDE_SKILL_DIR="/s") == text


@pytest.mark.spec("S1")
def test_includes_of_the_body() -> None:
    found = render("Now: !`date`\n- !`git log`\nSee @notes.txt, (@src/a.py) and `@code` me@here.org.", "")
    assert [p for p in found.parts if isinstance(p, Shell)] == [Shell("date"), Shell("git log")]
    assert found.files == (File(("notes.txt,", "notes.txt")), File(("src/a.py)", "src/a.py")))
    assert not render("wow!`x` `!`y`` !``", "").files and not _shells("wow!`x` !``\n!` `a`")


def _shells(body: str, args: str = "") -> list[str]:
    return [part.command for part in render(body, args).parts if isinstance(part, Shell)]


@pytest.mark.spec("S1")
def test_nothing_in_arguments_is_executed_or_included() -> None:
    evil = "!`touch pwned` @/etc/passwd\n```!\ntouch pwned\n```\n$(touch pwned)"
    for body in ("$ARGUMENTS", "none", "@$ARGUMENTS", "@$0", "@src/$0", "!`$ARGUMENTS", "x\n```\n$ARGUMENTS\n```"):
        found = render(body, evil)
        assert not found.files and not any(isinstance(part, Shell) for part in found.parts), body
    assert evil in filled("$ARGUMENTS", evil)


@pytest.mark.spec("S1")
def test_fences() -> None:
    body = "```!\ngit log\ngit diff\n```\nthen\n```sh\n!`no` @no\n```\n~~~!\nls\n~~~\n```!\nnever closed"
    assert _shells(body) == ["git log\ngit diff", "ls"]
    assert "!`no` @no" in filled(body, "") and "never closed" in filled(body, "")


def test_at_most_so_many() -> None:
    body = "\n".join("!`x`" for _ in range(MOST_SHELL + 5))
    assert len(_shells(body)) == MOST_SHELL and filled(body, "").count("not run") == 5
    assert len(render(" ".join(f"@f{n}" for n in range(90)), "").files) == 20


ARGS = ["plain", "", "two words", "$(touch pwned)", "`touch pwned`", "a; touch pwned", "' ; touch pwned ; '",
        '" ; touch pwned ; "', "-exec touch pwned ;", "*", "\\", "$HOME", "a\nb"]  # fmt: skip


@pytest.mark.spec("S1")
@pytest.mark.parametrize("args", ARGS)
def test_in_commands_arguments_are_variables(args: str, tmp_path: Any) -> None:
    """A real shell prints each argument as the one word that it is, or nothing if it is empty."""
    found = render("!`printf '<%s>' a $ARGUMENTS \"$ARGUMENTS\" '$ARGUMENTS' '{print $1}'`", args)
    (command,) = [part.command for part in found.parts if isinstance(part, Shell)]
    env = {"PATH": "/usr/bin:/bin"} | found.variables
    ran = subprocess.run(["bash", "-c", command], env=env, cwd=tmp_path, capture_output=True, check=True, timeout=20)
    word = args.strip()
    assert ran.stdout.decode() == "<a>" + (f"<{word}>" if word else "") + f"<{word}><{word}>" + "<{print $1}>"
    assert not list(tmp_path.iterdir())


def test_places_in_commands() -> None:
    assert shell_places("x $0 \"$1\" '$ARGUMENTS[1]' \\$0 $2x") == (
        'x ${ARGUMENTS_0:+"${ARGUMENTS_0}"} "${ARGUMENTS_1}" \'\'"${ARGUMENTS_1}"\'\' \\$0 $2x'
    )
    assert render("!`a $1`", "x 'y z'").variables["ARGUMENTS_1"] == "y z"
    assert split_words("a 'b c") == ["a", "'b", "c"] and split_words("a#b \\n") == ["a#b", "\\n"]
    assert fill_words("!`date` $0", "a") == "!`date` a"


@pytest.mark.parametrize("piece", ["!`", "```", "@a ", "$ARGUMENTS[", "!`x` ", "\\", "'\"$0"])
def test_a_long_text_is_read_in_time_that_grows_with_it(piece: str) -> None:
    assert is_linear(lambda text: render(text, "a b"), piece)
    assert is_linear(shell_places, piece)
