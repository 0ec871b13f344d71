"""Settings of partitions: caches, readers, producers, retention."""

from dataclasses import dataclass

from tailrace.core.runtime.config import AtLeastOne, NotNegative, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionConfig:
    """Partitions: caches, readers, producers, retention."""

    tail_cache_bytes: NotNegative | None = setting(
        "tail.cache.bytes",
        None,
        "Newest batches of all partitions kept in memory for consumers at the tail. Unit: bytes. "
        "Default: 1/32 of the memory that the process may use, 128 MiB at least, 1 GiB at most.",
    )
    readers_max: AtLeastOne = setting(
        "fetch.max.open.readers",
        64,
        "Open readers kept for consumers behind the tail cache; each may hold a read-ahead.",
    )
    producer_id_expiration_ms: AtLeastOne = setting(
        "producer.id.expiration.ms",
        86_400_000,
        "An idempotent producer that wrote nothing for so long is forgotten.",
    )
    add_partitions_retry_backoff_max_ms: int = setting(
        "add.partitions.to.txn.retry.backoff.max.ms",
        100,
        "How long partitions that join a transaction wait for the end of the producer's last one, "
        "before the producer is told to try again itself.",
    )
    retention_check_interval_ms: AtLeastOne = setting(
        "log.retention.check.interval.ms", 300_000, "How often old segments are looked for."
    )
