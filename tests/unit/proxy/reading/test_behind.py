"""A read that goes on where an earlier one ended, at another proxy."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from tailrace.protocol.proxy.common_pb2 import Dlsn
from tailrace.protocol.proxy.read_proxy_pb2 import ReadRequest, ReadResponse
from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.reading.read_service import ReadService
from tests.unit.core.log.test_rewrite import kept, rewritten
from tests.unit.proxy.owner.world import ProxyWorld, run
from tests.unit.proxy.reading.test_rewritten import three_segments
from tests.unit.proxy.reading.world import Reader, direct, request, service, writing

RECORDS = 30
"""Of `three_segments`: ten in each."""


async def taken_from(proxy: ReadService, count: int) -> ReadRequest:
    """Take so many records; return the request that goes on behind them."""
    made, txids = ReadRequest(stream="s"), list[int]()
    async with aclosing(proxy.read(request(most=count))) as responses:
        async for each in responses:
            response = ReadResponse.FromString(each) if isinstance(each, bytes) else each
            for record in response.records:
                txids.append(record.transaction_id)
                made.behind.CopyFrom(
                    ReadRequest.Behind(
                        dlsn=record.dlsn,
                        transaction_id=record.transaction_id,
                        ledger_id=response.ledger_id,
                        taken=txids.count(record.transaction_id),
                    )
                )
    assert len(txids) == count
    return made


async def rest(proxy: ReadService, asked: ReadRequest) -> Reader:
    reader = Reader(proxy, asked)
    async with aclosing(reader.responses):
        await reader.to_end()
    return reader


@pytest.mark.parametrize("count", [1, 10, 13, 30])
def test_it_gives_what_the_earlier_one_would_have(tmp_path: Path, count: int) -> None:
    async def story(world: ProxyWorld) -> None:
        log = await three_segments(world)
        one, other = service(world), service(world)
        asked = await taken_from(one, count)
        left = list(range(count, RECORDS))
        for proxy in (one, other):
            assert (await rest(proxy, asked)).txids == left
        await log.truncate((await direct(log))[-1].dlsn)
        fresh = service(world)
        assert (await rest(fresh, asked)).txids == left, "what was truncated is there still"
        for proxy in (one, other, fresh):
            await proxy.close()

    run(tmp_path, story)


@pytest.mark.parametrize("count", [5, 10])
def test_in_a_rewritten_segment_it_goes_on_by_txid(tmp_path: Path, count: int) -> None:
    async def story(world: ProxyWorld) -> None:
        log = await three_segments(world)
        one, other = service(world), service(world)
        asked = await taken_from(one, count)
        await rewritten(log, [1, 2, 3])
        left = [txid for txid in kept(RECORDS, [1, 2, 3]) if txid >= count]
        assert (await rest(other, asked)).txids == left
        await one.close()
        await other.close()

    run(tmp_path, story)


def test_records_that_share_a_number_come_once(tmp_path: Path) -> None:
    async def story(world: ProxyWorld) -> None:
        log, writer = await writing(world)
        for number in range(6):
            writer.append(7, (b"%d" % number,), 1)
            await writer.flush()
        await writer.close()
        one, other = service(world), service(world)
        for count in range(1, 7):
            asked = await taken_from(one, count)
            found = await rest(other, asked)
            assert [each.payload for each in found.got] == [b"%d" % n for n in range(count, 6)]
        assert log.segments
        await one.close()
        await other.close()

    run(tmp_path, story)


def test_what_was_deleted_is_an_error(tmp_path: Path) -> None:
    async def story(world: ProxyWorld) -> None:
        log = await three_segments(world)
        one, other = service(world), service(world)
        asked = await taken_from(one, 5)
        assert len(await log.purge_segments(2)) == 1
        await asyncio.sleep(world.config.delete_delay_ms / 1000)
        await log.upkeep.trimmer.drop_purged_and_cold()
        found = await rest(other, asked)
        assert not found.got
        assert found.ended is not None
        assert found.ended.code is StatusCode.LOG_SEGMENT_IS_TRUNCATED
        await one.close()
        await other.close()

    run(tmp_path, story)


@pytest.mark.parametrize(
    "behind",
    [
        ReadRequest.Behind(),
        ReadRequest.Behind(taken=1, dlsn=Dlsn(log_segment_sequence_number=1, entry_id=-1)),
    ],
)
def test_what_names_no_record_is_refused(tmp_path: Path, behind: ReadRequest.Behind) -> None:
    async def story(world: ProxyWorld) -> None:
        await three_segments(world)
        proxy = service(world)
        found = await rest(proxy, ReadRequest(stream="s", behind=behind))
        assert found.ended is not None
        assert found.ended.code is StatusCode.REQUEST_DENIED
        await proxy.close()

    run(tmp_path, story)
