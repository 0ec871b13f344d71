"""The numbers of a proxy's streams."""

import asyncio
from dataclasses import dataclass

from tailrace.core.runtime.metrics import LATENCY_SECONDS, Histogram, counter, gauge, histogram
from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.owner.operations import Answer


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
    claim_timeouts_total: int = counter("claims that were given up because they took too long")
    idle_streams_total: int = counter("streams let go because nothing was asked of them")
    close_timeouts_total: int = counter(
        "streams whose close took too long: recovery completes them"
    )
    queue_full_total: int = counter("operations refused while their stream was claimed")
    soft_limit_exceeded_total: int = counter("requests above a soft limit; they were served")
    hard_limit_exceeded_total: int = counter("requests refused above a hard limit")
    too_many_streams_total: int = counter(
        "requests refused because the proxy has enough streams, or is too busy for one more"
    )
    resent_records_total: int = counter("records that their stream had already, by their number")
    out_of_order_total: int = counter("requests refused for the number of their first record")
    too_many_writers_total: int = counter("requests refused for the number of writer ids")
    claim_seconds: Histogram = histogram("time of a claim that succeeded", LATENCY_SECONDS)
    operation_seconds: Histogram = histogram(
        "time of an operation, queue included", LATENCY_SECONDS
    )


class AnswerCounts:
    """Counts what requests are answered. All calls come from the loop."""

    __slots__ = ("_metrics",)

    def __init__(self, metrics: OwnerMetrics) -> None:
        self._metrics = metrics

    def count(self, answer: Answer) -> Answer:
        """Return an answer, counted."""
        self._count(answer.code)
        return answer

    def count_done(self, answered: "asyncio.Future[Answer]") -> None:
        """Count the answer of a future; a client that did not wait for it counts as failed."""
        cancelled = answered.cancelled()
        self._count(StatusCode.CLIENT_CLOSED if cancelled else answered.result().code)

    def done(self, answer: Answer) -> "asyncio.Future[Answer]":
        """Return a future that is done, counted."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        future.set_result(self.count(answer))
        return future

    def _count(self, code: StatusCode) -> None:
        self._metrics.requests_total += 1
        self._metrics.failed_requests_total += code is not StatusCode.SUCCESS
