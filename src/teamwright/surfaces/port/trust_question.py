"""Decides whether to ask about a directory before anything in it is obeyed, and remembers the answer."""

from pathlib import Path

from msgspec import Struct

from teamwright.app import Options, open_workspace
from teamwright.app.workspace import look_around
from teamwright.library.trust import decision as trust
from teamwright.library.trust import snapshot as agreed
from teamwright.library.trust.decision import TrustContents
from teamwright.library.trust.snapshot import TrustedFile
from teamwright.surfaces.view.diff import DiffRow, compare, lines_of


class TrustAnswer(Struct, frozen=True):
    """What the person is shown, and the files as they are then."""

    found: TrustContents
    files: dict[str, TrustedFile]
    state: Path


def open_question(options: Options) -> TrustAnswer | None:
    """What an untrusted directory would run; None if there is nothing to ask. Blocks."""
    ground = open_workspace(options)
    state = ground.home.root
    if ground.trusted:
        if trust.is_trusted(ground.project, state=state) and not agreed.is_recorded(ground.project, state=state):
            agreed.agree(ground.project, look_around(ground)[1], state=state)  # trusted long ago
        return None
    found, files = look_around(ground)
    anything = found.parts or trust.untrusted_line(found) is not None
    return TrustAnswer(found, files, state) if anything and not trust.is_declined(found, state=state) else None


def remember(asked: TrustAnswer, *, trusted: bool) -> None:
    """Record only what was shown: a change in the meantime is asked about at the next start."""
    if trusted:
        agreed.agree(asked.found.project, asked.files, state=asked.state)
        trust.trust(asked.found.project, state=asked.state)
    else:
        trust.decline(asked.found, state=asked.state)


def change_rows(found: TrustContents) -> list[DiffRow]:
    """Each new or changed file, line by line."""
    rows: list[DiffRow] = []
    for change in found.changes:
        what = "new" if change.before is None else "changed"
        head = lines_of("strong", f"{change.file} ({what})")
        rows += [*head, *compare(change.before or "", change.after)]
    return rows


def trust_rows(found: TrustContents) -> list[DiffRow]:
    """All that the directory would decide or start; what has nothing to show is only named."""
    kinds = [(part.title, part.lines) for part in found.parts] or [
        ("hooks", found.hooks),
        ("MCP servers", found.servers),
        ("settings", found.settings),
        ("agents", found.agents),
        ("skills", found.skills),
        ("commands", found.commands),
    ]
    rows: list[DiffRow] = []
    for kind, lines in kinds:
        if lines:
            rows += [DiffRow("strong", kind), *(row for line in lines for row in _item(line))]
    return rows


def _item(line: str) -> list[DiffRow]:
    return [DiffRow("plain", f"  {row.text}") for row in lines_of("plain", line)]
