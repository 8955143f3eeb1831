"""Reads one skill or command from its Markdown file: the head at once, the body on use."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, cast

from msgspec import Struct

from teamwright.core.data.definition import DefinitionSource
from teamwright.core.data.extensions.unread import Unread
from teamwright.core.data.message import Effort
from teamwright.core.errors import SettingsError
from teamwright.core.permissions.rules import Problem, parse_rule, split_rules
from teamwright.core.text import shown
from teamwright.library.agents.definition_fields import MOST_NAME, Wrong, find_field, text
from teamwright.library.agents.definition_file import DefinitionFolder
from teamwright.library.frontmatter import Document, split
from teamwright.osfiles.reading import read_plain

MOST_BYTES = 1_000_000
HEAD = 8_192  # bytes; the frontmatter of an ordinary skill fits
_MOST_WORDS = 1_000  # characters of a problem line
_MOST_UNREAD = 20  # fields per file
_MOST_GUESSED = 200  # characters of a description taken from the body
_SILENT = frozenset({"license", "metadata", "compatibility", "version", "author", "tags"})  # for people, not for us

Kind = Literal["skill", "command"]


class Skill(Struct, frozen=True, kw_only=True):
    """Something callable by name. `name` is the full one: `plugin:name`, or `folder:name` for a command."""

    name: str
    namespace: str = ""
    description: str = ""
    allowed_tools: tuple[str, ...] = ()  # rules that apply while it runs
    model: str | None = None
    effort: Effort | int | None = None
    context: Literal["fork"] | None = None
    agent: str | None = None
    argument_hint: str = ""
    disable_model_invocation: bool = False
    user_invocable: bool = True
    kind: Kind = "skill"
    source: DefinitionSource = "project"
    path: str = ""
    root: str = ""  # directory of the plugin that provides it

    @property
    def folder(self) -> str:
        """The directory with a skill's files; a command has none."""
        return os.path.dirname(self.path) if self.kind == "skill" else ""  # noqa: PTH120


class Shelf(Struct, frozen=True):
    """A directory of skills or of commands."""

    kind: Kind
    place: DefinitionFolder
    root: str = ""  # directory of the plugin, if any


class SkillOutcome(Struct, frozen=True):
    """The result for one file: a skill or an error, one line per problem, and unused fields."""

    name: str
    source: DefinitionSource
    path: str
    skill: Skill | None = None
    error: str = ""
    problems: tuple[str, ...] = ()
    unread: tuple[Unread, ...] = ()


class _SkillForm(Struct):
    values: dict[str, Any]
    warnings: list[str]
    errors: list[str]
    unread: list[str]  # names of fields


def read_skill(path: str, shelf: Shelf) -> SkillOutcome:
    """Never raises, whatever the file contains and whatever kind of file it is."""
    stem = _stem(path, shelf)
    try:
        document = split(_head(path, shelf.place), path)
    except SettingsError as error:
        words = shown(str(error), _MOST_WORDS)
        reason = shown(str(error).removeprefix(path).lstrip(":, "), _MOST_WORDS)
        return SkillOutcome(stem, shelf.place.source, path, error=reason, problems=(f"{words}; the file is ignored",))
    form = _SkillForm({}, list(document.warnings), [], [])
    _fill(form, document)
    return _outcome(form, document, shelf, path, stem)


