"""Reads people's YAML as plain values, event by event: no aliases, no tags, limited depth.

PyYAML's composer recurses in C without a limit: a file of nothing but brackets would crash the program. Import this
module only where YAML is really needed, because the import is slow.
"""

from collections.abc import Iterator
from typing import Any, cast

import yaml
from yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
)

from teamwright.library.fields import FieldFault, Fields, scalar

DEEPEST = 20
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def read_mapping(text: str) -> Fields:
    """Reads a text that is one mapping; an empty text is an empty mapping. Raises FieldFault."""
    try:
        return _document(_events(text))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise FieldFault(f"not valid YAML: {error.problem}", mark.line if mark else 0) from None
    except yaml.YAMLError:  # from the character reader, which knows no line
        raise FieldFault("a character that cannot be in YAML", _unprintable(text)) from None


def _events(text: str) -> Iterator[Event]:
    return iter(cast("Iterator[Event]", yaml.parse(text, Loader=_LOADER)))  # pyright: ignore[reportUnknownMemberType]


def _unprintable(text: str) -> int:
    return next((n for n, line in enumerate(text.split("\n")) if not line.replace("\t", "").isprintable()), 0)


def _document(events: Iterator[Event]) -> Fields:
    fields = Fields()
    documents = 0
    for event in events:
        documents += isinstance(event, DocumentStartEvent)
        if documents > 1:
            raise FieldFault("a second document begins here", _line(event))
        if isinstance(event, MappingStartEvent):
            _fill(fields, event, events, 1)
        elif isinstance(event, NodeEvent):
            raise FieldFault("a line `key: value` is expected here", _line(event))
    return fields


def _fill(fields: Fields, start: Event, events: Iterator[Event], depth: int) -> None:
    """Reads the pairs of a mapping that has just begun."""
    _check(start, depth)
    while not isinstance(event := next(events), MappingEndEvent):
        _check(event, depth)
        if not isinstance(event, ScalarEvent):
            raise FieldFault("a key must be a plain word", _line(event))
        fields.put(event.value, _value(next(events), events, depth + 1, fields.warnings), _line(event))


def _value(event: Event, events: Iterator[Event], depth: int, warnings: list[tuple[int, str]]) -> Any:
    if isinstance(event, MappingStartEvent):
        inner = Fields(warnings=warnings)
        _fill(inner, event, events, depth)
        return inner.values
    _check(event, depth)
    if isinstance(event, ScalarEvent):
        return scalar(event.value) if event.implicit[0] else event.value
    items: list[Any] = []
    while not isinstance(event := next(events), SequenceEndEvent):
        items.append(_value(event, events, depth + 1, warnings))
    return items


def _check(event: Event, depth: int) -> None:
    if isinstance(event, AliasEvent):
        raise FieldFault("`*name` refers to another value, which is not supported: write it out", _line(event))
    if isinstance(event, NodeEvent) and event.anchor is not None:
        raise FieldFault("`&name` names a value, which is not supported", _line(event))
    if isinstance(event, ScalarEvent | CollectionStartEvent) and event.tag is not None:
        raise FieldFault("`!name` gives a value a type, which is not supported", _line(event))
    if depth > DEEPEST:
        raise FieldFault(f"nested more than {DEEPEST} levels deep", _line(event))


def _line(event: Event) -> int:
    return event.start_mark.line
