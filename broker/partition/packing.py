"""Batches of a topic with a codec of its own (`compression.type`), packed beside the loop.

In the order of the partition: a level that takes long keeps only what is behind it waiting.
"""

from collections.abc import Callable
from functools import partial

from tailrace.broker.errors import error_code
from tailrace.broker.partition.appends import Append
from tailrace.broker.partition.batch_rules import BatchRules
from tailrace.broker.partition.in_order import InOrder
from tailrace.core.errors import CoreError
from tailrace.core.runtime.fair_lane import FairLane
from tailrace.core.runtime.fair_queue import Named
from tailrace.protocol.errors import ErrorCode, ProtocolError
from tailrace.protocol.records.batch import BatchHeader
from tailrace.protocol.records.recompress import recompress


class Packer:
    """Packs the batches of one partition."""

    def __init__(
        self, name: str, order: InOrder, lane: FairLane, on_refused: Callable[[], None]
    ) -> None:
        """`on_refused` hears that a batch is given back, to be tried again."""
        self._user = Named(name)
        self._order = order
        self._lane = lane
        self._on_refused = on_refused

    def append(
        self,
        batch: memoryview,
        header: BatchHeader,
        rules: BatchRules,
        append: Callable[[memoryview], Append],
    ) -> Append:
        """Take the batch's place, and call `append` there, once it is packed."""
        late, place = Append.later(), self._order.hold()
        assert rules.stored_as is not None

        def result_of(packed: memoryview | ProtocolError | CoreError | ErrorCode) -> Append:
            refusal = _refusal(packed, rules)
            if isinstance(packed, memoryview) and not refusal:
                return append(packed)
            return Append.answered(refusal)

        def take(packed: memoryview | ProtocolError | CoreError | ErrorCode) -> None:
            self._order.ready(place, lambda: late.follow(result_of(packed)))

        work = partial(recompress, batch, header, rules.stored_as)
        if not self._lane.submit(self._user, work, take):
            self._on_refused()
            take(ErrorCode.NOT_ENOUGH_REPLICAS)
        return late


def _refusal(
    packed: memoryview | ProtocolError | CoreError | ErrorCode, rules: BatchRules
) -> ErrorCode:
    if isinstance(packed, memoryview):
        if len(packed) > rules.max_bytes:
            return ErrorCode.MESSAGE_TOO_LARGE
        is_too_long = len(packed) > rules.segment_bytes
        return ErrorCode.RECORD_LIST_TOO_LARGE if is_too_long else ErrorCode.NONE
    if isinstance(packed, CoreError):
        return error_code(packed)
    return ErrorCode.CORRUPT_MESSAGE if isinstance(packed, ProtocolError) else packed
