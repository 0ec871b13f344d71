"""What a partition holds by key: exact counts and the latest value of each key, by reading it.

From the log start to the last stable offset taken at the start: so it ends. Records of aborted
transactions do not count, nor do transaction markers. Memory is bounded by a number of keys, and an
answer that met the bound says so. Cost: the partition is read once; records are walked in a thread.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol, TypeVar

from broker.partition.aborted import AbortedTransaction
from broker.partition.partition_log import PartitionLog
from core.errors import CorruptData
from protocol.errors import DecodeError
from protocol.ids import Buffer, Offset
from protocol.records.batch import CONTROL, TRANSACTIONAL, read_header
from protocol.records.record import Record, iter_records

T = TypeVar("T")
READ_BYTES: Final = 1024 * 1024
COUNTED_KEYS_MAX: Final = 2_000_000
"""Keys of a partition that are told apart, at about 100 bytes each."""


class InThread(Protocol):
    """Runs what takes long where the loop does not wait for it."""

    def __call__(self, work: Callable[[], T]) -> Awaitable[T]:
        """Return the result of `work`. Errors: what it raises."""


class KeyCounts(NamedTuple):
    """What was counted up to the last stable offset."""

    end_offset: Offset
    records: int
    """Of clients: no markers, nothing that was aborted."""
    tombstones: int
    keyless: int
    keys: int | None
    """Distinct ones; None: more than the bound."""
    live_keys: int | None
    """Those whose latest record has a value."""


class LatestRecord(NamedTuple):
    """The latest record of a key."""

    key: bytes
    value: bytes | None
    """None: the key was deleted."""
    offset: Offset
    timestamp: int


async def count_keys(log: PartitionLog, in_thread: InThread) -> KeyCounts:
    """Count the records and keys of a partition. Errors: CoreError."""
    counter = _Counter(COUNTED_KEYS_MAX)
    end = await _read_all(log, in_thread, counter.take)
    keys = live_keys = None
    if counter.live is not None:
        keys, live_keys = len(counter.live), sum(counter.live.values())
    return KeyCounts(end, counter.records, counter.tombstones, counter.keyless, keys, live_keys)


async def latest_of_keys(
    log: PartitionLog, in_thread: InThread, limit: int, key: bytes | None = None
) -> tuple[list[LatestRecord], bool]:
    """Return the latest record of each key, by offset, and whether these are all of them.

    `limit`: keys at most, the first ones that the log has; `key`: only this one.
    Errors: CoreError.
    """
    latest = _Latest(limit, key)
    await _read_all(log, in_thread, latest.take)
    found = sorted(latest.found.values(), key=lambda record: record.offset)
    return found, not latest.left_out


async def _read_all(
    log: PartitionLog, in_thread: InThread, take: Callable[[Record], None]
) -> Offset:
    offset, end = log.log_start_offset, log.last_stable_offset
    while offset < end:
        batches = await log.read(max(offset, log.log_start_offset), READ_BYTES)
        if not batches:
            break
        last = read_header(batches[-1]).last_offset
        aborted = await log.aborted_between(offset, min(last, end - 1))
        await in_thread(partial(_walk, batches, offset, end, aborted, take))
        offset = last + 1
    return end


def _walk(
    batches: Sequence[Buffer],
    first: Offset,
    end: Offset,
    aborted: Sequence[AbortedTransaction],
    take: Callable[[Record], None],
) -> None:
    for batch in batches:
        header = read_header(batch)
        base = header.base_offset
        is_aborted = header.attributes & TRANSACTIONAL and any(
            each.producer_id == header.producer_id and each.first_offset <= base <= each.last_offset
            for each in aborted
        )
        if header.attributes & CONTROL or is_aborted or base >= end:
            continue
        try:
            for record in iter_records(batch):
                if record.offset >= first:
                    take(record)
        except DecodeError as error:
            raise CorruptData(f"batch at offset {base}: {error}") from error


class _Counter:
    def __init__(self, keys_max: int) -> None:
        self.records = self.tombstones = self.keyless = 0
        self.live: dict[bytes, bool] | None = {}
        """Whether each key has a value, by its digest; None: there are too many."""
        self._keys_max = keys_max

    def take(self, record: Record) -> None:
        self.records += 1
        if record.key is None:
            self.keyless += 1
            return
        self.tombstones += record.value is None
        if self.live is not None:
            self.live[blake2b(record.key, digest_size=16).digest()] = record.value is not None
            if len(self.live) > self._keys_max:
                self.live = None


class _Latest:
    def __init__(self, limit: int, key: bytes | None) -> None:
        self.found: dict[bytes, LatestRecord] = {}
        self.left_out = False
        self._limit = limit
        self._key = key

    def take(self, record: Record) -> None:
        key = record.key
        if key is None or (self._key is not None and key != self._key):
            return
        if key not in self.found and len(self.found) >= self._limit:
            self.left_out = True
            return
        self.found[key] = LatestRecord(key, record.value, record.offset, record.timestamp)
