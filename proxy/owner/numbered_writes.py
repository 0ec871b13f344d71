"""Writes of records that have numbers: what the stream has already is not written again.

Invariant: a number is taken while its record is on its way or in the log, and only then: a record
that the writer of the log refused leaves its number free, and later ones are refused until it comes
again. If the log's writer fails nothing goes on here; the next owner learns from the log which
numbers it has.

    request -> WriterState (which are new) -> LogWriter -> answers, old and new
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from tailrace.core.errors import CoreError, OwnershipLost
from tailrace.core.log.config import RECORD_BYTES_MAX
from tailrace.core.log.writer import LogWriter
from tailrace.protocol.distributedlog.record import RecordParts
from tailrace.proxy.owner.codes import StatusCode, status_code
from tailrace.proxy.owner.config import OwnerConfig
from tailrace.proxy.owner.metrics import OwnerMetrics
from tailrace.proxy.owner.operations import Answer, WriterSequence
from tailrace.proxy.owner.outcomes import Outcome, Part, count_of, is_settled
from tailrace.proxy.owner.writer_state import ONE_RUN_BYTES_MAX, WriterState

if TYPE_CHECKING:
    import asyncio

    from tailrace.protocol.distributedlog.dlsn import DLSN
    from tailrace.protocol.ids import TxId

_FULL: Final = Answer(
    StatusCode.OVER_CAPACITY,
    "the stream has as many writer ids, or numbered records that wait, as it may",
)


class NumberedWrites:
    """The numbered records of one stream, in the hands of one owner."""

    def __init__(self, config: OwnerConfig, metrics: OwnerMetrics) -> None:
        self.state = WriterState(config.writers_max, config.writer_expiration_ms)
        """What the log has; restored by the claim."""
        self.check_lock: Callable[[], None] = lambda: None
        """Fails with OwnershipLost while the stream's lock is not held, as far as it is known."""
        self._metrics = metrics
        self._on_way: dict[bytes, deque[tuple[int, Outcome]]] = {}
        """Of each writer the last records that are not known to be confirmed, in order, by the
        number of the first one of each outcome."""

    def write(
        self, writer: LogWriter, first: WriterSequence, records: Sequence[RecordParts]
    ) -> Answer | list[Outcome]:
        """Write the records that are new; return an outcome for each, in order.

        An answer alone is for all of them: nothing was written. Shape: at least one record.
        Errors: none. Cost: as `LogWriter.append_many`.
        """
        lengths = [length for _, _, length, _ in records]
        is_set = bool(records[0][3])

        def append(start: int, stop: int) -> tuple[int, Sequence[Outcome]]:
            written = writer.append_many(records[start:stop])
            return sum(not _is_refused(each) for each in written), written

        first_txid = records[0][0]
        return self._write(_Request(writer, first, first_txid, lengths, append, is_set))

    def write_bulk(
        self, writer: LogWriter, first: WriterSequence, txid: "TxId", payloads: Sequence[bytes]
    ) -> Answer | list[Outcome]:
        """Write the records of one txid that are new, as `write`; an outcome may be of several.

        Behind one that is refused there may be none. Cost: as `LogWriter.append_bulk`.
        """

        def append(start: int, stop: int) -> tuple[int, Sequence[Outcome]]:
            receipt = writer.append_bulk(txid, payloads[start:stop])
            taken = receipt.taken
            if 0 < taken < receipt.count:
                refused = Part(receipt, taken, receipt.count - taken)
                return taken, [Part(receipt, 0, taken), refused]
            return taken, [Part(receipt, 0, receipt.count)]

        lengths = list(map(len, payloads))
        return self._write(_Request(writer, first, txid, lengths, append, is_set=False))

    def _write(self, request: "_Request") -> Answer | list[Outcome]:
        writer, first, txid, lengths = request.writer, request.first, request.txid, request.lengths
        if writer.error is not None:  # what was on its way may not be in the log
            reason = f"the stream's writer stopped: {writer.error}"
            return Answer(StatusCode.STREAM_UNAVAILABLE, reason)
        writer_id, sequence = first
        expected = self.state.next_sequence(writer_id, txid)
        if expected is None:
            self._on_way.pop(writer_id, None)
        if sequence > (expected or 0):
            return self._refuse_gap(sequence, expected)
        known = min((expected or 0) - sequence, len(lengths))
        self._metrics.resent_records_total += known
        outcomes = self._earlier(first, known)
        new = len(lengths) - known
        if not new:
            return outcomes
        if not self.state.has_room(writer_id, txid):
            self._metrics.too_many_writers_total += 1
            return [*outcomes, *_refused(_FULL, new)] if outcomes else _FULL
        return [*outcomes, *self._append(request, known)]

    def settle(self, writer_id: bytes) -> None:
        """Forget outcomes of a writer that are known; the log has their records."""
        on_way = self._on_way.get(writer_id)
        while on_way and is_settled(on_way[0][1]):
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

    def _earlier(self, first: WriterSequence, count: int) -> list[Outcome]:
        """Return the outcomes of `count` records that the stream has, or that are on their way."""
        writer_id, sequence = first
        end = sequence + count
        on_way = self._on_way.get(writer_id, ())
        found: list[Outcome] = []
        for number, outcome in reversed(on_way):
            stop = min(end - number, count_of(outcome))
            start = max(sequence - number, 0)
            if start < stop:
                found.append(outcome.cut(start, stop) if isinstance(outcome, Part) else outcome)
            elif number < sequence:
                break
        known_end = min(end, on_way[0][0]) if on_way else end
        answers = [
            Answer(StatusCode.SUCCESS, dlsn=self.state.place_of(writer_id, number))
            for number in range(sequence, known_end)
        ]
        return [*answers, *reversed(found)]

    def _append(self, request: "_Request", known: int) -> list[Outcome]:
        """Append the records behind those that are known."""
        writer, lengths = request.writer, request.lengths
        stop, problem = _fitting(writer, lengths, known)
        too_long = [] if problem is None else _refused(problem, len(lengths) - stop)
        if stop == known:
            return [*too_long]
        writer_id, sequence = request.first
        first = WriterSequence(writer_id, sequence + known)
        count = stop - known
        self.state.expect(writer.waiting_records, first, count, is_set=request.is_set)
        taken, written = request.append(known, stop)
        if writer.error is not None:  # the stream ends: the next owner reads what the log has
            return [*written, *too_long]
        if taken < count:
            self.state.withdraw(count - taken)
        if taken:
            on_way = self._on_way.setdefault(writer_id, deque())
            on_way.extend(_numbered(written, first.sequence, first.sequence + taken))
        return [*written, *too_long]


