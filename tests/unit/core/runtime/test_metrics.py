from dataclasses import dataclass

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tailrace.core.runtime.metrics import (
    LATENCY_SECONDS,
    Histogram,
    Metrics,
    counter,
    gauge,
    histogram,
)


@dataclass(slots=True)
class Numbers:
    syncs_total: int = counter("fsyncs")
    queue_bytes: int = gauge("bytes that wait")
    sync_seconds: Histogram = histogram("time of one fsync", (0.1, 1.0))


def text_of(metrics: Metrics) -> str:
    registry = CollectorRegistry()
    registry.register(metrics)
    return generate_latest(registry).decode()


def test_a_scrape_sees_the_numbers_move() -> None:
    metrics, numbers = Metrics(), Numbers()
    metrics.register("bookie_journal", numbers)
    numbers.syncs_total += 3
    numbers.queue_bytes = 7
    for value in (0.05, 0.1, 0.5, 2.0):
        numbers.sync_seconds.observe(value)
    text = text_of(metrics)
    assert "# HELP bookie_journal_syncs_total fsyncs" in text
    assert "# TYPE bookie_journal_syncs_total counter" in text
    assert "bookie_journal_syncs_total 3.0" in text
    assert "bookie_journal_queue_bytes 7.0" in text
    assert 'bookie_journal_sync_seconds_bucket{le="0.1"} 2.0' in text
    assert 'bookie_journal_sync_seconds_bucket{le="1.0"} 3.0' in text
    assert 'bookie_journal_sync_seconds_bucket{le="+Inf"} 4.0' in text
    assert "bookie_journal_sync_seconds_count 4.0" in text
    assert "bookie_journal_sync_seconds_sum 2.65" in text
    numbers.syncs_total += 1
    assert "bookie_journal_syncs_total 4.0" in text_of(metrics)


def test_labels_share_a_family() -> None:
    metrics = Metrics()
    for api in ("fetch", "produce"):
        metrics.register("broker_requests", Numbers(syncs_total=len(api)), api=api)
    text = text_of(metrics)
    assert text.count("# TYPE broker_requests_syncs_total counter") == 1
    assert 'broker_requests_syncs_total{api="fetch"} 5.0' in text
    assert 'broker_requests_syncs_total{api="produce"} 7.0' in text
    assert metrics.snapshot()["broker_requests_syncs_total{api=fetch}"] == 5


def test_snapshot() -> None:
    metrics, numbers = Metrics(), Numbers()
    metrics.register("x", numbers)
    numbers.sync_seconds.observe(0.5)
    assert metrics.snapshot() == {
        "x_syncs_total": 0,
        "x_queue_bytes": 0,
        "x_sync_seconds_count": 1,
        "x_sync_seconds_sum": 0.5,
    }


def test_two_owners_of_one_name_are_refused() -> None:
    metrics = Metrics()
    metrics.register("x", Numbers(), api="a")
    with pytest.raises(ValueError, match="registered already"):
        metrics.register("x", Numbers(), api="a")
    with pytest.raises(ValueError, match="labels"):
        metrics.register("x", Numbers(), group="a")
    with pytest.raises(TypeError):
        metrics.register("y", object())


def test_a_bound_is_inclusive() -> None:
    numbers = Histogram((1.0, 2.0, 4.0))
    for value in (0.5, 1.0, 1.6, 9.0):
        numbers.observe(value)
    assert (numbers.counts, numbers.count, numbers.total) == ([2, 1, 0, 1], 4, 12.1)


def test_bounds_rise() -> None:
    assert list(LATENCY_SECONDS) == sorted(set(LATENCY_SECONDS))
