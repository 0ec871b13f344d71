import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.bookie.compaction_rules import (
    CompactionSchedule,
    GcConfig,
    LogUsage,
    Throttle,
    logs_to_compact,
    usage_of,
)

ledger_maps = st.dictionaries(st.integers(0, 9), st.integers(1, 1000), max_size=6)


@given(st.lists(ledger_maps, max_size=8), st.sets(st.integers(0, 9)), st.floats(0.01, 0.99))
def test_the_emptiest_logs_come_first(
    maps: list[dict[int, int]], living: set[int], threshold: float
) -> None:
    usages = [usage_of(log_id, ledgers, living) for log_id, ledgers in enumerate(maps)]
    chosen = logs_to_compact(usages, threshold)
    shares = []
    for usage in chosen:
        ledgers = maps[usage.log_id]
        alive = sum(ledgers[ledger_id] for ledger_id in ledgers if ledger_id in living)
        assert 0 < alive < threshold * sum(ledgers.values())
        shares.append(alive / sum(ledgers.values()))
    assert shares == sorted(shares)
    left = [usage for usage in usages if usage not in chosen]
    assert all(usage.live_bytes == 0 or usage.share >= threshold for usage in left)


def test_an_empty_map_uses_nothing() -> None:
    assert usage_of(3, {}, {1}) == LogUsage(3, 0, 0)
    assert usage_of(3, {}, {1}).share == 0.0


def test_minor_and_major_have_their_own_intervals() -> None:
    config = GcConfig(wait_ms=1000, minor_interval_s=10, major_interval_s=100)
    schedule = CompactionSchedule(config, 1000.0)
    assert schedule.due(1010.0, force=False) == 0
    assert schedule.due(1010.1, force=False) == 0.2
    schedule.done(0.2, 1010.1)
    assert schedule.due(1020.0, force=False) == 0
    assert schedule.due(1101.0, force=False) == 0.8
    schedule.done(0.8, 1101.0)
    assert schedule.due(1111.0, force=False) == 0  # a major run is a minor one too
    assert schedule.due(1111.1, force=False) == 0.2
    assert schedule.due(1102.0, force=True) == 0.8


def test_what_is_disabled_is_never_due_but_by_force() -> None:
    config = GcConfig(minor_threshold=0.0, major_interval_s=0)
    schedule = CompactionSchedule(config, 0.0)
    assert schedule.due(1e9, force=False) == 0
    assert schedule.due(0.0, force=True) == 0.8


@pytest.mark.parametrize(
    "changes",
    [
        {"minor_threshold": 0.9},
        {"major_threshold": 1.0},
        {"minor_interval_s": 600},
        {"minor_interval_s": 100_000},
        {"wait_ms": 0},
        {"rate_by_bytes": 0},
        {"rate_by_entries": -1},
    ],
)
def test_settings_are_checked(changes: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        GcConfig(**changes)  # type: ignore[arg-type]


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 10_000), st.floats(0, 2)), min_size=1),
    st.booleans(),
)
def test_a_throttle_never_exceeds_its_rate(
    windows: list[tuple[int, int, float]], by_bytes: bool
) -> None:
    config = GcConfig(throttle_by_bytes=by_bytes, rate_by_entries=20, rate_by_bytes=5000)
    rate = 5000 if by_bytes else 20
    throttle = Throttle(config)
    now_s = started_s = 100.0
    written = 0
    for entries, size, pause_s in windows:
        now_s += pause_s
        delay_s = throttle.delay_s(now_s, entries, size)
        assert delay_s >= 0
        now_s += delay_s
        assert written <= rate * (now_s - started_s) + 1e-6
        written += size if by_bytes else entries


def test_a_throttle_waits_for_nobody_before_the_first() -> None:
    assert Throttle(GcConfig()).delay_s(50.0, 10**6, 10**9) == 0.0
