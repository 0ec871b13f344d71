"""What became of the records of a write, and the answer that this makes."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.owner.location import ProxyLocation
from tailrace.proxy.owner.numbered_writes import Outcome, written_answer
from tailrace.proxy.owner.operations import (
    UNKNOWN_DLSN,
    Answer,
    Write,
    WriteBulk,
    bulk_answer,
)

if TYPE_CHECKING:
    from tailrace.protocol.distributedlog.dlsn import DLSN


def when_done(outcomes: Sequence[Outcome], then: Callable[[], None]) -> None:
    """Call `then` once there is an outcome for each record, now if there is.

    Records are confirmed in their order, so one callback does for thousands.
    """
    for outcome in reversed(outcomes):
        if not isinstance(outcome, Answer) and not outcome.done():
            outcome.add_done_callback(lambda _: when_done(outcomes, then))
            return
    then()


def has_failed(outcome: Outcome) -> bool:
    """Tell whether a record is known not to be written, or perhaps not."""
    if isinstance(outcome, Answer):
        return outcome.code is not StatusCode.SUCCESS
    return outcome.done() and (outcome.cancelled() or outcome.exception() is not None)


def answer_to(
    operation: Write | WriteBulk, outcomes: Sequence[Outcome], own: ProxyLocation
) -> Answer:
    """Return the answer to a write whose records are done."""
    if isinstance(operation, WriteBulk) and operation.chain is not None:
        return _chained(outcomes, own)
    each = tuple(_answer_of(outcome, own) for outcome in outcomes)
    return bulk_answer(each) if isinstance(operation, WriteBulk) else each[0]


def _chained(outcomes: Sequence[Outcome], own: ProxyLocation) -> Answer:
    """Return the answer to a bulk of a chain: behind a record that failed all have."""
    dlsns: list[DLSN] = []
    for outcome in outcomes:
        if isinstance(outcome, Answer) or has_failed(outcome):
            answer = _answer_of(outcome, own)
            if answer.code is not StatusCode.SUCCESS:
                return replace(answer, dlsns=tuple(dlsns))
            dlsns.append(answer.dlsn or UNKNOWN_DLSN)
        else:
            dlsns.append(outcome.result())
    return Answer(StatusCode.SUCCESS, dlsns=tuple(dlsns))


def _answer_of(outcome: Outcome, own: ProxyLocation) -> Answer:
    return outcome if isinstance(outcome, Answer) else written_answer(outcome, own)
