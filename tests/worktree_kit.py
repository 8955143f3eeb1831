"""Small repositories for worktrees, and questions about them that git itself answers."""

import os
import subprocess
from pathlib import Path

US = ("-c", "user.name=A Person", "-c", "user.email=person@localhost", "-c", "protocol.file.allow=always")


def git(cwd: Path, *args: str) -> str:
    ran = subprocess.run(["git", *US, *args], cwd=cwd, check=True, capture_output=True)
    return os.fsdecode(ran.stdout)


def new_repo(top: Path) -> Path:
    top.mkdir(parents=True)
    git(top, "init", "-q", "-b", "main")
    git(top, "config", "user.name", "A Person")
    git(top, "config", "user.email", "person@localhost")
    (top / "README.md").write_text("hello\n")
    (top / "old.txt").write_text("".join(f"line {n}\n" for n in range(20)))
    (top / ".gitignore").write_text("ignored/\nnode_modules/\n")
    save(top)
    return top


def save(tree: Path, message: str = "more") -> str:
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", message)
    return git(tree, "rev-parse", "HEAD").strip()


def known(repo: Path) -> list[str]:
    """The names of linked worktrees that git knows."""
    lines = git(repo, "worktree", "list", "--porcelain").splitlines()
    return [line.rpartition("/")[2] for line in lines if line.startswith("worktree ")][1:]


def branches(repo: Path) -> list[str]:
    return git(repo, "branch", "--format=%(refname:short)").split()


def kept_refs(repo: Path) -> list[str]:
    return git(repo, "for-each-ref", "--format=%(refname)", "refs/teamwright/kept").split()


def untouched(repo: Path) -> bool:
    return not git(repo, "status", "--porcelain") and git(repo, "branch", "--show-current") == "main\n"


def nothing_left(repo: Path) -> bool:
    records = list((repo / ".git" / "teamwright").glob("*.json"))
    return not known(repo) and branches(repo) == ["main"] and not records


def change(tree: Path) -> None:
    """One commit."""
    (tree / "README.md").write_text("more\n")
    save(tree)
