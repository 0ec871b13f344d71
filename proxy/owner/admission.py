"""Which requests a proxy takes, before a stream hears of them. Pure.

In this order a request is refused: the proxy is down; the stream is being deleted; its last claim
found another owner, or it is on probation; it is a new one, and the region is stopped, or the proxy
takes none, has enough, or is too busy; a hard limit of records or bytes a second is used up. What
is refused takes nothing from the limits.
Source: reference DistributedLog 9.2; DistributedLogServiceImpl, StreamManagerImpl.
"""

from typing import Final, NamedTuple

from tailrace.proxy.owner.codes import ServerStatus, StatusCode
from tailrace.proxy.owner.config import OwnerConfig
from tailrace.proxy.owner.loads import Loads
from tailrace.proxy.owner.metrics import OwnerMetrics
from tailrace.proxy.owner.operations import Answer, Operation
from tailrace.proxy.owner.rates import Rates
from tailrace.proxy.owner.refusals import Refusals

_DOWN: Final = Answer(StatusCode.SERVICE_UNAVAILABLE, "the proxy is down")
_NOT_ACCEPTED: Final = Answer(StatusCode.SERVICE_UNAVAILABLE, "the proxy takes no new stream")
_STOPPED: Final = Answer(
    StatusCode.REGION_UNAVAILABLE, "the proxy's region is stopped: it takes no new stream"
)
_DELETED: Final = Answer(StatusCode.STREAM_UNAVAILABLE, "the stream is being deleted")
_TOO_MANY: Final = Answer(StatusCode.TOO_MANY_STREAMS, "the proxy has as many streams as it may")
_TOO_BUSY: Final = Answer(
    StatusCode.TOO_MANY_STREAMS, "too much is written to the proxy for one stream more"
)
_OVER_SERVICE: Final = Answer(
    StatusCode.OVER_CAPACITY, "the proxy's limit of writes a second is reached"
)
_OVER_STREAM: Final = Answer(
    StatusCode.OVER_CAPACITY, "the stream's limit of writes a second is reached"
)


class StreamCounts(NamedTuple):
    """How many streams a proxy has."""

    cached: int
    """That it knows."""
    held: int
    """That it owns, or claims just now."""


class Admission:
    """The door of one proxy. Unit of all times: seconds of a clock that never goes back."""

    def __init__(self, config: OwnerConfig, metrics: OwnerMetrics, now_s: float) -> None:
        self.status = ServerStatus.WRITE_AND_ACCEPT
        """Which requests the proxy takes."""
        self.deleting: set[str] = set()
        """Streams that are being deleted through this proxy."""
        self.refusals = Refusals()
        """Answers that are kept, of streams that are not to be claimed again yet."""
        self.is_region_stopped = False
        """Whether the proxy's region takes no new stream (`region_stop_accept_new_stream`)."""
        self.loads = Loads(now_s)
        """What is written to each stream."""
        self._config = config
        self._metrics = metrics
        self._is_closing = False
        self._service_rates = Rates(config.service_limits, now_s)
        self._rates: dict[str, Rates] = {}

    def set_accept_new_stream(self, *, accepts: bool) -> None:
        """Take new streams or not; nothing once the proxy closes."""
        if not self._is_closing:
            accepting = ServerStatus.WRITE_AND_ACCEPT
            self.status = accepting if accepts else ServerStatus.WRITE_ONLY

    def begin_close(self) -> None:
        """Take no new stream, ever. Idempotent."""
        self.set_accept_new_stream(accepts=False)
        self._is_closing = True

    def refusal(
        self, stream: str, operation: Operation, counts: StreamCounts, now_s: float, *, is_new: bool
    ) -> Answer | None:
        """Return why a request is refused; None: its stream is to hear of it.

        `is_new`: the proxy does not know the stream.
        """
        if self.status is ServerStatus.DOWN:
            return _DOWN
        if stream in self.deleting:
            return _DELETED
        refusal = self.refusals.find(stream, now_s)
        if refusal is None and is_new:
            refusal = self._refusal_of_new(counts, now_s)
        if refusal is None and operation.records:
            refusal = self._over_rate(stream, now_s)
        return refusal

    def refusal_of_change(self, stream: str, *, is_new: bool) -> Answer | None:
        """Return why a stream is neither made nor deleted here; None: it may be."""
        if self.status is ServerStatus.DOWN:
            return _DOWN
        if stream in self.deleting:
            return _DELETED
        return self._refusal_by_place() if is_new else None

    def take(self, stream: str, operation: Operation, now_s: float) -> None:
        """Take from the limits what a request brings that was not refused."""
        metrics, taken = self._metrics, (operation.records, operation.size_bytes)
        if not operation.records:
            return
        if stream not in self._rates:
            self._rates[stream] = Rates(self._config.stream_limits, now_s)
        both = self._service_rates, self._rates[stream]
        above = [rates.take(*taken, now_s) for rates in both]
        self.loads.add(stream, *taken, now_s)
        metrics.soft_limit_exceeded_total += any(above)
        metrics.records_total += operation.records
        metrics.record_bytes_total += operation.size_bytes

    def forget(self, stream: str) -> None:
        """Forget the limits and the load of a stream that the proxy has no more."""
        self._rates.pop(stream, None)
        self.loads.forget(stream)

    def _refusal_by_place(self) -> Answer | None:
        """Return why this proxy, or its region, takes no new stream at all."""
        if self.is_region_stopped:
            return _STOPPED
        return None if self.status is ServerStatus.WRITE_AND_ACCEPT else _NOT_ACCEPTED

    def _refusal_of_new(self, counts: StreamCounts, now_s: float) -> Answer | None:
        refusal = self._refusal_by_place()
        if refusal is not None:
            return refusal
        config = self._config
        if 0 < config.acquired_max <= counts.held or 0 < config.cached_max <= counts.cached:
            refusal = _TOO_MANY
        elif self._is_too_busy(now_s):
            refusal = _TOO_BUSY
        self._metrics.too_many_streams_total += refusal is not None
        return refusal

    def _is_too_busy(self, now_s: float) -> bool:
        """Tell whether more is written than with which a stream is acquired.

        Source: StreamAcquireLimiter.
        """
        limits = self._config.records_acquire_service, self._config.bytes_acquire_service
        load = self.loads.service.of(now_s)
        return any(0 < limit < rate for limit, rate in zip(limits, load, strict=True))

    def _over_rate(self, stream: str, now_s: float) -> Answer | None:
        over: Answer | None = None
        if self._service_rates.is_over(now_s):
            over = _OVER_SERVICE
        elif stream in self._rates and self._rates[stream].is_over(now_s):
            over = _OVER_STREAM
        if over is not None:
            self._metrics.hard_limit_exceeded_total += 1
        return over
