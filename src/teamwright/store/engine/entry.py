"""Applies entries of a log to a replica: all acts of each, and none of them a second time.

An entry is `{"p": PROCESS, "k": 17, "v": FORMAT, "acts": [["mail.post", {...}], ...]}`. `k` counts the entries of each
process.
"""

import hashlib
import lzma
import re
import sqlite3
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from teamwright.core.data.team import ProcessId
from teamwright.core.errors import Fenced, NotAllowed, StoreError
from teamwright.store.acts.act import Act, Context, apply
from teamwright.store.acts.hosts import Beat, JoinHost, ReturnHost
from teamwright.store.acts.registry import decode_acts, encode_acts
from teamwright.store.db.liveness import is_joined
from teamwright.store.engine.outcomes import encode_outcomes
from teamwright.store.engine.port import EngineError, Entry
from teamwright.store.engine.tables import DIGESTS, Cursor, read_cursor
from teamwright.store.engine.touched import NOBODY, Touched, take_touched
from teamwright.store.tables.rows.remotes import select_doubted

FORMAT = 2  # 2: letters that cross are counted, see `VOLLEYS` in `schema_later`
MOST_PLAIN = 8 * 2**20  # bytes of an entry, unpacked
MOST_DEPTH = 200  # levels of its JSON; at how many more a Python gives up depends on its version
_LONG = 64 * 2**10  # bytes; longer entries are compressed
_COMPRESSED = b"\xfd7zXZ\x00"
# how `lzma.compress(data, preset=1)` begins: a CRC64, one filter, a dictionary of 1 MiB
_PRESET = bytes.fromhex("fd377a585a000004e6d6b4460200210110000000a8708e86")
_BRACKETS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[{]|[\]}]', re.DOTALL)  # texts are passed over whole
# caused by values: the same everywhere. Their words are not, since they are those of SQLite and Python.
_FAULTS = (sqlite3.IntegrityError, sqlite3.DataError, OverflowError, UnicodeError)
_CONTRADICTS, _UNFIT = "it contradicts what is stored", "a value of it cannot be stored"
# caused by acts of a worker, which may hold anything; in acts of a lead they are faults of the program
_ODD = (ValueError, TypeError, LookupError, AttributeError, RecursionError, msgspec.MsgspecError)
_SILENT = "This process was not heard for longer than its lease: nothing was stored, and others may go on in its place."
_encoder = msgspec.json.Encoder()


class Body(Struct, frozen=True):
    p: ProcessId
    k: Annotated[int, Meta(ge=1, lt=2**62)]
    v: int
    acts: msgspec.Raw


_bodies = msgspec.json.Decoder(Body)


def encode_entry(process: ProcessId, k: int, acts: list[Act[Any]]) -> bytes:
    """JSON; a long entry is compressed, since a message is in it twice, as a letter and for people."""
    data = _encoder.encode(Body(process, k, FORMAT, msgspec.Raw(encode_acts(acts))))
    return data if len(data) <= _LONG else lzma.compress(data, preset=1)


def _plain(data: bytes) -> bytes:
    """Unpack with a limit: no writer of the log may fill the memory of all others.

    Only what `encode_entry` makes is taken: which other filters and sums are known depends on a machine's liblzma.
    """
    if not data.startswith(_COMPRESSED):
        return data
    unpacker = lzma.LZMADecompressor(memlimit=64 * 2**20)
    plain = unpacker.decompress(data, MOST_PLAIN + 1)
    if len(plain) > MOST_PLAIN:
        raise ValueError(f"it has more than {MOST_PLAIN:,} bytes")
    if not (data.startswith(_PRESET) and unpacker.eof and not unpacker.unused_data and _has_one_block(data)):
        raise ValueError("it was packed in another way")
    return plain


def _has_one_block(data: bytes) -> bool:
    """The footer, of 12 bytes, has the size of the index before it, which begins with a zero and the number of
    blocks."""
    index = 12 + 4 * (int.from_bytes(data[-8:-4], "little") + 1)
    return data[-index:].startswith(b"\x00\x01")


def is_deep(data: bytes) -> bool:
    """Whether JSON has more levels than an entry may have."""
    if data.count(b"[") + data.count(b"{") <= MOST_DEPTH:
        return False
    depth = 0
    for found in _BRACKETS.finditer(data):
        depth += found[0] in b"[{"
        depth -= found[0] in b"]}"
        if depth > MOST_DEPTH:
            return True
    return False


