"""Words to a lead whose session resumes with teammates."""

from collections.abc import Collection, Sequence
from datetime import datetime

from teamwright.core.data.team import Member
from teamwright.core.ids import AgentId

MOST_NAMED = 20


def resumed_words(ended_at: int, mates: Sequence[Member], absent: Collection[AgentId] = ()) -> str:
    """One line; empty if nobody resumes. `ended_at`: when the previous program ended, in milliseconds."""
    names = [mate.name for mate in mates if mate.agent not in absent]
    if not names:
        return ""
    if len(names) > MOST_NAMED:
        names = [*names[:MOST_NAMED], f"{len(names) - MOST_NAMED} more"]
    who = f"{', '.join(names[:-1])} and {names[-1]} resume" if len(names) > 1 else f"{names[0]} resumes"
    when = f" at {_time(ended_at)}" if ended_at else ""
    return (
        f"[The program had ended{when}; {who} where they were.]"
        if len(names) > 1
        else (f"[The program had ended{when}; {who} where it was.]")
    )


def _time(ms: int) -> str:
    """In the person's time zone; with the date if it was not today."""
    then = datetime.fromtimestamp(ms / 1000).astimezone()
    today = datetime.now().astimezone().date()
    return then.strftime("%H:%M" if then.date() == today else "%Y-%m-%d %H:%M")
