"""compression.type: what a topic stores, whatever producers send."""

import pytest

from tailrace.broker.partition.appends import AppendResult
from tailrace.protocol.compression import Codec
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.records.batch import read_header, verify_crc
from tailrace.protocol.records.record import Producer, Record, build_batch, iter_records
from tests.unit.broker.fakes import make_world
from tests.unit.broker.loops import in_loop

RECORDS = [Record(offset=n, timestamp=5, key=b"k", value=b"v" * 100) for n in range(3)]


@pytest.mark.parametrize(
    ("configured", "stored"),
    [
        ("producer", Codec.GZIP), ("uncompressed", Codec.NONE), ("gzip", Codec.GZIP),
        ("snappy", Codec.SNAPPY), ("lz4", Codec.LZ4), ("zstd", Codec.ZSTD),
    ],
)  # fmt: skip
@in_loop
async def test_batches_are_stored_in_the_topics_codec(configured: str, stored: Codec) -> None:
    world = make_world()
    world.topics.add("t", configs={"compression.type": configured})
    log = await world.open("t")
    batch = memoryview(build_batch(RECORDS, Codec.GZIP))
    await log.append(batch, log.check(batch))
    await log.append(memoryview(build_batch(RECORDS)), None)
    first, second = await log.read(0, 1 << 20)
    for found, base in ((first, 0), (second, 3)):
        header = read_header(found)
        verify_crc(found)
        assert (header.base_offset, header.partition_leader_epoch) == (base, log.leader_epoch)
        assert [each.value for each in iter_records(found)] == [each.value for each in RECORDS]
    assert read_header(first).codec == stored


@in_loop
async def test_a_batch_that_has_the_codec_is_stored_as_it_came() -> None:
    world = make_world()
    configs = {"compression.type": "zstd", "compression.zstd.level": "19"}
    world.topics.add("t", configs=configs)
    log = await world.open("t")
    batch = memoryview(build_batch(RECORDS, Codec.ZSTD))
    await log.append(batch, log.check(batch))
    assert (await log.read(0, 1 << 20))[0] == batch


@in_loop
async def test_a_batch_that_grows_beyond_the_topics_limit_is_refused() -> None:
    world = make_world()
    world.topics.add("t", configs={"compression.type": "uncompressed", "max.message.bytes": "300"})
    log = await world.open("t")
    batch = memoryview(build_batch(RECORDS, Codec.ZSTD))
    outcome = await log.append(batch, log.check(batch))
    assert outcome is ErrorCode.MESSAGE_TOO_LARGE
    assert log.log_end_offset == 0


@in_loop
async def test_a_retry_is_recognised_whatever_it_is_stored_as() -> None:
    world = make_world()
    world.topics.add(
        "t", configs={"compression.type": "gzip", "message.timestamp.type": "LogAppendTime"}
    )
    log = await world.open("t")
    producer = Producer(producer_id=5, epoch=0, base_sequence=0)
    outcomes = []
    for _ in range(2):
        batch = memoryview(build_batch(RECORDS, producer=producer))
        outcomes.append(await log.append(batch, log.check(batch)))
    assert outcomes[0] == outcomes[1]
    assert isinstance(outcomes[0], AppendResult)
    (found,) = await log.read(0, 1 << 20)
    verify_crc(found)
    assert read_header(found).is_log_append_time
