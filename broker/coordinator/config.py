"""Settings of the group coordinator, by Kafka's names and with Kafka's defaults."""

from dataclasses import dataclass, field

from tailrace.broker.coordinator.consumer_config import ConsumerGroupConfig
from tailrace.core.runtime.config import AtLeastOne, setting

INT32_MAX = 0x7FFF_FFFF

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long the parked first JoinGroup of a new member may wait. Not a setting in Kafka either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """How groups behave and how their state is stored. Source: GroupCoordinatorConfig."""

    session_timeout_ms_min: int = setting(
        "group.min.session.timeout.ms", 6_000, "Smallest session timeout a member may ask for."
    )
    session_timeout_ms_max: int = setting(
        "group.max.session.timeout.ms",
        1_800_000,
        "Largest session timeout a member may ask for; the longer, the later a death is noticed.",
    )
    initial_rebalance_delay_ms: int = setting(
        "group.initial.rebalance.delay.ms",
        3_000,
        "How long an empty group waits for more members before its first rebalance; 0 for tests.",
    )
    group_size_max: AtLeastOne = setting(
        "group.max.size", INT32_MAX, "Most members a group may have; the next one gets error 81."
    )
    offset_metadata_max: int = setting(
        "offset.metadata.max.bytes", 4_096, "Longest metadata string a commit may carry."
    )
    offsets_commit_timeout_ms: AtLeastOne = setting(
        "offsets.commit.timeout.ms",
        5_000,
        "How long a commit, or another change that clients wait for, may take to be stored.",
    )
    offsets_retention_minutes: AtLeastOne = setting(
        "offsets.retention.minutes",
        10_080,
        "How long offsets outlive the group's last member, or a simple group's last commit.",
    )
    offsets_retention_check_interval_ms: AtLeastOne = setting(
        "offsets.retention.check.interval.ms", 600_000, "How often expired offsets are looked for."
    )
    offsets_topic_partitions: AtLeastOne = setting(
        "offsets.topic.num.partitions",
        50,
        "Partitions of __consumer_offsets when it is created; fixed from then on.",
    )
    offsets_topic_replication_factor: int = setting(
        "offsets.topic.replication.factor",
        3,
        "Replication factor of __consumer_offsets when it is created, or as many bookies as there "
        "are then; fixed from then on.",
    )
    offsets_topic_segment_bytes: AtLeastOne = setting(
        "offsets.topic.segment.bytes", 104_857_600, "Segment size of __consumer_offsets."
    )
    offsets_load_buffer_bytes: AtLeastOne = setting(
        "offsets.load.buffer.size",
        262_144,
        "Bytes read at once while a partition of __consumer_offsets is replayed.",
    )

    consumer: ConsumerGroupConfig = field(default_factory=ConsumerGroupConfig)

    def __post_init__(self) -> None:
        if self.offsets_topic_replication_factor < 1:
            raise ValueError("offsets.topic.replication.factor must be at least 1")

    def allows_session_timeout(self, timeout_ms: int) -> bool:
        """Return whether a classic member may ask for this session timeout."""
        return self.session_timeout_ms_min <= timeout_ms <= self.session_timeout_ms_max

    @property
    def offsets_retention_ms(self) -> int:
        """Retention of committed offsets. Unit: ms."""
        return self.offsets_retention_minutes * 60_000
