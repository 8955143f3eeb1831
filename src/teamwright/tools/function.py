"""Makes a tool from a typed function: the signature becomes the schema, the docstring the description."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints, overload

import anyio.to_thread
import msgspec
from msgspec import Struct

from teamwright.core.data.message import Text
from teamwright.core.errors import TeamwrightError, ToolError
from teamwright.core.ports import Outcome, ToolContext, said
from teamwright.tools.bounds import bounded, visible
from teamwright.tools.define import read_args, spec

Function = Callable[..., Any]
_HEADING = re.compile(r"^(Args|Arguments|Parameters):[ \t]*$", re.MULTILINE)
_ENTRY = re.compile(r"\*{0,2}(\w+)(?:\s*\([^)]*\))?\s*:\s*(.*)")


class FunctionTool:
    """A tool made by `tool`; can still be called like the function."""

    def __init__(self, function: Function, *, name: str, parallel: bool, ask: bool) -> None:
        self._function = function
        self.ask = ask  # must the person approve each call?
        hints = get_type_hints(function, include_extras=True)
        parameters = inspect.signature(function).parameters.values()
        self._context = next((p.name for p in parameters if hints.get(p.name) is ToolContext), None)
        self._args = _struct(name, [p for p in parameters if p.name != self._context], hints)
        about, notes = read_docstring(inspect.getdoc(function) or "")
        self.spec = spec(name, about or name, self._args, parallel=parallel)
        for field, schema in self.spec.schema["properties"].items():
            if words := _annotated(hints.get(field)) or notes.get(field):
                schema["description"] = words

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        struct = read_args(self._args, args)
        values = {name: getattr(struct, name) for name in self._args.__struct_fields__}
        if self._context:
            values[self._context] = ctx
        try:
            result = await self._run(values)
        except TeamwrightError:
            raise
        except Exception as error:  # whatever a user's function raises is reported to the model
            raise ToolError(f"{self.spec.name} failed: {type(error).__name__}: {error}") from error
        return result if isinstance(result, Outcome) else _outcome(result, ctx)

    async def _run(self, values: dict[str, Any]) -> Any:
        if inspect.iscoroutinefunction(self._function):
            return await self._function(**values)
        return await anyio.to_thread.run_sync(lambda: self._function(**values))


def _struct(name: str, parameters: list[inspect.Parameter], hints: Mapping[str, Any]) -> type[Struct]:
    fields: list[Any] = []
    for p in parameters:
        if p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
            raise TypeError(f"{name}: a tool's parameters have names; *args and **kwargs do not")
        kind = hints.get(p.name, Any)
        fields.append((p.name, kind) if p.default is p.empty else (p.name, kind, p.default))
    return msgspec.defstruct(f"{name}_arguments", fields, kw_only=True)


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """What it says of the function, and of each parameter in its section "Args:".

    >>> read_docstring("Add.\\n\\nArgs:\\n    a: one,\\n        or two\\n    b (int): three\\n\\nReturns a sum.")
    ('Add.\\n\\nReturns a sum.', {'a': 'one, or two', 'b': 'three'})
    """
    heading = _HEADING.search(text)
    if heading is None:
        return text, {}
    lines = text[heading.end() :].strip("\n").split("\n")
    many = next((n for n, line in enumerate(lines) if line and not line[0].isspace()), len(lines))
    notes: dict[str, str] = {}
    indent, name = None, ""
    for line in filter(str.strip, lines[:many]):
        deep = len(line) - len(line.lstrip())
        indent = deep if indent is None else indent
        if deep <= indent and (entry := _ENTRY.fullmatch(line.strip())):
            name, notes[entry[1]] = entry[1], entry[2]
        elif name:
            notes[name] = f"{notes[name]} {line.strip()}".strip()
    rest = "\n".join(lines[many:]).strip()
    return "\n\n".join(part for part in (text[: heading.start()].strip(), rest) if part), notes


def _annotated(hint: Any) -> str:
    """The text in `Annotated[str, "text"]`."""
    return next((found for found in getattr(hint, "__metadata__", ()) if isinstance(found, str)), "")


def _outcome(result: Any, ctx: ToolContext) -> Outcome:
    if result is None:
        return said("(no output)")
    text = result if isinstance(result, str) else msgspec.json.encode(result).decode()
    return Outcome((Text(bounded(visible(text), spill=ctx.desk.spill, name="tool")),))


@overload
def tool(function: Function, /) -> FunctionTool: ...
@overload
def tool(
    *, name: str | None = None, parallel: bool = False, ask: bool = False
) -> Callable[[Function], FunctionTool]: ...
def tool(
    function: Function | None = None, /, *, name: str | None = None, parallel: bool = False, ask: bool = False
) -> FunctionTool | Callable[[Function], FunctionTool]:
    """Make a tool of a function; it may be async, and may take a `ToolContext`.

    >>> @tool(parallel=True)
    ... def add(a: int, b: int) -> int:
    ...     "Add two numbers."
    ...     return a + b
    >>> add.spec.name, add(1, 2)
    ('add', 3)

    A parameter is described by `Annotated[int, "how many"]` or by its entry in the docstring's section "Args:".
    `parallel` says that it has no effects and may run beside other calls. A tool that is handed to a session in code
    runs unasked, unless `ask` is set or a rule denies it.
    """
    if function is not None:
        return FunctionTool(function, name=function.__name__, parallel=False, ask=False)

    def make(f: Function) -> FunctionTool:
        return FunctionTool(f, name=name or f.__name__, parallel=parallel, ask=ask)

    return make


# --- schemas


def make_schema(args: type[Struct]) -> dict[str, Any]:
    """A plain JSON schema: no references, no titles, optional fields simply not required."""
    (top,), parts = msgspec.json.schema_components([args])
    schema = cast("dict[str, Any]", _plain(top, parts))
    schema.pop("description", None)  # the docstring is for readers of the code
    for about in schema["properties"].values():
        if about.get("default") in (False, ""):  # off or empty is what leaving it out means
            del about["default"]
    for name, values in _choices(args):
        _put_in_order(schema["properties"][name], values)
    return schema if schema.get("required") else {key: value for key, value in schema.items() if key != "required"}


def _choices(args: type[Struct]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each field with a choice of words, and the words in their written order."""
    hints = get_type_hints(args)
    for field, name in zip(args.__struct_fields__, args.__struct_encode_fields__, strict=True):
        kinds = (hints[field], *get_args(hints[field]))
        if found := next((get_args(kind) for kind in kinds if get_origin(kind) is Literal), ()):
            yield name, found


