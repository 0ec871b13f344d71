"""What became of the records of a write, and the answer that this makes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from tailrace.core.errors import CoreError, OwnershipAcquireFailed
from tailrace.core.log.receipts import BulkReceipt, Run, cut_runs
from tailrace.protocol.distributedlog.dlsn import slots_from
from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.owner.location import ProxyLocation
from tailrace.proxy.owner.operations import (
    UNKNOWN_DLSN,
    Answer,
    Write,
    WriteBulk,
    answer_of,
    bulk_answer,
)

if TYPE_CHECKING:
    import asyncio

    from tailrace.protocol.distributedlog.dlsn import DLSN


class Part(NamedTuple):
    """Some records of a bulk that was appended together."""

    receipt: BulkReceipt
    start: int
    records: int

    @property
    def has_failed(self) -> bool:
        """Whether one of them is known to have no position."""
        end, receipt = self.start + self.records, self.receipt
        return end > receipt.taken or (receipt.done.done() and end > receipt.confirmed)

    def cut(self, start: int, stop: int) -> "Part":
        """Return those of a range of them."""
        return self._replace(start=self.start + start, records=stop - start)


Outcome: TypeAlias = "Answer | asyncio.Future[DLSN] | Part"
"""What became of a record or of several, or will."""


def count_of(outcome: Outcome) -> int:
    """Return how many records an outcome is of."""
    return outcome.records if isinstance(outcome, Part) else 1


def is_settled(outcome: Outcome) -> bool:
    """Tell whether an outcome is known."""
    if isinstance(outcome, Part):
        return outcome.receipt.done.done()
    return isinstance(outcome, Answer) or outcome.done()


def when_done(outcomes: Sequence[Outcome], then: Callable[[], None]) -> None:
    """Call `then` once there is an outcome for each record, now if there is.

    Records are confirmed in their order, so one callback does for thousands.
    """
    for outcome in reversed(outcomes):
        if not (isinstance(outcome, Answer) or is_settled(outcome)):
            future = outcome.receipt.done if isinstance(outcome, Part) else outcome
            future.add_done_callback(lambda _: when_done(outcomes, then))
            return
    then()


def has_failed(outcome: Outcome) -> bool:
    """Tell whether a record is known not to be written, or perhaps not."""
    if isinstance(outcome, Answer):
        return outcome.code is not StatusCode.SUCCESS
    if isinstance(outcome, Part):
        return outcome.has_failed
    return outcome.done() and (outcome.cancelled() or outcome.exception() is not None)


def answer_to(
    operation: Write | WriteBulk, outcomes: Sequence[Outcome], own: ProxyLocation
) -> Answer:
    """Return the answer to a write whose records are done."""
    if isinstance(operation, WriteBulk) and operation.chain is not None:
        return _chained(outcomes, own)
    each = tuple(answer for outcome in outcomes for answer in _answers_of(outcome, own))
    return bulk_answer(each) if isinstance(operation, WriteBulk) else each[0]


def _chained(outcomes: Sequence[Outcome], own: ProxyLocation) -> Answer:
    """Return the answer to a bulk of a chain: behind a record that failed all have."""
    runs: list[Run] = []
    for outcome in outcomes:
        if isinstance(outcome, Part):
            runs += cut_runs(outcome.receipt.runs, outcome.start, outcome.records)
            if outcome.has_failed:
                return replace(_failure_of(outcome.receipt, own), runs=tuple(runs))
            continue
        answer = _answer_of(outcome, own)
        if answer.code is not StatusCode.SUCCESS:
            return replace(answer, runs=tuple(runs))
        runs.append(Run(answer.dlsn or UNKNOWN_DLSN, 1))
    return Answer(StatusCode.SUCCESS, runs=tuple(runs))


def _answers_of(outcome: Outcome, own: ProxyLocation) -> Iterator[Answer]:
    """Yield the answer to each record."""
    if not isinstance(outcome, Part):
        yield _answer_of(outcome, own)
        return
    runs = cut_runs(outcome.receipt.runs, outcome.start, outcome.records)
    for first, count in runs:
        for dlsn in slots_from(first, count):
            yield Answer(StatusCode.SUCCESS, dlsn=dlsn)
    failed = outcome.records - sum(run.records for run in runs)
    if failed:  # what became of the first of them is not known, or none was sent
        yield from [_failure_of(outcome.receipt, own)] * failed


def _answer_of(outcome: "Answer | asyncio.Future[DLSN]", own: ProxyLocation) -> Answer:
    if isinstance(outcome, Answer):
        return outcome
    if outcome.cancelled():
        return Answer(StatusCode.WRITE_CANCELLED_EXCEPTION, "the write was cancelled")
    error = outcome.exception()
    if error is None:
        return Answer(StatusCode.SUCCESS, dlsn=outcome.result())
    return written_answer(error, own)


def _failure_of(receipt: BulkReceipt, own: ProxyLocation) -> Answer:
    error = receipt.error
    assert error is not None, "each record has a position"
    return written_answer(error, own)


def written_answer(error: BaseException, own: ProxyLocation) -> Answer:
    """Return the answer to a record that was taken and has no position. Errors: none."""
    if isinstance(error, OwnershipAcquireFailed):  # FOUND would say: not written
        return Answer(StatusCode.LOCKING_EXCEPTION, str(error))
    if isinstance(error, CoreError):
        return answer_of(error, own)
    return Answer(StatusCode.UNEXPECTED, repr(error))
