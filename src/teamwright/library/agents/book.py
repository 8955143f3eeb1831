"""A session's agent definitions by name, with shadowed and broken ones; re-read on change."""

import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.data.definition import BUILT_IN, GUIDE_DOCS, AgentDefinition, DefinitionSource
from teamwright.core.data.extensions.unread import Unread
from teamwright.core.errors import SettingsError, UsageError
from teamwright.core.jsontext import decode_object
from teamwright.core.text import shown
from teamwright.library.agents.definition_fields import check_name
from teamwright.library.agents.definition_file import (
    MOST_BYTES,
    DefinitionFolder,
    ReadDefinition,
    read_file,
    read_object,
)
from teamwright.library.agents.places import Listing, Signature, changed_at, scan
from teamwright.library.documentation import documentation
from teamwright.osfiles.reading import read_plain

if TYPE_CHECKING:
    from teamwright.library.agents.cache import Key

MOST_PROBLEMS = 50
CROWD = 20  # files from which on an index pays
SETTLED_NS = 50_000_000  # a file changed this shortly before it was read may have changed again unnoticed
_ORDER: tuple[DefinitionSource, ...] = ("built-in", "plugin", "user", "project", "code", "flag", "managed")


class BookEntry(Struct, frozen=True):
    """One definition in a listing. `shadowed_by` is the path, or else the source, of the one that counts instead."""

    name: str
    description: str
    source: DefinitionSource
    path: str = ""
    shadowed_by: str | None = None
    error: str | None = None


class Definitions(Struct, frozen=True):
    """`by_name` holds the definitions that can be started."""

    by_name: dict[str, AgentDefinition]
    problems: tuple[str, ...]  # one line each
    lower: dict[str, str]  # lower-case name -> key of `by_name`
    unread: tuple[Unread, ...] = ()
    read: tuple[ReadDefinition, ...] = ()  # all of them, lowest source first
    winners: dict[str, ReadDefinition] = {}  # by lower-case name

    @property
    def entries(self) -> tuple[BookEntry, ...]:
        """Everything for a list, including shadowed and broken definitions."""
        return tuple(_entry(outcome, self.winners) for outcome in self.read)

    def find(self, name: str) -> AgentDefinition | None:
        key = self.lower.get(name.lower())
        return None if key is None else self.by_name[key]


class AgentObjects(Struct, frozen=True):
    """Definitions as `{name: {...}}`; `where` names their origin in errors."""

    source: DefinitionSource
    where: str
    agents: Mapping[str, Any]
    path: str = ""


class DefinitionBook:
    """The current definitions. Those that are not files in one of the places are read once, here."""

    def __init__(
        self,
        places: Sequence[DefinitionFolder],
        *,
        flag: str | None = None,
        cwd: Path | None = None,
        given: Sequence[AgentDefinition] = (),
        cache: Path | None = None,
    ) -> None:
        """`flag` is `--agents JSON_OR_FILE`, relative to `cwd`; `given` are definitions made in Python.

        `cache` is our directory for what was read, kept from one start to the next.
        """
        self._places = tuple(places)
        self._fixed = [*_built_in(), *(_given(definition) for definition in given)]
        self._read: dict[Key, tuple[Signature, ReadDefinition]] = {}
        self._unsure: set[Key] = set()
        self._listing: Listing | None = None
        self._current = Definitions({}, (), {})
        self._cache = cache
        if flag is not None:
            self.add(read_flag(flag, cwd or Path.cwd()))

    def add(self, group: AgentObjects) -> None:
        """Adds definitions."""
        self._fixed += [read_object(n, v, group.source, group.where, group.path) for n, v in group.agents.items()]
        self._listing = None

    def current(self) -> Definitions:
        """Re-reads changed files; returns the same object as before if nothing changed.

        It touches the disk: well under a millisecond if nothing changed.
        """
        listing = [scan(place) for place in self._places]
        if listing == self._listing and not self._unsure:
            return self._current
        some = self._read or any(sightings for sightings, _ in listing)
        before = self._read_changed(listing) if some else self._read
        if listing != self._listing or any(before[key][1] is not self._read[key][1] for key in before):
            problems = chain.from_iterable(map(itemgetter(1), listing))
            self._current = assemble([*self._fixed, *map(itemgetter(1), self._read.values())], list(problems))
        self._listing = listing
        return self._current

    def _read_changed(self, listing: Listing) -> "Mapping[Key, tuple[Signature, ReadDefinition]]":
        """Updates what was read, and the index. Returns what was known before."""
        from teamwright.library.agents.cache import CachedFile, load_index, reread, save_index  # noqa: PLC0415

        index = self._index(listing)
        before = load_index(index, CachedFile[ReadDefinition]) if index and self._listing is None else self._read
        unsure, self._unsure = self._unsure, set()
        self._read = reread(listing, before, unsure, self._look)
        if index is not None and before != self._read:
            save_index(index, {key: known for key, known in self._read.items() if self._may_keep(key, known[1])})
        return before

    def _index(self, listing: Listing) -> Path | None:
        """The index file; None if there are so few files that reading them is as fast."""
        crowd = sum(len(sightings) for sightings, _ in listing) >= CROWD
        if not crowd or not self._cache:
            return None
        from teamwright.library.agents.cache import index_file  # noqa: PLC0415

        return index_file(self._cache, "agents", self._places)

    def _may_keep(self, key: "Key", outcome: ReadDefinition) -> bool:
        """May it go into the index? Inline servers and hooks may hold keys, which must not be copied to a second
        file."""
        found = outcome.definition
        written = found is not None and (found.hooks or any(not isinstance(name, str) for name in found.mcp_servers))
        return key not in self._unsure and not written

    def _look(self, key: "Key", signature: Signature) -> ReadDefinition:
        now = time.time_ns()
        n, path = key
        outcome = read_file(path, self._places[n])
        if abs(now - changed_at(signature)) < SETTLED_NS:
            self._unsure.add(key)
        return outcome