class Applied(Struct, frozen=True):
    """The outcomes of one entry's acts."""

    process: ProcessId
    k: int
    outcomes: list[Any]
    encoded: bytes
    quiet: bool  # a sign of life, or something that has changed nothing


class Batch(Struct, frozen=True):
    """What came of several entries."""

    cursor: Cursor  # where the replica is now: further than the last of them, or before the first, if others moved it
    applied: list[Applied]  # empty if others were quicker
    differs: int | None = None  # an entry at which another process has another digest than this replica
    touched: Touched = NOBODY  # by the entries that were applied here


class ApplyEntries(Struct, frozen=True):
    """Apply entries in one transaction. Those that were applied before are skipped; at a gap it stops."""

    entries: list[Entry]

    def apply(self, db: sqlite3.Connection, ctx: Context) -> Batch:
        cursor, applied, differs = read_cursor(db), list[Applied](), None
        for entry in self.entries:
            if entry.seq <= cursor.seq:
                continue
            if entry.seq != cursor.seq + 1:
                break
            now = max(entry.at_ms, cursor.at)  # the engine's clock may step back when another node takes the lead
            done = None
            _forgive_outage(db, now, cursor.at)
            if (found := _read(entry)) is None:
                db.execute("UPDATE space SET refused = refused + 1")
            else:
                differs = differs or _compare(db, entry, found[1])
                done = _apply_entry(db, entry, *found, now)
            if done is not None:
                applied.append(done)
            cursor = _advance(db, entry, cursor, now, b"" if done is None else done.encoded)
        return Batch(read_cursor(db), applied, differs, take_touched(db))


def _read(entry: Entry) -> tuple[Body, list[Act[Any]]] | None:
    """None if a worker wrote it and it cannot be read: the log is kept, so an error would stop every replica for good.

    An entry of a lead raises an error then: a newer program may have written it.
    """
    try:
        body = _body(entry)
        return body, decode_acts(bytes(body.acts))
    except StoreError:
        if entry.role == "worker":
            return None
        raise


def _body(entry: Entry) -> Body:
    try:
        plain = _plain(entry.data)
        if entry.role == "worker" and is_deep(plain):
            raise ValueError(f"it has more than {MOST_DEPTH} levels")
        body = _bodies.decode(plain)
    except (msgspec.MsgspecError, lzma.LZMAError, ValueError, RecursionError) as error:
        raise EngineError(f"Entry {entry.seq} of the log cannot be read: {error}.") from error
    if body.v != FORMAT:
        raise EngineError(
            f"Entry {entry.seq} of the log has format {body.v}; this version of teamwright knows {FORMAT}. "
            "Update the older one."
        )
    return body


def _apply_entry(db: sqlite3.Connection, entry: Entry, body: Body, acts: list[Act[Any]], now: int) -> Applied | None:
    """None if the entry was published a second time, or by somebody else under the name of its process."""
    if _is_forged(db, entry, body):
        db.execute("UPDATE space SET refused = refused + 1")
        return None
    before = db.execute("SELECT k FROM writers WHERE process = ?", (body.p,)).fetchone()
    if before is not None and body.k <= before[0]:
        return None
    ctx = Context(now, partial(is_joined, db), entry.role, body.p, entry.name, keeps_dead=True)
    if _may_act(db, body, acts):
        db.execute("UPDATE hosts SET beat = ? WHERE process = ? AND gone = 0", (now, body.p))
        done = [_attempt(db, act, ctx) for act in acts]
        outcomes, quiet = [outcome for outcome, _ in done], not any(changed for _, changed in done)
    else:
        outcomes, quiet = [Fenced(_SILENT) for _ in acts], True
    encoded = encode_outcomes(outcomes)
    sql = """
        INSERT INTO writers (process, k, outcomes) VALUES (?, ?, ?)
        ON CONFLICT (process) DO UPDATE SET k = excluded.k, outcomes = excluded.outcomes
    """
    db.execute(sql, (body.p, body.k, encoded))
    if refused := sum(isinstance(outcome, NotAllowed) for outcome in outcomes):
        db.execute("UPDATE space SET refused = refused + ?", (refused,))
    return Applied(body.p, body.k, outcomes, encoded, quiet)


