"""What was appended and is not sent: records in order, their bytes and their own times."""

from collections import deque
from typing import Final

from tailrace.core.log.config import ENTRY_RECORDS_BYTES_MAX
from tailrace.protocol.distributedlog.record import HEADER_SIZE, RecordParts

NEVER_MS: Final = 2**63 - 1


class WaitingRecords:
    """Records that wait, oldest first; `records` and `times` are of one length."""

    __slots__ = ("payload_bytes", "records", "times")

    def __init__(self) -> None:
        self.records: deque[RecordParts] = deque()
        self.times: deque[int] = deque()
        """When each record was made, in ms since 1970; -1: it has no time."""
        self.payload_bytes = 0

    @property
    def size_bytes(self) -> int:
        """Bytes that they take in entries, their headers counted."""
        return self.payload_bytes + HEADER_SIZE * len(self.records)

    @property
    def largest(self) -> int:
        """Bytes of the largest one, 0 without any."""
        return max((length for _, _, length, _ in self.records), default=0)

    def clear(self) -> None:
        """Drop all."""
        self.records.clear()
        self.times.clear()
        self.payload_bytes = 0

    def take(self, latest_ms: int = NEVER_MS) -> tuple[list[RecordParts], int]:
        """Remove what goes into the next entry; return it with its bytes, headers counted.

        Shape: what comes before the first record later than `latest_ms`, as far as it fits; but one
        record at least.
        """
        waiting, times = self.records, self.times
        size = self.payload_bytes + HEADER_SIZE * len(waiting)
        if size <= ENTRY_RECORDS_BYTES_MAX and max(times) <= latest_ms:
            records = list(waiting)
            self.clear()
            return records, size
        records, size = [], 0
        for record, time_ms in zip(waiting, times, strict=True):
            _, _, length, _ = record
            is_late = time_ms > latest_ms
            if records and (is_late or size + HEADER_SIZE + length > ENTRY_RECORDS_BYTES_MAX):
                break
            records.append(record)
            size += HEADER_SIZE + length
        for _ in records:
            waiting.popleft()
            times.popleft()
        self.payload_bytes -= size - HEADER_SIZE * len(records)
        return records, size
