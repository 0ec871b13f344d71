"""Batches that cost much to check, and a count of what is done for them on the loop.

What comes out of a compressed batch is counted where it comes out, whoever asked for it; a worker's
step of the simulation is not the loop's. So a test says how much the loop did between two of its
steps, whatever the machine is.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from tailrace.broker.partition.batch_work import RECORD_WORK, UNPACKED_WORK
from tailrace.core.errors import CorruptData
from tailrace.protocol import compression
from tailrace.protocol.compression import Codec, compress
from tailrace.protocol.errors import BadLength, DecodeError
from tailrace.protocol.ids import Buffer
from tailrace.protocol.records import judging, times, validate
from tailrace.protocol.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    pack_header,
    stamp_crc,
)
from tailrace.protocol.records.record import NO_PRODUCER, Producer, Record, build_batch, payload_of
from tailrace.protocol.records.record_loops import STEP_RECORDS
from tailrace.simulation.loop import SimLoop

T = TypeVar("T")

MIB = 1 << 20


def bomb(codec: Codec, size: int, *, records: int = 1) -> memoryview:
    """Return a small batch of which `size` bytes come out: one record, but it claims so many."""
    record = bytes(memoryview(build_batch([Record(value=bytes(size - 20))]))[HEADER_SIZE:])
    return packed_batch(codec, compress(codec, record), records=records)


def packed_batch(codec: Codec, packed: bytes, *, records: int = 1) -> memoryview:
    """Return a batch of these compressed bytes."""
    length = HEADER_SIZE - LOG_OVERHEAD + len(packed)
    last, producer = records - 1, NO_PRODUCER
    header = BatchHeader(0, length, -1, MAGIC, 0, codec, last, 0, 0, *producer, records)
    batch = bytearray(pack_header(header))
    batch += packed
    stamp_crc(batch)
    return memoryview(batch)


def heavy(
    size: int = 2000, *, codec: Codec = Codec.LZ4, producer: Producer = NO_PRODUCER, flags: int = 0
) -> memoryview:
    """Return a sound batch of one record of `size` bytes, packed."""
    records = [Record(key=b"k", value=bytes(size))]
    return memoryview(build_batch(records, codec, producer=producer, attributes=flags))


async def walked(batch: Buffer, see: Callable[[BatchHeader, Buffer], T]) -> T:
    """Look into a batch at once."""
    try:
        return see(*payload_of(batch))
    except DecodeError as error:
        raise CorruptData(str(error)) from error


class LoopCount:
    """What was done on the loop, step by step. Unit: bytes that were unpacked."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.beside = 0
        """What was done by workers."""
        self._now = 0
        self._loop = asyncio.get_running_loop()
        self._ended = False

    def take(self, size: int) -> None:
        if isinstance(self._loop, SimLoop) and self._loop.worker is not None:
            self.beside += size
        else:
            self._now += size

    def tick(self) -> None:
        """Begin another step of the loop, and so on."""
        self.steps.append(self._now)
        self._now = 0
        if not self._ended:
            self._loop.call_later(1e-6, self.tick)  # not at once: time would not pass

    def end(self) -> None:
        self._ended = True
        self.steps.append(self._now)

    @property
    def most(self) -> int:
        return max(self.steps, default=0)


def _counted_loop(count: LoopCount, function: Callable[..., Any], index_at: int) -> Any:
    """Count the records that a loop walks: it returns the index to go on with, as its second."""

    def run(*arguments: Any) -> Any:
        found = function(*arguments)
        before = arguments[index_at] if len(arguments) > index_at else 0
        count.take((found[1] - before) * RECORD_WORK // UNPACKED_WORK)
        return found

    return run


def _counted_at_once(count: LoopCount, function: Callable[..., int]) -> Callable[..., int]:
    """Count the records that a batch claims, which is what one step may walk of it."""

    def run(data: bytes, claimed: int, *arguments: int) -> int:
        count.take(min(claimed, STEP_RECORDS) * RECORD_WORK // UNPACKED_WORK)
        return function(data, claimed, *arguments)

    return run


@contextmanager
def counting() -> Iterator[LoopCount]:
    """Count what is unpacked, and records that are walked, in this block, as the broker counts it.

    What is too much to unpack counts as all that was allowed.
    """
    count = LoopCount()
    table: dict[int, Callable[[Buffer, int], Buffer]] = compression._DECOMPRESS
    real = dict(table)
    loops: list[tuple[Any, str, int]] = [(times, "scan", 6), (judging, "check", 7)]
    real_loops = [getattr(module, name) for module, name, _ in loops]

    def counted(function: Callable[[Buffer, int], Buffer]) -> Any:
        def run(data: Buffer, bytes_max: int) -> Buffer:
            try:
                plain = function(data, bytes_max)
            except BadLength:
                count.take(bytes_max)
                raise
            count.take(len(plain))
            return plain

        return run

    real_at_once = validate.newest_time

    try:
        for (module, name, index_at), function in zip(loops, real_loops, strict=True):
            setattr(module, name, _counted_loop(count, function, index_at))
        validate.newest_time = _counted_at_once(count, real_at_once)
        table.update({key: counted(real[key]) for key in real if key != Codec.NONE})
        count.tick()
        yield count
    finally:
        count.end()
        table.update(real)
        validate.newest_time = real_at_once
        for (module, name, _), function in zip(loops, real_loops, strict=True):
            setattr(module, name, function)