class _Request(NamedTuple):
    """Records of one writer that follow each other."""

    writer: LogWriter
    first: WriterSequence
    txid: "TxId"
    lengths: list[int]
    append: Callable[[int, int], tuple[int, Sequence[Outcome]]]
    """Appends those of a range; returns how many were taken, and outcomes for all."""
    is_set: bool


def _numbered(outcomes: Sequence[Outcome], number: int, end: int) -> Iterator[tuple[int, Outcome]]:
    """Yield the outcomes of records up to a number, each with its first one; none goes beyond."""
    for outcome in outcomes:
        if number >= end:
            return
        yield number, outcome
        number += count_of(outcome)


def _fitting(writer: LogWriter, lengths: Sequence[int], start: int) -> tuple[int, Answer | None]:
    """Return up to where the numbers of records fit into an entry with them, and why no further.

    Only a record that leaves no room in the largest entry is concerned.
    """
    limit = RECORD_BYTES_MAX - ONE_RUN_BYTES_MAX
    if max(lengths) > limit:
        for at in range(start, len(lengths)):
            try:
                if lengths[at] > limit:
                    writer.check_length(lengths[at] + ONE_RUN_BYTES_MAX)
            except CoreError as error:
                return at, Answer(status_code(error), f"with its number: {error}")
    return len(lengths), None


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
