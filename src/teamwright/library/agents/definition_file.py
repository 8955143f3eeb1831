"""Reads one agent definition from a Markdown file or a JSON object, and reports what is wrong with it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import Struct

from teamwright.core.data.definition import AgentDefinition, DefinitionSource
from teamwright.core.data.extensions.unread import Unread
from teamwright.core.errors import SettingsError
from teamwright.core.text import shown
from teamwright.library.agents.definition_fields import MOST_NAME, Field, Wrong, check_name, find_field
from teamwright.osfiles.reading import read_whole

if TYPE_CHECKING:
    from teamwright.library.frontmatter import Document

MOST_BYTES = 1_000_000
_MOST_WORDS = 1000  # characters of a problem line
_MOST_UNREAD = 20  # fields per file


class DefinitionFolder(Struct, frozen=True):
    """A directory of definitions. Links in it may lead anywhere, or only into the directories of `within`."""

    source: DefinitionSource
    folder: Path
    namespace: str = ""  # a plugin's: its agents are called `namespace:name`
    within: tuple[Path, ...] | None = None


class ReadDefinition(Struct, frozen=True):
    """The result for one file or object: a definition or an error, one line per problem, and unused fields."""

    name: str
    source: DefinitionSource
    path: str = ""
    definition: AgentDefinition | None = None
    description: str = ""
    error: str = ""
    problems: tuple[str, ...] = ()
    unread: tuple[Unread, ...] = ()


class _Form(Struct):
    """A definition being read. `where` starts the lines about it; `lines` maps fields to their lines in the file."""

    where: str
    lines: Mapping[str, int]
    values: dict[str, Any]
    warnings: list[str]
    errors: list[str]
    unread: list[Unread]

    def place(self, key: str) -> str:
        return f"line {self.lines[key]}: " if key in self.lines else ""


def read_file(path: str, place: DefinitionFolder) -> ReadDefinition:
    """Never raises, whatever the file contains and whatever kind of file it is."""
    stem = _stem(path)
    try:
        text, warnings = _text(path, place)
        from teamwright.library.frontmatter import split  # noqa: PLC0415  # most homes hold no definition

        document = split(text, path)
    except SettingsError as error:
        words = shown(str(error), _MOST_WORDS)
        reason = shown(str(error).removeprefix(path).lstrip(":, "), _MOST_WORDS)
        return ReadDefinition(stem, place.source, path, error=reason, problems=(f"{words}; the file is ignored",))
    form = _Form(path, document.lines, {}, [*warnings, *document.warnings], [], [])
    if not document.has_frontmatter:
        form.errors.append("line 1: there is no frontmatter; begin with `---`, `description: ...`, `---`")
    else:
        _fill(form, document.fields)
        _settle_markdown(form, document, stem)
    return _outcome(form, place, path)


def read_object(name: str, value: Any, source: DefinitionSource, where: str, path: str = "") -> ReadDefinition:
    """Reads one entry of `{name: {description, prompt, ...}}`. Never raises, whatever it contains."""
    form = _Form(f"{where}: {shown(name, 80)}", {}, {}, [], [], [])
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value)
        _fill(form, {key: given for key, given in pairs.items() if given is not None})
        if form.values.get("name", name) != name:
            form.warnings.append("name: differs from the key, which counts")
    else:
        form.errors.append("must be an object")
    form.values["name"] = name
    return _outcome(form, DefinitionFolder(source, Path()), path)


def _stem(path: str) -> str:
    return os.path.basename(path).removesuffix(".md")  # noqa: PTH119  # called for every file of a scan


def _text(path: str, place: DefinitionFolder) -> tuple[str, list[str]]:
    real = os.path.realpath(path)
    if place.within is not None and not any(Path(real).is_relative_to(root) for root in place.within):
        raise SettingsError(f"{path}: a link that leads out of the project")
    try:
        data = read_whole(real, MOST_BYTES, follow=False)
    except SettingsError as error:  # shows the path that people know
        raise SettingsError(str(error).replace(real, path, 1)) from None
    if data is None:
        raise SettingsError(f"{path}: there is no such file")
    text = data.decode(errors="replace")
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return text, [f"line {line}: bytes that are not UTF-8 were replaced"]
    return text, []


def _fill(form: _Form, fields: Mapping[str, Any]) -> None:
    """Reads all known fields and notes the others."""
    for key, value in fields.items():
        field = find_field(key)
        if field is not None:
            _put(form, field, key, value)
        elif len(form.unread) < _MOST_UNREAD:
            form.unread.append(Unread("agent file", shown(key, 40), form.where, form.lines.get(key, 0)))


def _put(form: _Form, field: Field, key: str, value: Any) -> None:
    if field.name in form.values:
        form.warnings.append(f"{form.place(key)}{key}: given twice; the last one counts")
    if value is None and field.name != "tools":
        return
    try:
        form.values[field.name] = field.read(value)
        if field.doubts is not None:
            form.warnings += (f"{form.place(key)}{key}: {words}" for words in field.doubts(value))
    except Wrong as wrong:
        words = f"{form.place(key)}{key}: {wrong}"
        if field.guards:
            form.errors.append(words)
        else:
            form.warnings.append(f"{words}; ignored")


def _settle_markdown(form: _Form, document: "Document", stem: str) -> None:
    """The body becomes the prompt; without a `name` field the file's name becomes the agent's."""
    if form.values.pop("prompt", None):
        form.warnings.append("prompt: ignored; in a Markdown file the text after the frontmatter is the prompt")
    form.values["prompt"] = document.body.strip()
    form.values["name"] = form.values.get("name") or stem


def _outcome(form: _Form, place: DefinitionFolder, path: str) -> ReadDefinition:
    values = form.values
    name = values.get("name") or _stem(path)
    if fault := check_name(name):
        form.errors.append(f"name: {fault}")
        name = shown(name, MOST_NAME)
    full = f"{place.namespace}:{name}" if place.namespace else name
    description = values.get("description", "")
    if not description and not form.errors:
        form.errors.append("there is no description, which says when to use the agent")
    where = shown(form.where, _MOST_WORDS)
    told = [*form.warnings, *(f"{words}; the definition is ignored" for words in form.errors)]
    problems = tuple(where + _joint(words) + shown(words, _MOST_WORDS) for words in told)
    definition = None
    if not form.errors:
        definition = msgspec.convert(values | {"name": full, "source": place.source, "path": path}, AgentDefinition)
    error, unread = "; ".join(form.errors), tuple(form.unread)
    return ReadDefinition(full, place.source, path, definition, description, error, problems, unread)


def _joint(words: str) -> str:
    return ", " if words.startswith("line ") else ": "
