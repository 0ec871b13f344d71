"""Settings of a write proxy's streams, under DistributedLog's names where it has them."""

from dataclasses import dataclass, replace
from typing import Final

from tailrace.core.log.config import LogConfig
from tailrace.core.runtime.config import AtLeastOne, NotNegative, setting
from tailrace.proxy.owner.location import ProxyLocation
from tailrace.proxy.owner.rates import RateLimits

WRITERS_LIMIT: Final = 10_000
"""A snapshot of so many writers takes the loop 20 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerConfig:
    """Streams of a write proxy. Source: ServerConfiguration, DynamicDistributedLogConfiguration."""

    service_timeout_ms: NotNegative = setting(
        "server_service_timeout_ms",
        0,
        "Time in which an operation of an owned stream must be answered, or the stream is given up,"
        " in ms; 0: no limit. What waits for a claim has the claim's time besides",
    )
    probation_ms: NotNegative = setting(
        "server_stream_probation_timeout_ms",
        300_000,
        "Time for which such a stream is not claimed again, in ms",
    )
    close_timeout_ms: AtLeastOne = setting(
        "server_writer_close_timeout_ms",
        1_000,
        "Time for completing a stream that is released, in ms; then it is left to recovery",
    )
    acquired_max: int = setting(
        "maxAcquiredPartitionsPerProxy",
        -1,
        "Streams that a proxy may own; 0 or less: no limit",
    )
    cached_max: int = setting(
        "maxCachedPartitionsPerProxy",
        -1,
        "Streams that a proxy may know, with those it claims or closes; 0 or less: no limit",
    )
    queued_operations_max: AtLeastOne = setting(
        "proxy.stream.queued.operations.max",
        1_000,
        "Operations of a stream that wait while it is claimed; more get OVER_CAPACITY",
    )
    queued_bytes_max: AtLeastOne = setting(
        "proxy.stream.queued.bytes.max",
        16 * 1024 * 1024,
        "Bytes of these operations; more get OVER_CAPACITY",
    )
    claim_pause_ms: NotNegative = setting(
        "proxy.stream.claim.pause.ms",
        1_000,
        "Shortest time between two claims, and so recoveries, of a stream, in ms",
    )
    claim_timeout_ms: AtLeastOne = setting(
        "proxy.stream.claim.timeout.ms",
        60_000,
        "Time for which a stream is claimed, its recovery with it, before what waits gets"
        " STREAM_UNAVAILABLE, in ms; a later request claims again, and goes on with the recovery",
    )
    idle_ms: NotNegative = setting(
        "proxy.stream.idle.ms",
        0,
        "Time without a request after which a stream is completed and let go, in ms; 0: never",
    )
    closed_at_once: AtLeastOne = setting(
        "proxy.streams.closed.at.once",
        64,
        "Streams that are closed side by side, when the proxy stops or they are idle",
    )
    writers_max: AtLeastOne = setting(
        "proxy.stream.writer.ids.max",
        10_000,
        "Writers with an id that a stream may have, up to 10,000; the first record of one more"
        " gets OVER_CAPACITY",
    )
    writer_expiration_ms: AtLeastOne = setting(
        "proxy.writer.id.expiration.ms",
        86_400_000,
        "Time without a record, by the stream's txids, after which a writer id is forgotten, in ms",
    )
    records_soft_write: int = setting(
        "rpsSoftWriteLimit", -1, "Records a second of a stream, counted above; 0 or less: no limit"
    )
    records_hard_write: int = setting(
        "rpsHardWriteLimit", -1, "Records a second of a stream, refused above; 0 or less: no limit"
    )
    bytes_soft_write: int = setting(
        "bpsSoftWriteLimit", -1, "Bytes a second of a stream, counted above; 0 or less: no limit"
    )
    bytes_hard_write: int = setting(
        "bpsHardWriteLimit", -1, "Bytes a second of a stream, refused above; 0 or less: no limit"
    )
    records_soft_service: int = setting(
        "rpsSoftServiceLimit", -1, "Records a second of all streams, counted above"
    )
    records_hard_service: int = setting(
        "rpsHardServiceLimit", -1, "Records a second of all streams, refused above"
    )
    bytes_soft_service: int = setting(
        "bpsSoftServiceLimit", -1, "Bytes a second of all streams, counted above"
    )
    bytes_hard_service: int = setting(
        "bpsHardServiceLimit", -1, "Bytes a second of all streams, refused above"
    )
    records_acquire_service: int = setting(
        "rpsStreamAcquireServiceLimit",
        -1,
        "Records a second of all streams, over the last minute, above which no new stream is"
        " taken; 0 or less: no limit",
    )
    bytes_acquire_service: int = setting(
        "bpsStreamAcquireServiceLimit",
        -1,
        "Bytes a second of all streams, over the last minute, above which no new stream is"
        " taken; 0 or less: no limit",
    )

    def __post_init__(self) -> None:
        if self.writers_max > WRITERS_LIMIT:
            raise ValueError(f"proxy.stream.writer.ids.max must be 1 to {WRITERS_LIMIT}")
        if self.claim_timeout_ms <= self.claim_pause_ms:
            raise ValueError(
                "proxy.stream.claim.timeout.ms must be above proxy.stream.claim.pause.ms"
            )

    @property
    def stream_limits(self) -> RateLimits:
        """What one stream may do in a second."""
        return RateLimits(
            self.records_soft_write,
            self.records_hard_write,
            self.bytes_soft_write,
            self.bytes_hard_write,
        )

    @property
    def service_limits(self) -> RateLimits:
        """What all streams may do together in a second."""
        return RateLimits(
            self.records_soft_service,
            self.records_hard_service,
            self.bytes_soft_service,
            self.bytes_hard_service,
        )


def proxy_log_config(config: LogConfig, location: ProxyLocation) -> LogConfig:
    """Return the settings of a proxy's namespace: it waits for no owner, and its locks say where.

    The client id stays no exclusive one: a lock of this proxy's former run is an owner until its
    session ends. Source: DistributedLogServer, lockTimeoutSeconds=0.
    """
    return replace(config, lock_timeout_s=0, client_id=location.text, client_id_is_exclusive=False)
