"""Which partition of `__consumer_offsets` a group lives in."""

from tailrace.broker.replicated.partitioning import partition_for

OFFSETS_TOPIC = "__consumer_offsets"


def partition_for_group(group_id: str, partition_count: int) -> int:
    """Return the partition whose owner coordinates the group."""
    return partition_for(group_id, partition_count)