def _put_in_order(node: dict[str, Any], values: tuple[str, ...]) -> None:
    """Restores the order and adds the type: msgspec sorts the values and omits it."""
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
    dull = {"title", "minimum"} if found.get("minimum") in (0, 1) else {"title"}  # no model counts from below 0 or 1
    return {k: _plain(v, parts) for k, v in found.items() if k not in dull}


def _optional(node: dict[str, Any], parts: Mapping[str, Any]) -> dict[str, Any]:
    """`X | None = None` is shown as X: a model leaves it out rather than sending null."""
    choices = [c for c in node["anyOf"] if c != {"type": "null"}]
    rest = {k: v for k, v in node.items() if k not in ("anyOf", "default", "title")}
    shown = _plain(choices[0], parts) if len(choices) == 1 else {"anyOf": _plain(choices, parts)}
    return shown | rest


def own_schemas() -> dict[str, dict[str, Any]]:
    """Schemas of all argument structs in this package by full name; `schemas.json` must match them."""
    from teamwright import tools  # noqa: PLC0415  # for scripts and tests

    found: dict[str, dict[str, Any]] = {}
    for place in pkgutil.walk_packages(tools.__path__, f"{tools.__name__}."):
        module = importlib.import_module(place.name)
        for name, kind in vars(module).items():
            if name.endswith("Args") and isinstance(kind, type(Struct)) and kind.__module__ == place.name:
                found[f"{place.name}.{name}"] = make_schema(kind)
    return dict(sorted(found.items()))
