"""Calls of one agent as cards: each is reported when it begins, and ends exactly once."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from anyio import to_thread
from msgspec import Struct

from teamwright.core.data.content.patch import patch_of
from teamwright.core.data.event import ToolEnded, ToolProgressed
from teamwright.core.data.message import ToolCall
from teamwright.core.ids import CallId
from teamwright.surfaces.acp.updates import content as shows
from teamwright.surfaces.acp.updates.speech import Tell
from teamwright.surfaces.view.sentences import to_person
from teamwright.surfaces.view.text import one_line
from teamwright.tools.bounds import bounded, visible
from teamwright.tools.catalog import traits_of

MOST_LAST = 2_000  # characters of the end of a long output, for a display terminal


class ShownCall(Struct):
    tool: str
    args: Mapping[str, Any] = {}
    status: str = "pending"
    whole: bool = False  # its arguments are known
    printed: str = ""  # output already sent to a display terminal


class CallKeeper(Protocol):
    """Keeps a call open if its agent works on after the call has its result."""

    def keeps(self, call: CallId) -> bool: ...
    def called(self, call: CallId, args: Mapping[str, Any]) -> None:
        """A call was made that may start an agent."""
        ...

    def take_over(self, call: CallId) -> None: ...
    def settled(self, call: CallId, status: str) -> None:
        """The call has ended, and was reported so."""
        ...


class NoKeeper:
    def keeps(self, call: CallId) -> bool:
        return False

    def called(self, call: CallId, args: Mapping[str, Any]) -> None:
        pass

    def take_over(self, call: CallId) -> None:
        pass

    def settled(self, call: CallId, status: str) -> None:
        pass


class Calls:
    def __init__(self, tell: Tell, cwd: Callable[[], str], keeper: CallKeeper, *, terminals: bool) -> None:
        self._tell, self._cwd, self._keeper, self._terminals = tell, cwd, keeper, terminals
        self.open: dict[CallId, ShownCall] = {}

    def begin(self, id: CallId, tool: str) -> None:
        """The call's block begins to stream in."""
        if id not in self.open:
            self.open[id] = ShownCall(tool)
            self._tell(self._started(id, tool, words=one_line(tool), kind=shows.kind_of(tool)))

    def whole(self, call: ToolCall) -> None:
        """The reply is complete, and with it the call's arguments."""
        self.begin(call.id, call.name)
        args = {} if call.fault else call.args
        traits, cwd = traits_of(call.name), self._cwd()
        found = self.open[call.id] = ShownCall(call.name, args, whole=True, status="pending")
        update: dict[str, Any] = {
            "sessionUpdate": "tool_call_update",
            "toolCallId": call.id,
            "title": shows.title_of(call.name, args, cwd),
            "kind": shows.kind_of(call.name),
            "rawInput": shows.raw_args(args),
            "locations": shows.locations_of(call.name, args, cwd),
        } | self._named(call.name)
        if traits.delegates:
            self._keeper.called(call.id, args)
        if traits.effects == "none" or traits.delegates:  # no event tells when these begin
            update["status"] = found.status = "in_progress"
        if self._terminals and traits.runs:
            update["content"] = [{"type": "terminal", "terminalId": call.id}]
            info = {"terminal_id": call.id, "cwd": cwd}
            update["_meta"] = update["_meta"] | {"terminal_info": info}
        self._tell(update)

    def restore(self, id: CallId, tool: str, args: Mapping[str, Any]) -> None:
        """Take in a call that was already reported and still runs."""
        self.open[id] = ShownCall(tool, args, "in_progress", whole=True)

    def started(self, id: CallId) -> None:
        found = self.open.get(id)
        if found is not None and found.status == "pending":
            found.status = "in_progress"
            self._tell(self._update(id, status="in_progress"))

    def progressed(self, event: ToolProgressed) -> None:
        found = self.open.get(event.call_id)
        if found is None:
            return
        output = event.output or event.text
        if self._terminals and traits_of(found.tool).runs:
            if more := self._more(found, output):
                data = {"terminal_id": event.call_id, "data": more}
                self._tell(self._update(event.call_id, _meta={"terminal_output": data}))
        else:
            self._tell(self._update(event.call_id, content=[shows.text_content(output)]))

    async def ended(self, event: ToolEnded) -> None:
        found = self.open.get(event.call_id)
        if found is None:
            return
        if event.args is not None:
            found.args = event.args
        del self.open[event.call_id]
        if not event.is_error and self._keeper.keeps(event.call_id):
            self._keeper.take_over(event.call_id)
            return
        shown = [] if event.is_error else await self._diffs(found, event.data)
        shown = shown or shows.result_content(event.content)
        update = self._update(event.call_id, status="failed" if event.is_error else "completed")
        text = to_person(visible(bounded("\n".join(getattr(c, "text", "") for c in event.content))))
        update["rawOutput"] = event.data if event.data is not None else text
        if event.args is not None:
            update["title"] = shows.title_of(found.tool, event.args, self._cwd())
            update["rawInput"] = shows.raw_args(event.args)
        if self._terminals and traits_of(found.tool).runs:
            update["_meta"] = self._exit_of(found, event, text)
        else:
            update["content"] = shown
        self._tell(update)
        self._keeper.settled(event.call_id, update["status"])

    def _more(self, call: ShownCall, output: str) -> str:
        """Output that an editor's terminal has not printed yet; empty while the middle of a long output is left out."""
        if not output.startswith(call.printed):
            return ""
        more, call.printed = output[len(call.printed) :], output
        return more

    def _exit_of(self, call: ShownCall, event: ToolEnded, text: str) -> dict[str, Any]:
        code = (event.data or {}).get("exitCode")
        call.printed = call.printed.rstrip("\n")
        more = self._more(call, text) or f"\n{text[-MOST_LAST:]}"
        output = {"terminal_id": event.call_id, "data": more if more.strip() else ""}
        exit = {"terminal_id": event.call_id, "exit_code": code, "signal": None}
        return {"terminal_output": output, "terminal_exit": exit}

    async def _diffs(self, call: ShownCall, data: Mapping[str, Any] | None) -> list[dict[str, Any]]:
        traits = traits_of(call.tool)
        path = (data or {}).get("filePath")
        if traits.change is None or not isinstance(path, str):
            return []
        change, patch = traits.change, patch_of(dict(data or {}))
        created = (data or {}).get("type") == "create" or (bool(change.old) and not call.args.get(change.old))
        found = await to_thread.run_sync(partial(shows.diffs_after, path, patch, created=created))
        old, new = call.args.get(change.old), call.args.get(change.new)
        if not found and isinstance(new, str):
            return [shows.diff_content(path, old if isinstance(old, str) else None, new)]
        return found

    def fail(self, id: CallId, why: str) -> None:
        """The call will have no result."""
        if self.open.pop(id, None) is not None:
            self._tell(self._update(id, status="failed", content=[shows.text_content(why)]))
            self._keeper.settled(id, "failed")

    def fail_all(self, why: str, *, unfinished: bool = False) -> None:
        """`unfinished`: only calls of a reply that never became whole."""
        for id, call in list(self.open.items()):
            if not (unfinished and call.whole):
                self.fail(id, why)

    def _started(self, id: CallId, tool: str, *, words: str, kind: str) -> dict[str, Any]:
        update = {"sessionUpdate": "tool_call", "toolCallId": id, "title": words, "kind": kind, "status": "pending"}
        return update | self._named(tool)

    def _update(self, id: CallId, **fields: Any) -> dict[str, Any]:
        return {"sessionUpdate": "tool_call_update", "toolCallId": id} | fields

    @staticmethod
    def _named(tool: str) -> dict[str, Any]:
        return {"_meta": {"claudeCode": {"toolName": tool}}}
