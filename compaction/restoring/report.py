"""What a restore did, in numbers that another restore of the same range must match. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from tailrace.compaction.restoring.checkpoint import Checkpoint
from tailrace.compaction.restoring.digest import Live, shown
from tailrace.protocol.ids import Offset


class PartitionReport(NamedTuple):
    """One partition. end - start = records + aborted + markers + gaps."""

    partition: int
    start: Offset
    end: Offset
    """Exclusive: the last stable offset when the restore began."""
    records: int
    """Committed records that were read, tombstones and keyless ones among them."""
    tombstones: int
    keyless: int
    """Records without a key, which restore nothing."""
    aborted: int
    markers: int
    gaps: int
    """Offsets that the log has no record for: compaction removed it."""
    bytes: int
    """Of keys and values of the records."""
    live_keys: int
    live_bytes: int
    hash: str
    """Of the live pairs, 32 hexadecimal digits; see digest.py."""


class Report(NamedTuple):
    """A whole restore."""

    topic: str
    topic_id: str
    partitions: tuple[PartitionReport, ...]

    @property
    def hash(self) -> str:
        """The hash of all live pairs: the sum of the partitions', modulo 2^128."""
        return shown(sum(int(each.hash, 16) for each in self.partitions))


def report_of(checkpoint: Checkpoint, live: Mapping[int, Live]) -> Report:
    """Put together what was counted on the way and what is alive at the end."""
    return Report(
        checkpoint.topic,
        checkpoint.topic_id,
        tuple(
            PartitionReport(
                partition=partition,
                start=each.start,
                end=each.end,
                records=each.records,
                tombstones=each.tombstones,
                keyless=each.keyless,
                aborted=each.aborted,
                markers=each.markers,
                gaps=each.gaps,
                bytes=each.bytes,
                live_keys=live[partition].keys,
                live_bytes=live[partition].bytes,
                hash=live[partition].hash,
            )
            for partition, each in sorted(checkpoint.partitions.items())
        ),
    )
