"""The list of installed plugins below TEAMWRIGHT_HOME, changed by one process at a time."""

import os
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from teamwright.core.errors import SettingsError, StoreError, UsageError
from teamwright.library.jsonfile import read_json
from teamwright.osfiles.json_store import alone_with, replace

MOST_FILES = 5_000
MOST_BYTES = 200_000_000
_LEFT_OUT = frozenset({".git", "__pycache__"})


class Listed(Struct, frozen=True, rename="camel"):
    enabled: bool = True
    origin: str = ""  # the path or address that it was installed from
    at: str = ""


def folder_of(state: Path, name: str) -> Path:
    return state / "plugins" / name


def read_list(state: Path) -> dict[str, Listed]:
    """Raises SettingsError."""
    path = state / "plugins" / "plugins.json"
    found = (read_json(path) or {}).get("plugins", {})
    try:
        return msgspec.convert(found, dict[str, Listed])
    except msgspec.ValidationError as error:
        raise SettingsError(f"{path}: {error}") from None


def switch(state: Path, name: str, *, on: bool) -> None:
    with _changing(state) as plugins:
        _require(plugins, name)
        plugins[name] = msgspec.structs.replace(plugins[name], enabled=on)


def remove(state: Path, name: str) -> None:
    """Removes it from the list first, so that leftovers of a directory that cannot be deleted are no longer used."""
    with _changing(state) as plugins:
        _require(plugins, name)
        del plugins[name]
    import shutil  # noqa: PLC0415  # slow to import, and every start reads the list

    try:
        shutil.rmtree(folder_of(state, name))
    except FileNotFoundError:
        pass
    except OSError as error:
        raise StoreError(f"{name} is off the list, but {error.filename} cannot be removed: {error.strerror}") from None


def add(state: Path, name: str, source: Path, origin: str) -> Path:
    """Copies a plugin that was read successfully, and turns it on."""
    import shutil  # noqa: PLC0415

    plugins_dir = state / "plugins"
    with _changing(state) as plugins:
        if name in plugins:
            raise UsageError(f"{name} is installed already, from {plugins[name].origin}; remove it first")
        fresh = plugins_dir / f".new-{os.urandom(6).hex()}"
        try:
            _copy(source, fresh)
            shutil.rmtree(folder_of(state, name), ignore_errors=True)  # left over from an interrupted removal
            fresh.rename(folder_of(state, name))
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        plugins[name] = Listed(origin=origin, at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    return folder_of(state, name)


def _require(plugins: dict[str, Listed], name: str) -> None:
    if name not in plugins:
        raise UsageError(f"no plugin {name!r} is installed; there are {', '.join(plugins) or 'none'}")


def _copy(source: Path, target: Path) -> None:
    """Copies regular files and links that stay inside; a plugin may contain nothing else."""
    from shutil import copyfile  # noqa: PLC0415

    source = source.resolve()
    files = size = 0
    target.mkdir(mode=0o700)
    for place, folders, names in os.walk(source):
        folders[:] = [name for name in folders if name not in _LEFT_OUT]
        here = target / os.path.relpath(place, source)
        for name in [*folders, *names]:
            path = Path(place) / name
            found = path.lstat()
            files, size = files + 1, size + found.st_size
            if files > MOST_FILES or size > MOST_BYTES:
                raise UsageError(f"{source}: more than {MOST_FILES:,} files or {MOST_BYTES:,} bytes; not installed")
            if stat.S_ISLNK(found.st_mode):
                _copy_link(path, here / name, source)
            elif stat.S_ISDIR(found.st_mode):
                (here / name).mkdir(mode=0o700)
            elif stat.S_ISREG(found.st_mode):
                copyfile(path, here / name, follow_symlinks=False)
                (here / name).chmod(0o700 if found.st_mode & 0o100 else 0o600)
            else:
                raise UsageError(f"{path} is not a regular file; not installed")


def _copy_link(path: Path, to: Path, source: Path) -> None:
    leads = os.readlink(path)  # noqa: PTH115  # as it is written
    if Path(leads).is_absolute() or not path.resolve().is_relative_to(source):
        raise UsageError(f"{path} is a link that leads out of the plugin; not installed")
    to.symlink_to(leads)


@contextmanager
def _changing(state: Path) -> Generator[dict[str, Listed]]:
    """The list for changing; written as a whole if it changed."""
    file = state / "plugins" / "plugins.json"
    with alone_with(file, state):
        plugins = read_list(state)
        before = dict(plugins)
        yield plugins
        if plugins != before:
            replace(file, {"version": 1, "plugins": plugins})
