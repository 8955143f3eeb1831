"""A session's skills and commands by name, with shadowed and broken ones; re-read on change."""

import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from pathlib import Path

from msgspec import Struct

from teamwright.core.data.definition import DefinitionSource
from teamwright.core.data.extensions.unread import Unread
from teamwright.core.errors import SettingsError
from teamwright.core.text import shown
from teamwright.library.agents.cache import CachedFile, Key, index_file, load_index, reread, save_index
from teamwright.library.agents.places import Listing, Signature, changed_at
from teamwright.library.skills.file import Shelf, Skill, SkillOutcome, read_body, read_skill
from teamwright.library.skills.places import scan_shelf
from teamwright.library.skills.text import fill_words

MOST_PROBLEMS = 50
MOST_PRELOADED = 200_000  # characters of all skills that one definition names
SETTLED_NS = 50_000_000  # a file changed this shortly before it was read may have changed again unnoticed
_ORDER: tuple[DefinitionSource, ...] = ("built-in", "plugin", "user", "project", "code", "flag", "managed")


class Skills(Struct, frozen=True):
    """`by_name` holds what can be called; `outcomes` also shadowed and broken skills, lowest source first."""

    by_name: dict[str, Skill] = {}
    outcomes: tuple[SkillOutcome, ...] = ()
    problems: tuple[str, ...] = ()  # one line each
    unread: tuple[Unread, ...] = ()

    @property
    def offered(self) -> list[Skill]:
        """What the model may call."""
        return [skill for skill in self.by_name.values() if not skill.disable_model_invocation]

    @property
    def commands(self) -> list[Skill]:
        """What a person may call as `/name`."""
        return [skill for skill in self.by_name.values() if skill.user_invocable]

    def find(self, name: str) -> Skill | None:
        """Finds a skill by its full name, else by the last part of the name if that is unique. Ignores case."""
        wanted = name.lower()
        whole = [skill for full, skill in self.by_name.items() if full.lower() == wanted]
        found = whole or [s for full, s in self.by_name.items() if full.lower().endswith(f":{wanted}")]
        return found[0] if wanted and len(found) == 1 else None


class SkillBook:
    """The current skills. Reads only the heads of their files, and again when a file changes.

    `cache` is our directory in which the heads are kept from one start to the next.
    """

    def __init__(self, shelves: Sequence[Shelf], cache: Path | None = None) -> None:
        self._shelves = tuple(shelves)
        self._index = None if cache is None else index_file(cache, "skills", self._shelves)
        self._read: dict[Key, tuple[Signature, SkillOutcome]] = {}
        self._unsure: set[Key] = set()
        self._listing: Listing | None = None
        self._current = Skills()

    def current(self) -> Skills:
        """Re-reads changed files; returns the same object as before if nothing changed."""
        listing = [scan_shelf(shelf) for shelf in self._shelves]
        if listing == self._listing and not self._unsure:
            return self._current
        before = self._read_changed(listing)
        if listing != self._listing or any(before[key][1] != self._read[key][1] for key in before):
            problems = chain.from_iterable(told for _, told in listing)
            self._current = assemble(map(itemgetter(1), self._read.values()), list(problems))
        self._listing = listing
        return self._current

    def _read_changed(self, listing: Listing) -> Mapping[Key, tuple[Signature, SkillOutcome]]:
        """Updates what was read, and the index. Returns what was known before."""
        before = self._read
        if self._listing is None and self._index is not None:
            before = load_index(self._index, CachedFile[SkillOutcome])
        unsure, self._unsure = self._unsure, set()
        self._read = reread(listing, before, unsure, self._look)
        if self._index is not None and (unsure or before != self._read):
            save_index(self._index, {key: known for key, known in self._read.items() if key not in self._unsure})
        return before

    def _look(self, key: Key, signature: Signature) -> SkillOutcome:
        now = time.time_ns()
        outcome = read_skill(key[1], self._shelves[key[0]])
        if abs(now - changed_at(signature)) < SETTLED_NS:
            self._unsure.add(key)
        return outcome

    def body(self, skill: Skill) -> str:
        """The skill's current text. Raises SettingsError."""
        key = next((key for key, (_, known) in self._read.items() if known.skill is skill), None)
        return read_body(skill, None if key is None else self._shelves[key[0]].place.within)


def assemble(outcomes: Iterable[SkillOutcome], problems: Sequence[str] = ()) -> Skills:
    """Decides which skill wins each name: the later place. A broken policy still blocks others from its name."""
    ranked = sorted(outcomes, key=_rank)
    winners: dict[str, SkillOutcome] = {}
    told = list(problems)
    for outcome in ranked:
        told += outcome.problems
        if outcome.skill is not None or outcome.source == "managed":
            winners.pop(outcome.name.lower(), None)
            winners[outcome.name.lower()] = outcome
    if (more := len(told) - MOST_PROBLEMS) > 0:
        told[MOST_PROBLEMS:] = [f"and {more} more problems with skills and commands"]
    usable = sorted((o.skill for o in winners.values() if o.skill), key=_letters)
    unread = tuple(chain.from_iterable(outcome.unread for outcome in ranked))
    return Skills({skill.name: skill for skill in usable}, tuple(ranked), tuple(told), unread)


def _rank(outcome: SkillOutcome) -> int:
    return _ORDER.index(outcome.source)


def _letters(skill: Skill) -> str:
    return skill.name.lower()


def preload(book: SkillBook, names: Sequence[str], who: str) -> tuple[str, tuple[str, ...]]:
    """The text of the skills that a definition named `who` preloads, and the missing ones.

    They are only instructions: nothing in them is run or included, and their placeholders stay empty.
    """
    skills, parts, problems, room = book.current(), list[str](), list[str](), MOST_PRELOADED
    for name in dict.fromkeys(names):
        skill = skills.find(name)
        if skill is None:
            problems.append(f"the agent {shown(who, 80)} names the skill `{shown(name, 80)}`, which is not there")
            continue
        try:
            text = fill_words(book.body(skill), "")
        except SettingsError as error:
            problems.append(shown(f"{error}; the agent {who} goes without it", 1000))
            continue
        if len(text) > room:
            problems.append(f"the agent {shown(who, 80)} goes without the skill {skill.name}: its skills are too long")
            continue
        room -= len(text)
        base = f" directory={_quoted(skill.folder)}" if skill.folder else ""
        parts.append(f"<skill name={_quoted(skill.name)}{base}>\n{text}\n</skill>")
    head = "# Skills\nYou know these skills; follow them where they fit.\n\n"
    return (head + "\n\n".join(parts) if parts else ""), tuple(problems)


def _quoted(text: str) -> str:
    return '"' + shown(text, 1000).replace('"', "'") + '"'
