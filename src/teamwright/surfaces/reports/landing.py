"""The landing queue as records and lines, the same for commands, the app and programs."""

from typing import Any

from teamwright.core.data.landing import LandEntry, task_words

STATES = {
    "waiting": "waiting",
    "trying": "trying",
    "landed": "landed",
    "sent_back": "sent back",
    "given_up": "given up",
}


def landing_record(entry: LandEntry) -> dict[str, Any]:
    draft = entry.draft
    return {
        "id": entry.id,
        "branch": draft.branch,
        "target": draft.target,
        "state": entry.state,
        "reason": entry.reason,
        "owner": draft.owner or None,
        "team": draft.team or None,
        "task": draft.task,
        "priority": draft.priority,
        "tip": draft.tip,
        "base": draft.base,
        "commit": entry.commit or None,
        "tries": entry.tries,
        "queued": entry.queued,
        "changed": entry.changed,
    }


def about_entry(entry: LandEntry) -> str:
    """Owner and task of an entry, in a few words."""
    return " ".join(part for part in (entry.draft.owner, task_words(entry.draft)) if part)


def seconds_of(entry: LandEntry) -> str:
    """Time from its queueing to its last change."""
    seconds = max(0, entry.changed - entry.queued) / 1000
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
