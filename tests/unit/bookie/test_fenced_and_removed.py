"""Fences of ledgers that are gone: remembered for a while, in memory and on disk."""

from pathlib import Path

import pytest

from tailrace.bookie.fenced_and_removed import COUNT_MAX, FILE_NAME, KEPT_MS, FencedAndRemoved
from tailrace.core.errors import CorruptData
from tailrace.core.runtime.clock import ManualClock
from tailrace.core.runtime.files import SystemFiles
from tailrace.protocol.ids import LedgerId

ONE, TWO, FAR = LedgerId(1), LedgerId(2), LedgerId(2**63 - 1)


def opened(clock: ManualClock, *directories: Path) -> FencedAndRemoved:
    made = FencedAndRemoved(clock, SystemFiles(), directories)
    made.load()
    return made


def test_what_was_saved_is_known_after_a_restart(tmp_path: Path) -> None:
    clock = ManualClock()
    first, second = tmp_path / "1", tmp_path / "2"
    first.mkdir()
    second.mkdir()
    removed = opened(clock, first, second)
    assert ONE not in removed
    removed.add(ONE)
    removed.add(FAR)
    removed.save()
    removed.add(TWO)
    assert TWO in removed
    (first / FILE_NAME).unlink()  # one directory was replaced by an empty one
    again = opened(clock, first, second)
    assert [each in again for each in (ONE, TWO, FAR)] == [True, False, True]
    clock.advance_ms(KEPT_MS - 1)
    assert ONE in again
    clock.advance_ms(1)
    assert ONE not in again
    again.save()
    assert (second / FILE_NAME).read_bytes() == b""


def test_the_latest_time_counts(tmp_path: Path) -> None:
    clock = ManualClock()
    first, second = tmp_path / "1", tmp_path / "2"
    first.mkdir()
    second.mkdir()
    early = opened(clock, first)
    early.add(ONE)
    early.save()
    clock.advance_ms(1000)
    late = opened(clock, second)
    late.add(ONE)
    late.save()
    clock.advance_ms(KEPT_MS - 1000)
    assert ONE in opened(clock, first, second)
    assert ONE in opened(clock, second, first)


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(bytes(17))
    with pytest.raises(CorruptData, match=f"{FILE_NAME}: 17 bytes are no list of ledgers"):
        opened(ManualClock(), tmp_path)


def test_the_oldest_goes_when_there_are_too_many(tmp_path: Path) -> None:
    removed = opened(ManualClock(), tmp_path)
    for number in range(COUNT_MAX + 1):
        removed.add(LedgerId(number))
    assert LedgerId(0) not in removed
    assert LedgerId(COUNT_MAX) in removed