def read_body(skill: Skill, within: tuple[Path, ...] | None = None) -> str:
    """The current text after the frontmatter. Raises SettingsError."""
    data = _bytes(skill.path, within, MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise SettingsError(f"{skill.path}: larger than {MOST_BYTES:,} bytes")
    return split(data.decode(errors="replace"), skill.path).body.strip("\n")


def check_name(name: str) -> str:
    """What is wrong with a skill's name; empty if nothing."""
    if not 0 < len(name) <= MOST_NAME:
        return f"a name has 1 to {MOST_NAME} characters"
    if not name.isprintable() or any(c.isspace() for c in name):
        return "a name has no spaces, control or invisible characters"
    if any(c in "/\\,()" for c in name) or not name.strip("."):
        return "a name has no slashes, commas or parentheses, and is not made of dots alone"
    return ""


def _stem(path: str, shelf: Shelf) -> str:
    """The name implied by the file's location."""
    if shelf.kind == "skill":
        return os.path.basename(os.path.dirname(path))  # noqa: PTH119, PTH120  # called for every file of a scan
    below = os.path.relpath(path, shelf.place.folder).removesuffix(".md")
    return below.replace(os.sep, ":")


def _head(path: str, place: DefinitionFolder) -> str:
    """Enough of the file to hold its frontmatter."""
    data = _bytes(path, place.within, HEAD)
    if len(data) == HEAD and data.lstrip(b"\xef\xbb\xbf\r\n").startswith(b"---") and data.count(b"\n---") < 1:
        data = _bytes(path, place.within, MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise SettingsError(f"{path}: larger than {MOST_BYTES:,} bytes")
    return data.decode(errors="replace")


def _bytes(path: str, within: tuple[Path, ...] | None, most: int) -> bytes:
    real = path
    if within is not None:
        real = os.path.realpath(path)
        if not any(Path(real).is_relative_to(root) for root in within):
            raise SettingsError(f"{path}: a link that leads out of the directory that may bring skills")
    try:
        data = read_plain(real, most, follow=within is None)
    except SettingsError as error:  # shows the path that people know
        raise SettingsError(str(error).replace(real, path, 1)) from None
    if data is None:
        raise SettingsError(f"{path}: there is no such file")
    if b"\0" in data:
        raise SettingsError(f"{path}: not a text file")
    return data


# --- fields


def _as(name: str) -> Callable[[Any], Any]:
    """The reader of the agent definition's field with the same meaning."""
    field = find_field(name)
    assert field is not None
    return field.read


def _context(value: Any) -> str | None:
    if value in ("fork", "inline"):
        return "fork" if value == "fork" else None
    raise Wrong("must be fork, or left out")


def _hint(value: Any) -> str:
    if isinstance(value, list):  # `[file] [words]` without quotes
        return " ".join(f"[{item}]" for item in cast("list[Any]", value))
    return text(value)


_yes_no = _as("background")
# (key, reader, guards). `guards`: it limits the skill, so a skill in which it is unreadable is not used at all.
_FIELDS: dict[str, tuple[str, Callable[[Any], Any], bool]] = {
    "name": ("name", text, False),
    "description": ("description", text, False),
    "whentouse": ("when", text, False),
    "model": ("model", _as("model"), False),
    "effort": ("effort", _as("effort"), False),
    "context": ("context", _context, True),
    "agent": ("agent", text, True),
    "argumenthint": ("argument_hint", _hint, False),
    "disablemodelinvocation": ("disable_model_invocation", _yes_no, True),
    "userinvocable": ("user_invocable", _yes_no, True),
}


def _fill(form: _SkillForm, document: Document) -> None:
    for key, value in document.fields.items():
        flat = key.replace("-", "").replace("_", "").lower()
        where = f"line {document.lines[key]}: " if key in document.lines else ""
        if flat == "allowedtools":
            form.values["allowed_tools"] = _rules(value, f"{where}{key}", form.warnings)
        elif flat in _FIELDS:
            _put(form, _FIELDS[flat], value, f"{where}{key}")
        elif flat not in _SILENT and len(form.unread) < _MOST_UNREAD:
            form.unread.append(key)


def _put(form: _SkillForm, field: tuple[str, Callable[[Any], Any], bool], value: Any, where: str) -> None:
    name, read, guards = field
    if value is None:
        return
    try:
        form.values[name] = read(value)
    except Wrong as wrong:
        if guards:
            form.errors.append(f"{where}: {wrong}")
        else:
            form.warnings.append(f"{where}: {wrong}; ignored")


def _rules(value: Any, where: str, warnings: list[str]) -> tuple[str, ...]:
    """The usable rules; an unusable one allows nothing and does not affect the others."""
    items = cast("list[Any]", value) if isinstance(value, list) else [] if value is None else [value]
    found: dict[str, None] = {}
    for item in items:
        if not isinstance(item, str):
            warnings.append(f"{where}: must be a list of rules, or rules with commas between them; ignored")
            continue
        for rule in split_rules(item):
            read = parse_rule(rule, "session")
            if isinstance(read, Problem):
                warnings.append(f"{where}: `{shown(rule, 80)}`: {read.reason}; ignored")
            else:
                found[rule] = None
    return tuple(found)


# --- putting it together


def _outcome(form: _SkillForm, document: Document, shelf: Shelf, path: str, stem: str) -> SkillOutcome:
    values, place = form.values, shelf.place
    said = values.pop("name", "")
    name = said if said and not check_name(said) else stem  # a title such as `My skill` cannot be typed as a command
    if fault := check_name(name):
        form.errors.append(f"name: {fault}")
        name = shown(name, MOST_NAME)
    full = f"{place.namespace}:{name}" if place.namespace else name
    description = values.pop("description", "") or _first_words(document.body)
    if when := values.pop("when", ""):
        description = f"{description} {when}".strip()
    problems = _problems(form, shelf, path)
    unread = tuple(Unread(shelf.kind, shown(key, 40), path, document.lines.get(key, 0)) for key in form.unread)
    if form.errors:
        return SkillOutcome(full, place.source, path, error="; ".join(form.errors), problems=problems, unread=unread)
    agent = values.pop("agent", None) or None
    skill = Skill(
        name=full,
        namespace=place.namespace,
        description=description,
        agent=agent,
        kind=shelf.kind,
        source=place.source,
        path=path,
        root=shelf.root,
        **values,
    )
    return SkillOutcome(full, place.source, path, skill, problems=problems, unread=unread)


def _problems(form: _SkillForm, shelf: Shelf, path: str) -> tuple[str, ...]:
    where = shown(path, _MOST_WORDS)
    told = [*form.warnings, *(f"{words}; the {shelf.kind} is ignored" for words in form.errors)]
    joints = (", " if words.startswith("line ") else ": " for words in told)
    return tuple(where + joint + shown(words, _MOST_WORDS) for joint, words in zip(joints, told, strict=True))


def _first_words(body: str) -> str:
    line = next((line.strip().lstrip("#").strip() for line in body.splitlines() if line.strip(" #\t")), "")
    return shown(line, _MOST_GUESSED)
