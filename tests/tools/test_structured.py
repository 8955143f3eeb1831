"""Schemas of answers: what they may refer to."""

from typing import Any

import pytest

from teamwright.core.errors import UsageError
from teamwright.tools.structured import StructuredOutput


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ({"$ref": "#/nope"}, "#/nope"),
        ({"properties": {"a": {"items": {"$ref": "http://127.0.0.1:9/x"}}}}, "127.0.0.1:9"),
        ({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"anyOf": [{"$ref": "#b"}]}}}, "#b"),
        ({"anyOf": [{}], "properties": {"a": {"$ref": "#/anyOf/foo"}}}, "#/anyOf/foo"),
        ({"properties": {"a": {"$ref": "#/additionalProperties/x"}}, "additionalProperties": True}, "Properties/x"),
        ({"type": "object", "properties": {"a": {"$ref": "#/type"}}}, "#/type"),
        ({"properties": {"a": {"$dynamicRef": "#nope"}}}, "#nope"),
        ({"properties": {"a": {"$ref": "#/own/a"}}, "own": {"a": {"$ref": "#/nope"}}}, "#/nope"),
        ({"$id": "https://x/y", "properties": {"a": {"$ref": "/z"}}, "$defs": {"z": {"$id": "/z"}}}, ""),
        ({"$dynamicAnchor": "n", "properties": {"a": {"$dynamicRef": "#n"}}}, ""),
        ({"properties": {"a": {"$ref": "#/own/a"}}, "own": {"a": {"$ref": "#"}}}, ""),
        ({"properties": {"$ref": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"const": {"$ref": "x"}}}}, ""),
        ({"properties": {"a": {"$ref": "#"}, "b": {"$ref": "https://json-schema.org/draft/2020-12/schema"}}}, ""),
        ({"properties": {"a": {"$ref": "u:b#/$defs/c"}}, "$defs": {"b": {"$id": "u:b", "$defs": {"c": {}}}}}, ""),
    ],
)
def test_a_schema_may_refer_to_what_is_in_it(schema: dict[str, Any], fault: str) -> None:
    """Nothing is fetched, and an answer is not needed to find out."""
    if fault:
        with pytest.raises(UsageError, match=fault):
            StructuredOutput(schema)
    else:
        StructuredOutput(schema)
