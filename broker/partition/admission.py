"""How produced batches come in: checked on the loop while that is cheap, else beside it, in order.

A batch costs what comes out of it and the records that are walked, whether it is taken or refused;
what its header claims is bounded before anything is spent. A request has a room for that on the
loop (`loop_work.py`), which nearly all batches fit: they cost no task, no future, no thread. Any
other batch takes its place in its partition's order (`in_order.py`), waits for its client's turn in
the lane (`fair_lane.py`), is checked there, and is appended in its place.
Reached bounds: too many batches in the lane are NOT_ENOUGH_REPLICAS, which producers try again.
"""

import asyncio
from functools import partial
from typing import TypeAlias, TypeVar

from tailrace.broker.errors import error_code
from tailrace.broker.partition.appends import Append, AppendOutcome
from tailrace.broker.partition.batch_work import UNPACKED_WORK, walk_work
from tailrace.broker.partition.in_steps import InSteps
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.core.errors import CoreError
from tailrace.core.runtime.fair_lane import FairLane
from tailrace.core.runtime.fair_queue import User
from tailrace.core.runtime.loop_work import LoopWork
from tailrace.protocol.errors import ErrorCode, ProtocolError
from tailrace.protocol.records.batch import CODEC_MASK, BatchHeader
from tailrace.protocol.records.validate import InvalidBatch, TooMuchToUnpack

T = TypeVar("T")

LateOutcome: TypeAlias = AppendOutcome | InvalidBatch
"""Of an append that had to wait before it could be checked."""
Appending: TypeAlias = Append | asyncio.Future[LateOutcome]


class Admission:
    """Checks and appends what clients produce. All calls come from the loop."""

    def __init__(self, work: LoopWork, lane: FairLane) -> None:
        self.work = work
        self.lane = lane
        self.steps = InSteps()
        """Of requests for very many partitions, by connection."""

    def append(
        self, log: PartitionLog, batch: memoryview, header: BatchHeader, user: User, since: int
    ) -> Appending:
        """Append a batch whose header was checked: now, or in its place. Errors: InvalidBatch.

        `since`: what `work.total` was when its request began.
        """
        checked = self.check(log, batch, header, user, since)
        if checked is not None:
            return log.append(batch, checked)
        outcome: asyncio.Future[LateOutcome] = asyncio.get_running_loop().create_future()
        place = log.order.hold()

        def take(checked: BatchHeader | ErrorCode | InvalidBatch) -> None:
            log.order.ready(place, lambda: append(checked))

        def append(checked: BatchHeader | ErrorCode | InvalidBatch) -> None:
            if isinstance(checked, BatchHeader):
                follow(log.append(batch, checked), outcome)
            else:
                settle(outcome, checked)

        beside = self.check_beside(log, batch, header, user)
        beside.add_done_callback(lambda done: take(done.result()))
        return outcome

    def check(
        self, log: PartitionLog, batch: memoryview, header: BatchHeader, user: User, since: int
    ) -> BatchHeader | None:
        """Check the records on the loop; None if they need more room. Errors: InvalidBatch."""
        work = self.work
        cost = walk_work(header, len(batch))
        if not header.attributes & CODEC_MASK:
            has_room = work.spend(user, since, cost)
            return log.rules.check_records(batch, header) if has_room else None
        unpacked_max = (work.room(user, since) - cost) // UNPACKED_WORK
        if len(batch) > unpacked_max:
            return None
        work.add(cost)
        before = work.total
        try:
            return log.rules.check_records(batch, header, unpacked_max, self._count)
        except TooMuchToUnpack:
            work.add(unpacked_max * UNPACKED_WORK)
            return None
        except InvalidBatch:
            if work.total == before:  # how much came out is not known
                work.add(unpacked_max * UNPACKED_WORK)
            raise

    def _count(self, unpacked: int) -> None:
        self.work.add(unpacked * UNPACKED_WORK)

    def check_beside(
        self, log: PartitionLog, batch: memoryview, header: BatchHeader, user: User
    ) -> "asyncio.Future[BatchHeader | ErrorCode | InvalidBatch]":
        """Check the records in the lane; the future has the header to store, or what is wrong."""
        outcome: asyncio.Future[BatchHeader | ErrorCode | InvalidBatch]
        outcome = asyncio.get_running_loop().create_future()

        def take(checked: BatchHeader | ProtocolError | CoreError) -> None:
            if outcome.done():
                return
            if isinstance(checked, CoreError):
                outcome.set_result(error_code(checked))
            elif isinstance(checked, BatchHeader | InvalidBatch):
                outcome.set_result(checked)
            else:
                outcome.set_result(ErrorCode.CORRUPT_MESSAGE)

        if not self.lane.submit(user, partial(log.rules.check_records, batch, header), take):
            log.excuse_gaps()
            outcome.set_result(ErrorCode.NOT_ENOUGH_REPLICAS)
        return outcome


def settle(future: asyncio.Future[T], outcome: T) -> None:
    """Give what comes late its outcome, unless it has one."""
    if not future.done():
        future.set_result(outcome)


def follow(append: Append, future: asyncio.Future[LateOutcome]) -> None:
    """Give a late append the outcome of the real one."""
    append.add_done_callback(lambda done: settle(future, done.result()))
