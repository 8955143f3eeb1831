"""Agents' questions as the editor's own dialogs: complete, with the asker's name, and withdrawn once settled."""

import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

import anyio
import msgspec
from anyio import to_thread
from anyio.abc import TaskGroup
from msgspec.structs import replace

from teamwright.app import Options
from teamwright.core.data.extensions.server import ELICITATION
from teamwright.core.errors import TeamwrightError
from teamwright.core.ids import AgentId, QuestionId
from teamwright.core.permissions.consent import Allow, Decision, Deny, Question
from teamwright.runtime.port import SessionPort
from teamwright.surfaces.acp.protocol.shapes import PermissionAnswer
from teamwright.surfaces.acp.protocol.wire import RpcError, Wire
from teamwright.surfaces.acp.questions import forms
from teamwright.surfaces.acp.updates import content as shows
from teamwright.surfaces.port.answering import GivenAnswer, Scope, give_answer
from teamwright.surfaces.view.diff import rows_of
from teamwright.surfaces.view.sentences import refusal
from teamwright.surfaces.view.text import is_plan, is_question, one_line
from teamwright.tools.bounds import visible
from teamwright.tools.catalog import traits_of

GONE = "The editor has gone, so nobody can approve this."
UNSHOWN = "The question could not be shown to the person, so nobody approved this."
DISMISSED = "The person closed the question without an answer."
_YES: dict[str, Scope] = {"once": "once", "agent": "agent", "all": "all", "edits": "edits"}


class EditorConsent:
    """Several questions may be open at once; each is asked on the root session, whoever asks."""

    def __init__(self, session: str, port: SessionPort, wire: Wire, group: TaskGroup, options: Options) -> None:
        self._session, self._port, self._wire = session, port, wire
        self._group, self._options = group, options
        self.open: dict[QuestionId, Question] = {}
        self._scopes: dict[QuestionId, anyio.CancelScope] = {}

    def asked(self, question: Question) -> None:
        if question.id not in self.open:
            self.open[question.id] = question
            self._group.start_soon(self._ask, question)

    def answered(self, id: QuestionId) -> None:
        """Somebody was quicker, or the answer is no longer needed: withdraw the dialog."""
        self.open.pop(id, None)
        if (scope := self._scopes.get(id)) is not None:
            scope.cancel()

    async def _ask(self, question: Question) -> None:
        with anyio.CancelScope() as scope:
            self._scopes[question.id] = scope
            try:
                given = await self._put(question)
            except RpcError as error:
                given = GivenAnswer(question, Deny(f"The editor did not ask the person: {error}."))
            except Exception:  # noqa: BLE001  # the edge of a surface: what cannot be shown is a no, and the others go on
                traceback.print_exc()
                given = GivenAnswer(question, Deny(UNSHOWN))
            finally:
                del self._scopes[question.id]
            self.open.pop(question.id, None)
            await self._give(given)

    async def _give(self, given: GivenAnswer) -> None:
        with suppress(TeamwrightError):  # it was answered elsewhere meanwhile
            await give_answer(self._port, list(self.open.values()), replace(given, via="acp"), self._options)

    async def _put(self, question: Question) -> GivenAnswer:
        if self._wire.gone.is_set():
            return GivenAnswer(question, Deny(GONE))
        if question.tool == ELICITATION or is_question(question.tool):
            return GivenAnswer(question, await forms.put(self._wire, self._session, question))
        main, options = self._port.main, options_of(question, main=self._port.main)
        call = await asked_call(question, self._port.facts.cwd, main=main)
        request = {"sessionId": self._session, "toolCall": call, "options": options}
        chosen = chosen_of(await self._wire.ask("session/request_permission", request))
        offered = {option["optionId"] for option in options}
        if chosen in _YES and chosen in offered:
            return GivenAnswer(question, Allow(), _YES[chosen])
        return GivenAnswer(question, _no(chosen, offered))


def _no(chosen: str, offered: set[str]) -> Decision:
    if not chosen:
        return Deny(DISMISSED)
    if chosen in offered:
        return Deny(refusal())
    return Deny(f"The editor answered with the option {one_line(chosen, 40)!r}, which was not offered: that is a no.")


def chosen_of(answer: object) -> str:
    """The id of an option; empty if the dialog was closed, or its answer cannot be read."""
    try:
        outcome = msgspec.convert(answer, PermissionAnswer).outcome
    except msgspec.ValidationError:
        return ""
    return outcome.optionId if outcome.outcome == "selected" else ""


def options_of(question: Question, *, main: AgentId) -> list[dict[str, str]]:
    if is_plan(question.tool):
        edits = [_option("edits", "Approve, and accept edits from now on", "allow_always")]
        yes = [_option("once", "Approve", "allow_once"), *(edits if question.agent == main else [])]
        return [*yes, _option("no", "Keep planning", "reject_once")]
    options = [_option("once", "Allow this once", "allow_once")]
    if rules := ", ".join(visible(rule) for rule in question.suggestions):
        if question.agent != main:
            name = f"Always allow for {one_line(question.agent_name, 40)}: {rules}"
            options.append(_option("agent", name, "allow_always"))
        options.append(_option("all", f"Always allow in this session: {rules}", "allow_always"))
    return [*options, _option("no", "Deny", "reject_once")]


def _option(id: str, name: str, kind: str) -> dict[str, str]:
    return {"optionId": id, "name": name, "kind": kind}


async def asked_call(question: Question, cwd: str, *, main: AgentId) -> dict[str, Any]:
    """Everything that a yes would cover, without cuts."""
    title = shows.title_of(question.tool, question.args, cwd)
    if is_plan(question.tool):
        title = "Carry out this plan?"
    if question.agent != main:
        title = f"{one_line(question.agent_name, 60)}: {title}"
    return {
        "toolCallId": question.call_id,
        "title": title,
        "kind": shows.kind_of(question.tool),
        "status": "pending",
        "content": await _content(question, cwd),
        "locations": shows.locations_of(question.tool, question.args, cwd),
        "rawInput": _visible(question.args),
    }


async def _content(question: Question, cwd: str) -> list[dict[str, Any]]:
    if is_plan(question.tool):
        return [shows.text_content(visible(str(question.args.get("plan", ""))))]
    diffs = await to_thread.run_sync(shows.diffs_before, question.tool, question.args, question.patch, cwd)
    shown = diffs if diffs and not _hides(diffs) else []
    rows = [] if shown else rows_of(question.tool, question.args, patch=question.patch)
    text = "\n".join(row.text for row in rows)
    if traits_of(question.tool).runs:
        text = f"```sh\n{text}\n```" if "```" not in text else text
    why = visible(question.reason)
    return [*diffs, *([shows.text_content(text)] if text else []), shows.text_content(why)]


def _hides(diffs: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a diff contains what an editor draws as nothing, or as something else."""
    return any(visible(diff["newText"]) != diff["newText"].replace("\r\n", "\n") for diff in diffs)


def _visible(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {visible(str(name)): _visible(part) for name, part in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list):
        return [_visible(part) for part in cast("list[Any]", value)]
    return value
