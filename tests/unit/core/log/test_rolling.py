import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.log.rolling import (
    PERMIT_MS,
    ROLL_RETRY_MS,
    SEGMENT_RECORDS_MAX,
    Roll,
    RollingPolicy,
    RollPermits,
    RollPhase,
)
from tailrace.protocol.distributedlog.record import POSITION_MAX


@pytest.mark.parametrize(
    ("policy", "size", "age", "due"),
    [
        ((0, 0), 10**12, 10**12, False),
        ((100, 0), 99, 10**12, False),
        ((100, 0), 100, 0, True),
        ((0, 50), 10**12, 49, False),
        ((0, 50), 0, 50, True),
        ((100, 50), 100, 0, True),
        ((100, 50), 0, 50, True),
        ((100, 50), 99, 49, False),
    ],
)
def test_policy(policy: tuple[int, int], size: int, age: int, due: bool) -> None:
    assert RollingPolicy(*policy).is_due(size, age) is due


def test_a_segment_ends_long_before_its_positions_do() -> None:
    policy = RollingPolicy(0, 0)
    assert not policy.is_due(10**12, 10**12, SEGMENT_RECORDS_MAX - 1)
    assert policy.is_due(0, 0, SEGMENT_RECORDS_MAX)
    assert SEGMENT_RECORDS_MAX <= POSITION_MAX // 2 + 1


def test_steps() -> None:
    roll = Roll()
    assert roll.may_begin(0)
    roll.begin()
    assert not roll.may_begin(0)
    roll.freeze()
    roll.switch()
    assert not roll.may_begin(0), "a roll begins when the one before is done"
    roll.done()
    assert roll.may_begin(0)


def test_giving_up_makes_a_pause() -> None:
    roll = Roll()
    roll.begin()
    roll.give_up(now_ms=1000)
    assert not roll.may_begin(1000 + ROLL_RETRY_MS - 1)
    assert roll.may_begin(1000 + ROLL_RETRY_MS)


@pytest.mark.parametrize("phase", RollPhase)
def test_no_step_but_the_next(phase: RollPhase) -> None:
    next_step = {
        RollPhase.STEADY: "begin",
        RollPhase.ALLOCATING: "freeze",
        RollPhase.STARTING: "switch",
        RollPhase.COMPLETING: "done",
    }[phase]
    for step in ("begin", "freeze", "switch", "done"):
        roll = Roll(phase)
        if step == next_step:
            getattr(roll, step)()
        else:
            with pytest.raises(AssertionError):
                getattr(roll, step)()


@given(st.integers(0, 3), st.lists(st.integers(0, PERMIT_MS // 2), max_size=30))
def test_in_no_minute_there_are_more_rolls_than_permitted(
    per_minute: int, pauses: list[int]
) -> None:
    permits = RollPermits(per_minute)
    now_ms, taken = 0, []
    for pause in pauses:
        now_ms += pause
        recent = [when for when in taken if now_ms - when < PERMIT_MS]
        assert permits.take(now_ms) is (per_minute == 0 or len(recent) < per_minute)
        if per_minute == 0 or len(recent) < per_minute:
            taken.append(now_ms)


def test_a_clock_that_jumps_back_holds_no_permit_for_ever() -> None:
    permits = RollPermits(1)
    assert permits.take(10**9)
    assert permits.take(0)
    assert not permits.take(PERMIT_MS - 1)
    assert permits.take(PERMIT_MS)
