"""What a partition holds by key, the dumb way: every record up to the last stable offset."""

from collections.abc import Callable
from typing import Any, NamedTuple

from tailrace.broker.partition.latest import LatestRecord
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.protocol.records.batch import read_header
from tailrace.protocol.records.record import Record, iter_records


class Held(NamedTuple):
    """All of it."""

    records: int
    tombstones: int
    keyless: int
    latest: list[LatestRecord]
    """Of each key, in offset order."""

    @property
    def live_keys(self) -> int:
        return sum(each.value is not None for each in self.latest)

    @property
    def table(self) -> dict[bytes, bytes | None]:
        return {each.key: each.value for each in self.latest}


async def read_held(log: PartitionLog) -> Held:
    """Read it from the log itself, not from the tail cache."""
    log.tail.clear()
    records = await _committed(log)
    latest: dict[bytes, LatestRecord] = {}
    for each in records:
        if each.key is not None:
            latest[each.key] = LatestRecord(each.key, each.value, each.offset, each.timestamp)
    return Held(
        len(records),
        sum(each.key is not None and each.value is None for each in records),
        sum(each.key is None for each in records),
        sorted(latest.values(), key=lambda record: record.offset),
    )


async def _committed(log: PartitionLog) -> list[Record]:
    found: list[Record] = []
    start = offset = log.log_start_offset
    end = log.last_stable_offset
    while offset < end and (batches := await log.read(offset, 100_000)):
        for batch in batches:
            header = read_header(batch)
            offset = header.last_offset + 1
            aborted = await log.aborted_between(header.base_offset, header.last_offset)
            is_aborted = header.is_transactional and any(
                each.producer_id == header.producer_id
                and each.first_offset <= header.base_offset <= each.last_offset
                for each in aborted
            )
            if not header.is_control and not is_aborted and header.base_offset < end:
                found += [each for each in iter_records(batch) if each.offset >= start]
    return found


async def inline(work: Callable[[], Any]) -> Any:
    """Run what a thread would."""
    return work()
