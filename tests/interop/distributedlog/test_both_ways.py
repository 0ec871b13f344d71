"""What one side writes the other reads, record by record: in progress, completed, at the tail."""

import asyncio
from itertools import pairwise

import pytest

from tailrace.protocol.distributedlog.dlsn import DLSN, INITIAL
from tailrace.protocol.distributedlog.record import record_parts
from tests.interop.bookkeeper.ours import run
from tests.interop.distributedlog.conftest import Opener
from tests.interop.distributedlog.ours import (
    Listener,
    Place,
    our_logs,
    put,
    read,
    read_on,
    write_segment,
)
from tests.interop.distributedlog.records import SIZE, check, payload
from tests.java.peers import JavaError

pytestmark = [pytest.mark.interop, pytest.mark.java]
COUNT = 100


def test_we_read_what_java_writes(place: Place, opener: Opener, name: str) -> None:
    async def story() -> None:
        java = opener(name)
        await java.ask("create")
        async with our_logs(place) as logs:
            log = await logs.open_log(name)
            writer = await java.open_writer()
            dlsns = await writer.write(1, 1, COUNT)
            in_progress = await read(log, COUNT)
            check(in_progress, 1, range(1, COUNT + 1))
            assert [record.dlsn for record in in_progress] == dlsns
            await writer.close()
            writer = await java.open_writer()
            await writer.write(1, COUNT + 1, COUNT)
            both = await read(log, 2 * COUNT)
            await writer.close()
            check(both, 1, range(1, 2 * COUNT + 1))
            assert await read(log, 2 * COUNT) == both == await java.read(2 * COUNT)

    run(story)


def test_java_reads_what_we_write(place: Place, opener: Opener, name: str) -> None:
    async def story() -> None:
        java = opener(name)
        async with our_logs(place) as logs:
            await logs.create_log(name)
            log = await logs.open_log(name)
            writer = await log.open_writer(Listener())
            await put(writer, 2, 1, COUNT)
            in_progress = await java.read(COUNT)
            check(in_progress, 2, range(1, COUNT + 1))
            assert in_progress == await read(log, COUNT)
            assert await java.count() == COUNT
            await writer.roll()
            await put(writer, 2, COUNT + 1, COUNT)
            both = await java.read(2 * COUNT)
            check(both, 2, range(1, 2 * COUNT + 1))
            assert await java.count() == 2 * COUNT
            await writer.close()
            assert both == await read(log, 2 * COUNT) == await java.read(2 * COUNT)
            assert await java.count() == 2 * COUNT
            first, second = await java.segments()
            assert [first["start"], second["start"]] == [0, COUNT]
            assert second["first_txid"] == first["last_txid"] == COUNT

    run(story)


def test_both_write_one_log_in_turns(place: Place, opener: Opener, name: str) -> None:
    async def story() -> None:
        java = opener(name)
        async with our_logs(place) as logs:
            await logs.create_log(name)
            log = await logs.open_log(name)
            for first in range(1, 4 * COUNT, 2 * COUNT):
                await write_segment(log, 3, first, COUNT)
                writer = await java.open_writer()
                await writer.write(3, first + COUNT, COUNT)
                await writer.close()
            everything = await java.read(4 * COUNT)
            check(everything, 3, range(1, 4 * COUNT + 1))
            assert await read(log, 4 * COUNT) == everything
            segments = await java.segments()
            assert [segment["lssn"] for segment in segments] == [1, 2, 3, 4]
            assert [segment["start"] for segment in segments] == [0, COUNT, 2 * COUNT, 3 * COUNT]
            assert {segment["version"] for segment in segments} == {5}

    run(story)


def test_we_follow_javas_writer(place: Place, opener: Opener, name: str) -> None:
    async def story() -> None:
        java = opener(name)
        await java.ask("create")
        async with our_logs(place) as logs:
            log = await logs.open_log(name)
            reader = await log.open_reader(INITIAL)
            seen = []
            for first in range(1, 11, 5):
                writer = await java.open_writer()
                for txid in range(first, first + 5):
                    await writer.write(4, txid, 1)
                    seen += await read_on(reader, 1)
                await writer.close()
            await reader.close()
            check(seen, 4, range(1, 11))
            assert {record.dlsn.lssn for record in seen} == {1, 2}

    run(story)


def test_we_follow_java_while_it_rolls(place: Place, opener: Opener, name: str) -> None:
    """Each segment says that it begins with the last txid of the one before it."""

    async def story() -> None:
        java = opener(name, {"maxLogSegmentBytes": 20 * SIZE})
        await java.ask("create")
        async with our_logs(place) as logs:
            log = await logs.open_log(name)
            reader = await log.open_reader(INITIAL)
            writer = await java.open_writer()
            async with asyncio.TaskGroup() as group:
                reading = group.create_task(read_on(reader, 2 * COUNT))
                dlsns = await writer.write(11, 1, 2 * COUNT, one_by_one=True)
            await reader.close()
            seen = reading.result()
            check(seen, 11, range(1, 2 * COUNT + 1))
            assert [record.dlsn for record in seen] == dlsns
            segments = await java.segments()
            assert len(segments) > 5
            for before, after in pairwise(segments):
                assert after["first_txid"] == before["last_txid"]
            for txid in range(1, 2 * COUNT + 1):
                assert await log.locate(txid) == dlsns[txid - 1]
            await writer.close()

    run(story)


