"""When what a log writer was given goes to bookies, and when it tells others of it. Values only.

Two questions, each with a policy that may change while the writer runs:

    TransmitPolicy   how long appended records wait, to be packed together into one entry
    ControlPolicy    when a control record shows what is confirmed to other processes

The second arises because a bookie learns how far the log is confirmed (its LAC) from the next
entry only. While records flow, each entry carries the news of those before it, and no control
record is written. DistributedLog asks the first question with `writerOutputBufferSize`, the second
with `enableImmediateFlush`, and both with `periodicFlushFrequencyMilliSeconds`.
Source: reference DistributedLog 5.2; BKLogSegmentWriter.
"""

from typing import NamedTuple

from tailrace.core.log.config import ENTRY_RECORDS_BYTES_MAX, LogConfig, TransmitMode


class TransmitPolicy(NamedTuple):
    """When waiting records are sent. Make one with `immediate`, `periodic` or `buffered`."""

    buffer_bytes: int
    """They are sent once more than so many bytes wait, headers included; 0: after this turn."""
    interval_ms: int
    """Longest wait of a record; 0: no limit, until more bytes come or somebody flushes."""

    @staticmethod
    def immediate() -> "TransmitPolicy":
        """Send at once; what arrives in one turn of the loop goes together."""
        return TransmitPolicy(0, 0)

    @staticmethod
    def periodic(interval_ms: int) -> "TransmitPolicy":
        """Send every so often; a full entry does not wait. Errors: ValueError."""
        if interval_ms < 1:
            raise ValueError(f"records cannot be sent every {interval_ms} ms")
        return TransmitPolicy(ENTRY_RECORDS_BYTES_MAX, interval_ms)

    @staticmethod
    def buffered(buffer_bytes: int, interval_ms: int = 0) -> "TransmitPolicy":
        """Send when more than so many bytes wait, at most one entry's. Errors: ValueError."""
        if buffer_bytes < 1 or interval_ms < 0:
            raise ValueError(f"a buffer of {buffer_bytes} bytes, sent after {interval_ms} ms")
        return TransmitPolicy(min(buffer_bytes, ENTRY_RECORDS_BYTES_MAX), interval_ms)

    @staticmethod
    def of(config: LogConfig) -> "TransmitPolicy":
        """Return what the settings say: our own word, if it is there, or DistributedLog's switches.

        DistributedLog's timer runs twice per `periodicFlushFrequencyMilliSeconds`.
        """
        mode, buffer_bytes = config.transmit_policy, config.transmit_buffer_bytes
        interval_ms = config.transmit_interval_ms
        if mode is TransmitMode.PERIODIC:
            return TransmitPolicy.periodic(interval_ms)
        if mode is TransmitMode.IMMEDIATE or not buffer_bytes:
            return TransmitPolicy.immediate()
        if mode is None:
            interval_ms = -(-config.control_flush_ms // 2)
        return TransmitPolicy.buffered(buffer_bytes, interval_ms)


class ControlPolicy(NamedTuple):
    """When a control record is written because no record carries the news. All off: never."""

    is_immediate: bool = False
    """At once when all that was sent is confirmed and nothing else waits."""
    min_delay_ms: int = 0
    """With `is_immediate`: shortest time between two such control records."""
    quiet_ms: int = 0
    """Otherwise: after so long without a confirmation; 0: not at all."""
    keep_alive_ms: int = 0
    """After so long without any entry, even if there is no news; 0: not at all."""

    @staticmethod
    def of(config: LogConfig) -> "ControlPolicy":
        """Return what the settings say."""
        return ControlPolicy(
            config.immediate_flush,
            config.immediate_flush_delay_ms,
            config.control_flush_ms,
            config.keep_alive_ms,
        )
