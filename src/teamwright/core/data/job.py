"""Jobs: the kinds and results of background work."""

from typing import Literal

from msgspec import Struct

from teamwright.core.data.letter import Figures

JobKind = Literal["agent", "shell", "monitor", "remote"]
LETTERS = 20  # most letters from one monitor per minute


class JobResult(Struct, frozen=True, omit_defaults=True):
    """How a job ended. `result` is its last message or output, `error` one sentence if it did not end well."""

    result: str = ""
    error: str = ""
    summary: str = ""
    usage: Figures = Figures()
    exit_code: int | None = None
