"""What the group coordinator counts."""

from dataclasses import dataclass

from tailrace.core.runtime.metrics import counter, gauge


@dataclass(slots=True)
class GroupMetrics:
    """Plain numbers, registered as `broker_groups`."""

    joins_total: int = counter("JoinGroup requests")
    syncs_total: int = counter("SyncGroup requests")
    heartbeats_total: int = counter("Heartbeat requests")
    consumer_heartbeats_total: int = counter("ConsumerGroupHeartbeat requests")
    leaves_total: int = counter("LeaveGroup requests")
    commits_total: int = counter("OffsetCommit requests")
    records_written_total: int = counter("records confirmed on __consumer_offsets")
    records_loaded_total: int = counter("records replayed from __consumer_offsets")
    shard_failures_total: int = counter("partitions given up after a failed append or load")
    shards_loaded: int = gauge("partitions of __consumer_offsets that are served")
    requests_waiting: int = gauge("requests parked in a barrier or behind a write")
