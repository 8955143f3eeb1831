"""Outcomes of acts as JSON: read by a process that did not apply its own entry itself, and part of the digests."""

from typing import Any, cast

import msgspec

from teamwright.core.data.schedule import Schedule
from teamwright.core.data.tasks import Done, Refusal
from teamwright.core.data.team import Member, Moved, Refused, Team, TeamRequest
from teamwright.core.errors import Fenced, NotAllowed, StoreError
from teamwright.store.acts.teams import Deleted
from teamwright.store.tables.mail_insert import Stored
from teamwright.store.tables.rows.processes import Lease

_RECORDS = {
    kind.__name__: kind
    for kind in (Deleted, Done, Lease, Member, Moved, Refusal, Refused, Schedule, Stored, Team, TeamRequest)
}
_ERRORS = {kind.__name__: kind for kind in (StoreError, NotAllowed, Fenced)}
_encoder = msgspec.json.Encoder()


def encode_outcomes(outcomes: list[Any]) -> bytes:
    return _encoder.encode([_pack(outcome) for outcome in outcomes])


def decode_outcomes(data: bytes) -> list[Any]:
    return [_unpack(packed) for packed in msgspec.json.decode(data)]


def _pack(value: Any) -> Any:
    if isinstance(value, list):
        return {"list": [_pack(each) for each in cast("list[Any]", value)]}
    if isinstance(value, StoreError):
        return {"error": type(value).__name__, "words": str(value)}
    if isinstance(value, msgspec.Struct):
        return {"record": type(value).__name__, "fields": value}
    return {"plain": value}


def _unpack(packed: dict[str, Any]) -> Any:
    match packed:
        case {"list": values}:
            return [_unpack(each) for each in values]
        case {"error": kind, "words": words}:
            return _ERRORS[kind](words)
        case {"record": kind, "fields": fields}:
            return msgspec.convert(fields, _RECORDS[kind])
        case _:
            return packed["plain"]
