"""What is left of a producer's transactions after cleaning, and what it costs the next ones."""

from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.protocol.records.batch import TRANSACTIONAL
from tailrace.protocol.records.record import Producer, Record, build_batch
from tests.unit.broker.fakes import make_world
from tests.unit.broker.loops import in_loop
from tests.unit.broker.partition.test_cleaning import Table, cleaning, compacted, held, put

PRODUCER = 11


async def transaction(log: PartitionLog, epoch: int, key: bytes, *, committed: bool) -> None:
    """Write a record in a transaction of version 2, whose marker raises the epoch."""
    built = build_batch(
        [Record(offset=0, key=key, value=b"v", timestamp=1)],
        producer=Producer(PRODUCER, epoch, 0),
        attributes=TRANSACTIONAL,
    )
    sent = memoryview(bytearray(built))
    await log.append(sent, log.check(sent), verified=True)
    await log.append_marker(PRODUCER, epoch + 1, 0, committed)
    await log.roll()


@in_loop
async def test_a_marker_that_was_emptied_for_its_epoch_leaves_no_aborted_transaction() -> None:
    world = make_world()
    log = await compacted(world, delete_retention_ms="1000", min_cleanable_dirty_ratio="0")
    table = Table()
    await transaction(log, 0, b"aborted", committed=False)
    async with cleaning(world) as pool:
        for n in range(3):  # the data goes; the marker gets a horizon; it stays, empty
            await put(log, table, (b"a", b"%d" % n))
            assert await pool.clean_filthiest()
            world.clock.advance_ms(1001)
        await transaction(log, 1, b"committed", committed=True)
        table[b"committed"] = b"v"
        assert await log.aborted_between(0, log.log_end_offset - 1) == []
        assert await pool.clean_filthiest()
        assert await held(log) == table
