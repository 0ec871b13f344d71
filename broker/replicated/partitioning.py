"""Which partition of an internal topic a name (group, transactional id) lives in.

Every Kafka client and tool that reads such a topic raw counts on this rule, so it is Java's own.
"""

INT32_MIN = -(1 << 31)


def java_string_hash(text: str) -> int:
    """Return Java's `String.hashCode`: over UTF-16 code units, as a signed 32-bit int."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFF_FFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


def partition_for(name: str, partition_count: int) -> int:
    """Return the partition whose owner coordinates `name`.

    The absolute value of the hash, not its lower 31 bits: they differ for every negative hash. The
    smallest int, which has no absolute value, counts as 0.
    Source: GroupCoordinatorService.partitionFor, TransactionStateManager.partitionFor, Utils.abs.
    """
    value = java_string_hash(name)
    return 0 if value == INT32_MIN else abs(value) % partition_count