def test_java_follows_our_writer(place: Place, opener: Opener, name: str) -> None:
    async def story() -> None:
        java = opener(name)
        async with our_logs(place, control_flush_ms=5) as logs:
            await logs.create_log(name)
            log = await logs.open_log(name)
            writer = await log.open_writer(Listener())
            reader = await java.open_reader()
            seen = []
            for first in range(1, 11):
                await put(writer, 5, first, 1)
                seen += await reader.read(1)
                if first % 4 == 0:
                    await writer.roll()
            await writer.close()
            await reader.close()
            check(seen, 5, range(1, 11))
            assert {record.dlsn.lssn for record in seen} == {1, 2, 3}

    run(story)


def test_positions_that_our_writer_returns_are_those_that_java_reads(
    place: Place, opener: Opener, name: str
) -> None:
    async def story() -> None:
        java = opener(name)
        async with our_logs(place) as logs:
            await logs.create_log(name)
            log = await logs.open_log(name)
            writer = await log.open_writer(Listener())
            records = [(txid, payload(f"10/{txid}")) for txid in range(1, COUNT + 1)]
            futures = [writer.write(txid, record) for txid, record in records[: COUNT // 2]]
            many = [record_parts(txid, (rest,), len(rest)) for txid, rest in records[COUNT // 2 :]]
            futures += writer.append_many(many)
            dlsns = [await future for future in futures]
            await writer.commit()
            assert await java.count() == COUNT  # at once: that is what commit is for
            seen = await java.read(COUNT)
            check(seen, 10, range(1, COUNT + 1))
            assert [record.dlsn for record in seen] == dlsns
            await writer.close()

    run(story)


def test_each_finds_a_record_by_txid(place: Place, opener: Opener, name: str) -> None:
    """Txids are shared: the first record that carries one is the one that is found."""

    async def story() -> None:
        java = opener(name)
        async with our_logs(place) as logs:
            await logs.create_log(name)
            log = await logs.open_log(name)
            writer = await log.open_writer(Listener())
            for txid in range(10, 500, 10):
                await put(writer, 6, txid, 1)
                await put(writer, 6, txid, 1)
            await writer.close()
            theirs = await java.open_writer()
            await theirs.write(6, 500, 1)
            for txid in range(500, 1000, 10):
                await theirs.write(6, txid, 1)
            await theirs.close()
            for txid in (1, 10, 11, 250, 251, 490, 495, 500, 505, 990):
                found = await log.locate(txid)
                assert found == DLSN(*(await java.ask("position", txid=txid))["dlsn"]), txid
                (record,) = await java.read(1, txid=txid)
                assert record.dlsn == found
                assert record.txid == (txid + 9) // 10 * 10

    run(story)


def test_java_counts_from_a_dlsn_of_ours(place: Place, opener: Opener, name: str) -> None:
    async def story() -> None:
        java = opener(name)
        async with our_logs(place) as logs:
            await logs.create_log(name)
            log = await logs.open_log(name)
            await write_segment(log, 7, 1, COUNT)
            await write_segment(log, 7, COUNT + 1, COUNT)
            for number, record in enumerate(await read(log, 2 * COUNT)):
                if number % 33 == 0:
                    left = await java.ask("count_from", dlsn=record.dlsn)
                    assert left["count"] == 2 * COUNT - number

    run(story)


def test_sequence_ids_that_java_makes_of_our_log_have_no_gap(
    place: Place, opener: Opener, name: str
) -> None:
    async def story() -> None:
        java = opener(name)
        async with our_logs(place) as logs:
            await logs.create_log(name)
            log = await logs.open_log(name)
            for first in (1, 11, 21):
                await write_segment(log, 8, first, 10)
            answer = await java.ask("read", count=30)
            assert [record[5] for record in answer["records"]] == list(range(30))

    run(story)


def test_java_refuses_a_txid_below_those_of_our_log(
    place: Place, opener: Opener, name: str
) -> None:
    async def story() -> None:
        java = opener(name)
        async with our_logs(place) as logs:
            await logs.create_log(name)
            await write_segment(await logs.open_log(name), 9, 100, 1)
            writer = await java.open_writer()
            with pytest.raises(JavaError, match="TransactionIdOutOfOrder"):
                await writer.write(9, 99, 1)
            await writer.abort()

    run(story)
