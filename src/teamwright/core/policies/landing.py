"""The order in which branches land: by priority and age, blockers first."""

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from teamwright.core.data.landing import LandEntry, LandId

# For each entry, those whose tasks must be done first, directly or indirectly.
Blockers = Mapping[LandId, Collection[LandId]]


class LandOrder(Struct, frozen=True):
    """`ready` in landing order; `held` cannot land now, each with the reason."""

    ready: tuple[LandEntry, ...] = ()
    held: Mapping[LandId, str] = {}


def land_order(entries: Sequence[LandEntry], blockers: Blockers, only: Collection[LandId] | None = None) -> LandOrder:
    """Orders the waiting entries of one target.

    `entries` must include everything that can block another entry, so also those being tried or sent back. With `only`
    nothing else lands, so an entry that depends on another one is held.
    """
    known = {entry.id: entry for entry in entries}
    waiting = {e.id: e for e in sorted(entries, key=_rank) if e.state == "waiting" and (only is None or e.id in only)}
    ready: dict[LandId, LandEntry] = {}
    held: dict[LandId, str] = {}

    def depth(id: LandId) -> tuple[int, int, int]:
        """Sorts blockers before what they block: a blocker always has fewer blockers of its own."""
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
    """Why dependents of this entry cannot land; empty if they can. One being tried lands first, or is sent back."""
    task, branch = other.draft.task, other.draft.branch
    match other.state:
        case "sent_back":
            return f"its task needs #{task} first, and {branch} was sent back"
        case "waiting":
            return f"its task needs #{task} first, and {branch} waits"
        case _:
            return ""
