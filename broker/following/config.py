"""Settings of reading what other brokers own."""

from dataclasses import dataclass

from tailrace.core.runtime.config import AtLeastOne, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowingConfig:
    """Partitions of other brokers that this one reads for the consumers of its rack."""

    partitions_max: AtLeastOne = setting(
        "follower.partitions.max",
        1000,
        "Partitions of other brokers that are open here at once; consumers of more go to leaders.",
    )
    idle_ms: AtLeastOne = setting(
        "follower.idle.ms",
        120_000,
        "A partition of another broker that no consumer fetches for so long is closed.",
    )