def load_definitions(
    places: Sequence[DefinitionFolder], *, flag: str | None = None, cwd: Path | None = None
) -> Definitions:
    """Reads everything once. Raises UsageError only if the `flag` is unreadable as a whole."""
    return DefinitionBook(places, flag=flag, cwd=cwd).current()


def read_flag(flag: str, cwd: Path) -> AgentObjects:
    """Reads what `--agents` names: a JSON object, or a file with one."""
    try:
        if flag.lstrip().startswith(("{", "[")):
            return AgentObjects("flag", "--agents", decode_object(flag.encode(errors="replace"), "--agents"))
        path = cwd / Path(flag).expanduser()
        data = read_plain(path, MOST_BYTES + 1) if flag.strip() else None
        if data is None:
            raise UsageError(f"--agents: `{shown(flag, 100)}` is neither a JSON object nor a file")
        if len(data) > MOST_BYTES:
            raise UsageError(f"--agents: {path} is larger than {MOST_BYTES:,} bytes")
        return AgentObjects("flag", str(path), decode_object(data, str(path)), str(path))
    except (SettingsError, RuntimeError) as error:  # RuntimeError: `~user` of an unknown user
        raise UsageError(shown(f"--agents: {str(error).removeprefix('--agents:').lstrip()}", 1000)) from None


def _built_in() -> list[ReadDefinition]:
    """The built-in definitions, with the documentation's path filled in where a prompt uses it."""
    where = str(documentation() or "docs")
    known = [replace(d, prompt=d.prompt.replace(GUIDE_DOCS, where)) if GUIDE_DOCS in d.prompt else d for d in BUILT_IN]
    return [ReadDefinition(d.name, d.source, d.path, d, d.description) for d in known]


def _given(definition: AgentDefinition) -> ReadDefinition:
    if fault := check_name(definition.name):
        raise UsageError(f"AgentDefinition(name={definition.name!r}): {fault}")
    d = definition
    return ReadDefinition(d.name, d.source, d.path, d, d.description)


def assemble(outcomes: Iterable[ReadDefinition], problems: Sequence[str] = ()) -> Definitions:
    """Decides which definition wins each name. A broken policy still blocks others from its name."""
    found = list(outcomes)
    ranked = [outcome for source in _ORDER for outcome in found if outcome.source == source]
    winners: dict[str, ReadDefinition] = {}
    told = list(problems)
    for outcome in ranked:
        told += outcome.problems
        key = outcome.name.lower()
        if outcome.definition is None and outcome.source != "managed":
            continue
        if (below := winners.get(key)) and _is_slip(below, outcome):
            told.append(f"{shown(outcome.path, 500)}: `{outcome.name}` is also the name in {shown(below.path, 500)}")
        winners[key] = outcome
    by_name = {o.definition.name: o.definition for o in winners.values() if o.definition}
    return Definitions(
        by_name=by_name,
        problems=_few(told) if told else (),
        lower={name.lower(): name for name in by_name},
        unread=tuple(chain.from_iterable(map(attrgetter("unread"), ranked))),
        read=tuple(ranked),
        winners=winners,
    )


def _is_slip(below: ReadDefinition, outcome: ReadDefinition) -> bool:
    """Two files in one folder with the same name: probably a mistake."""
    return bool(below.path) and Path(below.path).parent == Path(outcome.path).parent and below.path != outcome.path


def _entry(outcome: ReadDefinition, winners: Mapping[str, ReadDefinition]) -> BookEntry:
    winner = winners.get(outcome.name.lower(), outcome)
    shadowed = None if winner is outcome or outcome.definition is None else winner.path or winner.source
    return BookEntry(outcome.name, outcome.description, outcome.source, outcome.path, shadowed, outcome.error or None)


def _few(problems: Sequence[str]) -> tuple[str, ...]:
    if len(problems) <= MOST_PROBLEMS:
        return tuple(problems)
    more = len(problems) - MOST_PROBLEMS
    return (*problems[:MOST_PROBLEMS], f"and {more} more problems with agent definitions")
