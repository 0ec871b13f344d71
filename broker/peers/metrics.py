"""What is counted of requests to other brokers."""

from dataclasses import dataclass

from tailrace.core.runtime.metrics import counter, gauge


@dataclass(slots=True)
class PeerMetrics:
    """Plain numbers, registered as `broker_peers`."""

    requests_total: int = counter("requests to other brokers")
    failures_total: int = counter("requests to other brokers that got no answer")
    connects_total: int = counter("attempts to connect to other brokers")
    requests_waiting: int = gauge("requests to other brokers in flight, or behind those")
