"""What an entry may hold besides plain records: LZ4, record sets, the end of the stream."""

from collections.abc import Sequence
from random import Random

import pytest

from tailrace.core.errors import EndOfStream
from tailrace.core.log.config import CompressionType
from tailrace.protocol.distributedlog.dlsn import DLSN, INITIAL
from tests.interop.bookkeeper.ours import run
from tests.interop.distributedlog.conftest import Opener
from tests.interop.distributedlog.ours import (
    Listener,
    Place,
    our_logs,
    our_namespace,
    put,
    read,
    read_on,
    write_segment,
)
from tests.interop.distributedlog.records import (
    SIZE,
    Seen,
    check,
    check_positions,
    digest,
    payload,
)
from tests.java.peers import JavaError

pytestmark = [pytest.mark.interop, pytest.mark.java]
COUNT = 10
SET = 7
LARGEST = 1_040_384 - 20
"""Payload of the largest record that Java's writer takes."""
CODECS = ["NONE", "LZ4"]
LZ4 = {
    "compressionType": "lz4",
    "writerOutputBufferSize": 65_536,
    "periodicFlushFrequencyMilliSeconds": 20,
}


def check_sets(seen: Sequence[Seen], seed: int, count: int) -> None:
    """Check records 1, 3, 5 ..., behind each of which came a set with the next txid."""
    expected = []
    for txid in range(1, count, 2):
        expected += [(txid, digest(f"{seed}/{txid}"))]
        expected += [(txid + 1, digest(f"{seed}/{txid + 1}/{number}")) for number in range(SET)]
    assert [(record.txid, record.digest) for record in seen] == expected
    check_positions(seen)


