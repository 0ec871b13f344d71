"""kill -9 of either side's writer; the other side finds what was acknowledged, and goes on."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from core.errors import LedgerNotFound
from core.ledger.config import LedgerConfig
from core.metadata.layout import LogPaths
from core.metadata.segment_metadata import decode_segment, encode_segment, in_progress_name
from protocol.distributedlog.dlsn import DLSN
from tests.interop.bookkeeper.java import JavaError
from tests.interop.bookkeeper.ours import Listener as LedgerListener
from tests.interop.bookkeeper.ours import run
from tests.interop.distributedlog.conftest import Opener, java_peer
from tests.interop.distributedlog.java import JavaLog
from tests.interop.distributedlog.our_writer import OurWriter
from tests.interop.distributedlog.ours import (
    Listener,
    Place,
    our_logs,
    our_namespace,
    put,
    read,
    write_segment,
)
from tests.interop.distributedlog.records import check

pytestmark = [pytest.mark.interop, pytest.mark.java, pytest.mark.crash]
ENOUGH = 200
LEDGER = LedgerConfig(ensemble_size=3, write_quorum=3, ack_quorum=2)
AFTER = 10
WAITS = {"lockTimeoutSeconds": 30}
SHORT_SESSION = {"zkSessionTimeoutSeconds": 1}


def test_java_recovers_what_our_killed_writer_left(
    place: Place, opener: Opener, name: str, tmp_path: Path
) -> None:
    async def story() -> None:
        java = opener(name, WAITS)
        await java.ask("create")
        with OurWriter(place.uri, name, 11, 1, tmp_path / "log") as killed:
            await asyncio.to_thread(killed.reach, ENOUGH)
            acknowledged = max(ENOUGH, killed.kill())
        writer = await java.wait_for_ownership()
        last = (await java.ask("numbers"))["last_txid"]
        assert last >= acknowledged
        await writer.write(11, last + 1, AFTER)
        await writer.close()
        everything = await java.read(last + AFTER)
        check(everything, 11, range(1, last + AFTER + 1))
        async with our_logs(place) as logs:
            assert await read(await logs.open_log(name), last + AFTER) == everything

    run(story)


def test_we_recover_what_javas_killed_writer_left(
    place: Place, opener: Opener, name: str, tmp_path: Path
) -> None:
    async def story() -> None:
        java = opener(name)
        await java.ask("create")
        doomed = java_peer(tmp_path / "log")
        doomed.call("connect", client="doomed", uri=place.uri, conf=SHORT_SESSION)
        writer = await JavaLog(doomed, "doomed", name).open_writer()
        await writer.write(12, 1, ENOUGH)
        burst = asyncio.create_task(writer.write(12, ENOUGH + 1, 20 * ENOUGH))
        acknowledged = (await writer.ask("acked"))["txid"]
        assert not burst.done()
        doomed.kill()
        with pytest.raises((AssertionError, JavaError)):
            await burst
        async with our_logs(place, lock_timeout_s=30) as logs:
            log = await logs.open_log(name)
            ours = await log.open_writer(Listener())
            last = ours.last_txid
            assert last >= acknowledged
            await put(ours, 12, last + 1, AFTER)
            await ours.close()
            everything = await read(log, last + AFTER)
        check(everything, 12, range(1, last + AFTER + 1))
        assert await java.read(last + AFTER) == everything

    run(story)


@pytest.mark.parametrize("recovers", ["java", "we"])
def test_two_segments_in_progress(place: Place, opener: Opener, name: str, recovers: str) -> None:
    """A crash in mid-roll, made by hand: the second segment is taken over from another log."""

    async def story() -> None:
        java, other = opener(name), opener(f"{name}-other")
        for log, first in ((java, 1), (other, AFTER + 1)):
            await log.ask("create")
            writer = await log.open_writer()
            await writer.write(13, first, AFTER)
            await writer.abort()
        async with our_namespace(place.uri) as opened:
            source, target = (LogPaths(place.path, each) for each in (f"{name}-other", name))
            node = await opened.store.get(f"{source.segments}/{in_progress_name(1)}")
            second = replace(decode_segment(node.data), lssn=2, first_txid=AFTER)
            path = f"{target.segments}/{in_progress_name(2)}"
            await opened.store.create(path, encode_segment(second))
            await opened.store.set(target.segments, b"2")
            log = await opened.logs.open_log(name)
            if recovers == "we":
                await write_segment(log, 13, 2 * AFTER + 1, AFTER)
            else:
                theirs = await java.open_writer()
                await theirs.write(13, 2 * AFTER + 1, AFTER)
                await theirs.close()
            everything = await java.read(3 * AFTER)
            check(everything, 13, range(1, 3 * AFTER + 1))
            assert await read(log, 3 * AFTER) == everything
            assert [segment["lssn"] for segment in await java.segments()] == [1, 2, 3]

    run(story)


@pytest.mark.parametrize("recovers", ["java", "we"])
def test_segment_without_an_entry(place: Place, opener: Opener, name: str, recovers: str) -> None:
    """A crash between the start of a segment and its first entry: the LSSN comes again."""

    async def story() -> None:
        java = opener(name)
        await java.ask("create")
        writer = await java.open_writer()
        await writer.write(14, 1, AFTER)
        await writer.close()
        async with our_namespace(place.uri) as opened:
            paths = LogPaths(place.path, name)
            node = await opened.store.get(f"{paths.segments}/logrecs_{1:018d}")
            completed = decode_segment(node.data)
            ledger = await opened.ledgers.create_ledger(LEDGER, LedgerListener())
            empty = replace(
                completed, lssn=2, ledger_id=ledger.ledger_id, in_progress=True,
                first_txid=AFTER + 1, start_sequence_id=-1,
            )  # fmt: skip
            path = f"{paths.segments}/{in_progress_name(2)}"
            await opened.store.create(path, encode_segment(empty))
            await opened.store.set(paths.segments, b"2")
            log = await opened.logs.open_log(name)
            if recovers == "we":
                await write_segment(log, 14, AFTER + 1, AFTER)
            else:
                theirs = await java.open_writer()
                await theirs.write(14, AFTER + 1, AFTER)
                await theirs.close()
            everything = await java.read(2 * AFTER)
            check(everything, 14, range(1, 2 * AFTER + 1))
            assert await read(log, 2 * AFTER) == everything
            assert {segment["lssn"] for segment in await java.segments()} == {1, 2}
            assert everything[-1].dlsn > DLSN(2, 0, -1)

    run(story)


@pytest.mark.parametrize("finds", ["java", "we"])
def test_ledger_that_the_other_side_allocated_and_lost(
    place: Place, opener: Opener, name: str, finds: str
) -> None:
    """A crash between allocation and start: the next owner deletes that ledger, and no other."""

    async def story() -> None:
        java = opener(name)
        await java.ask("create")
        async with our_namespace(place.uri) as opened:
            paths = LogPaths(place.path, name)
            lost = await opened.ledgers.create_ledger(LEDGER, LedgerListener())
            await opened.store.set(paths.allocation, str(lost.ledger_id).encode())
            log = await opened.logs.open_log(name)
            if finds == "we":
                await write_segment(log, 15, 1, AFTER)
            else:
                theirs = await java.open_writer()
                await theirs.write(15, 1, AFTER)
                await theirs.close()
            with pytest.raises(LedgerNotFound):
                await opened.ledgers.open_ledger(lost.ledger_id, recover=False)
            assert (await opened.store.get(paths.allocation)).data == b""
            await write_segment(log, 15, AFTER + 1, AFTER)
            check(await java.read(2 * AFTER), 15, range(1, 2 * AFTER + 1))

    run(story)
