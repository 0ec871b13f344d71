"""Which numbers of which writers a stream has: what makes a resend known. Pure.

The numbers are kept in the stream itself, in control records that readers never see: a delta with
the records of each entry, and snapshots (`core/log/state_deltas.py`). So the next owner knows
exactly the numbers of the records that the log has.

    snapshot   "TRWS" | u8 version (1) | for each writer, the one that wrote last is last:
               u8 length | writer id | i64 next number | i64 txid | u8 runs | runs
    run        i64 first number | u32 count | i64 lssn | i64 entry | u32 slot of the first
    delta      for each run, in order:
               u8 length | writer id (length 0: that of the run before)
               | i64 first number | u32 count | u32 slot of the first

A run is records of one writer that follow each other in an entry, with one slot each; a record set
is a run of its own. A writer is known until `keep_ms` have passed, by the txids of the log, since
its last record; its last `RUNS_KEPT` runs tell where its records are.

Invariant: `snapshot` and `delta` know what was observed or applied, nothing that waits to be sent.
What waits is in `_unsent`, in order, and counts only for which number is next.
"""

import struct
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple

from tailrace.core.errors import CorruptData, DLIllegalState
from tailrace.core.log.state_deltas import DELTA_BYTES_MAX
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.distributedlog.record import LogRecord, RecordParts
from tailrace.protocol.errors import BadLength, BufferUnderflow
from tailrace.protocol.ids import EntryId, LedgerId, TxId
from tailrace.proxy.owner.operations import WriterSequence

RUNS_KEPT: Final = 5
"""As many as Kafka keeps of a producer's batches."""

_MAGIC: Final = b"TRWS\x01"
_HEAD: Final = struct.Struct(">qqB")
_RUN: Final = struct.Struct(">qIqqI")
_DELTA_RUN: Final = struct.Struct(">qII")
_RUNS_BYTES: Final = RUNS_KEPT * _RUN.size
_STEP_WRITERS: Final = 1_000
"""Writers of a snapshot that are restored in one turn of the loop."""

ONE_RUN_BYTES_MAX: Final = 128
"""Above what a delta of one run adds to an entry, with its magic and its record's header."""

_UNSENT_BYTES_MAX: Final = DELTA_BYTES_MAX - ONE_RUN_BYTES_MAX
"""All that waits may go into one entry, and begin with the rest of a run that was cut."""


class _Known(NamedTuple):
    """A writer, as the log has it."""

    next_sequence: int
    txid: TxId
    """Of the entry of its last record."""
    runs: bytes
    """Its last runs, oldest first."""


@dataclass(slots=True)
class _Unsent:
    """Records of one writer that follow each other and wait to be sent."""

    index: int
    """Of the first one, among all records that were ever appended here."""
    writer_id: bytes
    sequence: int
    count: int
    is_set: bool


@dataclass(slots=True)
class _Ahead:
    """A writer with records that wait to be sent."""

    next_sequence: int
    parts: int
    """How many `_Unsent` are its."""


class _Run(NamedTuple):
    writer_id: bytes
    sequence: int
    records: int
    slot: int


