"""Asks in the editor whether a directory is trusted, before anything in it is obeyed."""

from functools import partial

from anyio import to_thread

from teamwright.app import Options
from teamwright.surfaces.acp.protocol.wire import RpcError, Wire
from teamwright.surfaces.acp.questions.consent import chosen_of
from teamwright.surfaces.acp.updates.content import text_content
from teamwright.surfaces.port.trust_question import TrustAnswer, change_rows, open_question, remember, trust_rows
from teamwright.tools.bounds import visible

TOO_MUCH = "There is more in it than can be shown, so it can only be trusted by `teamwright trust`."
WARNING = "It holds settings, hooks, servers or agents that would run or decide things on this machine:"


async def ask_trust(wire: Wire, session: str, options: Options) -> bool:
    """True if the directory was not trusted before, and is now. The answer is remembered, as in the app."""
    asked = await to_thread.run_sync(open_question, options)
    if asked is None:
        return False
    try:
        chosen = chosen_of(await wire.ask("session/request_permission", _request(session, asked)))
    except RpcError:
        return False
    if chosen in ("yes", "no"):
        await to_thread.run_sync(partial(remember, asked, trusted=chosen == "yes"))
    return chosen == "yes"


def _request(session: str, asked: TrustAnswer) -> dict[str, object]:
    found = asked.found
    rows = change_rows(found) if found.changes else trust_rows(found)
    hidden = any(part.hidden for part in found.parts)
    words = "\n".join([WARNING, "", *(row.text for row in rows), *([TOO_MUCH] if hidden else [])])
    yes = {"optionId": "yes", "name": "Trust this directory", "kind": "allow_always"}
    no = {"optionId": "no", "name": "Work here without these files", "kind": "reject_once"}
    call = {
        "toolCallId": "trust",
        "title": f"Do you trust {visible(str(found.project))}?",
        "kind": "other",
        "status": "pending",
        "content": [text_content(words)],
    }
    return {"sessionId": session, "toolCall": call, "options": [no] if hidden else [yes, no]}
