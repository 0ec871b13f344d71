"""Looking into stored batches for a client: on the loop while that is cheap, else in the lane.

Stored batches may be older than the checks of what they claim: nothing is spent on a claim.
"""

from collections.abc import Callable
from typing import TypeVar

from tailrace.broker.partition.admission import Admission
from tailrace.broker.partition.batch_work import UNPACKED_WORK, walk_work
from tailrace.core.errors import CorruptData
from tailrace.core.runtime.fair_queue import User
from tailrace.protocol.errors import BadLength, DecodeError
from tailrace.protocol.ids import Buffer
from tailrace.protocol.records.batch import CODEC_MASK, BatchHeader, read_header
from tailrace.protocol.records.record import payload_of

T = TypeVar("T")


class Walks:
    """The looks of one request into batches. All calls come from the loop."""

    def __init__(self, admission: Admission, user: User) -> None:
        self._work = admission.work
        self._lane = admission.lane
        self._user = user
        self._since = self._work.total

    async def walk(self, batch: Buffer, see: Callable[[BatchHeader, Buffer], T]) -> T:
        """Return what `see` does of a batch's header and records, unpacked.

        Errors: CorruptData: they cannot be read; OverCapacity: too much waits for the lane.
        Cancel: `see` is called no more, unless it runs.
        """
        header = read_header(batch)
        try:
            payload = self._unpacked(header, batch)
            if payload is not None:
                return see(header, payload)
            return await self._lane.call(self._user, lambda: see(*payload_of(batch)))
        except DecodeError as error:
            raise CorruptData(f"batch at offset {header.base_offset}: {error}") from error

    def _unpacked(self, header: BatchHeader, batch: Buffer) -> Buffer | None:
        """Return the records if the loop has room for what may be in them. Errors: DecodeError."""
        work = self._work
        room = work.room(self._user, self._since)
        cost = walk_work(header, len(batch))
        if cost > room:
            return None
        if not header.attributes & CODEC_MASK:
            work.add(cost)
            return payload_of(batch)[1]
        unpacked_max = (room - cost) // UNPACKED_WORK
        if len(batch) > unpacked_max:
            return None
        try:
            payload = payload_of(batch, unpacked_max)[1]
        except BadLength:  # more comes out, or less than is claimed: that shows beside the loop
            work.add(room)
            return None
        work.add(cost + len(payload) * UNPACKED_WORK)
        return payload