def _is_forged(db: sqlite3.Connection, entry: Entry, body: Body) -> bool:
    """A process keeps the identity under which it joined; another one may not even use up its numbers."""
    known = db.execute("SELECT role, name FROM hosts WHERE process = ?", (body.p,)).fetchone()
    return known is not None and known != (entry.role, entry.name)


def _may_act(db: sqlite3.Connection, body: Body, acts: list[Act[Any]]) -> bool:
    """A process must join first. One that was taken for dead must first come back."""
    first = acts[0] if acts else None
    known = db.execute("SELECT gone FROM hosts WHERE process = ?", (body.p,)).fetchone()
    if known is None:
        return body.k == 1 and isinstance(first, JoinHost)
    return not known[0] or (isinstance(first, ReturnHost) and len(acts) == 1)


def _forgive_outage(db: sqlite3.Connection, now: int, before: int) -> None:
    """The engine's own outage is nobody's silence: after one all leases are fresh."""
    (shortest,) = db.execute("SELECT min(lease) FROM hosts WHERE gone = 0").fetchone()
    if shortest is not None and (now - before) * 3 > shortest * 2:
        db.execute("UPDATE hosts SET beat = ? WHERE gone = 0", (now,))
        for process in select_doubted(db):
            db.execute("UPDATE hosts SET beat = ? WHERE process = ?", (now, process))


def _advance(db: sqlite3.Connection, entry: Entry, cursor: Cursor, now: int, outcomes: bytes) -> Cursor:
    digest, last = next_digest(cursor.digest, entry, outcomes), digest_of(entry)
    db.execute("UPDATE space SET seq = ?, digest = ?, last = ?, at = ?", (entry.seq, digest, last, now))
    db.execute("INSERT INTO digests (seq, digest) VALUES (?, ?)", (entry.seq, digest))
    db.execute("DELETE FROM digests WHERE seq <= ?", (entry.seq - DIGESTS,))
    return Cursor(entry.seq, digest, last, now, cursor.snapshot)


def _compare(db: sqlite3.Connection, entry: Entry, acts: list[Act[Any]]) -> int | None:
    """The first entry at which the lead that wrote these acts has another digest than this replica.

    Digests of workers are ignored: one that lies would stop all others.
    """
    for act in acts if entry.role == "lead" else ():
        if isinstance(act, Beat) and 0 <= act.seq < entry.seq:
            ours = db.execute("SELECT digest FROM digests WHERE seq = ?", (act.seq,)).fetchone()
            if ours is not None and ours[0].hex() != act.digest:
                return act.seq
    return None


def digest_of(entry: Entry) -> bytes:
    return hashlib.sha256(entry.data).digest()


def next_digest(before: bytes, entry: Entry, outcomes: bytes) -> bytes:
    """Equal on two machines only if everything up to this entry, and its outcomes, were the same."""
    whole = hashlib.sha256(before)
    for part in (str(entry.seq).encode(), entry.data, outcomes):
        whole.update(len(part).to_bytes(8, "big") + part)
    return whole.digest()


def _attempt(db: sqlite3.Connection, act: Act[Any], ctx: Context) -> tuple[Any, bool]:
    """The outcome of an act, and whether it has changed anything that others may wait for.

    An act that cannot be applied is undone alone, and its error is its outcome, on every replica alike.
    """
    before = db.total_changes
    db.execute("SAVEPOINT act")
    try:
        outcome = apply(db, act, ctx)
    except StoreError as error:
        outcome = type(error)(str(error))
    except _FAULTS as error:
        why = _CONTRADICTS if isinstance(error, sqlite3.IntegrityError) else _UNFIT
        outcome = StoreError(f"Nothing was stored: {why}.")
        outcome.__cause__ = error  # for whoever looks for the fault on this machine
    except _ODD:
        if ctx.role != "worker":
            raise
        outcome = StoreError("Nothing was stored: its values make no sense.")  # Python's words differ by version
    changed = db.total_changes > before and not isinstance(act, Beat)
    if isinstance(outcome, StoreError):
        db.execute("ROLLBACK TO act")
        changed = False
    db.execute("RELEASE act")
    return outcome, changed
