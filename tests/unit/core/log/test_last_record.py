from pathlib import Path

import pytest

from tailrace.core.ledger.reader import LedgerReader
from tailrace.core.log.last_record import count_all, count_from, find_last_record
from tailrace.core.log.log import Log
from tailrace.core.metadata.segment_metadata import SegmentMetadata
from tailrace.protocol.distributedlog.dlsn import DLSN, INITIAL
from tailrace.protocol.distributedlog.record_set import record_set
from tests.unit.core.log.test_recovery import control_record, foreign_segment, user
from tests.unit.core.log.world import Listener, World, read_all, run_world, write


async def ended(world: World, log: Log) -> tuple[SegmentMetadata, LedgerReader]:
    """Return the first segment and its ledger, closed with all of its entries."""
    await log.refresh()
    segment = log.segments.segments[0]
    return segment, await world.ledgers().open_ledger(segment.ledger_id, recover=True)


@pytest.mark.parametrize("controls", [0, 1, 2, 3, 6, 7, 40])
def test_control_records_behind_the_last_one_are_passed_over(tmp_path: Path, controls: int) -> None:
    async def story(world: World) -> None:
        behind = [[control_record(5, 3)] for _ in range(controls)]
        log = await foreign_segment(world, [[user(1, 1)], [user(4, 2), user(5, 3)], *behind])
        segment, ledger = await ended(world, log)
        found = await find_last_record(segment, ledger, ledger.last_confirmed)
        assert found == (DLSN(1, 1, 1), 5, 3)
        assert await find_last_record(segment, ledger, -1) is None

    run_world(tmp_path, story)


def test_a_segment_of_control_records_has_no_last_one(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await foreign_segment(world, [[control_record(1, 0)] for _ in range(9)])
        segment, ledger = await ended(world, log)
        assert await find_last_record(segment, ledger, 8) is None
        assert await count_all(log) == 0
        assert await count_from(log, INITIAL) == 0

    run_world(tmp_path, story)


def test_the_values_of_a_record_set_count(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        values = record_set(2, [b"a", b"b", b"c"], 2)
        log = await foreign_segment(world, [[user(1, 1), values]])
        segment, ledger = await ended(world, log)
        found = await find_last_record(segment, ledger, 0)
        assert found == (DLSN(1, 0, 3), 2, 4)

    run_world(tmp_path, story)


def test_counts_agree_with_what_readers_get(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 1, 2, 3)
        await writer.roll()
        await write(writer, 4)
        await writer.roll()
        await write(writer, 5, 6)
        found = await read_all(log)
        assert await count_all(log) == len(found) == 6
        for number, (dlsn, _) in enumerate(found):
            assert await count_from(log, dlsn) == len(found) - number
            assert await count_from(log, dlsn.next_slot()) == len(found) - number - 1
        assert await count_from(log, DLSN(9, 0, 0)) == 0
        assert await count_from(log, DLSN(0, 0, 0)) == 6
        await writer.close()
        assert await count_all(log) == 6

    run_world(tmp_path, story)