class WriterState:
    """The numbered records of one stream (DeltaState). Bounded by `writers_max`."""

    def __init__(self, writers_max: int, keep_ms: int) -> None:
        self.keep_ms = keep_ms
        """How long a writer is known that writes nothing (DeltaState)."""
        self._writers_max = writers_max
        self._known: dict[bytes, _Known] = {}
        """The one that wrote last is last."""
        self._unsent: deque[_Unsent] = deque()
        self._unsent_bytes = 0
        self._ahead: dict[bytes, _Ahead] = {}
        """Writers with records in `_unsent`."""
        self._new: set[bytes] = set()
        """Those of them that are not in `_known`."""
        self._observed = 0
        """Records that were observed, numbered or not."""
        self._delta = b""

    @property
    def writers(self) -> int:
        """How many writers are known, with those whose first record waits."""
        return len(self._known) + len(self._new)

    # ------------------------------------------------------------------ what a request may do

    def next_sequence(self, writer_id: bytes, txid: TxId) -> int | None:
        """Return the number that a writer's next record has; None: the writer is not known.

        `txid`: what a record would get now.
        """
        ahead = self._ahead.get(writer_id)
        if ahead is not None:
            return ahead.next_sequence
        known = self._known.get(writer_id)
        if known is not None and txid - known.txid <= self.keep_ms:
            return known.next_sequence
        return None

    def has_room(self, writer_id: bytes, txid: TxId) -> bool:
        """Tell whether a record of this writer may be taken: of a new one, and at all.

        Cost: those whose time is over are forgotten first.
        """
        if self._unsent_bytes + _size_of(writer_id) > _UNSENT_BYTES_MAX:
            return False
        if writer_id in self._known or writer_id in self._new:
            return True
        self._forget(txid)
        return self.writers < self._writers_max

    def place_of(self, writer_id: bytes, sequence: int) -> DLSN | None:
        """Return where the record of a number is, that was observed; None: not kept any more."""
        known = self._known.get(writer_id)
        for first, count, lssn, entry_id, slot in _RUN.iter_unpack(known.runs if known else b""):
            if first <= sequence < first + count:
                return DLSN(lssn, entry_id, slot + sequence - first)
        return None

    def expect(self, index: int, first: WriterSequence, count: int, *, is_set: bool) -> None:
        """Take note of records before they are appended, with the next numbers of a writer.

        `index`: how many other records wait to be sent. Then `withdraw` what was not taken.
        """
        writer_id, sequence = first
        index += self._observed
        last = self._unsent[-1] if self._unsent else None
        if last is not None and not is_set and _is_next(last, index, first):
            last.count += count
        else:
            self._unsent.append(_Unsent(index, writer_id, sequence, count, is_set))
            self._unsent_bytes += _size_of(writer_id)
            self._ahead.setdefault(writer_id, _Ahead(0, 0)).parts += 1
        if writer_id not in self._known:
            self._new.add(writer_id)
        self._ahead[writer_id].next_sequence = sequence + count

    def withdraw(self, count: int) -> None:
        """Forget the last `count` records that were expected: they were not appended."""
        last = self._unsent[-1]
        last.count -= count
        self._ahead[last.writer_id].next_sequence -= count
        if not last.count:
            self._unsent.pop()
            self._drop(last)

    # ------------------------------------------------------------------ what is sent (DeltaState)

    def observe(self, lssn: int, entry_id: EntryId, records: Sequence[RecordParts]) -> None:
        """Take note of the numbers of an entry's records; `delta` returns them then."""
        first = self._observed
        self._observed += len(records)
        self._delta = b""
        if not self._unsent or self._unsent[0].index >= self._observed:
            return
        runs = self._take_runs(first, records)
        self._delta = _pack_delta(runs)
        txid = records[-1][0]
        for run in runs:
            self._add(lssn, entry_id, txid, run)

    def begin_segment(self, lssn: int, ledger_id: LedgerId) -> None:
        """Do nothing: records are known by their segment."""

    def index(self) -> bytes:
        """Return nothing: the snapshot at a segment's end says all."""
        return b""

    def replay(self, dlsn: DLSN, record: LogRecord) -> None:
        """Do nothing: deltas say all."""

    def delta(self) -> bytes:
        """Return the numbers of the entry that was observed last."""
        return self._delta

    def apply(self, lssn: int, entry_id: EntryId, txid: TxId, delta: memoryview) -> None:
        """Take note of an entry of the log. Errors: BufferUnderflow, BadLength."""
        for run in _read_delta(delta):
            self._add(lssn, entry_id, txid, run)

    def snapshot(self) -> bytes:
        """Return all writers that are known at the last record's txid. Cost: 1 us for each."""
        latest = next(reversed(self._known.values()), None)
        if latest is not None:
            self._forget(latest.txid)
        parts = [_MAGIC]
        for writer_id, (sequence, txid, runs) in self._known.items():
            head = _HEAD.pack(sequence, txid, len(runs) // _RUN.size)
            parts += (bytes((len(writer_id),)), writer_id, head, runs)
        return b"".join(parts)

    def restore(self, snapshot: bytes | None) -> None:
        """Forget all writers; a snapshot is for `restoring`."""
        assert snapshot is None, "a snapshot of writers is restored in steps"
        self._known.clear()

    def restoring(self, snapshot: bytes) -> Iterator[None]:
        """Take over the writers of a snapshot, some in each step.

        Errors: DLIllegalState: the stream has an owner of another kind; CorruptData.
        """
        if not snapshot.startswith(_MAGIC):
            raise DLIllegalState(
                "the stream keeps the state of another kind of owner, as a Kafka partition's does:"
                " it is written through that one only"
            )
        view, at, restored = memoryview(snapshot), len(_MAGIC), 0
        while at < len(view):
            try:
                at = self._restore_writer(view, at)
            except (struct.error, IndexError) as error:
                raise CorruptData(f"a snapshot of writers, at byte {at}: {error}") from error
            restored += 1
            if restored % _STEP_WRITERS == 0:
                yield

    # ------------------------------------------------------------------ inside

    def _restore_writer(self, view: memoryview, at: int) -> int:
        """Take over the writer at a byte; return where the next is.

        Errors: struct.error, IndexError.
        """
        end = at + 1 + view[at]
        sequence, txid, runs = _HEAD.unpack_from(view, end)
        runs_at = end + _HEAD.size
        next_at: int = runs_at + runs * _RUN.size
        if next_at > len(view):
            raise IndexError("its last writer is cut")
        known = _Known(sequence, txid, bytes(view[runs_at:next_at]))
        self._known[bytes(view[at + 1 : end])] = known
        return next_at

    def _take_runs(self, first: int, records: Sequence[RecordParts]) -> list[_Run]:
        """Return the runs of an entry whose first record has index `first`."""
        slots: Sequence[int] = range(len(records))
        if any(values for _, _, _, values in records):
            slots = [0, *accumulate(values or 1 for _, _, _, values in records)]
        runs: list[_Run] = []
        while self._unsent and self._unsent[0].index < self._observed:
            unsent = self._unsent[0]
            count = min(unsent.count, self._observed - unsent.index)
            slot = slots[unsent.index - first]
            runs.append(_Run(unsent.writer_id, unsent.sequence, count, slot))
            unsent.index += count
            unsent.sequence += count
            unsent.count -= count
            if not unsent.count:
                self._unsent.popleft()
                self._drop(unsent)
        return runs

    def _drop(self, unsent: _Unsent) -> None:
        """Forget records that wait no more."""
        writer_id = unsent.writer_id
        self._unsent_bytes -= _size_of(writer_id)
        ahead = self._ahead[writer_id]
        ahead.parts -= 1
        if not ahead.parts:
            del self._ahead[writer_id]
            self._new.discard(writer_id)

    def _add(self, lssn: int, entry_id: EntryId, txid: TxId, run: _Run) -> None:
        """Have a run in the log: behind the others of its writer, or as its first one."""
        writer_id, sequence, count, slot = run
        known = self._known.pop(writer_id, None)
        runs = b"" if known is None or known.next_sequence != sequence else known.runs
        runs += _RUN.pack(sequence, count, lssn, entry_id, slot)
        self._known[writer_id] = _Known(sequence + count, txid, runs[-_RUNS_BYTES:])
        self._new.discard(writer_id)

    def _forget(self, txid: TxId) -> None:
        """Forget writers whose time is over at this txid."""
        while self._known:
            writer_id, known = next(iter(self._known.items()))
            if txid - known.txid <= self.keep_ms:
                return
            del self._known[writer_id]
            if writer_id in self._ahead:
                self._new.add(writer_id)


def _is_next(last: _Unsent, index: int, first: WriterSequence) -> bool:
    """Tell whether a record continues the run that was appended last."""
    return (
        not last.is_set
        and last.index + last.count == index
        and last.writer_id == first.writer_id
        and last.sequence + last.count == first.sequence
    )


def _size_of(writer_id: bytes) -> int:
    return 1 + len(writer_id) + _DELTA_RUN.size


def _pack_delta(runs: Sequence[_Run]) -> bytes:
    parts: list[bytes] = []
    before = b""
    for writer_id, sequence, count, slot in runs:
        named = b"" if writer_id == before else writer_id
        before = writer_id
        parts += (bytes((len(named),)), named, _DELTA_RUN.pack(sequence, count, slot))
    return b"".join(parts)


def _read_delta(delta: memoryview) -> list[_Run]:
    """Return the runs of a delta. Errors: BufferUnderflow, BadLength."""
    runs: list[_Run] = []
    writer_id, at = b"", 0
    while at < len(delta):
        start = at + 1
        end = start + delta[at]
        at = end + _DELTA_RUN.size
        if at > len(delta):
            raise BufferUnderflow("fewer bytes than a run of numbered records")
        writer_id = bytes(delta[start:end]) or writer_id
        sequence, count, slot = _DELTA_RUN.unpack_from(delta, end)
        if not writer_id or not count or not 0 <= sequence < 2**63 - count:
            raise BadLength(f"a run of {count} records from {sequence} on of {writer_id!r}")
        runs.append(_Run(writer_id, sequence, count, slot))
    return runs
