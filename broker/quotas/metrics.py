"""What is counted of clients that go over their quotas."""

from dataclasses import dataclass

from tailrace.core.runtime.metrics import counter, gauge


@dataclass(slots=True)
class QuotaMetrics:
    """Plain numbers, registered as `broker_quota`."""

    produce_throttled_total: int = counter("produces over producer_byte_rate")
    fetch_throttled_total: int = counter("fetches over consumer_byte_rate, answered empty")
    request_throttled_total: int = counter("requests over request_percentage")
    mutation_throttled_total: int = counter("requests over controller_mutation_rate")
    throttle_ms_total: int = counter("time that connections were not read for a quota")
    connections_throttled: int = gauge("connections that are not read for a quota now")
    connections_delayed_total: int = counter(
        "connections that waited for max.connection.creation.rate"
    )
    connections_turned_away_total: int = counter(
        "connections over their address's connection_creation_rate"
    )
    accounts: int = gauge("users and clients whose use is counted")
