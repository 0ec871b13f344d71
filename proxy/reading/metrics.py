"""The numbers of a read proxy."""

from dataclasses import dataclass

from tailrace.core.runtime.metrics import counter, gauge


@dataclass(slots=True)
class ReadMetrics:
    """Numbers of all streams of one read proxy."""

    readers: int = gauge("readers that are served")
    streams: int = gauge("streams that are read")
    feeds: int = gauge("places in streams from which bookies are read")
    cached_bytes: int = gauge("bytes of encoded records that are kept for readers")
    requests_total: int = counter("requests that were answered, reads by their end")
    failed_requests_total: int = counter("requests that ended with an error")
    encoded_records_total: int = counter("records that were encoded, each once for all readers")
    encoded_bytes_total: int = counter("bytes of these, as responses")
    sent_responses_total: int = counter("responses with records that readers were given")
    sent_bytes_total: int = counter("bytes of these")
    fallen_behind_total: int = counter("times that a reader was too slow for what is kept")
    merged_feeds_total: int = counter("places that came to where another one was read already")
    retries_total: int = counter("reads that were tried again")
    over_capacity_total: int = counter("readers refused for a limit")
