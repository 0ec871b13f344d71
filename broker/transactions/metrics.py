"""What the transaction coordinator counts."""

from dataclasses import dataclass

from tailrace.core.runtime.metrics import counter, gauge


@dataclass(slots=True)
class TransactionMetrics:
    """Plain numbers, registered as `broker_transactions`."""

    inits_total: int = counter("InitProducerId requests with a transactional id")
    adds_total: int = counter("requests to take partitions into a transaction")
    verifications_total: int = counter("questions whether partitions are in a transaction")
    ends_total: int = counter("EndTxn requests")
    timeouts_total: int = counter("transactions aborted because they were open for too long")
    markers_total: int = counter("markers written to partitions")
    marker_failures_total: int = counter("markers that have to be written again")
    markers_waiting: int = gauge("markers in flight, or to be written (again)")
    records_written_total: int = counter("records confirmed on __transaction_state")
    records_loaded_total: int = counter("records replayed from __transaction_state")
    shard_failures_total: int = counter("partitions given up after a failed append or load")
    shards_loaded: int = gauge("partitions of __transaction_state that are served")
    requests_waiting: int = gauge("requests behind a write, or behind a transaction that ends")
