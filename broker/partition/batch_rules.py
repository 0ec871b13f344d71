"""What the batches of one topic are held to, as its settings say."""

from collections.abc import Callable

from tailrace.broker.cluster.settings import TopicSettings
from tailrace.core.runtime.clock import Clock
from tailrace.protocol.compression import DECOMPRESSED_BYTES_MAX
from tailrace.protocol.records.batch import BatchHeader
from tailrace.protocol.records.validate import ProduceRules, check_header, check_records


class BatchRules:
    """The rules of a topic. Made again when its settings change."""

    __slots__ = (
        "_before_zstd",
        "_clock",
        "_rules",
        "log_append_time",
        "max_bytes",
        "segment_bytes",
        "stored_as",
    )

    def __init__(self, settings: TopicSettings, clock: Clock) -> None:
        self._clock = clock
        self._rules = ProduceRules(
            max_message_bytes=settings.max_message_bytes,
            compacted=settings.compacted,
            timestamp_before_max_ms=settings.message_timestamp_before_max_ms,
            timestamp_after_max_ms=settings.message_timestamp_after_max_ms,
            log_append_time=settings.log_append_time,
            zstd_allowed=True,
            segment_bytes=settings.segment_bytes,
            stored_codec=None if settings.stored_as is None else settings.stored_as.codec,
        )
        self._before_zstd = self._rules._replace(zstd_allowed=False)
        self.log_append_time = settings.log_append_time
        self.max_bytes = settings.max_message_bytes
        self.segment_bytes = settings.segment_bytes
        self.stored_as = settings.stored_as

    def check_header(self, batch: memoryview, zstd_allowed: bool = True) -> BatchHeader:  # noqa: FBT001, FBT002 - hot
        """Check all but the records. Errors: InvalidBatch. See `validate.check_header`."""
        return check_header(batch, self._rules if zstd_allowed else self._before_zstd)

    def check_records(
        self,
        batch: memoryview,
        header: BatchHeader,
        unpacked_max: int = DECOMPRESSED_BYTES_MAX,
        on_unpacked: Callable[[int], object] = int,
    ) -> BatchHeader:
        """Check what is inside, in any thread. Errors: see `validate.check_records`."""
        now_ms = self._clock.now_ms()
        return check_records(batch, header, self._rules, now_ms, unpacked_max, on_unpacked)
