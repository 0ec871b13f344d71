"""Settings of a thin client, under DistributedLog's or Kafka's names where they have them."""

from dataclasses import dataclass, field
from typing import Annotated, Final

import msgspec

from tailrace.core.access.client.config import ClientConfig as SecurityConfig
from tailrace.core.runtime.config import AtLeastOne, setting

MESSAGE_BYTES_MAX: Final = 80 * 1024 * 1024
"""An answer from a proxy may be so large; beyond it its call fails. Records have 72 MiB at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """One client. Source: DistributedLog ClientConfig; Kafka ProducerConfig."""

    idempotence: bool = setting(
        "enable.idempotence",
        True,
        "Number the records, so that one that is sent again is not written again",
    )
    request_timeout_ms: AtLeastOne = setting(
        "delivery.timeout.ms",
        120_000,
        "Time in which a request is answered or fails, over all proxies that are asked, in ms",
    )
    rpc_timeout_ms: AtLeastOne = setting(
        "request.timeout.ms",
        5_000,
        "Time that one proxy has for an answer before the request is sent again, in ms",
    )
    connect_timeout_ms: AtLeastOne = setting(
        "connect.timeout.ms",
        200,
        "Time in which a connection is made, or another host asked, in ms",
    )
    redirects_max: int = setting(
        "max.redirects", -1, "Times that a request is sent again; negative: no limit but the time"
    )
    stream_failfast: bool = setting(
        "stream.failfast", False, "Fail a request at once for a stream that no proxy serves now"
    )
    handshake_interval_ms: AtLeastOne = setting(
        "handshake.interval.ms", 300_000, "Time between two questions to all proxies, in ms"
    )
    owners_max: AtLeastOne = setting(
        "ownership.cache.max", 100_000, "Streams whose owners are remembered"
    )
    buffer_bytes: AtLeastOne = setting(
        "buffer.memory",
        32 * 1024 * 1024,
        "Bytes of records that are not answered, of all streams; then writing waits",
    )
    batch_bytes: AtLeastOne = setting(
        "batch.size", 512 * 1024, "Bytes of records in one message, unless one record has more"
    )
    batch_records: AtLeastOne = setting("batch.records", 1_000, "Records in one message")
    in_flight_max: AtLeastOne = setting(
        "max.in.flight.requests",
        5,
        "Messages of one stream that are sent and not answered; owners know where a writer's last 5"
        " entries are, so with more the answer to a record that was sent again may have no place",
    )
    record_bytes_max: AtLeastOne = setting(
        "max.request.size", 1_040_364, "Bytes of a record; a larger one is refused here"
    )
    writer_idle_ms: AtLeastOne = setting(
        "writer.idle.ms", 60_000, "Time without a record after which a stream's call ends, in ms"
    )
    writers_max: AtLeastOne = setting(
        "writers.max",
        10_000,
        "Streams whose numbers are remembered; idle ones beyond it begin again",
    )
    keepalive_ms: Annotated[int, msgspec.Meta(ge=10_000)] = setting(
        "keepalive.ms",
        12_000,
        "Silence of a connection after which a proxy is asked whether it lives, in ms; proxies"
        " end connections that ask more often than every 10 s",
    )

    security: SecurityConfig = field(default_factory=SecurityConfig)

    def __post_init__(self) -> None:
        if self.rpc_timeout_ms > self.request_timeout_ms:
            raise ValueError("request.timeout.ms must not be above delivery.timeout.ms")
