"""Settings of KIP-848 groups, by Kafka's names and with Kafka's defaults."""

from dataclasses import dataclass
from enum import StrEnum

from tailrace.broker.cluster.group_configs import GroupConfigs
from tailrace.core.runtime.config import setting

INT32_MAX = 0x7FFF_FFFF

ASSIGNORS = ("uniform", "range")
"""What there is, by the names that members ask for."""


class MigrationPolicy(StrEnum):
    """Whether a group may change its protocol while it has members."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def may_upgrade(self) -> bool:
        """Whether a classic group may become a consumer group."""
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def may_downgrade(self) -> bool:
        """Whether a consumer group may become a classic group."""
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupConfig:
    """How KIP-848 groups behave. Source: GroupCoordinatorConfig."""

    session_timeout_ms: int = setting(
        "group.consumer.session.timeout.ms",
        45_000,
        "How long a member of a consumer group may be silent before it is taken for dead.",
    )
    session_timeout_ms_min: int = setting(
        "group.consumer.min.session.timeout.ms", 45_000, "Least session timeout of one group."
    )
    session_timeout_ms_max: int = setting(
        "group.consumer.max.session.timeout.ms", 60_000, "Largest session timeout of one group."
    )
    heartbeat_interval_ms: int = setting(
        "group.consumer.heartbeat.interval.ms",
        5_000,
        "How often members of consumer groups are told to send a heartbeat.",
    )
    heartbeat_interval_ms_min: int = setting(
        "group.consumer.min.heartbeat.interval.ms", 5_000, "Least heartbeat interval of one group."
    )
    heartbeat_interval_ms_max: int = setting(
        "group.consumer.max.heartbeat.interval.ms",
        15_000,
        "Largest heartbeat interval of one group.",
    )
    assignment_interval_ms: int = setting(
        "group.consumer.assignment.interval.ms",
        1_000,
        "Least time between two assignments of a consumer group; 0 to assign with every change.",
    )
    assignment_interval_ms_min: int = setting(
        "group.consumer.min.assignment.interval.ms", 0, "Least assignment interval of one group."
    )
    assignment_interval_ms_max: int = setting(
        "group.consumer.max.assignment.interval.ms",
        15_000,
        "Largest assignment interval of one group.",
    )
    group_size_max: int = setting(
        "group.consumer.max.size", INT32_MAX, "Most members of a consumer group; then error 81."
    )
    assignors: str = setting(
        "group.consumer.assignors",
        "uniform,range",
        "Server-side assignors that members may ask for; the first is the default.",
    )
    migration_policy: str = setting(
        "group.consumer.migration.policy",
        "bidirectional",
        "Whether groups with members may change protocol: bidirectional, upgrade (to consumer), "
        "downgrade (to classic) or disabled.",
    )

    def __post_init__(self) -> None:
        names = self.assignor_names
        if not names or len(set(names)) != len(names) or not set(names) <= set(ASSIGNORS):
            raise ValueError(
                "group.consumer.assignors must name each of its assignors once, out of "
                f"{', '.join(ASSIGNORS)}"
            )
        if self.migration_policy.lower() not in set(MigrationPolicy):
            raise ValueError(
                "group.consumer.migration.policy must be one of " + ", ".join(MigrationPolicy)
            )
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ValueError(
                "group.consumer.heartbeat.interval.ms must be less than "
                "group.consumer.session.timeout.ms"
            )
        self._check_range("session.timeout.ms", "session_timeout_ms")
        self._check_range("heartbeat.interval.ms", "heartbeat_interval_ms")
        self._check_range("assignment.interval.ms", "assignment_interval_ms")

    def _check_range(self, name: str, field: str) -> None:
        least, most = getattr(self, f"{field}_min"), getattr(self, f"{field}_max")
        if not least <= getattr(self, field) <= most:
            raise ValueError(
                f"group.consumer.{name} must be from group.consumer.min.{name} ({least}) "
                f"to group.consumer.max.{name} ({most})"
            )

    @property
    def assignor_names(self) -> tuple[str, ...]:
        """The assignors that may be asked for, the default first."""
        return tuple(name.strip() for name in self.assignors.split(",") if name.strip())

    @property
    def migration(self) -> MigrationPolicy:
        """The policy of online upgrades and downgrades."""
        return MigrationPolicy(self.migration_policy.lower())

    @property
    def times(self) -> GroupConfigs:
        """What holds for a group that has no configs of its own."""
        return GroupConfigs(
            self.session_timeout_ms, self.heartbeat_interval_ms, self.assignment_interval_ms
        )
