"""Questions of an agent or a server to the person, as forms of the editor."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from teamwright.core.data.extensions.server import ELICITATION
from teamwright.core.permissions.consent import Allow, Decision, Deny, Question
from teamwright.surfaces.acp.protocol.shapes import FormAnswer
from teamwright.surfaces.acp.protocol.wire import Wire
from teamwright.surfaces.view.sentences import DECLINED
from teamwright.surfaces.view.text import one_line
from teamwright.tools.agents.ask import AskArgs, AskedQuestion
from teamwright.tools.bounds import visible

UNREADABLE = "The questions could not be read, so nobody was asked. Decide yourself, and say what you assumed."


async def put(wire: Wire, session: str, question: Question) -> Decision:
    """Raises RpcError if the editor cannot ask."""
    asked = _questions(question)
    if asked is None and question.tool != ELICITATION:
        return Deny(UNREADABLE)
    form = _form_of(asked) if asked is not None else _server_form(question)
    request = {"sessionId": session, "toolCallId": question.call_id, "mode": "form"} | form
    try:
        answer = msgspec.convert(await wire.ask("elicitation/create", request), FormAnswer)
    except msgspec.ValidationError:
        return Deny(DECLINED)
    if answer.action != "accept":
        return Deny(DECLINED)
    given = answer.content or {}
    if asked is None:
        return Allow({**question.args, "content": given})
    return Allow({**question.args, "answers": _answers(asked, given)})


def _questions(question: Question) -> list[AskedQuestion] | None:
    try:
        return msgspec.convert(question.args, AskArgs).questions
    except (msgspec.ValidationError, ValueError):
        return None


def _form_of(asked: list[AskedQuestion]) -> dict[str, Any]:
    """A choice for each question, with a line for any other answer."""
    properties: dict[str, Any] = {}
    for n, one in enumerate(asked, 1):
        choices = [{"const": o.label, "title": visible(f"{o.label}: {o.description}")} for o in one.options]
        about = {"title": one_line(one.header, 60), "description": visible(one.question)}
        if one.multi_select:
            properties[f"q{n}"] = about | {"type": "array", "items": {"anyOf": choices}}
        else:
            properties[f"q{n}"] = about | {"type": "string", "oneOf": choices}
        properties[f"q{n}_other"] = {"type": "string", "title": f"{one_line(one.header, 60)}: another answer"}
    message = "\n".join(visible(one.question) for one in asked)
    return {"message": message, "requestedSchema": {"type": "object", "properties": properties}}


def _answers(asked: list[AskedQuestion], given: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for n, one in enumerate(asked, 1):
        chosen: Any = given.get(f"q{n}_other") or given.get(f"q{n}")
        if isinstance(chosen, list):
            chosen = ", ".join(map(str, cast("list[Any]", chosen)))
        if chosen:
            found[one.question] = str(chosen)
    return found


def _server_form(question: Question) -> dict[str, Any]:
    who, words = str(question.args.get("server", "")), str(question.args.get("message", ""))
    schema: Any = question.args.get("schema")
    message = f"The MCP server {one_line(who, 60)} asks: {visible(words)}"
    return {"message": message, "requestedSchema": schema or {"type": "object", "properties": {}}}
