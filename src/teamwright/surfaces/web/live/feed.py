"""Feed of one conversation: its changes since the last look, as patches of its items."""

from pathlib import Path
from typing import Any

from anyio import to_thread

from teamwright.core.ids import AgentId
from teamwright.surfaces.view.shapes import Item, Note, Spoken, Step, Thought
from teamwright.surfaces.view.text import safe
from teamwright.surfaces.web.sessions import shown
from teamwright.surfaces.web.sessions.fold import numbered
from teamwright.surfaces.web.sessions.hub import Hub

WINDOW = 300  # newest items that are compared

Json = dict[str, Any]


class Feed:
    """One per agent, for all tabs that watch it. Reads the session's door if it has one, else its files."""

    def __init__(self, hub: Hub, session: str, agent: AgentId, path: Path) -> None:
        self._hub, self._session, self._agent, self._path = hub, session, agent, path
        self._known: dict[str, tuple[Any, ...]] = {}
        self._seen: object = None  # last version seen
        self._base: Json = {"session": session, "agent": agent}

    async def begin(self) -> None:
        """Everything that is there now counts as known."""
        await self.changes(files=True)

    async def changes(self, *, files: bool) -> list[Json]:
        """`files`: it is time to look at the transcript, too."""
        guest = self._hub.inside(self._session)
        if guest is not None:
            talk = guest.fold.talk(self._agent)
            seen: object = (id(guest), talk.version)
            if seen == self._seen:
                return []
            self._seen = seen
            return self.compare(list(numbered(talk.items))[-WINDOW:])
        if not files:
            return []
        size = self._path.stat().st_size if self._path.exists() else 0
        if size == self._seen:
            return []
        self._seen = size
        return await self._from_file()

    async def _from_file(self) -> list[Json]:
        def read() -> Json:
            return self._hub.talks.page(self._path, limit=WINDOW)

        page = await to_thread.run_sync(read)
        found = {
            item["id"]: (item["type"], len(item["text"]), item.get("status"), item.get("ended"))
            for item in page["items"]
        }
        new = [item for item in page["items"] if self._known.get(item["id"]) != found[item["id"]]]
        gone = (
            [id for id in self._known if id not in found and _place(id) >= _place(page["items"][0]["id"])]
            if found
            else []
        )
        self._known = dict(found)
        return [*self._dropped(gone), *([{"type": "put"} | self._base | {"items": new}] if new else [])]

    def compare(self, items: list[tuple[str, Item]]) -> list[Json]:
        """Patches from the known items to the present ones, which then count as known."""
        out: list[Json] = []
        put: list[Json] = []
        now: dict[str, tuple[Any, ...]] = {}
        after = ""
        for own, item in items:
            now[own] = print_of(item)
            after = own if item.n else after
            before = self._known.get(own)
            if before == now[own]:
                continue
            if (more := _appended(item, before)) is not None:
                out.append({"type": "append"} | self._base | {"item": own, "text": safe(more)})
            else:
                put.append(shown.item(own, item) | ({} if item.n else {"after": after}))
        first = _place(items[0][0]) if items else (0, 0)
        gone = [own for own in self._known if own not in now and (own.startswith("0.") or _place(own) >= first)]
        self._known = now
        return [*self._dropped(gone), *([{"type": "put"} | self._base | {"items": put}] if put else []), *out]

    def _dropped(self, ids: list[str]) -> list[Json]:
        return [{"type": "drop"} | self._base | {"items": ids}] if ids else []


def print_of(item: Item) -> tuple[Any, ...]:
    """A fingerprint of an item's state, without its text."""
    match item:
        case Spoken() | Thought():
            return type(item).__name__, len(item.text), item.streaming, id(item)
        case Step():
            return "step", item.status, item.asked, item.ended, item.progress[-100:], item.agent, item.title
        case Note():
            return "note", item.kind, len(item.text)


def _appended(item: Item, before: tuple[Any, ...] | None) -> str | None:
    """The new end of a text that only grew while it was written."""
    if not isinstance(item, Spoken | Thought) or not item.streaming or before is None:
        return None
    kind, size, streaming, same = before if len(before) == 4 else ("", 0, False, 0)
    grew = kind == type(item).__name__ and streaming and same == id(item) and size < len(item.text) <= shown.MOST_TEXT
    return item.text[size:] if grew else None


def _place(id: str) -> tuple[int, int]:
    line, _, index = id.partition(".")
    return int(line), int(index)
