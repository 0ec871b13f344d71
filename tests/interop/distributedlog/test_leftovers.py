"""What a crash of one side may leave in the metadata, made by hand, and the other side meets it."""

import pytest

from tailrace.core.errors import LedgerNotFound
from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.log.log import Log
from tailrace.core.log.open_namespace import OpenNamespace
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.segment_metadata import (
    SegmentMetadata,
    decode_segment,
    encode_segment,
    in_progress_name,
)
from tailrace.protocol.distributedlog.dlsn import INITIAL
from tests.interop.bookkeeper.ours import Listener, run
from tests.interop.distributedlog.conftest import Opener
from tests.interop.distributedlog.java import JavaLog
from tests.interop.distributedlog.ours import (
    Place,
    our_namespace,
    read,
    read_on,
    write_segment,
)
from tests.interop.distributedlog.records import check

pytestmark = [pytest.mark.interop, pytest.mark.java]
COUNT = 10
LEDGER = LedgerConfig(ensemble_size=3, write_quorum=3, ack_quorum=2)
EITHER = pytest.mark.parametrize("finds", ["java", "we"])


async def go_on(finds: str, java: JavaLog, ours: Log, seed: int, first: int) -> None:
    """Let one side own the log, recover it and write a segment."""
    if finds == "we":
        await write_segment(ours, seed, first, COUNT)
    else:
        await write_by_java(java, seed, first)


async def write_by_java(java: JavaLog, seed: int, first: int) -> None:
    writer = await java.open_writer()
    await writer.write(seed, first, COUNT)
    await writer.close()


async def add_second_segment(
    opened: OpenNamespace, paths: LogPaths, ledger_id: int, first_txid: int
) -> None:
    """Make the nodes of a start: a segment in progress behind the first one, and the counter."""
    started = SegmentMetadata(lssn=2, ledger_id=ledger_id, first_txid=first_txid)
    path = f"{paths.segments}/{in_progress_name(2)}"
    await opened.store.create(path, encode_segment(started))
    await opened.store.set(paths.segments, b"2")


@EITHER
def test_two_segments_in_progress(place: Place, opener: Opener, name: str, finds: str) -> None:
    """A crash in mid-roll; the second segment's ledger is taken from another log."""

    async def story() -> None:
        java, other = opener(name), opener(f"{name}-other")
        for log, first in ((java, 1), (other, COUNT + 1)):
            await log.ask("create")
            writer = await log.open_writer()
            await writer.write(61, first, COUNT)
            await writer.abort()
        async with our_namespace(place.uri) as opened:
            source = LogPaths(place.path, f"{name}-other")
            node = await opened.store.get(f"{source.segments}/{in_progress_name(1)}")
            ledger_id = decode_segment(node.data).ledger_id
            await add_second_segment(opened, LogPaths(place.path, name), ledger_id, COUNT)
            ours = await opened.logs.open_log(name)
            await go_on(finds, java, ours, 61, 2 * COUNT + 1)
            everything = await java.read(3 * COUNT)
            check(everything, 61, range(1, 3 * COUNT + 1))
            assert await read(ours, 3 * COUNT) == everything
            assert [segment["lssn"] for segment in await java.segments()] == [1, 2, 3]

    run(story)


@EITHER
def test_segment_without_an_entry(place: Place, opener: Opener, name: str, finds: str) -> None:
    """A crash between a start and the first entry: the LSSN comes again, with another ledger.

    A reader of ours that waits in the segment goes on in the new one.
    """

    async def story() -> None:
        java = opener(name)
        await java.ask("create")
        await write_by_java(java, 62, 1)
        async with our_namespace(place.uri) as opened, our_namespace(place.uri) as others:
            ledger = await opened.ledgers.create_ledger(LEDGER, Listener())
            paths = LogPaths(place.path, name)
            await add_second_segment(opened, paths, ledger.ledger_id, COUNT)
            reader = await (await others.logs.open_log(name)).open_reader(INITIAL)
            seen = await read_on(reader, COUNT)
            assert not await reader.read(1)
            ours = await opened.logs.open_log(name)
            await go_on(finds, java, ours, 62, COUNT + 1)
            seen += await read_on(reader, COUNT)
            await reader.close()
            check(seen, 62, range(1, 2 * COUNT + 1))
            assert await java.read(2 * COUNT) == seen
            first, second = await java.segments()
            assert (first["lssn"], second["lssn"]) == (1, 2)
            assert second["ledger"] != ledger.ledger_id

    run(story)


@EITHER
def test_ledger_that_was_allocated_and_not_used(
    place: Place, opener: Opener, name: str, finds: str
) -> None:
    """A crash between allocation and start: the next owner deletes that ledger, and no other."""

    async def story() -> None:
        java = opener(name)
        await java.ask("create")
        async with our_namespace(place.uri) as opened:
            paths = LogPaths(place.path, name)
            lost = await opened.ledgers.create_ledger(LEDGER, Listener())
            await opened.store.set(paths.allocation, str(lost.ledger_id).encode())
            ours = await opened.logs.open_log(name)
            await go_on(finds, java, ours, 63, 1)
            with pytest.raises(LedgerNotFound):
                await opened.ledgers.open_ledger(lost.ledger_id, recover=False)
            assert (await opened.store.get(paths.allocation)).data == b""
            await write_by_java(java, 63, COUNT + 1)
            check(await java.read(2 * COUNT), 63, range(1, 2 * COUNT + 1))

    run(story)
