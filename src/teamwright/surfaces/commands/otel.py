"""`teamwright otel export SESSION`: sends the traces and events of a past session from its log."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from teamwright.app import Options, open_workspace
from teamwright.app.telemetry import read_telemetry
from teamwright.core.errors import TeamwrightError, UsageError
from teamwright.core.ids import SessionId
from teamwright.models.prices import cost
from teamwright.store.files.paths import SessionFiles, home_from, one_session
from teamwright.surfaces.commands.tables import print_json
from teamwright.telemetry.settings import SWITCHES, TelemetryOptions

Item = TypeVar("Item")
OFF = (
    f"nothing says where to: set {SWITCHES[0]}=1, OTEL_TRACES_EXPORTER=otlp and OTEL_EXPORTER_OTLP_ENDPOINT "
    "(docs/telemetry.md)"
)


def run_otel(parser: argparse.ArgumentParser, args: list[str]) -> int:
    parser.add_argument("action", choices=("export",))
    parser.add_argument("session", metavar="SESSION", help="session id or its beginning")
    parser.add_argument("--since", metavar="TIME", help="only what ended then or later, e.g. 2026-11-17T09:00")
    found = parser.parse_args(args)
    path = one_session(home_from(os.environ), found.session)
    options = Options(cwd=Path.cwd())
    wanted, notes = read_telemetry(options, open_workspace(options))
    if wanted is None:
        raise UsageError(notes[-1] if notes else OFF)
    if wanted.traces == "none" and wanted.logs == "none":
        raise UsageError(OFF)
    sent = _send(SessionFiles(path), wanted, _moment(found.since))
    if found.json:
        print_json(sent)
    else:
        sys.stdout.write(f"sent {sent['spans']:,} spans and {sent['events']:,} events of {path.stem}\n")
    return 0


def _moment(said: str | None) -> int:
    """Milliseconds since 1970; a time without a zone is local."""
    if said is None:
        return 0
    try:
        return int(datetime.fromisoformat(said).timestamp() * 1000)
    except ValueError:
        raise UsageError(f"--since {said!r} is not a time like 2026-11-17T09:00") from None


def _send(files: SessionFiles, wanted: TelemetryOptions, since: int) -> dict[str, int]:
    """Sends span by span, in batches; raises if the collector refuses one."""
    from teamwright.telemetry.facts.past import facts_of  # noqa: PLC0415
    from teamwright.telemetry.sending.sdk import open_logs, open_spans  # noqa: PLC0415
    from teamwright.telemetry.signals.events import Events  # noqa: PLC0415  # nothing of it before the arguments are right
    from teamwright.telemetry.signals.spans import spans_of  # noqa: PLC0415

    facts = facts_of(files, cost, since)
    told = Events(SessionId(files.transcript.stem), wanted.content, compat=wanted.compat)
    spans = [span for fact in facts for span in spans_of(fact, wanted.content)] if wanted.traces != "none" else []
    events = [event for fact in facts for event in told.events(fact)] if wanted.logs != "none" else []
    if spans:
        _in_batches(open_spans(wanted), spans, wanted.batch)
    if events:
        _in_batches(open_logs(wanted), events, wanted.batch)
    return {"spans": len(spans), "events": len(events)}


def _in_batches(export: Callable[[Sequence[Item]], bool], items: Sequence[Item], batch: int) -> None:
    for at in range(0, len(items), batch):
        if not export(items[at : at + batch]):
            raise TeamwrightError(
                f"the collector did not take what was sent ({at:,} of {len(items):,} went through). "
                "`teamwright doctor` says whether it answers; sending it again gives the same ids."
            )
