"""Writes of records that have numbers: what the stream has already is not written again.

Invariant: a number is taken while its record is on its way or in the log, and only then: a record
that the writer of the log refused leaves its number free, and later ones are refused until it comes
again. If the log's writer fails nothing goes on here; the next owner learns from the log which
numbers it has.

    request -> WriterState (which are new) -> LogWriter.append_many -> answers, old and new
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from tailrace.core.errors import CoreError, OwnershipAcquireFailed, OwnershipLost
from tailrace.core.log.config import RECORD_BYTES_MAX
from tailrace.core.log.writer import LogWriter
from tailrace.protocol.distributedlog.record import RecordParts
from tailrace.proxy.owner.codes import StatusCode, status_code
from tailrace.proxy.owner.config import OwnerConfig
from tailrace.proxy.owner.location import ProxyLocation
from tailrace.proxy.owner.metrics import OwnerMetrics
from tailrace.proxy.owner.operations import Answer, WriterSequence, answer_of
from tailrace.proxy.owner.writer_state import ONE_RUN_BYTES_MAX, WriterState

if TYPE_CHECKING:
    import asyncio

    from tailrace.protocol.distributedlog.dlsn import DLSN

_FULL: Final = Answer(
    StatusCode.OVER_CAPACITY,
    "the stream has as many writer ids, or numbered records that wait, as it may",
)

Outcome: TypeAlias = "Answer | asyncio.Future[DLSN]"
"""What became of a record, or will."""


class NumberedWrites:
    """The numbered records of one stream, in the hands of one owner."""

    def __init__(self, config: OwnerConfig, metrics: OwnerMetrics) -> None:
        self.state = WriterState(config.writers_max, config.writer_expiration_ms)
        """What the log has; restored by the claim."""
        self.check_lock: Callable[[], None] = lambda: None
        """Fails with OwnershipLost while the stream's lock is not held, as far as it is known."""
        self._metrics = metrics
        self._on_way: dict[bytes, deque[asyncio.Future[DLSN]]] = {}
        """Of each writer the last records that are not known to be confirmed, in order."""

    def write(
        self, writer: LogWriter, first: WriterSequence, records: Sequence[RecordParts]
    ) -> Answer | list[Outcome]:
        """Write the records that are new; return an outcome for each, in order.

        An answer alone is for all of them: nothing was written. Shape: at least one record.
        Errors: none. Cost: as `LogWriter.append_many`.
        """
        if writer.error is not None:  # what was on its way may not be in the log
            reason = f"the stream's writer stopped: {writer.error}"
            return Answer(StatusCode.STREAM_UNAVAILABLE, reason)
        writer_id, sequence = first
        txid = records[0][0]
        expected = self.state.next_sequence(writer_id, txid)
        if expected is None:
            self._on_way.pop(writer_id, None)
        if sequence > (expected or 0):
            return self._refuse_gap(sequence, expected)
        known = min((expected or 0) - sequence, len(records))
        self._metrics.resent_records_total += known
        outcomes: list[Outcome] = [
            self._earlier(writer_id, sequence + at, expected or 0) for at in range(known)
        ]
        new = records[known:]
        if not new:
            return outcomes
        if not self.state.has_room(writer_id, txid):
            self._metrics.too_many_writers_total += 1
            return [*outcomes, *_refused(_FULL, len(new))] if outcomes else _FULL
        begun = self._append(writer, WriterSequence(writer_id, sequence + known), new)
        return [*outcomes, *begun]

    def settle(self, writer_id: bytes) -> None:
        """Forget futures of a writer that are done; the log has their records."""
        on_way = self._on_way.get(writer_id)
        while on_way and on_way[0].done():
            del on_way[0]
        if not on_way:
            self._on_way.pop(writer_id, None)

    def _refuse_gap(self, sequence: int, expected: int | None) -> Answer:
        """Refuse numbers before which some are missing, unless a next owner may have those."""
        try:
            self.check_lock()
        except OwnershipLost as error:
            return Answer(StatusCode.STREAM_UNAVAILABLE, f"numbers are missing here: {error}")
        self._metrics.out_of_order_total += 1
        return Answer(StatusCode.TRANSACTION_OUT_OF_ORDER, _gap(sequence, expected))

    def _earlier(self, writer_id: bytes, sequence: int, expected: int) -> Outcome:
        on_way = self._on_way.get(writer_id, ())
        at = sequence - (expected - len(on_way))
        if at >= 0:
            return on_way[at]
        return Answer(StatusCode.SUCCESS, dlsn=self.state.place_of(writer_id, sequence))

    def _append(
        self, writer: LogWriter, first: WriterSequence, records: Sequence[RecordParts]
    ) -> list[Outcome]:
        fitting, too_long = _fitting(writer, records)
        if not fitting:
            return [*too_long]
        is_set = bool(fitting[0][3])
        self.state.expect(writer.waiting_records, first, len(fitting), is_set=is_set)
        written = writer.append_many(fitting)
        if writer.error is not None:  # the stream ends: the next owner reads what the log has
            return [*written, *too_long]
        taken = sum(not _is_refused(each) for each in written)
        if taken < len(fitting):
            self.state.withdraw(len(fitting) - taken)
        if taken:
            self._on_way.setdefault(first.writer_id, deque()).extend(written[:taken])
        return [*written, *too_long]


def written_answer(written: "asyncio.Future[DLSN]", own: ProxyLocation) -> Answer:
    """Return what became of a record that was taken; its future is done. Errors: none."""
    if written.cancelled():
        return Answer(StatusCode.WRITE_CANCELLED_EXCEPTION, "the write was cancelled")
    error = written.exception()
    if error is None:
        return Answer(StatusCode.SUCCESS, dlsn=written.result())
    if isinstance(error, OwnershipAcquireFailed):  # FOUND would say: not written
        return Answer(StatusCode.LOCKING_EXCEPTION, str(error))
    if isinstance(error, CoreError):
        return answer_of(error, own)
    return Answer(StatusCode.UNEXPECTED, repr(error))


def _fitting(
    writer: LogWriter, records: Sequence[RecordParts]
) -> tuple[Sequence[RecordParts], list[Answer]]:
    """Return the records whose numbers fit into an entry with them, and answers for the others.

    Only a record that leaves no room in the largest entry is concerned.
    """
    for at, (_, _, length, _) in enumerate(records):
        if length > RECORD_BYTES_MAX - ONE_RUN_BYTES_MAX:
            try:
                writer.check_length(length + ONE_RUN_BYTES_MAX)
            except CoreError as error:
                answer = Answer(status_code(error), f"with its number: {error}")
                return records[:at], _refused(answer, len(records) - at)
    return records, []


def _refused(first: Answer, count: int) -> list[Answer]:
    """Return the answers to records of which the first is refused."""
    behind = Answer(
        StatusCode.WRITE_CANCELLED_EXCEPTION, f"a record before it was refused: {first.error}"
    )
    return [first, *[behind] * (count - 1)]


def _is_refused(written: "asyncio.Future[DLSN]") -> bool:
    return written.done() and written.exception() is not None


def _gap(sequence: int, expected: int | None) -> str:
    if expected is None:
        return f"the writer id is not known: its first record has number 0, not {sequence}"
    return f"number {sequence} leaves a gap: the next one is {expected}"
