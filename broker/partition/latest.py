"""The latest record of a key, as it is shown, and how records are picked out of batches."""

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Sequence
from operator import lt
from typing import NamedTuple, Protocol, TypeVar

from tailrace.core.errors import CorruptData
from tailrace.protocol.errors import DecodeError
from tailrace.protocol.ids import Buffer, Offset
from tailrace.protocol.records.batch import BatchHeader, read_header
from tailrace.protocol.records.record import Record, iter_records

T = TypeVar("T")


class InThread(Protocol):
    """Runs what takes long where the loop does not wait for it: one after the other."""

    def __call__(self, work: Callable[[], T]) -> Awaitable[T]:
        """Return the result of `work`. Errors: what it raises. Cancel: it may still run."""


class LatestRecord(NamedTuple):
    """The latest record of a key."""

    key: bytes
    value: bytes | None
    """None: the key was deleted."""
    offset: Offset
    timestamp: int


def pick_records(batches: Sequence[Buffer], offsets: Sequence[Offset]) -> list[LatestRecord]:
    """Return the records with a key at these offsets, which rise; those that are there.

    Errors: CorruptData.
    """
    found = []
    for batch in batches:
        header = read_header(batch)
        base, last = header.base_offset, header.last_offset
        at = bisect_left(offsets, base)
        if header.is_control or at == len(offsets) or offsets[at] > last:
            continue
        wanted = set(offsets[at : bisect_left(offsets, last + 1)])
        try:
            found += [
                LatestRecord(record.key, record.value, record.offset, record.timestamp)
                for record in _in_order(header, list(iter_records(batch)))
                if record.offset in wanted and record.key is not None
            ]
        except DecodeError as error:
            raise CorruptData(f"batch at offset {base}: {error}") from error
    return found


def _in_order(header: BatchHeader, records: list[Record]) -> list[Record]:
    """Return records with the offsets that views have of them.

    Where those do not rise inside the batch, they are its places; see `compaction.cleaner.columns`.
    """
    offsets = [record.offset for record in records]
    if all(map(lt, [header.base_offset - 1, *offsets], [*offsets, header.last_offset + 1])):
        return records
    return [
        record._replace(offset=offset) for offset, record in enumerate(records, header.base_offset)
    ]
