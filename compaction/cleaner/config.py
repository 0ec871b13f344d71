"""Settings of the log cleaner: Kafka's names and defaults."""

from dataclasses import dataclass

from tailrace.core.runtime.config import ConfigError, setting

THREADS_MAX = 64
SLOT_BYTES = 24  # of a key summary, which loads when somebody cleans
BUFFER_BYTES_MAX = 2**31 - 1
"""Of one worker, as in Kafka."""
UNLIMITED_RATE = float(2**63 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerConfig:
    """The log cleaner: workers, memory, speed."""

    enable: bool = setting("log.cleaner.enable", True, "Clean compacted topics.")
    threads: int = setting("log.cleaner.threads", 1, "Logs that are cleaned at a time.")
    io_bytes_per_second: float = setting(
        "log.cleaner.io.max.bytes.per.second",
        UNLIMITED_RATE,
        "What all workers may read and write together. Unit: bytes/s.",
    )
    io_courtesy_bytes_per_second: float = setting(
        "log.cleaner.io.courtesy.bytes.per.second",
        4_000_000.0,
        "What all workers may read and write together while clients write, or eight times what "
        "these write if that is more; without writes there is no such limit. Unit: bytes/s.",
    )
    dedupe_buffer_bytes: int = setting(
        "log.cleaner.dedupe.buffer.size",
        134_217_728,
        "Key summaries of all workers, 24 bytes a key; taken while they clean. Unit: bytes.",
    )
    load_factor: float = setting(
        "log.cleaner.io.buffer.load.factor", 0.9, "How full a key summary may get, 0 to 1."
    )
    backoff_ms: int = setting(
        "log.cleaner.backoff.ms", 15_000, "Pause of a worker that found nothing to clean."
    )

    def __post_init__(self) -> None:
        if not 1 <= self.threads <= THREADS_MAX:
            raise ConfigError(f"log.cleaner.threads must be between 1 and {THREADS_MAX}")
        if not self.io_bytes_per_second >= 1:  # NaN neither
            raise ConfigError("log.cleaner.io.max.bytes.per.second must be at least 1")
        if not self.io_courtesy_bytes_per_second >= 1:
            raise ConfigError("log.cleaner.io.courtesy.bytes.per.second must be at least 1")
        if not 0 < self.load_factor <= 1:
            raise ConfigError("log.cleaner.io.buffer.load.factor must be above 0, at most 1")
        if self.backoff_ms < 0:
            raise ConfigError("log.cleaner.backoff.ms must be at least 0")
        if self.worker_buffer_bytes < 8 * SLOT_BYTES:
            raise ConfigError("log.cleaner.dedupe.buffer.size holds no keys for so many threads")

    @property
    def worker_buffer_bytes(self) -> int:
        """Key summary of one worker."""
        return min(self.dedupe_buffer_bytes // self.threads, BUFFER_BYTES_MAX)


def check_change(now: CleanerConfig, wanted: CleanerConfig) -> None:
    """Refuse what Kafka refuses while it runs. Errors: ConfigError. Source: LogCleaner."""
    if wanted.threads < now.threads // 2:
        raise ConfigError(
            "Log cleaner threads cannot be reduced to less than half the current value "
            f"{now.threads}"
        )
    if wanted.threads > now.threads * 2:
        raise ConfigError(
            "Log cleaner threads cannot be increased to more than double the current value "
            f"{now.threads}"
        )
