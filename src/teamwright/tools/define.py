"""Defines a tool from one struct of arguments: the schema that the model sees and the check of what it sends."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from teamwright.core.data.message import ToolSpec
from teamwright.core.errors import ToolError
from teamwright.core.text import shown

Args = TypeVar("Args", bound=Struct)
# Struct of arguments -> its schema, as `scripts/prompts --write` makes it.
_SCHEMAS = msgspec.json.decode(Path(__file__).with_name("schemas.json").read_bytes(), type=dict[str, msgspec.Raw])


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
    """A JSON schema, anew for each caller. Those of our own tools are read: making one takes a millisecond."""
    known = _SCHEMAS.get(f"{args.__module__}.{args.__name__}")
    if known is not None:
        return msgspec.json.decode(known)
    from teamwright.tools.function import make_schema  # noqa: PLC0415  # for tools that somebody brought

    return make_schema(args)


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
