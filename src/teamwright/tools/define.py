"""Defines a tool from one struct of arguments: the schema that the model sees and the check of what it sends."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from teamwright.core.data.message import ToolSpec
from teamwright.core.errors import ToolError
from teamwright.core.text import shown

Args = TypeVar("Args", bound=Struct)


def spec(
    name: str,
    description: str,
    args: type[Struct],
    *,
    parallel: bool = False,
    stores: bool = False,
    unseen: Collection[str] = (),
) -> ToolSpec:
    """The tool as the model is told of it; for the two flags see `ToolSpec`. `unseen`: understood, not told."""
    schema = schema_of(args)
    shown = {key: about for key, about in schema["properties"].items() if key not in unseen}
    return ToolSpec(name, description, schema | {"properties": shown}, parallel, stores)


def schema_of(args: type[Struct]) -> dict[str, Any]:
    """A plain JSON schema: nothing nested by reference, no titles, optional fields simply not required."""
    (top,), parts = msgspec.json.schema_components([args])
    schema = cast("dict[str, Any]", _plain(top, parts))
    schema.pop("description", None)  # the docstring is for readers of the code
    for about in schema["properties"].values():
        if about.get("default") in (False, ""):  # what is left out is off, or empty
            del about["default"]
    for name, values in _choices(args):
        _put_in_order(schema["properties"][name], values)
    return schema if schema.get("required") else {key: value for key, value in schema.items() if key != "required"}


def _choices(args: type[Struct]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each field with a choice of words, and the words in the order in which they were written."""
    hints = get_type_hints(args)
    for field, name in zip(args.__struct_fields__, args.__struct_encode_fields__, strict=True):
        kinds = (hints[field], *get_args(hints[field]))
        if found := next((get_args(kind) for kind in kinds if get_origin(kind) is Literal), ()):
            yield name, found


def _put_in_order(node: dict[str, Any], values: tuple[str, ...]) -> None:
    """msgspec sorts them by the alphabet and leaves out their type."""
    for part in (node, *node.get("anyOf", ())):
        if "enum" in part:
            about = {key: part.pop(key) for key in ("description", "default") if key in part}
            part.update({"type": "string", "enum": list(values)} | about)


def _plain(node: Any, parts: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_plain(item, parts) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    found = cast("dict[str, Any]", node)
    if "$ref" in found:
        return _plain(parts[found["$ref"].rsplit("/", 1)[1]], parts)
    if {"type": "null"} in found.get("anyOf", []):
        return _optional(found, parts)
    dull = {"title", "minimum"} if found.get("minimum") in (0, 1) else {"title"}  # nobody counts from below
    return {k: _plain(v, parts) for k, v in found.items() if k not in dull}


def _optional(node: dict[str, Any], parts: Mapping[str, Any]) -> dict[str, Any]:
    """`X | None = None` is shown as X: a model leaves it out rather than sending null."""
    choices = [c for c in node["anyOf"] if c != {"type": "null"}]
    rest = {k: v for k, v in node.items() if k not in ("anyOf", "default", "title")}
    shown = _plain(choices[0], parts) if len(choices) == 1 else {"anyOf": _plain(choices, parts)}
    return shown | rest


def read_args(kind: type[Args], args: Mapping[str, Any]) -> Args:
    """The arguments as a struct, or words that tell the model which one is wrong."""
    try:
        return msgspec.convert(args, kind, strict=False)
    except msgspec.ValidationError as error:
        names = [field.encode_name for field in msgspec.structs.fields(kind)]
        unknown = ", ".join(f"`{shown(name, 40)}`" for name in list(args)[:5] if name not in names)
        hint = f" There is no {unknown}; the arguments are {', '.join(names)}." if unknown else ""
        raise ToolError(
            f"The arguments do not fit: {error}.{hint} Call the tool again with corrected arguments."
        ) from None
