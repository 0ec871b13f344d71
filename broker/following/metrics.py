"""Numbers of reading what other brokers own."""

from dataclasses import dataclass

from tailrace.core.runtime.metrics import counter, gauge


@dataclass(slots=True)
class FollowingMetrics:
    """Register them as `broker_following`."""

    partitions: int = gauge("partitions of other brokers that are open here")
    opened_total: int = counter("partitions of other brokers that were opened")
    failures_total: int = counter("partitions of other brokers that could not be opened or read on")
    refused_total: int = counter("partitions not opened because too many are in use")
    batches_total: int = counter("batches that came by the tails of followed partitions")
    fetched_bytes_total: int = counter("bytes of records that consumers fetched from followers")
    sent_total: int = counter("times that a leader sent a consumer to a broker of its rack")
    kept_total: int = counter("fetches of consumers that came back soon and that the leader serves")