@pytest.mark.parametrize("codec", CODECS)
def test_we_read_record_sets_of_java(place: Place, opener: Opener, name: str, codec: str) -> None:
    async def story() -> None:
        java = opener(name)
        await java.ask("create")
        writer = await java.open_writer()
        for txid in range(1, COUNT, 2):
            await writer.write(51, txid, 1)
            how = {"seed": 51, "txid": txid + 1, "size": SIZE, "count": SET, "codec": codec}
            dlsns = (await writer.ask("write_set", **how))["dlsns"]
            assert [slot for _, _, slot in dlsns] == list(range(SET))
        async with our_logs(place) as logs:
            log = await logs.open_log(name)
            everything = await read(log, COUNT // 2 * (SET + 1))
            check_sets(everything, 51, COUNT)
            await writer.close()
            for start in (3, 10, 15):
                rest = await read(log, len(everything) - start, everything[start].dlsn)
                assert rest == everything[start:]
                assert await java.read(len(rest), dlsn=rest[0].dlsn) == rest
            await write_segment(log, 51, COUNT + 1, 1)
            assert await java.count() == len(everything) + 1

    run(story)


@pytest.mark.parametrize("codec", CODECS)
def test_java_reads_record_sets_of_ours(
    place: Place, opener: Opener, name: str, codec: str
) -> None:
    async def story() -> None:
        java = opener(name)
        async with our_logs(place) as logs:
            await logs.create_log(name)
            log = await logs.open_log(name)
            writer = await log.open_writer(Listener())
            for txid in range(1, COUNT, 2):
                await put(writer, 52, txid, 1)
                values = [payload(f"52/{txid + 1}/{number}") for number in range(SET)]
                at = await writer.append_set(txid + 1, values, CompressionType[codec])
                assert at.slot == 0
            everything = await java.read(COUNT // 2 * (SET + 1))
            check_sets(everything, 52, COUNT)
            await writer.close()
            assert await read(log, len(everything)) == everything
            for start in (3, 10, 15):
                rest = everything[start:]
                assert await java.read(len(rest), dlsn=rest[0].dlsn) == rest
            assert await java.count() == len(everything)

    run(story)


def test_we_read_compressed_entries_of_java(place: Place, opener: Opener, name: str) -> None:
    async def story() -> None:
        java = opener(name, LZ4)
        await java.ask("create")
        writer = await java.open_writer()
        dlsns = await writer.write(53, 1, 20 * COUNT, bulk=True)
        assert max(dlsn.slot for dlsn in dlsns) > 1
        dlsns += await writer.write(53, 20 * COUNT + 1, 2, size=300_000, bulk=True)
        await writer.close()
        async with our_logs(place) as logs:
            log = await logs.open_log(name)
            seen = await read(log, 20 * COUNT + 2)
            check(seen[: 20 * COUNT], 53, range(1, 20 * COUNT + 1))
            check_positions(seen)
            assert [record.digest for record in seen[20 * COUNT :]] == [
                digest(f"53/{txid}", 300_000) for txid in (20 * COUNT + 1, 20 * COUNT + 2)
            ]
            assert [record.dlsn for record in seen] == dlsns
            for txid in (1, 77, 20 * COUNT):
                assert await log.locate(txid) == dlsns[txid - 1]

    run(story)


def test_java_reads_compressed_entries_of_ours(place: Place, opener: Opener, name: str) -> None:
    async def story() -> None:
        java = opener(name)
        async with our_logs(place, compression=CompressionType.LZ4) as logs:
            await logs.create_log(name)
            log = await logs.open_log(name)
            writer = await log.open_writer(Listener())
            await put(writer, 54, 1, 20 * COUNT)
            noise = Random(54).randbytes(300_000)  # no compression makes it smaller
            writer.append(20 * COUNT + 1, (noise[:1000], noise[1000:]), len(noise))
            await writer.close()
            seen = await java.read(20 * COUNT + 1)
            check(seen[:-1], 54, range(1, 20 * COUNT + 1))
            check_positions(seen)
            assert await read(log, 20 * COUNT + 1) == seen
            (segment,) = await java.segments()
            async with our_namespace(place.uri) as opened:
                ledger = await opened.ledgers.open_ledger(segment["ledger"], recover=False)
                assert ledger.metadata.length < 20 * COUNT * SIZE + len(noise)
            for txid in (1, 77, 20 * COUNT):
                found = await java.ask("position", txid=txid)
                assert DLSN(*found["dlsn"]) == seen[txid - 1].dlsn

    run(story)


def test_largest_records_of_either_side(place: Place, opener: Opener, name: str) -> None:
    """Ours may be larger than those that Java's writer takes: its reader has no such limit."""

    async def story() -> None:
        java = opener(name)
        await java.ask("create")
        writer = await java.open_writer()
        await writer.write(55, 1, 1, size=LARGEST)
        with pytest.raises(JavaError, match="LogRecordTooLong"):
            await writer.write(55, 2, 1, size=LARGEST + 1)
        await writer.close()
        async with our_logs(place) as logs:
            log = await logs.open_log(name)
            ours = await log.open_writer(Listener())
            await put(ours, 55, 2, 1, size=LARGEST)
            await put(ours, 55, 3, 1, size=5_000_000)
            await ours.close()
            seen = await read(log, 3)
        assert await java.read(3) == seen
        assert [(record.size, record.digest) for record in seen] == [
            (size, digest(f"55/{txid}", size))
            for txid, size in ((1, LARGEST), (2, LARGEST), (3, 5_000_000))
        ]

    run(story)


def test_we_see_the_end_that_java_marks(place: Place, opener: Opener, name: str) -> None:
    async def story() -> None:
        java = opener(name)
        await java.ask("create")
        writer = await java.open_writer()
        await writer.write(56, 1, COUNT)
        async with our_logs(place) as logs:
            log = await logs.open_log(name)
            reader = await log.open_reader(INITIAL)
            check(await read_on(reader, COUNT), 56, range(1, COUNT + 1))
            await writer.ask("mark_end")
            await writer.close()
            with pytest.raises(EndOfStream):
                await read_on(reader, 1)
            await reader.close()
            with pytest.raises(EndOfStream):
                await log.open_writer(Listener())

    run(story)


@pytest.mark.parametrize("count", [0, COUNT])
def test_java_sees_the_end_that_we_mark(
    place: Place, opener: Opener, name: str, count: int
) -> None:
    async def story() -> None:
        java = opener(name)
        async with our_logs(place) as logs:
            await logs.create_log(name)
            writer = await (await logs.open_log(name)).open_writer(Listener())
            await put(writer, 57, 1, count)
            await writer.mark_end_of_stream()
            await writer.close()
        check(await java.read_to_end(), 57, range(1, count + 1))
        theirs = await java.open_writer()
        with pytest.raises(JavaError, match="EndOfStream"):
            await theirs.write(57, count + 1, 1)
        await theirs.abort()

    run(story)


@pytest.mark.parametrize("recovers", ["java", "we"])
def test_end_of_stream_that_was_not_completed(
    place: Place, opener: Opener, name: str, recovers: str
) -> None:
    """The writer is gone before its segment is completed: recovery finds the log sealed."""

    async def story() -> None:
        java = opener(name)
        async with our_logs(place) as logs:
            await logs.create_log(name)
            log = await logs.open_log(name)
            if recovers == "java":
                writer = await log.open_writer(Listener())
                await put(writer, 58, 1, COUNT)
                await writer.mark_end_of_stream()
                await writer.abort()
                await java.ask("recover")
            else:
                theirs = await java.open_writer()
                await theirs.write(58, 1, COUNT)
                await theirs.ask("mark_end")
                await theirs.abort()
                with pytest.raises(EndOfStream):
                    await log.open_writer(Listener())
            check(await java.read_to_end(), 58, range(1, COUNT + 1))
            with pytest.raises(EndOfStream):
                await log.open_writer(Listener())

    run(story)
