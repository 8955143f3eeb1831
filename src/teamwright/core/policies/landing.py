"""The order in which branches land: by priority and age, what others depend on first."""

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from teamwright.core.data.landing import LandEntry, LandId

# Entries whose tasks must be done before that of the key; also those that these depend on, and so on.
Blockers = Mapping[LandId, Collection[LandId]]


class LandOrder(Struct, frozen=True):
    """`ready` in the order they land; `held` cannot land now, each with the reason."""

    ready: tuple[LandEntry, ...] = ()
    held: Mapping[LandId, str] = {}


def land_order(entries: Sequence[LandEntry], blockers: Blockers, only: Collection[LandId] | None = None) -> LandOrder:
    """Those that wait, of the entries of one target. `entries` has all that can block another one: also those that are
    tried or were sent back. `only`: nothing else lands, so what depends on something else is held."""
    known = {entry.id: entry for entry in entries}
    waiting = {e.id: e for e in sorted(entries, key=_rank) if e.state == "waiting" and (only is None or e.id in only)}
    ready: dict[LandId, LandEntry] = {}
    held: dict[LandId, str] = {}

    def depth(id: LandId) -> tuple[int, int, int]:
        """What depends on nothing comes first: whoever blocks another one has fewer blockers than that."""
        return len(blockers.get(id, ())), *_rank(known[id])

    for entry in waiting.values():
        before = sorted((id for id in blockers.get(entry.id, ()) if id in known and id != entry.id), key=depth)
        for id in (*before, entry.id):
            if id in waiting and id not in ready and id not in held:
                reasons = [_hold(known[b]) for b in blockers.get(id, ()) if b in known and b not in ready and b != id]
                if why := next(filter(None, reasons), ""):
                    held[id] = why
                else:
                    ready[id] = waiting[id]
    return LandOrder(tuple(ready.values()), held)


def _rank(entry: LandEntry) -> tuple[int, int]:
    return -entry.draft.priority, entry.id


def _hold(other: LandEntry) -> str:
    """Why what depends on this one cannot land; empty if it can: what is tried now lands first, or is sent back."""
    task, branch = other.draft.task, other.draft.branch
    match other.state:
        case "sent_back":
            return f"its task needs #{task} first, and {branch} was sent back"
        case "waiting":
            return f"its task needs #{task} first, and {branch} waits"
        case _:
            return ""
