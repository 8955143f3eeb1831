"""Programs that search whole trees: the files below a directory that they open, and those they are told to skip."""

import os.path
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from msgspec import structs

from teamwright.host.shell.programs.flags import NAMES_ALONE, ON_DISK, Shown, Skips

SEARCHES = frozenset({"grep", "egrep", "fgrep", "rg"})
_UNHIDES = frozenset({".", "--hidden", "u", "--unrestricted", "t", "--type"})  # rg flags
_PLAIN = re.compile(r"[\w.*?-]+", re.ASCII)  # a pattern that all programs read alike


def searched(name: str, values: Mapping[str, Sequence[str]]) -> Shown:
    """What a search can show. `values`: the values of each flag given."""
    if name != "rg":
        return structs.replace(ON_DISK, skips=_skips_of_grep(values), program="grep")
    return NAMES_ALONE if "--files" in values else structs.replace(ON_DISK, skips=skips_of_rg(values), program="rg")


def _skips_of_grep(values: Mapping[str, Sequence[str]]) -> Skips:
    return Skips(
        files=tuple(values.get("--exclude", ())),
        folders=tuple(values.get("--exclude-dir", ())),
        only=tuple(values.get("--include", ())),
    )


def skips_of_rg(values: Mapping[str, Sequence[str]]) -> Skips:
    """A glob that starts with `!` excludes files and directories; any other glob limits the search to its matches."""
    globs = [glob for flag in ("g", "--glob") for glob in values.get(flag, ())]
    only = [*(glob for glob in globs if not glob.startswith("!")), *values.get("--iglob", ())]
    out = tuple(glob[1:] for glob in globs if glob.startswith("!"))
    return Skips(out, out, tuple(only), hidden=not only and _UNHIDES.isdisjoint(values))


def leaves_out(skips: Skips, names: Sequence[str], *, is_folder: bool) -> bool:
    """Is the path with these names, relative to the start, certainly not opened, nor anything in it?"""
    if _may_fit_any(names, skips.only):
        return False
    if _surely_fits_any(names if is_folder else names[:-1], skips.folders):
        return True
    if is_folder:
        return False
    return _surely_fits_any(names[-1:], skips.files) or bool(skips.only and not skips.files)


def _surely_fits_any(names: Sequence[str], patterns: Sequence[str]) -> bool:
    return any(_surely_fits(name, pattern) for name in names for pattern in patterns)


def _surely_fits(name: str, pattern: str) -> bool:
    """In some programs, wildcards do not match the dot of a hidden name."""
    hidden = name.startswith(".") and not pattern.startswith(".")
    return not hidden and _PLAIN.fullmatch(pattern) is not None and fnmatchcase(name, pattern)


def _may_fit_any(names: Sequence[str], patterns: Sequence[str]) -> bool:
    return any(
        not _PLAIN.fullmatch(pattern) or fnmatchcase(name.lower(), pattern.lower())
        for name in names
        for pattern in patterns
    )


def way_out(program: str, path: str, cwd: str, *, is_folder: bool) -> str:
    """The option that makes the program skip this file or directory; empty if there is no simple one."""
    name, here = os.path.basename(path), os.path.relpath(path, cwd)
    if not _PLAIN.fullmatch(here.replace("/", "")):
        return ""
    ways = {
        "grep": f"--exclude-dir={name}" if is_folder else f"--exclude={name}",
        "rg": f"-g '!{name}'",
        "rsync": f"--exclude={name}",
        "git": f"-- . ':!{here}'",
    }
    if program in ("tar", "gtar", "bsdtar"):
        return f"`--exclude={name}` before the paths"
    return f"`{ways[program]}`" if program in ways else ""
