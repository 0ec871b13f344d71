"""Kafka's arithmetic: against what its classes say, a ring of samples, and by hand."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.quotas.rate import WAIT_MS_MAX, SampledRate, TokenBucket, Windows

WINDOWS = Windows(11, 1000)
GOLDEN = Path(__file__).parents[3] / "golden" / "quota-rates.txt"


class Ring:
    """The oracle: a ring that is reset in place, sample by sample, as SampledStat and Rate do."""

    def __init__(self, windows: Windows) -> None:
        self.windows = windows
        self.samples: list[dict[str, float]] = []
        self.current = 0

    def record(self, value: float, now_ms: int) -> None:
        if not self.samples:
            self.samples.append({"start": now_ms, "last": now_ms, "value": 0.0})
        if now_ms - self.samples[self.current]["start"] >= self.windows.length_ms:
            self.current = (self.current + 1) % (self.windows.number + 1)
            fresh = {"start": now_ms, "last": now_ms, "value": 0.0}
            if self.current == len(self.samples):
                self.samples.append(fresh)
            else:
                self.samples[self.current] = fresh
        self.samples[self.current]["value"] += value
        self.samples[self.current]["last"] = now_ms

    def rate(self, now_ms: int) -> tuple[float, int]:
        if not self.samples:
            self.samples.append({"start": now_ms, "last": now_ms, "value": 0.0})
        for sample in self.samples:
            if now_ms - sample["last"] >= self.windows.number * self.windows.length_ms:
                sample.update(start=now_ms, last=now_ms, value=0.0)
        elapsed = now_ms - int(min(sample["start"] for sample in self.samples))
        full, least = elapsed // self.windows.length_ms, self.windows.number - 1
        if full < least:
            elapsed += (least - full) * self.windows.length_ms
        span = max(elapsed, 1)
        return sum(sample["value"] for sample in self.samples) / (span / 1000), span


STEPS = st.lists(
    st.tuples(
        st.sampled_from((0, 1, 300, 999, 1000, 1001, 2500, 10_999, 11_000, 60_000)),
        st.none() | st.integers(-50, 1000),
    ),
    max_size=60,
)


@given(STEPS, st.builds(Windows, st.integers(1, 4), st.sampled_from((1, 1000, 3000))))
def test_a_rate_is_what_javas_ring_says(
    steps: list[tuple[int, int | None]], windows: Windows
) -> None:
    ours, ring, now_ms = SampledRate(windows), Ring(windows), 5
    for later_ms, value in steps:
        now_ms += later_ms
        if value is None:
            rate, span_ms = ring.rate(now_ms)
            assert ours.per_second(now_ms) == pytest.approx(rate)
            assert ours.span_ms(now_ms) == span_ms
            over = rate > 3
            wait_ms = math.floor((rate - 3) / 3 * span_ms + 0.5) if over else 0
            assert ours.wait_ms(3, now_ms) == pytest.approx(min(wait_ms, WAIT_MS_MAX), abs=1)
        else:
            ours.record(value, now_ms)
            ring.record(value, now_ms)


@pytest.mark.parametrize(
    "line", [line for line in GOLDEN.read_text().splitlines() if not line.startswith("#")]
)
def test_kafkas_own_classes_say_the_same(line: str) -> None:
    kind, number, length_ms, bound_text, *steps = line.split()
    windows, bound = Windows(int(number), int(length_ms)), float(bound_text)
    rate, bucket = SampledRate(windows), TokenBucket(windows, bound, 0)
    for step in steps:
        moment_ms, value, measured, wait_ms = map(float, step.split(":"))
        now_ms = int(moment_ms)
        if kind == "rate":
            rate.record(value, now_ms)
            found = rate.per_second(now_ms), rate.wait_ms(bound, now_ms)
        else:
            bucket.take(value, bound, now_ms)
            found = bucket.tokens(bound, now_ms), bucket.wait_ms(bound, now_ms)
        assert found == (pytest.approx(measured), pytest.approx(wait_ms, abs=1))


def test_after_the_wait_the_rate_is_within_its_bound() -> None:
    rate = SampledRate(WINDOWS)
    rate.record(1500, 0)
    assert rate.per_second(0) == 150  # over ten whole windows, though none has passed
    assert rate.wait_ms(100, 0) == 5000
    assert rate.wait_ms(100, 5000) == 5000  # ten windows are taken as ten until they are more
    assert rate.wait_ms(100, 10_500) == 4500
    assert rate.wait_ms(100, 11_000) == 0  # forgotten


def test_the_oldest_window_counts_as_long_as_it_reaches_into_the_span() -> None:
    rate = SampledRate(Windows(2, 1000))
    for moment_ms in (0, 999, 1000, 1999, 2000):
        rate.record(100, moment_ms)
    assert rate.per_second(2000) == 250  # 500 over two seconds: the one that began at 0 is there


def test_what_is_taken_back_was_never_there() -> None:
    rate = SampledRate(WINDOWS)
    rate.record(1500, 0)
    rate.record(-1500, 0)
    assert rate.wait_ms(1, 0) == 0


def test_a_wait_fits_the_protocol() -> None:
    rate = SampledRate(WINDOWS)
    rate.record(1e9, 0)
    assert rate.wait_ms(0.001, 0) == WAIT_MS_MAX


@given(st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 200)), max_size=40))
def test_a_bucket_never_holds_more_than_its_windows_nor_gives_for_nothing(
    takes: list[tuple[int, int]],
) -> None:
    bucket, bound, now_ms, taken = TokenBucket(WINDOWS, 5, 0), 5, 0, 0
    for later_ms, count in takes:
        now_ms += later_ms
        bucket.take(count, bound, now_ms)
        taken += count
        left = bucket.tokens(bound, now_ms)
        assert left <= 55
        assert taken <= 55 + bound * now_ms / 1000 - left + 1e-6  # conservation of credits
        wait_ms = bucket.wait_ms(bound, now_ms)
        assert (wait_ms > 0) is (left < -0.0025)  # half a millisecond of credits rounds to none
        if wait_ms:
            assert bucket.tokens(bound, now_ms + wait_ms) == pytest.approx(0, abs=0.01)
            now_ms += wait_ms


def test_a_burst_is_waited_for_as_kafkas_own_example_says() -> None:
    """Quota 5 over 100 windows: 560 at once leave 60 to wait for, 12 s; a rate would need 100 s."""
    bucket = TokenBucket(Windows(100, 1000), 5, 0)
    bucket.take(560, 5, 0)
    assert bucket.wait_ms(5, 0) == 12_000
    assert bucket.wait_ms(5, 11_999) == 1
    assert bucket.wait_ms(5, 12_000) == 0
