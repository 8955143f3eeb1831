"""Plugin marketplaces, and the plugins of another program that are on this disk."""

import os
import re
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from teamwright.core.data.extensions.unread import Unread
from teamwright.core.errors import SettingsError
from teamwright.core.jsontext import as_object
from teamwright.core.text import shown
from teamwright.library.jsonfile import read_json

MANIFEST = ".claude-plugin/marketplace.json"
MOST_PLUGINS = 1_000
_PLAIN = re.compile(r"[A-Za-z0-9][\w.-]{0,99}")  # a name that is safe as part of a path
_INSTALL = "`teamwright plugins install PATH_OR_GIT_ADDRESS` installs it"


class Offered(Struct, frozen=True):
    """A plugin in a marketplace: a local directory, or the address of a repository elsewhere."""

    name: str
    folder: Path | None = None
    address: str = ""
    description: str = ""


class Marketplace(Struct, frozen=True):
    name: str
    root: Path
    plugins: dict[str, Offered]


class BroughtPlugin(Struct, frozen=True):
    """A plugin installed by another program; `origin` is `name@marketplace`."""

    name: str
    root: Path
    origin: str


def read_marketplace(root: Path) -> Marketplace | None:
    """None if the directory is not a marketplace. Raises SettingsError if its list is unreadable."""
    real = Path(os.path.realpath(root))
    found = read_json(real / MANIFEST)
    if found is None:
        return None
    entries: Any = found.get("plugins")
    if not isinstance(entries, list):
        raise SettingsError(f"{real / MANIFEST}: `plugins` must be a list")
    base: Any = as_object(found.get("metadata")).get("pluginRoot", "")
    folder = real / base if isinstance(base, str) else real
    offered = (_offered(as_object(entry), real, folder) for entry in cast("list[Any]", entries)[:MOST_PLUGINS])
    return Marketplace(shown(str(found.get("name", real.name)), 80), real, {one.name: one for one in offered if one})


def _offered(entry: dict[str, Any], root: Path, base: Path) -> Offered | None:
    name, source, words = entry.get("name"), entry.get("source"), entry.get("description")
    if not isinstance(name, str) or not name.isprintable():
        return None
    folder = None
    if isinstance(source, str) and "\0" not in source:
        places = (Path(os.path.realpath(one / source)) for one in (root, base))
        folder = next((place for place in places if place.is_dir() and place.is_relative_to(root)), None)
    about = shown(words, 300) if isinstance(words, str) else ""
    return Offered(name, folder, _address(as_object(source)), about)


def _address(source: Mapping[str, Any]) -> str:
    repo, url = source.get("repo"), source.get("url")
    if isinstance(repo, str):
        return shown(f"https://github.com/{repo}.git", 300)
    return shown(url, 300) if isinstance(url, str) else ""


# --- another program's home directory


def find_brought(
    home: Path, wanted: Mapping[str, bool], *, own: Container[str], extra: Mapping[str, Any]
) -> tuple[list[BroughtPlugin], list[Unread]]:
    """The plugins that `enabledPlugins` turns on and that are on this disk, and the missing ones.

    `own` are the names turned on by the person's own settings: a project may only use what the person has installed.
    `extra` is `extraKnownMarketplaces` from the person's settings.
    """
    plugins = home / ".claude/plugins"
    installed = as_object(_read(plugins / "installed_plugins.json").get("plugins"))
    known = _read(plugins / "known_marketplaces.json")
    found: list[BroughtPlugin] = []
    missing: list[Unread] = []
    for full in _turned_on(wanted):
        name, _, market = full.rpartition("@")
        plain = _are_plain(name, market)
        root = (_installed(installed.get(full)) or _cached(plugins / "cache" / market / name)) if plain else None
        offered = None
        if root is None and plain and full in own:
            offered = _from_marketplace(name, _places(plugins, market, known, extra, home))
            root = offered and offered.folder
        if root is not None:
            found.append(BroughtPlugin(name, root, full))
        else:
            missing.append(Unread("plugin", full, "enabledPlugins", why=_how(offered)))
    return found, missing


def _turned_on(wanted: Mapping[str, bool]) -> list[str]:
    return [name for name, on in wanted.items() if on and "@" in name]


def _are_plain(*names: str) -> bool:
    return all(map(_PLAIN.fullmatch, names))


def _how(offered: Offered | None) -> str:
    if offered is None or not offered.address:
        return f"it is not on this disk; {_INSTALL}"
    return f"it is not on this disk; `teamwright plugins install {offered.address}` installs it"


def _installed(entry: Any) -> Path | None:
    """The install path from an entry, in either version of the list."""
    entries = cast("list[Any]", entry) if isinstance(entry, list) else [entry]
    paths = (as_object(one).get("installPath") for one in entries)
    return next((Path(path) for path in paths if isinstance(path, str) and _is_folder(path)), None)


def _is_folder(path: str) -> bool:
    return path.startswith("/") and "\0" not in path and os.path.isdir(path)  # noqa: PTH112  # text from a file


def _cached(folder: Path) -> Path | None:
    """The most recently fetched version."""
    try:
        versions = [Path(entry.path) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
        return max(versions, key=_changed, default=None)
    except (OSError, ValueError):
        return None


def _changed(path: Path) -> int:
    return path.stat().st_mtime_ns


def _places(
    plugins: Path, market: str, known: Mapping[str, Any], extra: Mapping[str, Any], home: Path
) -> Iterator[Path]:
    named = as_object(as_object(extra.get(market)).get("source")).get("path")
    for place in (named, as_object(known.get(market)).get("installLocation")):
        if isinstance(place, str) and place and "\0" not in place:
            yield home / place[2:] if place.startswith("~/") else home / place
    yield plugins / "marketplaces" / market


def _from_marketplace(name: str, places: Iterator[Path]) -> Offered | None:
    offered = None
    for place in places:
        try:
            market = read_marketplace(place)
        except SettingsError:
            continue
        offered = (market and market.plugins.get(name)) or offered
        if offered and offered.folder:
            break
    return offered


def _read(path: Path) -> dict[str, Any]:
    """Reads one of the other program's lists; an unreadable one counts as empty."""
    try:
        return read_json(path, []) or {}
    except SettingsError:
        return {}
