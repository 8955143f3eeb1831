"""A project whose settings deny a file: everyday commands run, and the file stays out of all of them."""

import json
import subprocess

import pytest

from conftest import Walker
from teamwright.models.scripted import call

RULES = {"deny": ["Read(./.env)", "Read(./secrets/**)"], "allow": ["Bash(git diff:*)"]}
RUN = ["git diff", "git diff HEAD", "git show HEAD", "git blame a.txt", "git log -p", "find . -name a.txt"]
RUN += ["grep -r --exclude=.env --exclude-dir=secrets hello .", "ls"]
REFUSED = ["cat .env", "git show HEAD:.env", "git diff -- .env", "grep -r KEY .", "cat secrets/k"]


def git(walker: Walker, *words: str) -> None:
    front = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*front, *words], cwd=walker.project, check=True, capture_output=True, timeout=60)


@pytest.mark.anyio
@pytest.mark.spec("M11")
async def test_a_denied_file_restricts_what_shows_it_and_nothing_else(walker: Walker) -> None:
    git(walker, "init", "-q", "-b", "main")
    (walker.project / "a.txt").write_text("hello\n")
    (walker.project / ".gitignore").write_text(".env\nsecrets/\n")
    git(walker, "add", "-A")
    git(walker, "commit", "-qm", "one")
    (walker.project / ".env").write_text("KEY=CANARY\n")
    (walker.project / "secrets").mkdir()
    (walker.project / "secrets/k").write_text("KEY=CANARY\n")
    script = [*(call("Bash", command=command) for command in (*RUN, *REFUSED)), "done"]
    walk = await walker.walk(script, settings=json.dumps({"permissions": RULES}))
    for command, (text, failed) in zip((*RUN, *REFUSED), walk.results, strict=True):
        assert failed == (command in REFUSED), (command, text)
        assert "CANARY" not in text
    assert "--exclude=.env" in walk.results[len(RUN) + 3][0]


@pytest.mark.anyio
@pytest.mark.spec("M3", "W1")
async def test_a_worktree_shows_and_changes_no_copy_of_a_denied_file(walker: Walker) -> None:
    """A rule on a path of the project also counts where a worktree has that file: any agent may enter one unasked."""
    git(walker, "init", "-q", "-b", "main")
    (walker.project / "secrets").mkdir()
    (walker.project / "secrets/k").write_text("KEY=CANARY\n")
    (walker.project / "a.txt").write_text("hello\n")
    git(walker, "add", "-A")
    git(walker, "commit", "-qm", "one")
    rules = {"deny": ["Read(./secrets/**)", "Edit(/gen/**)"]}
    tree = ".teamwright/worktrees/w"
    refused = [
        call("Read", file_path="secrets/k"),
        *(call("Bash", command=words) for words in ("cat secrets/k", "git show HEAD:secrets/k", "grep -r KEY .")),
        call("Write", file_path="gen/new", content="x"),
        call("Bash", command="mkdir gen"),
    ]
    shown = [call("Grep", pattern="KEY|hello", output_mode="content"), call("Read", file_path="a.txt")]
    outside = [call("Read", file_path=f"{tree}/secrets/k"), call("Bash", command=f"cat {tree}/secrets/k")]
    steps = [call("EnterWorktree", name="w"), *refused, *shown, call("ExitWorktree", action="keep"), *outside, "done"]
    walk = await walker.walk(steps, mode="acceptEdits", settings=json.dumps({"permissions": rules}))
    texts, failed = zip(*walk.results, strict=True)
    assert failed == (False, *[True] * len(refused), False, False, False, True, True), walk.results
    assert "CANARY" not in "".join(texts) and "hello" in texts[len(refused) + 1]
