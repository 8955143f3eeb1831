"""Makes a tool from a typed function: its signature is the schema, its docstring the description for the model."""

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints, overload

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
    """Made by `tool`; may still be called as the function that it was."""

    def __init__(self, function: Function, *, name: str, parallel: bool, ask: bool) -> None:
        self._function = function
        self.ask = ask  # is the person asked before it runs?
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
        except Exception as error:  # whatever a user's function raises is words for the model
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
