"""Settings of the transaction coordinator, by Kafka's names and with Kafka's defaults."""

from dataclasses import dataclass

from tailrace.core.runtime.config import AtLeastOne, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    """How transactions behave and how their state is stored.

    Source: TransactionStateManagerConfig, TransactionLogConfig.
    """

    timeout_ms_max: AtLeastOne = setting(
        "transaction.max.timeout.ms",
        900_000,
        "Longest transaction timeout a producer may ask for; the longer, the longer a dead "
        "producer holds up readers of committed records.",
    )
    id_expiration_ms: AtLeastOne = setting(
        "transactional.id.expiration.ms",
        604_800_000,
        "How long a transactional id without a transaction is remembered.",
    )
    abort_interval_ms: AtLeastOne = setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10_000,
        "How often transactions are looked for that have timed out.",
    )
    expiry_interval_ms: AtLeastOne = setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        3_600_000,
        "How often transactional ids are looked for that have expired.",
    )
    verifies_partitions: bool = setting(
        "transaction.partition.verification.enable",
        True,
        "Ask the coordinator whether a partition is in the transaction before the transaction's "
        "first batch is appended there.",
    )
    topic_partitions: AtLeastOne = setting(
        "transaction.state.log.num.partitions",
        50,
        "Partitions of __transaction_state when it is created; fixed from then on.",
    )
    topic_replication_factor: int = setting(
        "transaction.state.log.replication.factor",
        3,
        "Replication factor of __transaction_state when it is created, or as many bookies as there "
        "are then; fixed from then on.",
    )
    topic_min_isr: AtLeastOne = setting(
        "transaction.state.log.min.isr",
        2,
        "min.insync.replicas of __transaction_state when it is created, or as many copies as are "
        "confirmed with its replication factor.",
    )
    topic_segment_bytes: AtLeastOne = setting(
        "transaction.state.log.segment.bytes", 104_857_600, "Segment size of __transaction_state."
    )
    load_buffer_bytes: AtLeastOne = setting(
        "transaction.state.log.load.buffer.size",
        5_242_880,
        "Bytes read at once while a partition of __transaction_state is replayed.",
    )

    def __post_init__(self) -> None:
        if self.topic_replication_factor < 1:
            raise ValueError("transaction.state.log.replication.factor must be at least 1")
