"""Makes a tool from a typed function: its signature is the schema, its docstring the description for the model."""

import inspect
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


class FunctionTool:
    """Made by `tool`; may still be called as the function that it was."""

    def __init__(self, function: Function, *, name: str, parallel: bool, ask: bool) -> None:
        self._function = function
        self.ask = ask  # is the person asked before it runs?
        hints = get_type_hints(function, include_extras=True)
        parameters = inspect.signature(function).parameters.values()
        self._context = next((p.name for p in parameters if hints.get(p.name) is ToolContext), None)
        self._args = _struct(name, [p for p in parameters if p.name != self._context], hints)
        self.spec = spec(name, inspect.getdoc(function) or name, self._args, parallel=parallel)

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

    `parallel` says that it has no effects and may run beside other calls. A tool that is handed to a session in code
    runs unasked, unless `ask` is set or a rule denies it.
    """
    if function is not None:
        return FunctionTool(function, name=function.__name__, parallel=False, ask=False)

    def make(f: Function) -> FunctionTool:
        return FunctionTool(f, name=name or f.__name__, parallel=parallel, ask=ask)

    return make
