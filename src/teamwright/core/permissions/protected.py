"""Protected files and directories: changes need approval in every mode but the widest, however the name is spelt."""

import re
from collections.abc import Iterable
from functools import lru_cache

# What runs by itself as soon as somebody opens the directory: settings of agents, with their servers, and of editors.
OPENED = (
    ".claude", ".teamwright", ".agents", ".mcp.json", ".vscode", ".idea", ".cursor", ".gemini", ".codex", ".kiro",
    ".hg/hgrc",
)  # fmt: skip
# What runs the next time somebody enters, commits, installs or logs in. Checkouts and installs write some of these.
_RUN_LATER = """
    .git .hg .claude.json .zed .fleet .devcontainer .devcontainer.json .dir-locals.el .dir-locals-2.el
    .envrc .direnvrc .mise .husky .lefthook .pre-commit-config.yaml .gitmodules .gitattributes .gitconfig .hgrc
    .npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs .pnpmfile.mjs .exrc .vimrc .nvimrc .nvim.lua .gdbinit .lldbinit .inputrc
    .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin .zlogout
    .kshrc .cshrc .tcshrc config.fish
""".split()
# In a home directory: what shells, desktops, interpreters, git and package managers obey. Every other name with a dot
# that exists there counts as well.
AT_HOME = (
    *(name for name in _RUN_LATER if name not in (".git", ".hg")),
    *"""
    .ssh .login .logout .pam_environment .xprofile .xsession .xsessionrc .xinitrc .pip .pydistutils.cfg .vim .emacs
    .emacs.d .tmux.conf .screenrc .cargo/config .cargo/config.toml .cargo/bin .gradle/init.gradle .gradle/init.d
    .ipython/profile_default/startup .irbrc .Rprofile .psqlrc .sqliterc .config/git .config/hg .config/fish .config/zsh
    .config/nvim .config/emacs .config/autostart .config/systemd .config/environment.d .config/direnv .config/mise
    .config/pip .config/pnpm .config/tmux .config/Code/User .local/share/systemd .local/share/applications
    .local/share/dbus-1 .local/lib .local/bin bin Library/LaunchAgents
    """.split(),
)
_NAMES = frozenset((*(name for name in OPENED if "/" not in name), *_RUN_LATER))
_KINDS = r"\.?(?:lefthook|mise)(?:[.-][\w.-]*)?\.(?:toml|ya?ml|json)|[\w.-]+\.code-workspace"
_ONE_KIND = re.compile(_KINDS)
_SHORT = re.compile(r"([^~.]{1,6})~\d{1,6}(?:\..{0,3})?")  # a short (8.3) name of a Windows file system
_HASHED = re.compile(r"(..)[0-9a-f]{4}")
_SHORTENED = frozenset(name.lstrip(".").partition(".")[0][:6] for name in _NAMES)


def names_protected(parts: Iterable[str]) -> bool:
    """Is one of these path components a protected name, or one that some file system treats as such?"""
    names = [inner for part in parts for inner in folded(part).split("\\")]
    return any(map(_is_one, names)) or "mise" in names[:-1]


def home_marks(home: str, roots: Iterable[str]) -> tuple[str, ...]:
    """The protected places of a home directory that is worked in. `HOME/.` means every name there with a dot."""
    top = home.rstrip("/")
    if not any(f"{top}/".startswith(f"{root.rstrip('/')}/") for root in roots):
        return ()
    return (f"{top}/.", *(f"{top}/{name}" for name in AT_HOME if name[0] != "."))


def mentioned(text: str) -> str:
    """The first protected name in a text; empty if there is none."""
    return next((found[0] for found in _anywhere().finditer(folded(text)) if _is_one(found[0])), "")


@lru_cache(maxsize=1)
def _anywhere() -> re.Pattern[str]:
    """Compiled on first use: it is large, and only commands need it."""
    names = "|".join(map(re.escape, sorted(_NAMES, key=len, reverse=True)))
    return re.compile(rf"(?<![\w.-])(?:(?:{names})(?!\.*[\w-])|[\w-]{{1,6}}~\d{{1,6}}|{_KINDS})")


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
    if name in _NAMES or _ONE_KIND.fullmatch(name):
        return True
    short = _SHORT.fullmatch(name)
    if short is None:
        return False
    hashed = _HASHED.fullmatch(short[1])
    return short[1] in _SHORTENED or bool(hashed and any(one.startswith(hashed[1]) for one in _SHORTENED))
