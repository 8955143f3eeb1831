"""StructuredOutput: takes the answer as data that fits a schema, for the calling program, and ends the turn."""

from collections.abc import Mapping
from typing import Any

from teamwright.core.data.message import ToolSpec
from teamwright.core.errors import ToolError, UsageError
from teamwright.core.ports import Outcome, ToolContext, said
from teamwright.core.text import shown
from teamwright.runtime.tool_traits import ToolTraits

NAME = "StructuredOutput"
ASKED = f"Give your answer by calling {NAME} now: plain text is not read. Its arguments are the answer itself."
DESCRIPTION = """\
Gives your final answer as data. Call it exactly once, when everything else is done: its arguments are the answer, \
and the turn ends with it."""
MOST_REMINDERS = 3  # per turn
_DONE = "The answer was taken."


class StructuredOutput:
    traits = ToolTraits(name=NAME, audience="main", own=True)
    ask = False  # it is the answer itself, so it needs no approval

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Raises UsageError for an invalid schema, or one whose top level is not an object."""
        from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415  # slow to import, seldom needed

        if schema.get("type", "object") != "object":
            raise UsageError("the schema of an answer must be of type `object`: its fields are the answer's")
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            raise UsageError(f"the schema of an answer is no JSON schema: {error.message}") from None
        self._validator: Any = Draft202012Validator(schema, registry=_known(schema))
        self.spec = ToolSpec(NAME, DESCRIPTION, {"type": "object", **schema})

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        from referencing.exceptions import Unresolvable  # noqa: PLC0415

        try:
            wrong: Any = next(iter(self._validator.iter_errors(dict(args))), None)
        except (RecursionError, ArithmeticError, LookupError, TypeError, ValueError, Unresolvable) as error:
            # only using the caller's schema shows, say, that it has no end
            raise ToolError(f"The schema of the answer cannot be applied: {shown(repr(error))}.") from None
        if wrong is not None:
            where = "/".join(map(str, wrong.absolute_path)) or "the answer"
            raise ToolError(f"{where}: {wrong.message}. Call {NAME} again with an answer that fits its schema.")
        done = said(_DONE, {"structured_output": dict(args)})
        return Outcome(done.content, done.data, ends_turn=True)


def _known(schema: Mapping[str, Any]) -> Any:
    """What the schema may refer to: itself and JSON Schema; nothing is fetched. Raises UsageError if it refers to
    anything else, or to what is no schema."""
    from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415
    from jsonschema.validators import validator_for  # noqa: PLC0415
    from jsonschema_specifications import REGISTRY  # noqa: PLC0415
    from referencing.exceptions import Unresolvable  # noqa: PLC0415
    from referencing.jsonschema import DRAFT202012  # noqa: PLC0415

    known: Any = REGISTRY
    whole: Any = DRAFT202012.create_resource(schema)
    left: list[tuple[Any, Any]] = [(whole, known.resolver_with_root(whole))]
    seen = set[int]()  # what references lead to: it may lie where no schema is looked for
    while left:
        part, resolver = left.pop()
        ref = ""
        try:
            left += [(inner, resolver.in_subresource(inner)) for inner in part.subresources()]
            for ref in _references(part.contents):
                found = resolver.lookup(ref)
                validator_for(found.contents, default=Draft202012Validator).check_schema(found.contents)
                if id(found.contents) not in seen:
                    seen.add(id(found.contents))
                    left.append((DRAFT202012.create_resource(found.contents), found.resolver))
        except (Unresolvable, SchemaError, LookupError, TypeError, ValueError) as error:
            fault = shown(ref or str(error))
            raise UsageError(f"the schema of an answer refers to what is no schema in it: {fault}") from None
    return known


def _references(part: Any) -> list[str]:
    return [part[name] for name in ("$ref", "$dynamicRef") if name in part] if isinstance(part, Mapping) else []


class WantsData:
    """Stop hook for a turn that gave no data: asks for the answer again, a few times."""

    def __init__(self) -> None:
        self._reminders = 0

    def __call__(self, payload: dict[str, Any]) -> dict[str, Any] | None:
        self._reminders = self._reminders + 1 if payload.get("stop_hook_active") else 1
        return None if self._reminders > MOST_REMINDERS else {"decision": "block", "reason": ASKED}
