"""Settings of a read proxy. DistributedLog never had one, so the names are our own."""

from dataclasses import dataclass

from tailrace.core.runtime.config import AtLeastOne, NotNegative, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadConfig:
    """What a read proxy keeps in memory, and how many it serves."""

    cache_bytes: NotNegative = setting(
        "proxy.read.cache.bytes",
        256 * 1024 * 1024,
        "Bytes of encoded records that a read proxy keeps for readers close behind each other",
    )
    stream_cache_bytes: NotNegative = setting(
        "proxy.read.stream.cache.bytes",
        8 * 1024 * 1024,
        "The same of one stream, for each place in it that is read",
    )
    readers_max: AtLeastOne = setting(
        "proxy.read.readers.max",
        50_000,
        "Readers of a read proxy; more get OVER_CAPACITY",
    )
    stream_readers_max: AtLeastOne = setting(
        "proxy.read.stream.readers.max",
        20_000,
        "Readers of one stream; more get OVER_CAPACITY",
    )
    streams_max: AtLeastOne = setting(
        "proxy.read.streams.max",
        10_000,
        "Streams that are read at the same time; readers of others get OVER_CAPACITY",
    )
    feeds_max: AtLeastOne = setting(
        "proxy.read.feeds.max",
        10_000,
        "Places of all streams from which bookies are read at the same time; at the limit one that"
        " no reader asks for ends, else OVER_CAPACITY",
    )
    stream_feeds_max: AtLeastOne = setting(
        "proxy.read.stream.feeds.max",
        1_000,
        "The same of one stream",
    )
    feed_linger_ms: AtLeastOne = setting(
        "proxy.read.feed.linger.ms",
        5_000,
        "Time for which a place is kept open after a reader last asked there, in ms",
    )
    retries: NotNegative = setting(
        "proxy.read.retries",
        5,
        "How often a read that bookies or the metadata store failed is tried again before readers"
        " hear of it",
    )
    retry_backoff_ms: AtLeastOne = setting(
        "proxy.read.retry.backoff.ms",
        100,
        "Pause before the first of these, in ms; each is twice the one before",
    )
    retry_backoff_max_ms: AtLeastOne = setting(
        "proxy.read.retry.backoff.max.ms", 1_000, "Longest of these pauses, in ms"
    )

    def retry_pause_s(self, attempt: int) -> float:
        """Return the pause after an attempt that failed, of which the first is number 0."""
        doubled = self.retry_backoff_ms << min(attempt, 32)
        return min(doubled, self.retry_backoff_max_ms) / 1000
