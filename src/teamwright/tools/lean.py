"""The lean tool set, for models with a small window: six tools, each told of in a sentence or two."""

from collections.abc import Collection, Mapping
from typing import Any, cast

from msgspec.structs import replace

from teamwright.core.data.message import ToolSpec
from teamwright.tools.bash import BashTool
from teamwright.tools.files.edit import EditTool
from teamwright.tools.files.read import ReadTool
from teamwright.tools.files.search import GlobTool, GrepTool
from teamwright.tools.files.write import WriteTool

_TEXTS = {
    ReadTool.traits.name: "Reads a file and shows it with line numbers. For a part of it give offset and limit.",
    WriteTool.traits.name: "Writes a whole file. A file that exists must have been Read before.",
    EditTool.traits.name: (
        "Replaces old_string, which must stand in the file exactly once, white space included, without line numbers. "
        "The file must not have changed since you last saw it."
    ),
    GlobTool.traits.name: "Finds files by name, e.g. `**/*.py`.",
    GrepTool.traits.name: (
        "Searches files with a regular expression. `glob` limits the files, e.g. `*.py`; output_mode content shows the "
        "lines, with `-C` lines around them."
    ),
    BashTool.traits.name: (
        "Runs a command line in bash and returns what it printed and its exit code. The working directory is kept. "
        "There is no input and no terminal. `timeout` is in milliseconds."
    ),
}
_DROPPED = {
    GrepTool.traits.name: frozenset(("type", "-n", "-A", "-B", "head_limit", "offset", "multiline")),
    BashTool.traits.name: frozenset(("description",)),
}
LEAN = tuple(_TEXTS)


def lean_spec(spec: ToolSpec) -> ToolSpec:
    """The same tool described in fewer words. Hidden parameters are still accepted."""
    if spec.name not in _TEXTS:
        return spec
    dropped = _DROPPED.get(spec.name, frozenset[str]())
    schema = {**spec.schema, "properties": _bare(_properties(spec), dropped)}
    return replace(spec, description=_TEXTS[spec.name], schema=schema)


def is_lean(specs: Collection[ToolSpec]) -> bool:
    """Are these tools lean? Lean ones have no parameter descriptions, in whichever version they were made."""
    ours = [spec for spec in specs if spec.name in _TEXTS]
    return bool(ours) and not any("description" in p for spec in ours for p in _properties(spec).values())


def _properties(spec: ToolSpec) -> Mapping[str, Mapping[str, Any]]:
    return cast("Mapping[str, Mapping[str, Any]]", spec.schema["properties"])


def _bare(properties: Mapping[str, Mapping[str, Any]], dropped: Collection[str]) -> dict[str, dict[str, Any]]:
    return {
        name: {key: value for key, value in told.items() if key != "description"}
        for name, told in properties.items()
        if name not in dropped
    }
