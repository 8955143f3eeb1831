"""Facts about a call as plain data: found on one machine, judged on another."""

from typing import Any

import msgspec

from teamwright.core.permissions.facts import Edits, Facts, Fetches, Reads, Runs, Uses

_KINDS = {kind.__name__: kind for kind in (Reads, Edits, Runs, Fetches, Uses)}


def write_facts(facts: Facts | None) -> dict[str, Any] | None:
    return None if facts is None else {"kind": type(facts).__name__, "fields": msgspec.to_builtins(facts)}


def read_facts(written: dict[str, Any] | None) -> Facts | None:
    """Raises msgspec.ValidationError, or KeyError for an unknown kind."""
    return None if written is None else msgspec.convert(written["fields"], _KINDS[written["kind"]])
