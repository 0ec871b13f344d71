"""Which partition of `__consumer_offsets` a group lives in.

Every Kafka client and tool that reads the topic raw counts on this rule, so it is Java's own hash.
"""

OFFSETS_TOPIC = "__consumer_offsets"


def java_string_hash(text: str) -> int:
    """Return Java's `String.hashCode`: over UTF-16 code units, as a signed 32-bit int."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFF_FFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


def partition_for_group(group_id: str, partition_count: int) -> int:
    """Return the partition whose owner coordinates the group.

    Source: GroupCoordinatorService.partitionFor; Utils.abs (a mask, not an absolute value).
    """
    return (java_string_hash(group_id) & 0x7FFF_FFFF) % partition_count
