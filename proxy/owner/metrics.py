"""The numbers of a proxy's streams."""

from dataclasses import dataclass

from tailrace.core.runtime.metrics import LATENCY_SECONDS, Histogram, counter, gauge, histogram


@dataclass(slots=True)
class OwnerMetrics:
    """Numbers of all streams of one write proxy."""

    streams_cached: int = gauge("streams that the proxy knows")
    streams_acquired: int = gauge("streams that the proxy owns")
    requests_total: int = counter("requests that were answered")
    failed_requests_total: int = counter("requests that were not answered with SUCCESS")
    records_total: int = counter("records of writes that were taken")
    record_bytes_total: int = counter("bytes of these records")
    claims_total: int = counter("claims to streams that were begun")
    redirects_total: int = counter("claims that found another owner")
    inconsistent_locks_total: int = counter(
        "locks that name this proxy, though another session holds them"
    )
    failed_streams_total: int = counter("streams that were given up after their writer failed")
    service_timeouts_total: int = counter("streams put on probation by an operation's timeout")
    close_timeouts_total: int = counter(
        "streams whose close took too long: recovery completes them"
    )
    queue_full_total: int = counter("operations refused while their stream was claimed")
    soft_limit_exceeded_total: int = counter("requests above a soft limit; they were served")
    hard_limit_exceeded_total: int = counter("requests refused above a hard limit")
    too_many_streams_total: int = counter("requests refused for the number of streams")
    resent_records_total: int = counter("records that their stream had already, by their number")
    out_of_order_total: int = counter("requests refused for the number of their first record")
    too_many_writers_total: int = counter("requests refused for the number of writer ids")
    claim_seconds: Histogram = histogram("time of a claim that succeeded", LATENCY_SECONDS)
    operation_seconds: Histogram = histogram(
        "time of an operation, queue included", LATENCY_SECONDS
    )
