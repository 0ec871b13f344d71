"""The log cleaner's numbers: Kafka's names, in Prometheus' form (reference Kafka 9.7)."""

from dataclasses import dataclass

from tailrace.core.runtime.metrics import counter, gauge


@dataclass(slots=True)
class CleanerMetrics:
    """LogCleaner."""

    max_buffer_utilization_percent: float = gauge("fullest key summary of a worker's last pass")
    cleaner_recopy_percent: float = gauge("bytes written per byte read in the last passes")
    max_clean_time_secs: float = gauge("longest of the workers' last passes")
    max_compaction_delay_secs: float = gauge("how overdue the most overdue log is")
    dead_thread_count: int = gauge("workers that ended by a fault")
    passes_total: int = counter("passes that were completed")
    failures_total: int = counter("passes that failed")
    given_up_total: int = counter("passes that were given up: owner, topic, policy or pause")
    read_bytes_total: int = counter("bytes of batches read")
    written_bytes_total: int = counter("bytes of batches written")
    throttled_seconds_total: float = counter("time that log.cleaner.io.max.bytes.per.second took")
    yielded_seconds_total: float = counter("time that was left to clients that write")


@dataclass(slots=True)
class ManagerMetrics:
    """LogCleanerManager."""

    uncleanable_partitions_count: int = gauge("logs that are left alone because cleaning failed")
    uncleanable_bytes: int = gauge("bytes in them")
    max_dirty_percent: float = gauge("largest share of head in a log, when last looked")
    time_since_last_run_ms: int = gauge("since a worker last looked for something to clean")
