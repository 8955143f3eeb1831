"""Protected files and directories: changes need approval in every mode but the widest, however the name is spelt."""

import re
from collections.abc import Iterable
from functools import lru_cache

_OURS = (".git", ".claude", ".teamwright", ".mcp.json")
# Files that another program executes the next time somebody opens, enters, clones or commits.
_RUN_LATER = """
    .envrc mise.toml .mise.toml .husky .gitmodules .gitattributes .gitconfig .pre-commit-config.yaml
    lefthook.yml .lefthook.yml .vscode .idea .zed .fleet .devcontainer .devcontainer.json .exrc .vimrc .nvimrc
    .nvim.lua .gdbinit .lldbinit .npmrc .yarnrc .yarnrc.yml .bashrc .bash_profile .bash_login .bash_logout
    .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin .zlogout .kshrc .cshrc .tcshrc config.fish
""".split()
_NAMES = frozenset((*_OURS, *_RUN_LATER))
_SHORT = re.compile(r"([^~.]{1,6})~\d{1,6}(?:\..{0,3})?")  # a short (8.3) name of a Windows file system
_HASHED = re.compile(r"(..)[0-9a-f]{4}")
_SHORTENED = frozenset(name.lstrip(".").partition(".")[0][:6] for name in _NAMES)


def names_protected(parts: Iterable[str]) -> bool:
    """Is one of these path components a protected name, or one that some file system treats as such?"""
    return any(_is_one(inner) for part in parts for inner in folded(part).split("\\"))


def mentioned(text: str) -> str:
    """The first protected name in a text; empty if there is none."""
    return next((found[0] for found in _anywhere().finditer(folded(text)) if _is_one(found[0])), "")


@lru_cache(maxsize=1)
def _anywhere() -> re.Pattern[str]:
    """Compiled on first use: it is large, and only commands need it."""
    names = "|".join(map(re.escape, sorted(_NAMES, key=len, reverse=True)))
    return re.compile(rf"(?<![\w.-])(?:{names})(?!\.*[\w-])|(?<![\w.-])[\w-]{{1,6}}~\d{{1,6}}")


def folded(text: str) -> str:
    """Drops what file systems ignore: case, invisible characters, Unicode variants of a letter."""
    if text.isascii():
        return text.lower()
    import unicodedata  # noqa: PLC0415  # seldom needed

    seen = "".join(c for c in text if unicodedata.category(c) != "Cf" and not 0xFE00 <= ord(c) <= 0xFE0F)
    return unicodedata.normalize("NFKC", seen).casefold()


def _is_one(name: str) -> bool:
    """NTFS drops trailing dots and blanks, and what follows a colon names a stream of the same file."""
    name = name.partition(":")[0].rstrip(". ")
    if name in _NAMES:
        return True
    short = _SHORT.fullmatch(name)
    if short is None:
        return False
    hashed = _HASHED.fullmatch(short[1])
    return short[1] in _SHORTENED or bool(hashed and any(one.startswith(hashed[1]) for one in _SHORTENED))
